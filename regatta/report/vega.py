"""Vega, Vega-Lite and Vega-Embed as one script for a page that has no network."""

from importlib import metadata

from regatta import files, paths

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def script() -> str:
    """The script; bundled by vl-convert once for each of its versions, then from the cache."""
    kept = paths.cache_dir() / "report" / f"vega-{metadata.version('vl-convert-python')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    import vl_convert

    text = str(vl_convert.javascript_bundle(_SNIPPET)).replace("</script", "<\\/script")
    kept.parent.mkdir(parents=True, exist_ok=True)
    files.write(kept, text)
    return text

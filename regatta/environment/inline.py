"""The block `# /// script` at the top of a script (PEP 723): its packages and its Python."""

import re
from pathlib import Path
from typing import Any

from regatta.environment.pyproject import parsed
from regatta.errors import EnvironmentFault

_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""As PEP 723 has it."""


def tables(script: Path) -> dict[str, Any]:
    """Return what a script says of itself; empty without a block. EnvironmentFault where that is no TOML, or twice."""
    try:
        text = script.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return {}
    found = [match for match in _BLOCK.finditer(text.replace("\r\n", "\n")) if match["type"] == "script"]
    if len(found) > 1:
        raise EnvironmentFault(f"{script}: has {len(found)} blocks '# /// script', and one is possible: join them")
    lines = (
        [line[2:] if line.startswith("# ") else line[1:] for line in found[0]["content"].splitlines()] if found else []
    )
    return parsed("\n".join(lines), f"{script}: '# /// script'")

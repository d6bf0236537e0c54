"""/etc/hosts with the cluster's names in our own block; every other line stays as it is. The kernel's settings."""

from collections.abc import Callable, Mapping, Sequence

BEGIN, END = "# BEGIN regatta", "# END regatta"
_ASIDE = "# regatta set aside: "


def with_block(text: str, names: Mapping[str, Sequence[str]], own: Sequence[str]) -> str:
    """`names[address]` are a node's names. A loopback line that claims one of our `own` names is set aside."""
    kept = []
    for line in without_block(text).splitlines():
        fields = line.split("#")[0].split()
        claims = len(fields) > 1 and fields[0].startswith("127.") and set(fields[1:]) & set(own)
        kept.append(f"{_ASIDE}{line}" if claims and "localhost" not in fields else line)
    block = [f"{address} {' '.join(dict.fromkeys(held))}" for address, held in names.items()]
    return "\n".join([*kept, BEGIN, *block, END]) + "\n"


def without_block(text: str) -> str:
    """The file as it was before us."""
    kept, ours = [], False
    for line in text.splitlines():
        if line == BEGIN:
            ours = True
        if not ours:
            kept.append(line.removeprefix(_ASIDE))
        if line == END:
            ours = False
    return "".join(f"{line}\n" for line in kept)


def other_settings(shown: str, wanted: Mapping[str, object]) -> list[str]:
    """Names of settings that the kernel has not, by what `sysctl` shows; those that it does not know do not count."""
    pairs = (line.partition("=") for line in shown.splitlines())
    has = {name.strip(): value.split() for name, _, value in pairs}
    asked = {name: str(value).split() for name, value in wanted.items()}
    return [name for name, value in asked.items() if has.get(name.replace("/", "."), value) != value]


class FilterModule:
    """`text | base_hosts(names, own)`, `text | base_hosts_before` and `text | base_other_settings(wanted)`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return what Ansible finds here."""
        return {
            "base_hosts": with_block,
            "base_hosts_before": without_block,
            "base_other_settings": other_settings,
        }

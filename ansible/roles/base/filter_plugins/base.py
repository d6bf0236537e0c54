"""/etc/hosts with the cluster's names in a block of our own; every other line stays as it is."""

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


class FilterModule:
    """`text | base_hosts(names, own)` and `text | base_hosts_before`."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """What Ansible finds here."""
        return {"base_hosts": with_block, "base_hosts_before": without_block}

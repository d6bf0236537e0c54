"""Numbers as text, the same in tables, page and terminal."""

import hashlib
import re
from collections.abc import Iterator

from regatta.records.stats import Interval, Ratio
from regatta.terminal.meter import size_text

ABOUT_USE = (
    "Of all processes of the run there; in a Ray cluster they are Ray's, and not counted. "
    "Received and sent: by the whole node meanwhile."
)


def file_name(name: str) -> str:
    """A name that is one of a file on any system: records come from elsewhere, and a workload may be called `../x`."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80].lstrip(".")
    return clean if clean == name else f"{clean}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def seconds(value: float | None) -> str:
    """`0.42 s`, `12.3 s`, `2'25''`, `1:25'00''`; a dash for None."""
    if value is None:
        return "–"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 99.95:
        return f"{value:.1f} s"
    whole = round(value)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}'{left:02}''" if hours else f"{minutes}'{left:02}''"


def with_interval(found: Interval | None) -> str:
    """`12.3 s (11.9 s to 13.0 s)`; a single run has no interval."""
    if found is None:
        return "–"
    around = f" ({seconds(found.low)} to {seconds(found.high)})" if found.low is not None else ""
    return seconds(found.value) + around


def times(found: Interval | None) -> str:
    """A ratio as text: `1.25 (1.10 to 1.41)`, its interval where it has one; a dash for None."""
    if found is None:
        return "–"
    around = f" ({found.low:.2f} to {found.high:.2f})" if found.low is not None and found.high is not None else ""
    return f"{found.value:.2f}{around}"


def levels(found: Ratio) -> Iterator[tuple[str, Interval]]:
    """The ratio on several days, and with several orders of the hosts, where it has them."""
    if found.days:
        yield "days", found.days
    if found.hosts:
        yield "orders of hosts", found.hosts


def over_levels(found: Ratio) -> str:
    """The same, to stand behind the number of pairs: `; over 7 days 1.02 to 1.31`, or ` of 2 days`."""
    few = [f"{one.n} {name}" for name, one in levels(found) if one.low is None]
    told = (f"; over {one.n} {name} {one.low:.2f} to {one.high:.2f}" for name, one in levels(found) if one.low)
    return (f" of {' and '.join(few)}" if few else "") + "".join(told)


def verdict(found: Ratio, which: str) -> str:
    """The verdict with the side that it is about: `ray × 4 is slower`, `equal`."""
    return f"{which} is {found.verdict}" if found.verdict in ("slower", "faster") else found.verdict


def percent(found: Interval | None) -> str:
    """A share as text: `12 % (10 % to 14 %)`; a dash for None."""
    if found is None:
        return "–"
    around = (
        f" ({100 * found.low:.0f} % to {100 * found.high:.0f} %)"
        if found.low is not None and found.high is not None
        else ""
    )
    return f"{100 * found.value:.0f} %{around}"


def size(value: int | None) -> str:
    """Bytes as text: `1.5 MB`, in powers of 1000; a dash for None."""
    return "–" if value is None else size_text(value)


def joules(value: float | None) -> str:
    """Energy as text: `1,234 J`; `not measured` for None."""
    return "not measured" if value is None else f"{value:,.0f} J"


def energy(joules_: float | None, of_gpus: float | None, *, gpus: bool) -> str:
    """Energy of processors and memory, and of GPUs where there are some: `1,234 J; GPUs 56,789 J`."""
    return joules(joules_) + (f"; GPUs {joules(of_gpus)}" if gpus else "")


def cost(value: float | None) -> str:
    """An amount of money, with three digits that count; a dash for None."""
    return "–" if value is None else f"{value:,.2f}" if value >= 10 else f"{value:.3g}"


def gigabytes(value: int | None) -> str:
    """Bytes as text in GiB, of 2**30 bytes; a dash for None."""
    return "–" if value is None else f"{value / 2**30:.2f} GiB"

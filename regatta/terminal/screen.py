"""Guards a person's terminal: all text that goes there passes here, and is made harmless.

Names, messages and lines of logs come from nodes, files and runs. In text a terminal takes some characters for
commands: they write to the clipboard, or over lines that are there. The programs call `install` first, so that
whatever is printed or raised anywhere passes. Colours and moves of the cursor are only `painter`'s.
"""

import io
import os
import re
import select
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from regatta.program import retold
from regatta.terminal import ctrl_c
from regatta.text import fit

if TYPE_CHECKING:
    import rich.console
    import rich.segment

_ANSIBLES = re.compile(r"(\x1b\[(?:0|[01];3[1-6])m)")
_LINE = 1 << 20
_DRAIN_SECONDS = 2.0


class Screen(io.TextIOBase):
    """A text stream that does nothing to a terminal, whatever is written. Characters that its encoding lacks become
    escapes.
    """

    def __init__(self, file: TextIO) -> None:
        self.file = file

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return getattr(self.file, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write `text`; returns its length."""
        self.file.write(fit(text).encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """See io.IOBase."""
        self.file.flush()

    def isatty(self) -> bool:
        """See io.IOBase."""
        return self.file.isatty()

    def fileno(self) -> int:
        """See io.IOBase."""
        return self.file.fileno()

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def close(self) -> None:
        """Nothing: the stream below belongs to others."""


def over(file: TextIO) -> TextIO:
    """A screen over `file`, or `file` where it is one."""
    return file if isinstance(file, Screen) else cast("TextIO", Screen(file))


def install() -> None:
    """Make this process's standard output and error screens, and keep Ctrl-C; a second time changes nothing."""
    ctrl_c.install()
    for name in ("stdout", "stderr"):
        if (file := getattr(sys, name)) is not None:
            setattr(sys, name, over(file))


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """End this process quietly where what reads its output (`head`) has seen enough."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        asked = select.poll()
        asked.register(sys.stdout, 0)
        if not asked.poll(0):  # another pipe is broken
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def draws(file: TextIO) -> bool:
    """Whether `file` is a terminal that can draw bars."""
    return file.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown"}


def width(file: TextIO) -> int | None:
    """The columns of a terminal; None for a pipe or a file, whose lines may have any length."""
    return shutil.get_terminal_size().columns if file.isatty() else None


def painter(file: TextIO, **settings: Any) -> "rich.console.Console":
    """A console of Rich's on `file`: its own colours and moves pass, the text that it is given is made harmless."""
    from rich.console import Console

    class Painter(Console):
        def render(self, *given: Any, **named: Any) -> "Any":
            """See rich.console.Console."""
            for segment in super().render(*given, **named):
                yield segment if segment.control else segment._replace(text=fit(segment.text))

    return Painter(file=file.file if isinstance(file, Screen) else file, **settings)


def ask(question: str) -> str:
    """Print `question`, and return the line that a person types. EOFError where there is none."""
    print(f"{question} ", end="", flush=True)
    return input()


def colours(wanted: bool) -> Callable[[str], str]:
    """`fit` that lets the colours of Ansible's lines pass, if `wanted`."""
    if not wanted:
        return fit

    def fitted(text: str) -> str:
        parts = _ANSIBLES.split(text)
        return "".join(part if place % 2 else fit(part) for place, part in enumerate(parts))

    return fitted


class Relay:
    """Passes on what a child writes to its pipe, line by line, to standard output or error. `join` after its end.

    Commands in it are named as they are typed here. A `log` gets it, too, without colours.
    """

    def __init__(self, pipe: IO[bytes], file: TextIO | None, log: TextIO | None = None) -> None:
        self._pipe = pipe
        files = [one.file if isinstance(one, Screen) else one for one in (file, log) if one is not None]
        self._files = [(one, colours(draws(one)), getattr(one, "encoding", None) or "utf-8") for one in files]
        self._thread = threading.Thread(target=self._pass, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until all is passed on, 2 s at most: a child of the child may hold the pipe for longer."""
        self._thread.join(_DRAIN_SECONDS)

    def _pass(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            for line in iter(lambda: self._pipe.readline(_LINE), b""):
                for file, fitted, encoding in self._files:
                    text = retold(fitted(line.decode("utf-8", "backslashreplace")))
                    with suppress(OSError):  # the reader is gone; the child continues
                        file.write(text.encode(encoding, "backslashreplace").decode(encoding))
                        file.flush()

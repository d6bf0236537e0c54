"""Charts drawn in processes beside this one: vl-convert lets no other thread of Python work meanwhile."""

import base64
import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from regatta.errors import RecordError, UsageError

FORMATS = ("svg", "png")
_MOST = 4
"""Processes at most: each needs half a second to begin."""
_PROGRAM = """
import base64, json, sys
sys.path[:] = json.loads(sys.stdin.readline())
import vl_convert
vl_convert.vegalite_to_svg({"mark": "bar", "data": {"values": []}})  # the first takes half a second
for line in sys.stdin:
    try:
        asked = json.loads(line)
        if isinstance(asked, str):
            said = {"done": base64.b64encode(vl_convert.svg_to_png(asked, scale=2)).decode()}
        else:
            said = {"done": vl_convert.vegalite_to_svg(asked)}
    except ValueError as error:
        said = {"error": str(error)}
    print(json.dumps(said), flush=True)
"""


def image_formats(text: str) -> tuple[str, ...]:
    """`svg,png` -> formats; `none` -> no images. UsageError."""
    wanted = () if text == "none" else tuple(text.split(","))
    if unknown := [word for word in wanted if word not in FORMATS]:
        raise UsageError(f"--charts takes {', '.join(FORMATS)} or none, not '{unknown[0]}'")
    return wanted


class Drawer:
    """Draws charts, in as many processes as there are cores, which begin at once; leaving it ends them."""

    def __init__(self) -> None:
        self._processes = [_begun() for _ in range(min(_MOST, os.cpu_count() or 1))]
        self._idle: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(len(self._processes))
        self._svgs: dict[str, Future[str]] = {}

    def __enter__(self) -> "Drawer":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.terminate()
            assert process.stdin and process.stdout
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
            process.wait()

    def svg(self, chart: Mapping[str, Any]) -> "Future[str]":
        """The text of an SVG of this specification of Vega-Lite, drawn once. Its result raises RecordError."""
        asked = json.dumps(chart)
        if asked not in self._svgs:
            self._svgs[asked] = self._threads.submit(self._done, asked)
        return self._svgs[asked]

    def png(self, svg: "Future[str]") -> "Future[bytes]":
        """A PNG of an SVG on white, with twice as many pixels. Its result raises RecordError."""
        return self._threads.submit(lambda: base64.b64decode(self._done(json.dumps(on_white(svg.result())))))

    def _done(self, asked: str) -> str:
        process = self._idle.get()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(f"{asked}\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            raise RecordError(f"the program that draws charts has ended (code {process.wait()}): try again") from None
        finally:
            self._idle.put(process)
        if "error" in said:
            raise RecordError(f"a chart cannot be drawn: {said['error']}")
        return str(said["done"])


def on_white(svg: str) -> str:
    """An SVG for a file: a page shows it on its own colour, other programs on theirs."""
    tag, _, rest = svg.partition(">")
    return f'{tag}><rect width="100%" height="100%" fill="white"/>{rest}'


@contextlib.contextmanager
def at_hand(drawer: Drawer | None) -> Iterator[Drawer]:
    """The drawer that its owner ends, or one for this block."""
    if drawer is not None:
        yield drawer
    else:
        with Drawer() as own:
            yield own


def _begun() -> "subprocess.Popen[str]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}  # Ctrl-C is ours
    process = subprocess.Popen([sys.executable, "-Ic", _PROGRAM], encoding="utf-8", **pipes)  # type: ignore[call-overload]
    assert process.stdin
    process.stdin.write(f"{json.dumps(sys.path)}\n")
    process.stdin.flush()
    return process  # type: ignore[no-any-return]

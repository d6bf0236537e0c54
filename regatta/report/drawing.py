"""Charts drawn in processes beside this one: vl-convert lets no other thread of Python work meanwhile."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from regatta.errors import RecordError

_MOST = 4
"""Processes at most: each needs half a second to begin."""
_PROGRAM = """
import base64, json, sys
sys.path[:] = json.loads(sys.stdin.readline())
import vl_convert
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


class Drawer:
    """Draws charts, in as many processes as there are cores; leaving it ends them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(min(_MOST, os.cpu_count() or 1))
        self._own = threading.local()
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Drawer":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            assert process.stdin and process.stdout
            process.stdin.close()
            process.stdout.close()
            process.wait()

    def svg(self, chart: Mapping[str, Any]) -> "Future[str]":
        """The text of an SVG of this specification of Vega-Lite. Its result raises RecordError."""
        return self._threads.submit(self._done, chart)

    def png(self, svg: str) -> "Future[bytes]":
        """A PNG of an SVG, with twice as many pixels. Its result raises RecordError."""
        return self._threads.submit(lambda: base64.b64decode(self._done(svg)))

    def _done(self, asked: Mapping[str, Any] | str) -> str:
        process = self._process()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(f"{json.dumps(asked)}\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            raise RecordError(f"the program that draws charts has ended (code {process.wait()}): try again") from None
        if "error" in said:
            raise RecordError(f"a chart cannot be drawn: {said['error']}")
        return str(said["done"])

    def _process(self) -> "subprocess.Popen[str]":
        """That of this thread."""
        if not hasattr(self._own, "process"):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}  # Ctrl-C is ours
            made = subprocess.Popen([sys.executable, "-Ic", _PROGRAM], encoding="utf-8", **pipes)  # type: ignore[call-overload]
            assert made.stdin
            made.stdin.write(f"{json.dumps(sys.path)}\n")
            self._processes.append(made)
            self._own.process = made
        return self._own.process  # type: ignore[no-any-return]

"""Programs whose modules come with them: what a controller sends to a node, and a node to Slurm."""

import base64
import json
import zlib
from typing import Mapping

QUICK = 3
"""The level of zlib: each start of a command takes half the time of the usual 6, and sends a tenth more bytes."""
_LOADER = """
import base64, json, sys, zlib
from importlib.machinery import ModuleSpec
class Sent:
    sources = json.loads(zlib.decompress(base64.b64decode({sources!r})))
    def find_spec(self, name, path=None, target=None):
        if name in self.sources:
            return ModuleSpec(name, self, is_package=any(other.startswith(name + ".") for other in self.sources))
    def create_module(self, spec):
        pass
    def get_source(self, name):
        return self.sources[name]
    def exec_module(self, module):
        exec(compile(self.sources[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
"""


def program(sources: Mapping[str, str], then: str) -> bytes:
    """A program that can import `sources`, modules by their full name, and does `then`; it compiles what it uses.

    A package that is not among them is empty.
    """
    packages = {name.rsplit(".", depth)[0] for name in sources for depth in range(1, name.count(".") + 1)}
    whole = json.dumps({**dict.fromkeys(sorted(packages), ""), **sources})
    return (_LOADER.format(sources=base64.b64encode(zlib.compress(whole.encode(), QUICK)).decode()) + then).encode()

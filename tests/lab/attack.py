"""A hostile run on hosts of a lab: the account of runs, without end, at every path that root comes to."""

import json
import shlex
from collections.abc import Iterable

from lab.handle import LabHandle

UNIT = "hostile-run"
VICTIM = "/root/victim"

PROGRAM = r"""
import contextlib, json, os, random, sys, time
state, victim, token = sys.argv[1:]
NAMES = ["spec.json", "exit.json", "exit.json.new", "stop.json", "pid.json", "log", "reserve", "scratch", "work",
         "stop.json.1.new", "a\nb", "-rf", "boot"]
KEPT = [state, state + "/runs", state + "/data", state + "/.ssh", state + "/.ssh/authorized_keys",
        "/run/regatta.lease",
        "/opt/regatta/releases", "/etc/regatta/node.json", "/etc/regatta/mesh/id_ed25519", token]
done = {"planted": 0, "won": []}

def won(what, work):
    with contextlib.suppress(OSError):
        work()
        done["won"].append(what)

def plant(path):
    aside = "%s/%d.%d" % (os.path.dirname(path), os.getpid(), done["planted"] % 500)
    with contextlib.suppress(OSError):
        os.rename(path, aside)
    kind = random.randrange(8)
    if kind == 0: os.symlink(victim + "/shadow", path)
    elif kind == 1: os.symlink(victim, path)
    elif kind == 2: os.symlink(victim + "/new", path)
    elif kind == 3: os.mkfifo(path)
    elif kind == 4: os.link(victim + "/public", path)
    elif kind == 5: os.makedirs(path + "/d" * 100)
    elif kind == 6: open(path, "w").write('{"state":' + "[" * 9999 + "]" * 9999 + "}")
    else:
        with open(path, "wb") as file: file.truncate(10 << 30)
    done["planted"] += 1

deep = os.path.join(state, "home", "deep")
if not os.path.isdir(deep):
    os.mkdir(deep); os.chdir(deep)
    for _ in range(1500): os.mkdir("d"); os.chdir("d")
    os.chdir("/")
while True:
    for path in KEPT:
        won("renamed " + path, lambda: os.rename(path, path + ".mine"))
        won("wrote " + path, lambda: open(path, "r+").close())
    won("made a name in " + state, lambda: os.mkdir(state + "/mine"))
    won("made a run", lambda: os.mkdir(state + "/runs/mine"))
    won("looked at the victim", lambda: os.listdir(victim))
    for run in os.listdir(state + "/runs"):
        folder = os.path.join(state, "runs", run)
        won("renamed a run", lambda: os.rename(folder, folder + "-mine"))
        for name in NAMES:
            with contextlib.suppress(OSError):
                plant(os.path.join(folder, name))
    with open(state + "/home/attack.new", "w") as file:
        json.dump(done, file)
    os.rename(state + "/home/attack.new", state + "/home/attack.json")
    time.sleep(0.05)
"""


class Attack:
    """`with Attack(lab, nodes) as attack:` from `attack.begin()` on such a process works on these nodes.

    Root's own files are looked at in the end.
    """

    def __init__(self, lab: LabHandle, nodes: Iterable[str], state: str = "/var/lib/regatta") -> None:
        self.lab, self.nodes, self.state = lab, list(nodes), state

    def _root(self, node: str, script: str, check: bool = True) -> str:
        return str(self.lab.ssh(node, f"sudo sh -c {shlex.quote(script)}", check=check).stdout)

    def __enter__(self) -> "Attack":
        self.lay()
        return self

    def begin(self) -> None:
        """Start it."""
        words = ["systemd-run", "--quiet", "--collect", f"--unit={UNIT}", "--uid=regatta", "--nice=15", "python3", "-c"]
        words += [PROGRAM, self.state, VICTIM, "/etc/regatta/ray_token"]
        for node in self.nodes:
            self._root(node, shlex.join(words))

    def lay(self) -> None:
        """Make what it aims at."""
        made = f"mkdir -m 711 {VICTIM}; cd {VICTIM}; umask 077; echo of root alone > shadow; touch public"
        for node in self.nodes:
            self._root(node, made)

    def tried(self, node: str) -> dict[str, object]:
        """Return how often it has put something anywhere, and what it has achieved that it must not."""
        none = json.dumps({"planted": 0, "won": []})
        said = self._root(node, f"cat {self.state}/home/attack.json 2>/dev/null || echo {shlex.quote(none)}")
        return dict(json.loads(said))

    def stop(self) -> None:
        """End it."""
        for node in self.nodes:
            self._root(node, f"systemctl stop {UNIT}", check=False)

    def untouched(self, node: str) -> bool:
        """Whether what is only root's is as it was."""
        look = f"cd {VICTIM} && stat -c '%n %U %a %h' . * && cat shadow"
        return self._root(node, look).split("\n")[:-1] == [
            ". root 711 2",
            "public root 600 1",
            "shadow root 600 1",
            "of root alone",
        ]

    def __exit__(self, *_: object) -> None:
        self.stop()
        for node in self.nodes:
            self._root(node, f"rm -rf {VICTIM} {self.state}/home/deep {self.state}/home/attack.json", check=False)

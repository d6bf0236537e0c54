"""A run on a node: what the node gets of it, what it keeps of it, how it ended there."""

from typing import Annotated, Any, Dict, Optional, Tuple

from regatta_protocol.decoding import AS_IT_IS, Like
from regatta_protocol.standing import Stood
from regatta_protocol.states import Mode, State
from regatta_protocol.value import Value

Release = Annotated[str, Like(r"[0-9a-f]{0,64}")]
RankName = Annotated[str, Like(r"-?\d{1,9}")]
"""The number of a rank as JSON has it in keys."""


class Process(Value):
    """A process of a node: a rank, or a driver (-1), with its own variables."""

    rank: int
    argv: Tuple[str, ...]
    env: Dict[str, str] = {}


class Limits(Value):
    """Of one run on one node: bytes of its log, share of the memory, processes and threads (None: so many a core).

    `memory`: bytes, where it asked for less.
    """

    log_bytes: Optional[int] = None
    memory_share: float = 0.85
    processes: Optional[int] = None
    memory: Optional[int] = None


class PlanKept(Value):
    """The plan as the nodes keep it, so that a run can be attached to without the controller that started it.

    `ranks` has the node of each. `script`: the program is a person's own, also where it is a module.
    """

    framework: str = ""
    program: Tuple[str, ...] = ()
    label: str = ""
    ranks: Dict[RankName, str] = {}
    threads: Optional[int] = None
    launcher: str = ""
    restarts: int = 0
    master_port: Optional[int] = None
    ports: Tuple[int, ...] = ()
    release: Optional[str] = None
    layer: Optional[str] = None
    shared: Optional[str] = None
    project: Optional[str] = None
    keep: Tuple[str, ...] = ()
    script: bool = False


class Expected(Value):
    """A file that processes of a run make in its scratch folder (`mark`); without it a run that succeeds is warned.

    `where`: another such file, without which there is no warning.
    """

    mark: str
    warning: str
    where: str = ""


class Spec(Value):
    """The argument of `run.start`: all that a node needs to start its part.

    `env`: of all its processes. `files`: by their path in its folder. `service`: the framework whose service its
    processes join, or are started by. `temporary`: a folder in /tmp that goes with it. `shared`: its part of the shared
    folder; `project`, `former`: keys of what its project keeps there, in the folders `keep`; `folder`: the project's
    own, in the tree. `interface_variables`: get the name of the cluster's interface. `record`: what its record says.
    `expected`: see `Expected`. `gpus`: UUIDs of those that are only this run's. `cpus`: the cores
    to which its processes are bound; empty: to none.
    """

    id: str
    mode: Mode
    framework: str
    release: Release
    env: Dict[str, str] = {}
    ranks: Tuple[Process, ...] = ()
    plan: PlanKept = PlanKept()
    limits: Limits = Limits()
    files: Dict[str, str] = {}
    cwd: str = ""
    folder: str = ""
    time_limit: Optional[float] = None
    layer: Optional[str] = None
    service: Optional[str] = None
    temporary: Optional[str] = None
    shared: Optional[str] = None
    project: Optional[str] = None
    former: Optional[str] = None
    keep: Tuple[str, ...] = ()
    interface_variables: Tuple[str, ...] = ()
    record: Optional[Dict[str, Any]] = None
    expected: Tuple[Expected, ...] = ()
    gpus: Tuple[str, ...] = ()
    cpus: Tuple[int, ...] = ()


class Begun(Spec):
    """The content of `spec.json`: the spec, and what the node found when it began.

    `network`: the cluster's interface and its counters. `daemons`: process ids of the service's, with `hits`: how often
    their unit has met its limits. `boot`: of the host, by its name. `joined`: what the service said to a driver.
    """

    started: Optional[float] = None
    network: Dict[str, Any] = {}
    oom_kills: int = 0
    daemons: Dict[str, int] = {}
    hits: Dict[str, int] = {}
    boot: Optional[str] = None
    joined: Optional[Dict[str, Any]] = None


class Ranked(Value):
    """A process of which the number counts."""

    rank: int


class Kept(Value):
    """As `Begun`, of which the run may have written anything: what is read of it again, as far as it is believed."""

    mode: Optional[Mode] = None
    framework: str = ""
    release: Release = ""
    plan: Optional[PlanKept] = None
    ranks: Tuple[Ranked, ...] = ()
    time_limit: Optional[float] = None
    layer: Optional[str] = None
    temporary: Optional[str] = None
    keep: Tuple[str, ...] = ()
    record: Optional[Dict[str, Any]] = None
    started: Optional[float] = None
    network: Dict[str, Any] = {}
    oom_kills: Optional[int] = None
    daemons: Dict[str, int] = {}
    hits: Dict[str, int] = {}
    boot: Optional[str] = None
    gpus: Tuple[str, ...] = ()


class Failure(Value):
    """The first failure on a node: a rank, or (None) its supervisor; then `cause` says how.

    `signal`: the name of that which ended it. `disk_full`: there was no space left then.
    """

    rank: Optional[int] = None
    code: int = 1
    signal: Optional[str] = None
    cause: Optional[str] = None
    at: float = 0.0
    last_lines: Tuple[Annotated[str, AS_IT_IS], ...] = ()
    disk_full: bool = False


class Ended(Value):
    """The content of `exit.json`: how a run has ended on a node, and what it has used there.

    `codes`: of the ranks that have ended. `oom_kills`: by the host's kernel, meanwhile. `lost_lines`: of the log, for
    which the disk had no space. `reached`: limits that it has met. `stood`: where the other ranks stood there when one
    had waited too long for others.
    """

    state: State = State.FAILED
    code: int = 1
    failure: Optional[Failure] = None
    codes: Dict[str, Optional[int]] = {}
    started: Optional[float] = None
    ended: Optional[float] = None
    used: Dict[str, Any] = {}
    oom_kills: int = 0
    lost_lines: int = 0
    reached: Dict[str, float] = {}
    stood: Optional[Stood] = None


class FollowedBy(Value):
    """The process that started a run to follow it: its id and start, its host and boot, and where it keeps records."""

    boot: str = ""
    pid: Optional[int] = None
    began: str = ""
    host: str = ""
    results: str = ""


class About(Value):
    """A node's account of a run that it knows."""

    framework: str = ""
    mode: Optional[Mode] = None
    release: str = ""
    plan: PlanKept = PlanKept()


class Listed(Value):
    """A run that a node knows of: times are Unix seconds there; `age` and `idle`: seconds since its start and end.

    `owner`: the account that has logged in there to start it, and the fingerprint of its key; `others`: it is not who
    asks.
    """

    id: str
    state: State
    started: float
    age: float
    spec: About
    recorded: bool
    ended: Optional[float] = None
    idle: Optional[float] = None
    code: Optional[int] = None
    by: Optional[FollowedBy] = None
    owner: str = ""
    others: bool = False


class Listing(Value):
    """The answer of `run.list`."""

    runs: Tuple[Listed, ...]


class Started(Value):
    """The answer of `run.start`.

    `interface`: that of the cluster's address. `unshared`: why there is no shared folder, where there is none now.
    """

    folder: str
    interface: Optional[str] = None
    strangers: Dict[str, float] = {}
    """Seconds of CPU of processes outside of Regatta."""
    energy: Dict[str, float] = {}
    """Counters of the energy of processors and GPUs."""
    unshared: Optional[str] = None
    owner: str = ""
    """See `Listed`."""


class Finished(Value):
    """The answer of `run.finish` and `run.stop`: how it ended, what it had left, which daemons died in mid-run."""

    killed: int = 0
    exit: Optional[Ended] = None
    died: Tuple[str, ...] = ()
    rebooted: bool = False

"""The errors that a person sees: one family, one class per stage.

Every message says where (node), what (step) and what to do next. `exit_code` is what the program ends with.
"""


class RegattaError(Exception):
    """Base of all errors that end a command with one clear message."""

    exit_code = 1


class UsageError(RegattaError):
    """A command was called with arguments that make no sense."""

    exit_code = 2


class DeclinedError(RegattaError):
    """A person has answered no; what ends the command says what was not done, and is no error."""


class InventoryError(RegattaError):
    """The inventory is missing, unreadable or contradicts itself."""

    exit_code = 2


class RemoteError(RegattaError):
    """A command on a node failed."""

    def __init__(self, node: str, message: str) -> None:
        super().__init__(f"{node}: {message}")
        self.node = node
        self.reason = message


class UnreachableError(RemoteError):
    """The node does not answer."""


class AuthenticationError(RemoteError):
    """The node answers and refuses our key."""


class HostKeyError(RemoteError):
    """The node's host key is unknown or is not the one that was pinned."""


class UnknownHostKeyError(HostKeyError):
    """The node answers, and its host key is not pinned yet."""


class PrivilegeError(RemoteError):
    """The login works and sudo without a password does not."""


class NodesError(RegattaError):
    """Several nodes failed at the same step."""

    def __init__(self, step: str, failures: dict[str, Exception]) -> None:
        self.failures = failures
        lines = [str(e) if isinstance(e, RemoteError) else f"{n}: {e}" for n, e in failures.items()]
        super().__init__(f"{step} failed on {len(failures)} node(s):\n  " + "\n  ".join(lines))


class SyncError(RegattaError):
    """The source tree could not be put on every node, or a node's copy differs."""


class DataError(RegattaError):
    """An input file is missing or could not be put on the nodes."""

    exit_code = 2


class NothingError(DataError):
    """A run has written nothing that was asked for."""


class EnvironmentFault(RegattaError):
    """The packages or variables that a project asks for cannot be had, or contradict themselves or the nodes'."""

    exit_code = 2


class CardError(RegattaError):
    """The card of a workload cannot be read or contradicts itself."""

    exit_code = 2


class PlanError(RegattaError):
    """A bench plan cannot be read, contradicts itself or asks for what the cluster does not have."""

    exit_code = 2


class BusyError(RegattaError):
    """Another user is benching on the cluster."""


class LaunchError(RegattaError):
    """A run could not be started."""


class RunError(RegattaError):
    """A run is unknown, or ended in a way that stops the command."""


class RunFailedError(RegattaError):
    """A run failed; carries the exit code to pass on, and the host that was lost where that is what ended it."""

    def __init__(self, message: str, code: int, host: str | None = None) -> None:
        super().__init__(message)
        self.host = host
        self.exit_code = code if code else 1


class RecordError(RegattaError):
    """A record cannot be read, written or does not fit the schema."""


class CompareError(RegattaError):
    """Runs cannot be compared: their answers differ or one of them failed."""

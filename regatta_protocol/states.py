"""Words with a fixed meaning: how a run is doing, and how a node started it."""

from enum import Enum


class Word(str, Enum):
    """A word that is written as it is."""

    __str__ = str.__str__


class State(Word):
    """The state of a run on a node. `LOST`: it has vanished without a word, as when its host went down.

    A record calls a stopped run `cancelled`, see `recorded`.
    """

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def recorded(self) -> str:
        """The word that records and lists have for it."""
        return "cancelled" if self is State.STOPPED else self.value


ENDS = (State.SUCCEEDED, State.FAILED, State.STOPPED, State.LOST)


class Mode(Word):
    """The way in which a node starts its part of a run.

    `UNIT`: a systemd unit of the account of runs. `SESSION`: a session of the user's own. `MEMBER`: its folder only,
    where a service starts the processes.
    """

    UNIT = "unit"
    SESSION = "session"
    MEMBER = "member"

"""Where things are on a node, as each request tells it; for annotations only."""

from typing import Any, Dict, List, Optional, TypedDict


class Place(TypedDict, total=False):
    """The layout of one node: its folders, account and Python, and who asks.

    `user`: the account of runs; None on this machine alone. `by`: whose the request is. `gate`: which version of the
    gate a member's controller knows: all else is then what provisioning has written there, `member`: the account that
    has called, `limits`: those that its runs have at most; of a member whose runs have an account of their own,
    `account`: that one, `ports`: the first and the last of theirs. `job`: of a run without a controller, the token of
    the request that has put it into the queue.
    """

    root: str
    state: str
    python: str
    cluster_address: str
    user: Optional[str]
    by: Optional[str]
    gate: Optional[str]
    member: str
    limits: Dict[str, Any]
    account: str
    ports: List[int]
    job: str

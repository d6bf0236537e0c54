"""Errors of stored data, as one sentence for a person: which path, at which step, what to do."""

from __future__ import annotations

import getpass
import os
import re

from workloads.common.events import BadInput

NOT_PROVISIONED = "HDFS is not set up on this host: run 'regatta provision' for a cluster that has it"

_SAFE_MODE = re.compile(r"SafeMode|safe ?mode", re.IGNORECASE)
_NO_ROOM = re.compile(r"could only be (written|replicated) to|No space left|DiskOutOfSpace|DSQuotaExceeded")
_CLASS = re.compile(r'RPCError\("([\w.$]+)", "((?:[^"\\]|\\.)*)')
_PASSING = re.compile(
    r"All DataNodes failed|DataTransferError|RetriableException|StandbyException|Connection (refused|reset)|"
    r"Broken pipe|unreachable|timed? ?out|No route|IOError|Zero blocklocations|BlockMissing|OperationFailed|"
    r"NotReplicatedYet|LeaseExpired|No live nodes|Failed to (find|connect)|Read timed out",
    re.IGNORECASE,
)


class StorageError(BadInput):
    """Stored data cannot be read or written. `passing`: it may go by itself, so that trying again can help."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def user() -> str:
    """The name under which HDFS knows this process."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def missing(url: str, step: str) -> StorageError:
    """The file is not there."""
    return StorageError(f"{url}: there is no such file ({step}); 'regatta data-ls' shows what there is")


def is_folder(url: str) -> StorageError:
    """A folder where a file is meant."""
    return StorageError(f"{url}: is a folder, and a file is meant; name one of the files in it")


def translate(error: BaseException, url: str, step: str) -> StorageError:  # noqa: PLR0911 (one a cause)
    """Return what an exception of a client means for the person who gave `url`; `step` says what was being done."""
    if isinstance(error, StorageError):
        return error
    text = str(error)
    found = _CLASS.search(text)
    name = found[1].rpartition(".")[2] if found else ""
    said = first_line(found[2] if found else text)
    if isinstance(error, FileNotFoundError):
        return is_folder(url) if "not a file" in text else missing(url, step)
    if isinstance(error, FileExistsError):
        return StorageError(f"{url}: is there already ({step})")
    if isinstance(error, IsADirectoryError):
        return is_folder(url)
    if isinstance(error, PermissionError) or "Permission denied" in text:
        return StorageError(f"{url}: user {user()} may not do that ({step}): {said}")
    if "No fs.defaultFS" in text:
        return StorageError(f"{url}: {NOT_PROVISIONED}")
    if "is not a directory" in text or name == "ParentNotDirectoryException":
        return StorageError(f"{url}: a part of the path is a file, not a folder ({step})")
    if "PathIsNotEmptyDirectory" in name:
        return StorageError(f"{url}: is a folder that is not empty; add --recursive to remove all of it")
    if _SAFE_MODE.search(name) or _SAFE_MODE.search(said):
        return StorageError(
            f"{url}: HDFS is in safe mode and takes no changes ({step}): it leaves it when enough DataNodes are up; "
            "see 'regatta hdfs-status'",
            passing=True,
        )
    if _NO_ROOM.search(text):
        return StorageError(
            f"{url}: no DataNode has space for another block, or none is live ({step}): see 'regatta hdfs-status'"
        )
    passing = isinstance(error, OSError | TimeoutError) or bool(_PASSING.search(text))
    return StorageError(f"{url}: {step} failed: {said or type(error).__name__}", passing=passing)


def first_line(text: str) -> str:
    """The first line of a Java exception's message, without its stack and quoting."""
    return re.split(r"\\n|\n|\\t|\t", text, maxsplit=1)[0].strip().replace('\\"', '"')[:300]

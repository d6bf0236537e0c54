"""Addresses in object stores. The nodes read them by fsspec, with the package of the store as a layer of the run."""

from collections.abc import Iterable

from regatta.errors import UsageError

PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
"""By the scheme of an address; workloads/common/storage/places.py has the same."""


def is_address(word: str) -> bool:
    """Whether a word leads to an object store. UsageError where it names no bucket."""
    scheme, found, rest = word.partition(":")
    if not found or scheme.lower() not in PACKAGES:
        return False
    if not rest.startswith("//") or not rest[2:].partition("/")[0]:
        raise UsageError(f"{word}: a bucket is missing; write {scheme.lower()}://bucket/key")
    return True


def package(address: str) -> str:
    """The package of the store that an address leads to."""
    return PACKAGES[address.partition(":")[0].lower()]


def packages(words: Iterable[str]) -> tuple[str, ...]:
    """Return what is needed to read all the addresses among words, each alone or behind a flag and `=`."""
    values = (word.partition("=")[2] if word.startswith("--") else word for word in words)
    return tuple(sorted({package(value) for value in values if is_address(value)}))

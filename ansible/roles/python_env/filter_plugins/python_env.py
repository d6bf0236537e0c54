"""Reads what a node's part of verify's all-reduce says."""

import json
from collections.abc import Callable, Mapping
from typing import Any

_MARK = "@verify "


def verdict(done: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """`problems`, `versions` and `rates` of a torchrun that `command` has run and `timeout` bounds by `seconds`.

    `rates`: bytes a second of an all-reduce with another rank only, by its number.
    """
    lines = [line for line in done.get("stdout", "").splitlines() if line.startswith(_MARK)]
    report = json.loads(lines[-1].removeprefix(_MARK)) if lines else {}
    found = _problem(done, report, seconds)
    rates = {int(rank): rate for rank, rate in report.get("rates", {}).items()}
    return {"problems": [found] if found else [], "versions": report.get("versions", {}), "rates": rates}


def _problem(done: Mapping[str, Any], report: Mapping[str, Any], seconds: int) -> str | None:
    if done["rc"] == 124:
        return f"torchrun did not end within {seconds} s"
    if done["rc"] or not report:
        said = (done.get("stderr") or done.get("msg", "")).strip().splitlines()
        lines = [line for line in said if "Error" in line] or said or ["no message"]
        return f"torchrun failed with exit code {done['rc']}: {lines[-1].strip()}"
    if report["sum"] != report["expected"]:
        return f"torchrun's all-reduce gave {report['sum']} instead of {report['expected']}"
    return None


class FilterModule:
    """`result | python_env_verdict(seconds)`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return what Ansible finds here."""
        return {"python_env_verdict": verdict}

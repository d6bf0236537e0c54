"""Tells the controller what a playbook does: a line of JSON an event, on the descriptor of number `REGATTA_STEPS`."""

import json
import os
from contextlib import suppress

from ansible.playbook.role_include import IncludeRole
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: steps
type: notification
short_description: Events of a playbook as lines of JSON, for regatta/provisioning/steps.py
description: Beside Ansible's own output, which it does not change. Without REGATTA_STEPS it does nothing.
"""
_SAYS = ("msg", "stderr", "stdout", "module_stderr", "module_stdout")


class CallbackModule(CallbackBase):
    """The events: task, result, failed, said, end. Text that tasks hide by no_log is hidden here as well."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "steps"

    def __init__(self):
        super().__init__()
        given = os.environ.get("REGATTA_STEPS")
        self.disabled = not given
        self._lost = set()
        self._pipe = open(int(given), "w", buffering=1, closefd=False) if given else None  # noqa: SIM115

    def _tell(self, event, **told):
        with suppress(OSError):  # the reader is gone; the playbook continues
            self._pipe.write(json.dumps({"event": event, **told}) + "\n")

    def v2_playbook_on_task_start(self, task, is_conditional=False):
        """Say which task begins, and the step that it belongs to: a role, or a task of the playbook itself."""
        if not isinstance(task, TaskInclude):
            name = task.name or task.get_name()
            role = _role(task)
            self._tell("task", task=name, step=_title(role) if role else name, of_role=bool(role))

    v2_playbook_on_handler_task_start = v2_playbook_on_task_start

    def v2_runner_on_ok(self, result):
        """Say that a host has done it, and what a debug task says."""
        if isinstance(result.task, TaskInclude):
            return
        here = result.task.delegate_to == "localhost"
        self._tell("result", host=result.host.get_name(), changed=result.is_changed(), here=here)
        said = result.result.get("msg")
        if result.task.action in ("debug", "ansible.builtin.debug") and said:
            self._tell("said", text="\n".join(map(str, said)) if isinstance(said, list) else str(said))

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """Say why a host has failed, of a loop for each item."""
        if ignore_errors:
            return
        items = [one for one in result.result.get("results", ()) if isinstance(one, dict) and one.get("failed")]
        text = "\n".join(f"{self._get_item_label(one)}: {_why(one)}" for one in items) or _why(result.result)
        self._tell("failed", word="FAILED", host=result.host.get_name(), text=text)

    def v2_runner_on_unreachable(self, result):
        """Say why a host cannot be reached, unless the task allows for that: then its role reports it."""
        self._lost.add(result.host.get_name())
        if not result.task.ignore_unreachable:
            self._tell("failed", word="UNREACHABLE", host=result.host.get_name(), text=_why(result.result))

    def v2_on_file_diff(self, result):
        """Pass on what --diff shows."""
        for one in result.result.get("results") or [result.result]:
            if not isinstance(one, dict) or not one.get("changed") or not one.get("diff"):
                continue
            if text := self._get_diff(one["diff"]):
                self._tell("said", text=f"{result.host.get_name()}: {result.task.get_name()}\n{text}")

    def v2_playbook_on_stats(self, stats):
        """Say how each host has ended."""
        self._tell("end", hosts={host: self._ended(host, stats.summarize(host)) for host in stats.processed})

    def _ended(self, host, counts):
        if host in self._lost:
            return "unreachable"
        return next((word for word in ("failures", "changed") if counts[word]), "unchanged")


def _role(task):
    """The role that the playbook names, also where it has another one do the task."""
    role, above = task._role, task._parent
    while above is not None:
        if isinstance(above, IncludeRole) and above._role:
            role = above._role
        above = above._parent
    return role


def _title(role):
    """`hdfs`, or `hdfs: may leave` for tasks of another file."""
    return ": ".join([role.get_name(), *(each.replace("_", " ") for each in [role._from_files.get("tasks")] if each)])


def _why(result):
    """All that a task says of its failure, each once."""
    said = dict.fromkeys(str(result[name]).strip() for name in _SAYS if result.get(name))
    return "\n".join(said) or str(result.get("censored") or result.get("exception") or "no message")

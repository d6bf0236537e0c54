"""The services of a cluster: what `roles/<role>/service.yml` says of each, evaluated with the role's variables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = r"""
name: services
short_description: Services in the order in which they are set up, or a field of each
description: Roles that have a file service.yml; docs/explanation/architecture.md has its fields.
options:
  _terms: {description: 'A field: its value for each service that has it. None: the names of their roles'}
  tasks: {type: str, description: Only services with these tasks (a file of tasks/)}
  otherwise: {type: str, description: With tasks, gives those that lack them and have these}
  enabled: {type: bool, default: false, description: Only services that the cluster has}
  environment: {type: bool, description: Only those that run in the Python environment of nodes, or only the others}
  named: {type: bool, default: false, description: 'Of a field: pairs of role and value'}
"""
ROLES = Path(__file__).resolve().parents[1] / "roles"
LAST = 1000


class LookupModule(LookupBase):
    """`query('services', tasks='verify', enabled=true)`, `query('services', 'packages')`."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[Any]:
        """Return names of roles, tasks of roles, or values. Raises AnsibleError where a value cannot be told."""
        self.set_options(var_options=variables, direct=kwargs)
        found = list(self._chosen())
        if not terms:
            return [self._entry(role) for role, _ in found]
        field = terms[0]
        if field == "guarded_ports":
            found = [(role, part) for role, part in found if part.get("guarded")]
        key = field.removeprefix("guarded_")
        values = [(role, self._value(role, part, field)) for role, part in found if key in part]
        return [list(pair) if self.get_option("named") else pair[1] for pair in values]

    def _chosen(self) -> Iterator[tuple[str, dict[str, Any]]]:
        environment = self.get_option("environment")
        for role, part in self._parts():
            if environment is not None and bool(part.get("environment")) != environment:
                continue
            if self.get_option("enabled") and not self._value(role, part, "enabled"):
                continue
            if not self.get_option("tasks") or self._tasks(role):
                yield role, part

    def _parts(self) -> list[tuple[str, dict[str, Any]]]:
        paths = sorted(ROLES.glob("*/service.yml"))
        parts = [(path.parent.name, self._loader.load_from_file(str(path), trusted_as_template=True)) for path in paths]
        return sorted(parts, key=lambda pair: (pair[1].get("order", LAST), pair[0]))

    def _tasks(self, role: str) -> str | None:
        """Those of the tasks asked for that the role has."""
        asked = filter(None, (self.get_option("tasks"), self.get_option("otherwise")))
        return next((name for name in asked if (ROLES / role / f"tasks/{name}.yml").exists()), None)

    def _entry(self, role: str) -> str | dict[str, str]:
        if not self.get_option("otherwise"):
            return role
        return {"role": role, "tasks": self._tasks(role) or ""}

    def _value(self, role: str, part: dict[str, Any], field: str) -> Any:
        try:
            if field in ("ports", "guarded_ports"):
                return self._ports(part)
            return self._templar.template(part.get(field, True if field == "enabled" else None))
        except AnsibleError as error:
            raise AnsibleError(f"{role}/service.yml, {field}: {error}") from error

    def _ports(self, part: dict[str, Any]) -> dict[int, str]:
        """{number: title with the variable that sets it} of the ports at which the service listens on this host."""
        if not self._templar.template(part.get("listens", True)):
            return {}
        numbers = {name: self._templar.template(self._templar.available_variables[name]) for name in part["ports"]}
        return {int(number): f"{part['title']} ({name})" for name, number in numbers.items()}

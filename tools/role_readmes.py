"""`make docs`: writes the tables of variables in `ansible/roles/*/README.md`, from `meta/argument_specs.yml`."""

import json
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parents[1] / "ansible/roles"
BEGIN = "<!-- variables: made by `make docs` from meta/argument_specs.yml -->"
END = "<!-- variables: end -->"


def roles() -> list[Path]:
    """The folders of all roles."""
    return sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml"))


def page(role: Path) -> str:
    """A role's README with its table as the specification has it now. ValueError where it lacks the table's place."""
    readme = role / "README.md"
    before, begin, rest = readme.read_text().partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} lacks '{BEGIN}' or '{END}'")
    return f"{before}{BEGIN}\n\n" + "\n".join(table(role)) + f"\n\n{END}{after}"


def table(role: Path) -> list[str]:
    """Return the lines of a role's table of variables."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    lines = ["| variable | type | default | what |", "|---|---|---|---|"]
    return [*lines, *(_row(name, option) for name, option in specs.items())]


def _row(name: str, option: dict[str, Any]) -> str:
    default = option["default"]
    shown = default if isinstance(default, str) and default else json.dumps(default)
    kind = option["type"] + (f" of {option['elements']}" if "elements" in option else "")
    kind += f": {', '.join(option['choices'])}" if "choices" in option else ""
    cells = (f"`{name}`", kind, f"`{shown}`", option["description"])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> None:
    """Write all of them."""
    for role in roles():
        (role / "README.md").write_text(page(role))


if __name__ == "__main__":
    main()

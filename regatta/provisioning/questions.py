"""The questions of `regatta init`, and the inventory made from the answers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from regatta.errors import UsageError
from regatta.hosts import drafts
from regatta.hosts.drafts import ADDRESS, HOST, KEY, USER, Draft
from regatta.services import parts
from regatta.terminal.confirm import Questions

PARENT = Path("inventory")
USUAL = "mine"
AGENT, NONE, NOWHERE = "agent", "none", "192.0.2.1"
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_WORDS = {"yes": False, "y": False, "no": True, "n": True}
"""Shall the head run ranks? Then it is more than the head."""


@dataclass(frozen=True)
class Given:
    """The values of flags; None and no hosts where a person is asked."""

    name: str | None = None
    host: Sequence[str] = ()
    user: str | None = None
    key: str | None = None
    head: str | None = None
    head_only: bool | None = None
    services: str | None = None


def draft(ask: Questions, given: Given) -> Draft:
    """Ask for what was not given. Raises UsageError and InventoryError for what was, EOFError at the end of input."""
    free = next(name for name in (USUAL, *(f"{USUAL}{n}" for n in range(2, 1000))) if not (PARENT / name).exists())
    taken = "" if free == USUAL else f" ({PARENT / USUAL} exists)"
    made = Draft(ask.answer(f"Name of the inventory{taken}", lambda text: drafts.free(PARENT, text), free, given.name))
    _hosts(ask, made, given.host)
    if without := made.lacking(USER):
        others = [own[USER] for own in made.hosts.values() if USER in own]
        usual = others[0] if others else drafts.login(made.hosts[without[0]][HOST])
        question = "User that logs in, and may use sudo"
        made.variables[USER] = ask.answer(question, lambda text: made.tried(USER, text), usual, given.user)
    if made.lacking(KEY):
        question = f"Private key, or '{AGENT}' for your SSH agent"
        made.variables[KEY] = ask.answer(question, lambda text: made.tried(KEY, _key(text)), _usual_key(), given.key)
    names = list(made.hosts)
    alone = names[0] if len(names) == 1 else None
    question = f"The head, which has the services, of {', '.join(names)}"
    made.head = ask.answer(question, _one_of(names), names[0], given.head or alone)
    made.head_only = bool(given.head_only)
    if not alone and given.head_only is None:
        made.head_only = ask.answer("Shall the head run ranks, too", lambda text: _WORDS[_one_of(_WORDS)(text)], "yes")
    made.variables |= _services(ask, given.services)
    made.check()
    return made


def _hosts(ask: Questions, made: Draft, given: Sequence[str]) -> None:
    for words in given:
        ask.answer("", lambda text: _host(ask, made, text), given=words)
    if given:
        return
    print(
        "Hosts, as SSH reaches them: ADDRESS, USER@ADDRESS or a name of your ~/.ssh/config; an empty line ends the list"
    )
    while ask.answer(f"Host {len(made.hosts) + 1}", lambda text: _host(ask, made, text)):
        pass


def _host(ask: Questions, made: Draft, text: str) -> bool:
    """Add the host of these words, once its name and address are known; False where no more are wanted."""
    if not text and made.hosts:
        return False
    name, variables = drafts.host(text)
    if not variables[HOST]:
        raise UsageError("at least one host is needed: give an ADDRESS or USER@ADDRESS (without questions: --host)")
    offered = name or f"node{len(made.hosts) + 1}"
    known = variables.pop(ADDRESS, None)
    usual = drafts.network_address(variables[HOST])
    Draft(made.name).add(offered, {**variables, ADDRESS: known or usual or NOWHERE})
    named = ask.answer("  Its name in the cluster", made.free, offered, name if "=" in text else None)
    ask.answer(
        "  Its IPv4 address in the network of the hosts",
        lambda address: made.add(named, {**variables, ADDRESS: address}),
        usual,
        known,
    )
    return True


def _usual_key() -> str:
    return next((f"~/.ssh/{name}" for name in _KEYS if (Path.home() / ".ssh" / name).is_file()), AGENT)


def _key(text: str) -> str:
    """The path as the inventory has it; '' for the agent."""
    path = Path(text).expanduser()
    if text == AGENT:
        return ""
    if not path.is_file():
        raise UsageError(f"there is no file {path}: say the path of a private key, or {AGENT}")
    if path.suffix == ".pub":
        raise UsageError(f"{path} is the public half: say the path of the private key")
    return text if text.startswith("~") else str(path.absolute())


def _one_of(known: Iterable[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise UsageError(f"there is no '{text}': say {', '.join(known)}")
        return text

    return read


def switches() -> dict[str, bool]:
    """The services that a person may choose, and whether a cluster has them by default."""
    found = {}
    for part in parts.every():
        told = yaml.safe_load((parts.ROLES / part.role / "meta/argument_specs.yml").read_text())
        usual = told["argument_specs"]["main"]["options"].get(f"{part.role}_enabled", {}).get("default")
        if isinstance(usual, bool):
            found[part.role] = usual
    return found


def _services(ask: Questions, given: str | None) -> dict[str, bool]:
    """The variables of services that are not as usual."""
    known = switches()

    def read(text: str) -> dict[str, bool]:
        wanted = set() if text == NONE else {one.strip() for one in text.split(",")}
        if unknown := sorted(wanted - {*known}):
            raise UsageError(f"there is no service '{unknown[0]}' to choose: say some of {', '.join(known)}, or {NONE}")
        return {f"{role}_enabled": role in wanted for role, usual in known.items() if usual != (role in wanted)}

    usual = ",".join(role for role, on in known.items() if on)
    return ask.answer(f"Services, of {', '.join(known)}, or {NONE}", read, usual, given)

"""Completes words in a shell after `regatta`: commands, also about hosts, their flags, and words that a flag takes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from invoke.parser.context import ParserContext

from regatta.errors import UsageError
from regatta.options.option import BENCH, RUN
from regatta.program import ABOUT_HOSTS

NAME = "completion"
WORDS = "words"
"""`regatta completion words ...` prints what may be typed where the last of these words is."""
SCRIPTS = {
    "bash": """_regatta() {
    local IFS=$'\\n'
    COMPREPLY=($(regatta completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _regatta regatta
""",
    "zsh": """#compdef regatta
_regatta() {
    local -a found
    found=("${(@f)$(regatta completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "$found" ]] && compadd -- $found || _files
}
compdef _regatta regatta
""",
    "fish": """complete -c regatta -a \
    '(regatta completion words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
""",
}


def said(words: Sequence[str]) -> str:
    """The script for a shell, or the candidates, one a line. UsageError for a shell that is not known."""
    if words and words[0] == WORDS:
        return "".join(f"{word}\n" for word in candidates(words[1:]))
    if len(words) == 1 and words[0] in SCRIPTS:
        return SCRIPTS[words[0]]
    raise UsageError(f"which shell? 'regatta completion {'|'.join(SCRIPTS)}' prints what completes words in it")


def candidates(words: Sequence[str]) -> list[str]:
    """The words that may be typed where the last one is, which may be begun."""
    *before, begun = words or [""]
    return sorted(word for word in _possible(before, begun) if word.startswith(begun))


def _possible(before: Sequence[str], begun: str) -> Sequence[str]:
    from regatta.tasks.namespace import namespace

    first = [NAME, *ABOUT_HOSTS, *namespace.tasks]
    if not before:
        return ["--help", "--list", "--version"] if begun[:1] == "-" else first
    if len(before) > 1 and before[0] == RUN:
        before = [f"{RUN}-{before[1]}", *before[2:]]
    command, last = before[0], before[-1]
    if command == "help":
        return first if len(before) == 1 else []
    if command == NAME:
        return list(SCRIPTS) if len(before) == 1 else []
    if command in ABOUT_HOSTS:
        return _about_hosts(command, last, begun)
    if command in namespace.tasks and begun[:1] == "-":
        context = ParserContext(command, args=namespace[command].get_arguments())
        return [*(flag for flag in context.flags if flag[:2] == "--"), *context.inverse_flags, "--help"]
    return _words(command, last) if command in namespace.tasks else _workloads(namespace.tasks, last)


def _workloads(tasks: Iterable[str], last: str) -> Sequence[str]:
    return [name.removeprefix(f"{RUN}-") for name in tasks if name.startswith(f"{RUN}-")] if last == RUN else []


def _words(command: str, last: str) -> Sequence[str]:
    """The plans of `bench`; behind a flag the words that it takes, where these are few."""
    from regatta.experiments import plan_file
    from regatta.frameworks import registry
    from regatta.options.declaration import OF_RUNS

    if command == last == BENCH:
        return plan_file.shipped()
    if last == "--framework":
        return registry.names()
    declared = {one.flag: one.kind for one in OF_RUNS.values()}
    return getattr(declared.get(last), "words", ()) or _of_card(command.removeprefix(f"{RUN}-"), last)


def _of_card(workload: str, last: str) -> Sequence[str]:
    from regatta.cards import card, discovery

    found = discovery.every(Path.cwd()).get(workload)
    offered = found.card.offered if found else {}
    return next((one.choices for name, one in offered.items() if card.flag(name) == last), ())


def _about_hosts(command: str, last: str, begun: str) -> Sequence[str]:
    from regatta.provisioning import flags

    own = {f"--{flag.name}": flag for flag in flags.of(command)}
    if last in own:
        return list(own[last].reading.get("choices", ()))
    return [*own, "--help"] if begun[:1] == "-" else []

"""Completes words in a shell after `regatta`: commands, also about hosts, their flags, and words that a flag takes."""

from collections.abc import Sequence

from invoke.parser.context import ParserContext

from regatta.errors import UsageError
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

    if not before:
        first = [NAME, *ABOUT_HOSTS, *namespace.tasks]
        return ["--help", "--list", "--version"] if begun[:1] == "-" else first
    command, last = before[0], before[-1]
    if command == NAME:
        return list(SCRIPTS) if len(before) == 1 else []
    if command in ABOUT_HOSTS:
        return _about_hosts(command, last, begun)
    if command in namespace.tasks and begun[:1] == "-":
        context = ParserContext(command, args=namespace[command].get_arguments())
        return [*(flag for flag in context.flags if flag[:2] == "--"), *context.inverse_flags, "--help"]
    return [name.removeprefix("run-") for name in namespace.tasks if name[:4] == "run-"] if last == "run" else []


def _about_hosts(command: str, last: str, begun: str) -> Sequence[str]:
    from regatta.provisioning import flags

    own = {f"--{flag.name}": flag for flag in flags.of(command)}
    if last in own:
        return list(own[last].reading.get("choices", ()))
    return [*own, "--help"] if begun[:1] == "-" else []

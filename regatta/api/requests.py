"""A script or a workload, made into requests for runs; what commands and programs share."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regatta.cards import discovery, project
from regatta.cards.card import Card, Value
from regatta.environment import requirements
from regatta.errors import LaunchError, UsageError
from regatta.frameworks import choice, plan, registry, table
from regatta.hosts.cluster import Cluster
from regatta.options import declaration, foreign
from regatta.options.declaration import CHECKPOINT, OF_RUNS, ComparisonOptions, RunOptions
from regatta.options.option import RUN, Option, from_table
from regatta.projects import packages, place
from regatta.release import tree
from regatta.run.request import Request
from regatta_protocol.cards import misfit

if TYPE_CHECKING:
    from regatta.experiments.invocation import Invocation

OF_CLUSTER = ("inventory", "nodes", "without", "skip_lost")
"""Options that belong to the cluster, and not to one of its runs."""
OF_SEVERAL = ("sweep",)
"""Options by which a command starts several runs: a program has loops."""
OTHER_PROGRAMS = "its variables are set by --env, and its packages come from the project's list"


def script(
    framework: str, script: str, arguments: Sequence[str], given: Mapping[str, Any], notes: Sequence[str] = ()
) -> Request:
    """A run of a script under a framework. `given`: options by name, before those of the project's `regatta.toml`.

    `script` is relative to the current folder, whose tree is synced. `notes` are kept in the record. Raises UsageError,
    LaunchError, CardError.
    """
    here = place.of(Path.cwd())
    full = _path(here.tree, script)
    source = tree.read(here.tree)
    _must_be_synced(source, str(full.relative_to(here.tree)))
    program = plan.Program.script(os.path.relpath(full, here.start), arguments)
    return _request(program, framework, here, source, given, notes)


def module(
    framework: str, name: str, arguments: Sequence[str], given: Mapping[str, Any], notes: Sequence[str] = ()
) -> Request:
    """A run of a module, as `python -m NAME` starts it; see `script`. UsageError where the tree has no such module."""
    if name.startswith(foreign.MODULES):
        raise UsageError(f"Regatta starts the ranks itself: leave out '-m {name}', and begin with the script")
    here = place.of(Path.cwd())
    source = tree.read(here.tree)
    _must_be_there(name, here)
    return _request(plan.Program.own_module(name, arguments), framework, here, source, given, notes)


def own(framework: str, name: str, label: str, given: Mapping[str, Any], keep: str) -> Request:
    """A run of a module of Regatta's own below `workloads.common`, in the tree around the current folder.

    `keep`: a folder that it keeps besides those of the project, or of `given`.
    """
    here = place.of(Path.cwd())
    there = (here.tree / f"{name.replace('.', '/')}.py").is_file()
    program = plan.Program(("-m", name), label, library=not there, any_node=True)
    made = _request(program, framework, here, tree.read(here.tree), given, ())
    kept = tuple(dict.fromkeys((*made.options.keep, here.named(keep, here.start))))
    return replace(made, options=replace(made.options, keep=kept))


def _request(
    program: plan.Program,
    framework: str,
    here: place.Place,
    source: tree.Tree,
    given: Mapping[str, Any],
    notes: Sequence[str],
) -> Request:
    options = _options(here, _checked(OF_RUNS, given))
    if options.restarts and not options.elastic and registry.find(framework).driver:
        raise UsageError(f"--restarts needs --elastic: what a script under {framework} starts again is its own affair")
    return Request(
        program,
        framework,
        here.tree,
        options,
        source=source,
        notes=tuple(notes),
        project=here.project,
        start=here.start,
    )


def _options(here: place.Place, given: Mapping[str, Any]) -> RunOptions:
    """The options of a run. Paths are from the project where its file names them, else from the current directory."""
    of_project = _from_tree(project.read(here.project).options, here, here.project)
    return declaration.said(RunOptions, of_project, _from_tree(given, here, Path.cwd()))


def _from_tree(options: Mapping[str, Any], here: place.Place, start: Path) -> dict[str, Any]:
    """Options whose files and folders of the run are named from the tree.

    A pattern also stays as it is, for files in the run's shared folder.
    """
    keep, fetch = (tuple(here.named(path, start) for path in options.get(name) or ()) for name in ("keep", "fetch"))
    both = tuple(dict.fromkeys((*fetch, *(options.get("fetch") or ()))))
    return {**options, **({"keep": keep} if keep else {}), **({"fetch": both} if both else {})}


@dataclass(frozen=True)
class Comparison:
    """A workload as it is asked for: `asked` of its program, `request` of each run, `said` of how they are compared."""

    asked: "Invocation"
    request: Request
    said: ComparisonOptions

    def frameworks(self, cluster: Cluster, say: Callable[[str], None]) -> tuple[str, ...]:
        """Those that it is to run under on a cluster; `say` gets a line about each that cannot do it. UsageError."""
        card, wanted = self.asked.workload.card, str(self.said.framework)
        chosen = choice.chosen(wanted, card.frameworks, cluster)
        chosen = able(self.asked, chosen, say if wanted == table.ALL else None)
        choice.check_launcher(self.request.options.launcher, chosen)
        if wanted == table.BOTH and not self.said.no_single:
            alone = [name for name in card.frameworks if registry.of_run(name).single]
            return (*alone, *chosen)
        return chosen


def one(frameworks: Sequence[str]) -> str:
    """The framework of a single run, of those that a card has, where none is named."""
    return table.USUAL if table.USUAL in frameworks else frameworks[0]


def workload(name: str, given: Mapping[str, Any], usual: Callable[[Sequence[str]], str] = table.usual) -> Comparison:
    """A workload of Regatta's, or of the project around this folder. UsageError, CardError.

    `given`: its card's options, those of runs and of their comparison, by name. `usual`: the word for frameworks where
    none is given.
    """
    from regatta.experiments.invocation import Invocation

    found = discovery.find(name, Path.cwd())
    card = found.card
    offered = {
        *card.offered,
        *([card.input.option] if card.input else []),
        *([CHECKPOINT.name] if card.checkpoints else []),
    }
    own = {name: value for name, value in given.items() if name in offered}
    known = declaration.of(RUN, checkpoints=card.checkpoints)
    read = _checked(known, {name: value for name, value in given.items() if name not in own}, more=offered)
    here = place.of(found.root, found.root)
    options = _options(here, read)
    asked = Invocation(
        found,
        {name: value for name in card.offered if (value := _value(card, name, own.get(name))) is not None},
        _text(own.get(card.input.option)) if card.input else None,
        _text(own.get(CHECKPOINT.name)),
        options.restarts,
        options.elastic,
    )
    request = Request(
        plan.Program((), found.name), card.frameworks[0], here.tree, options, project=here.project, start=here.start
    )
    said = declaration.said(ComparisonOptions, {"framework": usual(card.frameworks)}, read)
    return Comparison(asked, request, said)


def able(asked: "Invocation", frameworks: tuple[str, ...], say: Callable[[str], None] | None) -> tuple[str, ...]:
    """The frameworks that can do what is asked; `say` gets a line about each of the others. UsageError without it, and
    where none is left."""
    lacking = {name: wrong for name in frameworks if (wrong := asked.unsupported(name))}
    if lacking and (say is None or len(lacking) == len(frameworks)):
        raise UsageError(next(iter(lacking.values())))
    for name, wrong in lacking.items():
        if say:
            say(f"without {name}: {wrong}")
    return tuple(name for name in frameworks if name not in lacking)


def _value(card: Card, name: str, given: object) -> Value | None:
    if given is None or given is False:
        return None
    value = str(given) if isinstance(given, Path) else given
    if wrong := misfit(card.offered[name], value):
        raise UsageError(f"{name} {wrong}")
    return value  # type: ignore[return-value]


def _text(given: object) -> str | None:
    return None if given is None else str(given)


def _checked(options: Mapping[str, Option], given: Mapping[str, Any], more: Collection[str] = ()) -> dict[str, Any]:
    """Options by name. UsageError for one that there is not, and values that they cannot have."""
    known = {name: one for name, one in options.items() if name not in (*OF_CLUSTER, *OF_SEVERAL)}
    plain = {name: _plain(value) for name, value in given.items() if value is not None}
    if wrong := [name for name in plain if name not in known]:
        raise UsageError(f"there is no option {wrong[0]} of a run: there are {', '.join((*known, *more))}")
    faults: list[str] = []
    read = from_table(known, plain, "", faults)
    if faults:
        raise UsageError("; ".join(faults))
    return read


def _plain(value: object) -> object:
    """As a file would have it."""
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _path(root: Path, script: str) -> Path:
    """A script's whole path, without links. UsageError where it is missing, or outside of the tree that is synced."""
    path = Path(script)
    full = (path if path.is_absolute() else Path.cwd() / path).resolve()
    if not full.is_file():
        if script in foreign.LAUNCHERS:
            raise UsageError(
                f"Regatta starts Python and the ranks itself: leave out '{script}', and begin with the script"
            )
        if script in foreign.SHELLS:
            raise UsageError(f"{script} is no Python: name the script that it starts; {OTHER_PROGRAMS}")
        raise UsageError(f"there is no script {script} in {Path.cwd()}: {_meant(path)}")
    if full.suffix == ".ipynb":
        raise UsageError(
            f"{script} is a notebook: make a script of it by 'jupyter nbconvert --to script {script}', and name that"
        )
    if full.suffix == ".sh" or (full.suffix != ".py" and _no_python(full)):
        raise UsageError(f"{script} is no Python: name the script that it starts; {OTHER_PROGRAMS}")
    if not full.is_relative_to(root):
        raise UsageError(f"{full} is outside {root}, the tree that is synced; run from the folder it is in")
    return full


def _meant(path: Path) -> str:
    """What else a person may have meant by a script that is no file."""
    near, module = Path(f"{path}.py"), path.as_posix().strip("/").replace("/", ".")
    if near.is_file():
        return f"did you mean {near}?"
    if (path / "__main__.py").is_file() or Path(*module.split(".")).with_suffix(".py").is_file():
        return f"did you mean the module, -m {module}?"
    return "it is a folder: name a script in it" if path.is_dir() else "give its path from this folder"


def _no_python(file: Path) -> bool:
    """Whether it is a program for the processor, or names another interpreter than Python."""
    with file.open("rb") as opened:
        first = opened.readline(128)
    return first.startswith(b"\x7fELF") or (first.startswith(b"#!") and b"python" not in first)


def _must_be_there(name: str, here: place.Place) -> None:
    """UsageError where no folder from which the project imports has this module, but has the package that it is in."""
    wanted = requirements.of(requirements.Requirements(), here.project)
    named = tuple(here.tree / one.path for one in wanted.own) if wanted else ()
    imported = (here.tree / folder for folder in packages.folders(here.tree, here.project, named))
    folders = [*dict.fromkeys((here.start, here.tree, *imported))]
    parts = name.split(".")
    there = any((at := folder.joinpath(*parts)).with_suffix(".py").is_file() or at.is_dir() for folder in folders)
    ours = any((at := folder / parts[0]).is_dir() or at.with_suffix(".py").is_file() for folder in folders)
    if there or (not ours and len(parts) > 1):
        return
    if (here.start / name).is_file() and name.endswith(".py"):
        module = name.removesuffix(".py").replace("/", ".")
        raise UsageError(f"-m takes the name of a module, not a path: -m {module}, or {name} without -m")
    looked = ", ".join(str(folder) for folder in folders)
    raise UsageError(f"there is no module {name}: looked in {looked}. Name it as 'python -m' does from one of these")


def _must_be_synced(source: tree.Tree, script: str) -> None:
    """LaunchError where the script is not synced: an ignore rule leaves it out, or it may be a secret."""
    if script in {entry[0] for entry in source.entries}:
        return
    if reason := dict(source.left).get(script):
        raise LaunchError(f"{script} is not synced ({reason}):\n" + "\n".join(source.notes))
    raise LaunchError(f"{script} is ignored by git, so it is not synced: add '!/{script}' to {tree.IGNORE_FILE}")

"""Steps of provisioning on the controller, called by the roles: `python -m regatta.provisioning STEP ...`."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from regatta.errors import RegattaError
from regatta.hosts import sources
from regatta.provisioning import (
    access,
    archive,
    bundling,
    hadoop,
    locks,
    relay,
    secrets,
    spark,
    torchlock,
    wheels,
)
from regatta.provisioning.bundle import Archive
from regatta.terminal import screen


def main(arguments: list[str] | None = None) -> int:
    """Run one step; prints JSON. A problem is one message on standard error and exit code 1 or 2."""
    screen.install()
    options = _parser().parse_args(arguments)
    try:
        print(json.dumps(_STEPS[options.step](options)))
    except RegattaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _secrets(options: argparse.Namespace) -> object:
    work = secrets.ensure
    if options.remove:
        work = secrets.remove
    elif options.rotate:
        work = secrets.rotate
    elif options.token and options.look:
        return {"changed": not (secrets.folder(options.inventory_dir) / options.token).is_file()}
    elif options.token:
        return {"changed": secrets.ensure_token(options.inventory_dir, options.token)}
    elif options.look:
        work = secrets.missing
    return {"changed": work(options.inventory_dir)}


def _reasons(_: argparse.Namespace) -> object:
    return {"reasons": access.reasons(json.load(sys.stdin))}


def _login(options: argparse.Namespace) -> object:
    access.new_login(options.inventory, options.host)
    return {"changed": False}


def _ways(options: argparse.Namespace) -> object:
    return {"problems": access.problems(options.inventory, json.load(sys.stdin))}


def _send(options: argparse.Namespace) -> object:
    archive.send(options.inventory, options.host, options.source, options.target)
    return {"changed": True}


def _stage(options: argparse.Namespace) -> object:
    warnings: list[str] = []
    ends = (options.source, options.target)
    keepers = relay.stage(options.inventory, options.hosts.split(","), *ends, warnings.append)
    return {"changed": bool(keepers), "keepers": keepers, "warnings": warnings}


def _deliver(options: argparse.Namespace) -> object:
    warnings: list[str] = []
    relay.send(options.inventory, options.host, options.source, options.target, options.keeper, warnings.append)
    return {"changed": True, "warnings": warnings}


def _unstage(options: argparse.Namespace) -> object:
    return {"changed": relay.unstage(options.inventory)}


def _bundle(options: argparse.Namespace) -> object:
    given = {name: value for name, value in vars(options).items() if name in bundling.Order.__annotations__}
    target = locks.Target(options.python, options.machine, options.glibc, options.torch_build)
    given |= {"torch_lock": _sources(options).of(target), "projects": options.project}
    archives = [json.loads(one) for one in options.archive]
    given["archives"] = [(Archive(**one), Path(path)) for one in archives if (path := one.pop("path"))]
    return {"changed": True, "lines": bundling.make(bundling.Order(**given))}


def _fetch(options: argparse.Namespace) -> object:
    archive.fetch(options.inventory, options.host, options.source, options.target, options.sha256)
    return {"changed": True}


def _hadoop(options: argparse.Namespace) -> object:
    return {"path": str(hadoop.fetch(options.tarball, options.sha512))}


def _gate(_: argparse.Namespace) -> object:
    return {"program": sources.gate()}


def _spark(options: argparse.Namespace) -> object:
    spark.check_properties(options.properties)
    if options.look:
        there = not options.secret or (secrets.folder(options.inventory_dir) / options.secret).is_file()
        return {"changed": not there, "key": spark.key_of()}
    made = bool(options.secret) and secrets.ensure_token(options.inventory_dir, options.secret)
    return {"changed": made, **asdict(spark.make()), "version": spark.version()}


def _environment(options: argparse.Namespace) -> object:
    target = locks.Target(options.python, options.machine, options.glibc, options.torch_build)
    warnings: list[str] = []
    chosen = torchlock.read(_sources(options), target, warnings.append, keep=not options.look)
    plan = archive.make_plan(chosen, target)
    if options.step == "wheels":
        wheels.make(Path(plan.wheels), chosen, target, options.torch_index)
    return {**json.loads(archive.as_json(plan)), "warnings": warnings}


def _sources(options: argparse.Namespace) -> torchlock.Sources:
    torch, own = (Path(value) if value else None for value in (options.torch_lock, options.own))
    return torchlock.Sources(options.lock, torch, own, options.torch_index)


_STEPS = {
    "secrets": _secrets,
    "reasons": _reasons,
    "login": _login,
    "ways": _ways,
    "send": _send,
    "stage": _stage,
    "deliver": _deliver,
    "unstage": _unstage,
    "bundle": _bundle,
    "fetch": _fetch,
    "gate": _gate,
    "hadoop": _hadoop,
    "spark": _spark,
    "plan": _environment,
    "wheels": _environment,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m regatta.provisioning", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    for name, text in (("plan", "which environment, and what the cache has"), ("wheels", "make the wheelhouse")):
        step = steps.add_parser(name, help=text)
        step.add_argument("--lock", type=Path, required=True)
        step.add_argument("--python", required=True, help="X.Y.Z of the nodes")
        step.add_argument("--machine", required=True, help="uname -m of the nodes")
        step.add_argument("--glibc", required=True)
        step.add_argument("--torch-build", default="cpu", help="local label of torch's build, or pypi")
        step.add_argument("--torch-lock", default="", help="lock of that build; '': the lock has all")
        step.add_argument("--look", action="store_true", help="keep no lock that is made")
        _own(step)
    step = steps.add_parser("stage", help="cache to the hosts that pass it on to others")
    step.add_argument("--inventory", required=True)
    step.add_argument("--hosts", required=True, help="who will need it, with commas")
    step.add_argument("source", type=Path)
    step.add_argument("target")
    step = steps.add_parser("bundle", help="Debian packages, and all that was downloaded, into one archive")
    for name in ("suite", "python", "machine", "glibc", "torch-lock", "torch-build", "packages"):
        step.add_argument(f"--{name}", required=True)
    _own(step)
    step.add_argument(
        "--archive", action="append", default=[], help="a service's, as JSON: `path`, fields of `Archive`"
    )
    for name in ("lock", "wheels", "controller"):
        step.add_argument(f"--{name}", required=True, type=Path)
    step.add_argument("--project", action="append", default=[], type=Path, help="whose packages go along")
    step.add_argument("out", type=Path)
    tried = "try every way to hosts; {host: port of its sshd} comes on standard input"
    for name, text in (("unstage", "remove what 'stage' left with them"), ("ways", tried)):
        steps.add_parser(name, help=text).add_argument("--inventory", required=True)
    copies = (("send", "cache to node"), ("deliver", "cache to node, as it was staged"), ("fetch", "node to cache"))
    for name, text in copies:
        step = steps.add_parser(name, help=text)
        step.add_argument("--inventory", required=True)
        step.add_argument("--host", required=True)
        step.add_argument("--sha256", default="")
        step.add_argument("--keeper", default="", help="who has it staged for this node")
        step.add_argument("source", type=str if name == "fetch" else Path)
        step.add_argument("target", type=Path if name == "fetch" else str)
    step = steps.add_parser("login", help="log in to a node again")
    step.add_argument("--inventory", required=True)
    step.add_argument("--host", required=True)
    steps.add_parser("reasons", help="words for what hosts said or did not say, which comes as JSON on standard input")
    steps.add_parser("gate", help="the program that answers members on hosts")
    step = steps.add_parser("hadoop", help="download Hadoop, or look at the tarball that is given")
    step.add_argument("--sha512", required=True)
    step.add_argument("tarball")
    step = steps.add_parser("spark", help="make Spark's secret and its archive where they are missing")
    step.add_argument("inventory_dir", type=Path)
    step.add_argument("--secret", default="", help="name of its file; '': no secret of Regatta's is needed")
    step.add_argument("--look", action="store_true", help="only say which archive, and whether the secret is missing")
    step.add_argument("--properties", default="", help="file of the user's own with secret properties of drivers")
    _of_secrets(
        steps.add_parser("secrets", help="make the cluster's keys and the services' tokens where they are missing")
    )
    return parser


def _of_secrets(step: argparse.ArgumentParser) -> None:
    step.add_argument("inventory_dir", type=Path)
    step.add_argument("--look", action="store_true", help="only say whether something is missing")
    step.add_argument("--token", default="", help="only one of a service which not every cluster has: its file's name")
    step.add_argument("--remove", action="store_true")
    step.add_argument("--rotate", action="store_true", help="replace all of them")


def _own(step: argparse.ArgumentParser) -> None:
    step.add_argument("--own", default="", help="folder of the cluster's own locks of torch's builds")
    step.add_argument("--torch-index", default="https://download.pytorch.org/whl/cpu")


if __name__ == "__main__":
    raise SystemExit(main())

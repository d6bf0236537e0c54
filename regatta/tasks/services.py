"""Tasks about the cluster and its services: up, down, status, top, probe, dashboard, spark-history.

All that a task needs is imported in it, see `regatta.tasks.runs`.
"""

import contextlib
import functools
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from invoke.context import Context

from regatta.errors import RegattaError, RunError
from regatta.hosts import inventories
from regatta.hosts.remote import Remote
from regatta.program import hint
from regatta.tasks.common import JSON_HELP, seconds, task, whole
from regatta.tasks.launching import opened
from regatta.terminal import screen
from regatta.terminal.table import print_table
from regatta_protocol.operations.services import Act, CallFramework
from regatta_protocol.states import State

if TYPE_CHECKING:
    from regatta.run.services import NodeStatus
    from regatta.terminal.top import Watch

HEADINGS = ("node", "address", "services")
FACTS = ("cores", "load", "free memory", "python")
FIRST_SECONDS = 15.0
KEEP_SECONDS = 2.0
HISTORY = "regatta-spark-history.service"


@task()
def up(c: Context, inventory: str | None = None) -> None:
    """Start the services; wait until every node has joined."""
    from regatta.run import services

    remote = Remote(inventories.load(inventory))
    if remote.cluster.local:
        print("inventory/local has no services: each Ray run starts and stops its own Ray")
        return
    began = time.monotonic()
    services.act(remote, "start")
    if datanodes := services.wait_for_hdfs(remote):
        print(f"{remote.cluster.name}: HDFS is up on {datanodes} node(s) after {time.monotonic() - began:.1f} s")
    for framework in services.served(remote.cluster):
        joined = services.wait_until_joined(remote, framework)
        after = time.monotonic() - began
        print(f"{remote.cluster.name}: {framework.service} is up on {joined} node(s) after {after:.1f} s")
    for line in services.foreign(remote.cluster):
        print(line)


@task(help={"force": "cancel the runs in progress first"})
def down(c: Context, inventory: str | None = None, force: bool = False) -> None:
    """Stop the services (not while runs are in progress)."""
    from regatta.run import catalogue, services

    failed: dict[str, Exception] = {}
    with opened(inventory) as cluster:
        remote = cluster.remote
        going = [info for info in cluster.runs(failed) if info.state is State.RUNNING]
        if going and not force:
            names, one, every = ", ".join(info.run for info in going), hint("cancel", "RUN"), hint("down --force")
            raise RunError(f"still running: {names}. Cancel them ({one}), or all: {every}")
        for info in going:
            catalogue.cancel(remote, info)
            print(f"{info.run}: cancelled")
        if remote.cluster.local:
            print("inventory/local has no services to stop")
            return
        if failed:
            raise RegattaError("; ".join(str(error) for error in failed.values()))
        states = services.act(remote, "stop")
        print(f"{remote.cluster.name}: services are down on {', '.join(states)}")


@task(help={"json": JSON_HELP})
def status(c: Context, inventory: str | None = None, json: bool = False) -> None:
    """Show nodes, services, load, versions, runs in progress."""
    from regatta.run import services

    with opened(inventory) as cluster:
        found = cluster.status()
    going = [info.run for info in found.runs]
    if json:
        from regatta.tasks import shown

        known = [shown.Node(item.node.name, item.error, item.units, item.facts) for item in found.nodes]
        joined = {one.name: said for one, said in found.members.items()}
        shown.say(shown.Status(known, going, found.monitoring, joined))
    else:
        print_table(_status_rows(found.nodes, {one.service: said for one, said in found.members.items()}))
        if lacking := _without_limits(found.nodes):
            print(lacking)
        if found.monitoring.get("installed"):
            print(_monitoring_text(found.monitoring))
        for line in services.foreign(cluster.remote.cluster):
            print(line)
        print(f"runs in progress: {', '.join(going) or 'none'}")
    if found.problems:
        raise RegattaError("\n       ".join(found.problems))


def _without_limits(nodes: "list[NodeStatus]") -> str:
    """Which hosts cannot limit what runs take: some containers may not write to their cgroups."""
    lacking: dict[str, list[str]] = {}
    for item in nodes:
        if what := item.facts.get("without_limits"):
            lacking.setdefault(" and ".join(what), []).append(item.node.name)
    found = "; ".join(f"of {what} on {', '.join(names)}" for what, names in lacking.items())
    return (
        f"runs have no limit {found}: these hosts may not write to their cgroups, as is usual for containers"
        if found
        else ""
    )


def _monitoring_text(found: dict[str, Any]) -> str:
    """`monitoring: 11 of 12 targets answer; not ray of node3: ...`."""
    if found["problem"]:
        return f"monitoring: {found['problem']}; 'journalctl -u regatta-prometheus' on the head"
    down = found["down"]
    answer = f"monitoring: {found['up']} of {found['up'] + len(down)} targets answer"
    return f"{answer}; not {'; '.join(down)}" if down else answer


def _status_rows(nodes: "list[NodeStatus]", members: Mapping[str, list[str] | str]) -> list[tuple[str, ...]]:
    """`members`: of each service that takes runs, the addresses that are in it, or why it cannot be asked."""
    from regatta.frameworks import registry

    packages = registry.packages()
    has_gpus = any(item.facts.get("gpus") for item in nodes)
    more = ("GPUs",) if has_gpus else ()
    rows: list[tuple[str, ...]] = [(*HEADINGS, *(f"in {one}" for one in members), *FACTS, *more, *packages)]
    for item in nodes:
        if item.error:
            rows.append(
                (item.node.name, item.node.cluster_address, item.trouble, *["-"] * (len(rows[0]) - len(HEADINGS)))
            )
            continue
        facts, versions = item.facts, item.facts["versions"]
        units = ", ".join(_by_state(item.units))
        rows.append(
            (
                item.node.name,
                item.node.cluster_address,
                units or ("none needed" if item.node.local else "not provisioned"),
                *(_joined(found, item.node.cluster_address) for found in members.values()),
                str(facts["cores"]),
                f"{facts['load']:.2f}",
                f"{(facts['available_bytes'] or 0) / 2**30:.1f} of {(facts['ram_bytes'] or 0) / 2**30:.1f} GiB",
                str(versions["python"] or "-"),
                *((_gpus_text(facts.get("gpus") or {}),) if has_gpus else ()),
                *(str(versions[name] or "-") for name in packages),
            )
        )
    return rows


def _gpus_text(told: Mapping[str, Any]) -> str:
    """`2 x NVIDIA A100-SXM4-40GB 40 GiB, driver 535.216.01`; or why none can be used."""
    if not told:
        return "none"
    if told["problem"]:
        return f"UNUSABLE: {told['problem']}"
    sizes = [f" {card['bytes'] / 2**30:.0f} GiB" if card["bytes"] else "" for card in told["cards"]]
    kinds = Counter(f"{card['name']}{size}" for card, size in zip(told["cards"], sizes, strict=True))
    shown = ", ".join(f"{number} x {kind}" if number > 1 else kind for kind, number in kinds.items())
    sick = f"; SICK: {told['sick']}" if told.get("sick") else ""
    return f"{shown or 'none'}, driver {told['driver']}{sick}"


def _joined(members: list[str] | str, address: str) -> str:
    return {0: "NO", 1: "yes"}.get(members.count(address), "twice") if isinstance(members, list) else "-"


@task(
    help={
        "interval": "seconds between two looks (default 1)",
        "once": "look once and end",
        "json": "look once, and print it for programs",
    }
)
def top(
    c: Context, inventory: str | None = None, interval: str | None = None, once: bool = False, json: bool = False
) -> None:
    """Show what all nodes and the ranks of all runs do right now, until Ctrl-C."""
    from regatta.terminal import top as watching

    every = seconds("interval", interval) or watching.INTERVAL_SECONDS
    remote = Remote(inventories.load(inventory))
    with contextlib.suppress(KeyboardInterrupt), watching.Watch(remote, every) as watch:
        watch.wait(FIRST_SECONDS + every)
        if json:
            from regatta.tasks import shown

            shown.say(shown.top(watch.nodes()))
        elif once or not sys.stdout.isatty():
            _print_top(remote, watch)
            while not once:
                time.sleep(every)
                _print_top(remote, watch)
        else:
            _draw_top(remote, watch, every)


def _print_top(remote: Remote, watch: "Watch") -> None:
    from regatta.terminal import top as watching

    nodes = watch.nodes()
    print(_top_title(remote), watching.hdfs_line(nodes), sep="\n")
    print_table(watching.node_rows(nodes, screen.width(sys.stdout)))
    for rows in (watching.gpu_rows(nodes), watching.run_rows(nodes, _has_driver)):
        if len(rows) > 1:
            print()
            print_table(rows)
    print(*watching.quiet_lines(nodes), sep="\n", flush=True)


def _draw_top(remote: Remote, watch: "Watch", every: float) -> None:
    from rich.live import Live

    from regatta.terminal import top as watching

    with Live(console=screen.painter(sys.stdout), screen=True, auto_refresh=False) as live:
        while True:
            drawn = watching.picture(_top_title(remote), watch.nodes(), _has_driver, live.console.width)
            live.update(drawn, refresh=True)
            time.sleep(every)


def _has_driver(framework: str) -> bool:
    from regatta.frameworks import registry

    return registry.of_run(framework).driver


def _top_title(remote: Remote) -> str:
    return f"{remote.cluster.name}, {len(remote.cluster.nodes)} node(s), {time.strftime('%H:%M:%S')}"


def _by_state(units: dict[str, str]) -> list[str]:
    """`hdfs-datanode, ray-worker active`: the units of each state together."""
    states: dict[str, list[str]] = {}
    for unit, state in units.items():
        states.setdefault(state, []).append(unit.removeprefix("regatta-").removesuffix(".service"))
    return [f"{', '.join(names)} {state}" for state, names in states.items()]


@task(help={"port": "local port of Ray's page (default 8265, or a free one)", "open": "open the pages in a browser"})
def dashboard(c: Context, inventory: str | None = None, port: str | None = None, open: bool = False) -> None:
    """Reach the web pages of the cluster's services through SSH, until Ctrl-C."""
    import webbrowser

    from regatta.hosts import tunnels
    from regatta.run import pages, services

    remote = Remote(inventories.load(inventory))
    if remote.cluster.local:
        raise RegattaError(
            "inventory/local has no dashboard, as each Ray run there has its own Ray without one: choose a cluster "
            "with --inventory inventory/NAME"
        )
    say = functools.partial(print, flush=True)
    with contextlib.suppress(KeyboardInterrupt), tunnels.Tunnels(remote.cluster, remote.cluster.head) as opened:
        found = pages.OfCluster(remote, opened, whole("port", port), say)
        for line in services.foreign(remote.cluster):
            say(line)
        found.turn()
        for address in found.addresses() if open else ():
            webbrowser.open(address)
        opened.keep(KEEP_SECONDS, say, found.again)


@task(help={"json": JSON_HELP})
def probe(c: Context, inventory: str | None = None, json: bool = False) -> None:
    """Measure processor, memory, disk and network of each host (some 20 s); name those that are slower."""
    from regatta.run import probe as probing

    remote = Remote(inventories.load(inventory))
    found = probing.probe(remote, functools.partial(print, file=sys.stderr, flush=True))
    if json:
        from regatta.tasks import shown

        hosts = [shown.SlowHost(**vars(one)) for one in found.slow]
        shown.say(shown.Probe(remote.cluster.name, found.figures, hosts, found.busy))
        return
    print_table([*probing.rows(found.figures, [node.name for node in remote.cluster.nodes])])
    for line in probing.words(found):
        print(line)


@task(name="spark-history", help={"port": "local port (default a free one)"})
def spark_history(c: Context, inventory: str | None = None, port: str | None = None) -> None:
    """Show what past jobs of Spark did, as pages of its history server on the head, until Ctrl-C."""
    from regatta.hosts import tunnels
    from regatta.run import pages

    remote = Remote(inventories.load(inventory))
    head, local = remote.cluster.head, whole("port", port) or 0
    if remote.cluster.local:
        raise RegattaError("inventory/local has no Spark: choose a cluster with --inventory inventory/NAME")
    told = remote.call(head, CallFramework("spark.master.history"), timeout=30)
    try:
        with contextlib.suppress(KeyboardInterrupt), tunnels.Tunnels(remote.cluster, head) as opened:
            url = f"http://127.0.0.1:{opened.open(told['port'], local_port=local)}/"
            page = pages.Page("Spark's history", lambda: url, pages.answering)

            def say(text: str) -> None:
                print(text, flush=True)

            opened.keep(KEEP_SECONDS, say, lambda: pages.turn([page], say))
    finally:
        if told["started"]:
            remote.call(head, Act("stop", (HISTORY,)), timeout=30)

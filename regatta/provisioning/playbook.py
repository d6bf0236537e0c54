"""One playbook on one inventory: the lock, the SSH configuration, the package proxy, Ansible, the time."""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from regatta import paths
from regatta.errors import RegattaError
from regatta.hosts import openssh, passphrases, sshconfig, sudo
from regatta.hosts.cluster import Cluster
from regatta.node import aptcache, layout
from regatta.program import setup
from regatta.provisioning import adopting, aptproxy, aptrelay, bundleapt, bundling, definition, progress, relay, steps
from regatta.provisioning import secrets as own_secrets
from regatta.records import bare
from regatta.terminal import screen

APT_PORT = 28142
_GRACE = 10.0
_FORKS = 32


class ProvisionError(RegattaError):
    """Provisioning cannot start."""


def foresee(
    book: str, inventory: Path, cluster: Cluster, extra: Sequence[str], bundle: Path | None = None
) -> tuple[int, str]:
    """As `play` that only checks, without showing it: (exit code, its steps). It keeps which units would restart."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        code = play(book, inventory, cluster, ["--check", *extra], bundle, said)
        said.seek(0)
        return code, said.read()


def restarts(cluster: Cluster) -> dict[str, list[str]]:
    """{node: units of Ray and HDFS} that would restart, by the last check of this inventory; empty before one."""
    try:
        return dict(json.loads(_restarts_file(cluster).read_text()))
    except (OSError, ValueError):
        return {}


def _restarts_file(cluster: Cluster) -> Path:
    control = sshconfig.control_prefix(cluster.folder, accept_new=True)
    return control.with_name(f"{control.name}.restarts")


def play(
    book: str,
    inventory: Path,
    cluster: Cluster,
    extra: Sequence[str],
    bundle: Path | None = None,
    output: TextIO | None = None,
) -> int:
    """Run `ansible/playbooks/<book>.yml`; returns Ansible's exit code. Two at once on an inventory are refused.

    With a bundle nothing is downloaded: all comes from there. A person is shown its steps, or with `--verbose` what
    Ansible says, which a log has in any case. With `output` the steps go there.
    """
    begin = time.monotonic()
    verbose = output is None and any(re.fullmatch("--verbose|-v+", word) for word in extra)
    check = "--check" in extra
    what = f"{book} (check only)" if check else book
    with alone(cluster):
        log = steps.log(cluster.folder, Path(f"{book}-check" if check else book).name)
        if not output:
            print(f"{what} of {cluster.name}: {len(cluster.nodes)} host(s); {steps.named(log)}", flush=True)
        _restarts_file(cluster).unlink(missing_ok=True)
        adopted = adopting.adopt(cluster, inventory) if book == "provision" else adopting.Adopted()
        opened = bundling.open_(bundle) if bundle else None
        packages = opened.folder / bundleapt.FOLDER if opened else None
        new = book != "teardown"
        config = sshconfig.write(cluster.folder, cluster.nodes, accept_new=new)
        sshconfig.write(cluster.folder, cluster.nodes, accept_new=False)
        control = sshconfig.control_prefix(cluster.folder, accept_new=new)
        for node in cluster.nodes:
            openssh.checked(config, node)
        passphrases.ask(config, cluster.nodes)
        socket, secret = control.with_name(f"{control.name}.apt"), secrets.token_hex(24)
        with contextlib.ExitStack() as stack:
            proxy = stack.enter_context(aptproxy.serving(socket, paths.cache_dir() / "apt", secret, packages))
            stack.enter_context(_closing(control))
            if book == "provision":
                stack.enter_context(aptrelay.serving(cluster, config, socket, secret))
            transfers = stack.enter_context(progress.Transfers(lambda: proxy.sent))
            env = {
                **environment(config, proxy, aptrelay.proxies(cluster, secret)),
                **(opened.environment if opened else {}),
                **_told(cluster, adopted),
                progress.FOLDER: str(transfers.folder),
            }
            words = [*(word for word in extra if word != "--verbose"), *(opened.words if opened else ())]
            well = "ok" if book == "verify" else "unchanged"
            shown = None if verbose else steps.Steps(output, check, well=well, transfers=transfers)
            code = _ansible(command(book, inventory, len(cluster.nodes), words), env, log, shown)
            if book == "provision" and not check:
                _settle(code, inventory, cluster, adopted, output)
    seconds = time.monotonic() - begin
    if adopted.bare and not (code or check):
        bare.keep(cluster.name, seconds)
    if code:
        print(steps.named(log), file=output, flush=True)
    if output:
        return code
    print(f"{what} of {cluster.name}: {'done' if code == 0 else 'FAILED'} after {seconds:.1f} s", flush=True)
    return code


def _told(cluster: Cluster, adopted: adopting.Adopted) -> dict[str, str]:
    """Variables that tell roles what the controller knows of a cluster."""
    accounts = adopted.kept.accounts if adopted.kept else ()
    return {
        "REGATTA_RESTARTS": str(_restarts_file(cluster)),
        own_secrets.UNKNOWN: adopted.unknown,
        "REGATTA_ACCOUNTS": " ".join(accounts),
    }


def _settle(code: int, inventory: Path, cluster: Cluster, adopted: adopting.Adopted, output: TextIO | None) -> None:
    """Note what provisioning has made of a cluster; after a failure clear what relays keep."""
    if code:
        with contextlib.suppress(RegattaError):  # a relay that is gone; the next provisioning clears it
            relay.unstage(str(inventory))
        return
    own_secrets.rotated(cluster.folder)
    for line in definition.keep(cluster, inventory, adopted.kept):
        print(line, file=output, flush=True)


def command(book: str, inventory: Path, nodes: int, extra: Sequence[str]) -> list[str]:
    """The ansible-playbook of this environment, all nodes at a time: they meet in the all-reduce of verify."""
    program = Path(sys.executable).parent / "ansible-playbook"
    forks = f"--forks={max(_FORKS, nodes)}"
    return [str(program), "-i", str(inventory), forks, *extra, str(paths.PROJECT / "ansible/playbooks" / f"{book}.yml")]


def environment(config: Path, proxy: aptproxy.Server, relays: Mapping[str, str]) -> dict[str, str]:
    """Ansible's settings; every SSH connection obeys `config`, a jump host's too, and brings the package proxy.

    `relays` are the proxies that nodes (by name) try first.
    """
    forward = f"RemoteForward=127.0.0.1:{APT_PORT} {proxy.server_address!s}"
    return os.environ | {
        "ANSIBLE_CONFIG": str(paths.PROJECT / "ansible/ansible.cfg"),
        "ANSIBLE_SSH_ARGS": shlex.join(["-F", str(config), "-o", forward]),
        "REGATTA_APT_PROXY": f"http://{aptcache.USER}:{proxy.secret}@127.0.0.1:{APT_PORT}",
        "REGATTA_APT_SOURCES": str(proxy.named),
        "REGATTA_APT_RELAYS": json.dumps(dict(relays)),
        "REGATTA_LAYOUT": str(layout.NUMBER),
        **sudo.environment(),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.PROJECT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def alone(cluster: Cluster) -> Iterator[None]:
    """Hold the inventory's lock, or say that another process has it."""
    path = cluster.folder / ".provision.lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProvisionError(
                f"another provision, verify or teardown of {cluster.name} is running; wait until it has ended"
            ) from None
        yield


def _ansible(words: Sequence[str], env: dict[str, str], log: Path, shown: steps.Steps | None) -> int:
    """Ansible in a process group of its own, which ends with us. A person sees its steps, or without `shown` all."""
    if shown is None and screen.draws(sys.stdout) and not os.environ.get("NO_COLOR"):
        env = {"ANSIBLE_FORCE_COLOR": "1"} | env
    process, events = _begin(words, env, telling=shown is not None)
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    for number in previous:
        signal.signal(number, stop)
    with steps.following(process, events, log, shown):
        try:
            return process.wait()
        except KeyboardInterrupt:
            if shown:
                shown.stop()
            print("\nstopping; provision again to continue from here", file=sys.stderr, flush=True)
            _end(process)
            return 130
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _begin(
    words: Sequence[str], env: Mapping[str, str], *, telling: bool
) -> "tuple[subprocess.Popen[bytes], IO[bytes]]":
    """Start Ansible: (process, what it tells of its steps)."""
    coming, going = os.pipe()
    told = {steps.TOLD: str(going)} if telling else {}
    try:
        process = subprocess.Popen(
            words,
            env={**env, **told},
            pass_fds=[going],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError:
        os.close(coming)
        raise ProvisionError(
            f"ansible-playbook is not installed next to this Python: run '{setup('ansible-core')}'"
        ) from None
    finally:
        os.close(going)
    return process, os.fdopen(coming, "rb", 0)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)


@contextmanager
def _closing(control: Path) -> Iterator[None]:
    """End provisioning's own connections, and with them the way back to the proxy."""
    try:
        yield
    finally:
        for socket in control.parent.glob(f"{control.name}-*"):
            command = ["ssh", "-S", str(socket), "-O", "exit", "regatta"]
            with contextlib.suppress(subprocess.TimeoutExpired):  # it ends by itself, a minute later
                subprocess.run(command, capture_output=True, timeout=10, check=False)

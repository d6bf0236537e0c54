"""`tools/setup.sh` with a small index on loopback: what is installed is what the locks name, or nothing is."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packages import make_wheel, serve

from regatta.files import sha256
from regatta.paths import PROJECT


def setup(folder: Path, index: str) -> "subprocess.CompletedProcess[str]":
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_", "VIRTUAL_ENV"))}
    own = {"UV_DEFAULT_INDEX": index, "UV_FIND_LINKS": str(folder / "files"), "UV_CACHE_DIR": str(folder / "cache")}
    command = ["bash", folder / "tools/setup.sh", "node"]
    return subprocess.run(command, env=kept | own, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that has the system's pip."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder], check=True)
    return folder


def test_only_the_files_of_the_locks_are_installed(tmp_path: Path, venv: Path) -> None:
    for name in ("tools", "requirements", "files", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(PROJECT / "tools/setup.sh", tmp_path / "tools")
    shutil.copy(PROJECT / "requirements/controller.lock", tmp_path / "requirements")
    for name in ("python", "uv"):
        (tmp_path / ".venv/bin" / name).symlink_to(PROJECT / ".venv/bin" / name)
    (tmp_path / ".venv-node").symlink_to(venv)
    index, torch = tmp_path / "index", make_wheel(tmp_path / "files", "torch", "2.13.0+cpu")
    alpha = make_wheel(index, "alpha")
    node, build = tmp_path / "requirements/node-test.lock", tmp_path / "requirements/torch-cpu.lock"
    body = alpha.read_bytes()
    good = f"alpha==1.0 --hash=sha256:{sha256(alpha)}\n"
    node.write_text(good)
    build.write_text(f"torch==2.13.0+cpu --hash=sha256:{sha256(torch)}\n")
    module = tmp_path / ".venv-node/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/alpha.py"
    with serve(index) as url:
        make_wheel(index, "alpha", text="x = 'evil'\n")
        done = setup(tmp_path, url)
        assert done.returncode and "alpha" in done.stderr and "Hash mismatch" in done.stderr
        alpha.write_bytes(body)
        node.write_text("alpha==1.0\n")
        done = setup(tmp_path, url)
        assert done.returncode and "alpha" in done.stderr
        node.write_text(good)
        build.write_text(f"torch==2.13.0+cpu --hash=sha256:{'0' * 64}\n")
        done = setup(tmp_path, url)
        assert done.returncode and "torch" in done.stderr and "Hash mismatch" in done.stderr
        assert not module.exists() and not (tmp_path / ".venv-node/.made-from").exists()
        build.write_text(f"torch==2.13.0+cpu --hash=sha256:{sha256(torch)}\n")
        done = setup(tmp_path, url)
        assert done.returncode == 0, done.stderr
    assert module.read_text() == "x = 1\n"
    assert setup(tmp_path, "http://127.0.0.1:9/simple").returncode == 0


def test_uv_itself_is_proven(tmp_path: Path, venv: Path) -> None:
    for name in ("tools", "requirements"):
        (tmp_path / name).mkdir()
    shutil.copy(PROJECT / "tools/setup.sh", tmp_path / "tools")
    (tmp_path / "requirements/node-test.lock").write_text("alpha==1.0\n")
    (tmp_path / "requirements/torch-cpu.lock").write_text("torch==2.13.0+cpu\n")
    index = tmp_path / "index"
    uv = make_wheel(index, "uv")
    lock = tmp_path / "requirements/controller.lock"
    lock.write_text(f"six==1.0 \\\n    --hash=sha256:{'0' * 64}\nuv==1.0 \\\n    --hash=sha256:{sha256(uv)}\n")
    make_wheel(index, "uv", text="x = 'evil'\n")
    for name in (".venv", ".venv-node"):
        (tmp_path / name).symlink_to(venv)
    with serve(index) as url:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
        env = kept | {"PIP_INDEX_URL": url, "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_CACHE_DIR": "1"}
        command = ["bash", tmp_path / "tools/setup.sh", "node"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode and "uv==1.0" in done.stderr and "DO NOT MATCH THE HASHES" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="takes dpkg's lock, as root")
def test_setup_waits_for_another_program_that_installs(tmp_path: Path) -> None:
    functions = (PROJECT / "tools/setup.sh").read_text().partition("\ncase ")[0].replace('cd "$(', ': "$(')
    only_install = 'missing_packages() { echo zstd; }; as_root() { [ "$2" = update ] || "$@"; }; system_packages zstd'
    with Path("/var/lib/dpkg/lock-frontend").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            ["bash", "-c", f"{functions}\n{only_install}"], stderr=subprocess.PIPE, text=True, cwd=PROJECT
        )
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
    assert waiting.wait(60) == 0, waiting.stderr and waiting.stderr.read()

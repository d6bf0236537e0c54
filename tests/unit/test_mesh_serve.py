"""The key between nodes gives: the node's name, and what a relay passes on."""

from pathlib import Path

import pytest
from modules import load

serve = load("ssh_mesh_serve", "roles/ssh_mesh/files/serve.py")


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    made = [tmp_path / name for name in (".relay", "releases")]
    for one in made:
        one.mkdir()
    (tmp_path / "token").write_text("secret")
    (made[1] / "out").symlink_to(tmp_path / "token")
    return [str(one) for one in made]


def test_what_nodes_ask_each_other_is_served(folders: list[str]) -> None:
    for asked in (
        "cat /etc/regatta/node.json",
        f"cat {folders[1]}/.ab12.json",
        f"rsync --server --sender -ltpre.iLsfxCIvu --timeout=60 . {folders[1]}/ab12/",
        f"rsync --server --sender -tre.iLsfxCIvu --timeout=60 --inplace . {folders[0]}/a\\ b/f\\'q\\ \\*.txt",
    ):
        assert serve.command(asked, folders), asked


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "id",
        "cat /etc/shadow",
        "cat 'unclosed",
        "cat {top}/releases/../token",
        "cat {top}/releases/out",
        "cat releases/ab12",
        "cat /etc/regatta/node.json; id",
        "rsync --server -ltpre.iLsfxCIvu . {top}/releases/ab12/",
        "rsync --server --sender -ltpre.iLsfxCIvu . {top}/",
        "rsync --server --sender -ltpre.iLsfxCIvu . {top}/releases/x {top}/token",
        "rsync --server --sender -ltprse.iLsfxCIvu .",
        "rsync --server --sender -ltprse.iLsfxCIvu . {top}/releases/ab12/",
        "rsync --server --sender -s . {top}/releases/ab12/",
        "rsync --server --sender --secluded-args . {top}/releases/ab12/",
        "rsync --server --sender -re.L --files-from={top}/token . {top}/releases/ab12/",
        "rsync --server --sender -re.L --remove-source-files . {top}/releases/ab12/",
        "rsync --server --sender -re.L --log-file={top}/x . {top}/releases/ab12/",
        "rsync --server --daemon . {top}/releases/ab12/",
    ],
)
def test_nothing_else_is(folders: list[str], tmp_path: Path, asked: str) -> None:
    assert serve.command(asked.format(top=tmp_path), folders) is None

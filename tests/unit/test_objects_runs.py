"""A bucket from which only runs of this machine read, and to which what they wrote goes; its keys are seen nowhere."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import buckets

from regatta.errors import UsageError
from regatta.release import objects

COUNT = """\
import argparse, fsspec, json, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--data")
with fsspec.open(parser.parse_args().data, "rb") as file:
    size = len(file.read())
if os.environ.get("RANK", "0") == "0":
    pathlib.Path("out/deep").mkdir(parents=True)
    pathlib.Path("out/deep/size").write_text(str(size))
    pathlib.Path("out/a b#c").write_text("odd")
    event = {"event": "result", "rank": 0, "t": 0, "answer": {"size": size}, "tolerance": {}, "show": []}
    print("@regatta " + json.dumps(event))
"""
CARD = """\
[workloads.count]
about = "How long an object is"
command = "count.py"
frameworks = ["single", "torch"]
[workloads.count.options.data]
kind = "path"
[workloads.count.input]
option = "data"
kind = "file"
what = "a file"
"""


@pytest.fixture
def store() -> Iterator[buckets.Store]:
    with buckets.serve() as made:
        yield made


def everything_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


@pytest.mark.whole  # the stores themselves: tests/unit/workloads/test_objects.py
@pytest.mark.skipif(not buckets.NODE.exists(), reason="needs .venv-node: make setup-node")
def test_runs_read_from_a_bucket_and_their_files_go_there(tmp_path: Path, here: Path, store: buckets.Store) -> None:
    (here / "hosts.yml").write_text((here / "hosts.yml").read_text().replace(sys.executable, str(buckets.NODE)))
    project = tmp_path / "project"
    project.mkdir()
    (project / "count.py").write_text(COUNT)
    (project / "regatta.toml").write_text(CARD)
    store.put("in/x.bin", b"x" * 12_345)
    keys = store.file(tmp_path)

    def regatta(*words: str, good: bool = True) -> str:
        done = subprocess.run(
            [Path(sys.executable).with_name("regatta"), *words, "--env-file", str(keys), "--inventory", str(here)],
            cwd=project,
            env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert (done.returncode == 0) is good, done.stdout
        return done.stdout

    said = regatta("run", "count", "--data=s3://data/in/x.bin", "--framework=all", "--workers=1", "--name=counts")
    assert "answers of 2 runs are equal" in said
    assert "beyond the base" in said and "aiobotocore" in said, "s3fs came as a layer"
    records = [json.loads(path.read_text()) for path in (tmp_path / "results").glob("counts-*.json")]
    assert [one["answer"]["size"] for one in records] == [12_345] * 2
    assert records[0]["identity"]["parameters"]["data"] == "s3://data/in/x.bin"
    said = regatta("fetch", "counts-torch-1", "--to=s3://data/results/one/")
    assert "s3://data/results/one: 2 files" in said
    assert store.names() == ["in/x.bin", "results/one/out/a b#c", "results/one/out/deep/size"]
    assert store.get("results/one/out/deep/size") == b"12345"
    assert (tmp_path / "results/counts-torch-1/out/deep/size").read_text() == "12345"
    said = regatta("fetch", "counts-torch-1", "--to=s3://nowhere/x", good=False)
    assert "there is no bucket 'nowhere'" in said and "0 of 2 files are there" in said and "Traceback" not in said
    secret = store.variables["AWS_SECRET_ACCESS_KEY"].encode()
    shown = [
        path
        for place in ("root", "results", "project")
        for path, body in everything_below(tmp_path / place)
        if secret in body
    ]
    assert shown == []


def test_an_address_without_a_bucket() -> None:
    for word in ("s3://", "s3:///x", "gs:x"):
        with pytest.raises(UsageError, match="a bucket is missing"):
            objects.is_address(word)
    assert not objects.is_address("x") and not objects.is_address("hdfs:///x") and objects.is_address("S3://b")

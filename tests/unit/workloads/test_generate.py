"""Generators: the same bytes for a seed however many processes, and files that their readers take."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from workloads.digits import idx
from workloads.ppr import edgelist, generate

PROJECT = Path(__file__).resolve().parents[3]


def made(kind: str, *words: str, cores: str = "0-") -> bytes:
    command = [sys.executable, "-m", f"workloads.{kind}.generate", *words]
    if cores == "0":
        command = ["taskset", "--cpu-list", "0", *command]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, check=True).stdout


@pytest.mark.parametrize("kind", ["ppr", "stars", "digits", "cifar"])
def test_the_same_for_a_seed(kind: str) -> None:
    size = {"ppr": "300000", "stars": "50000", "digits": "9000", "cifar": "3000"}[kind]
    one = made(kind, "--size", size, "--seed", "3", cores="0")
    assert one == made(kind, "--size", size, "--seed", "3")
    assert one == gzip.decompress(made(kind, "--size", size, "--seed", "3", "--gzip"))
    assert one != made(kind, "--size", size, "--seed", "4")


def test_lines_have_no_leading_zeros() -> None:
    numbers = np.array([0, 7, 10, 999])
    assert generate.lines(numbers, numbers[::-1], 3) == b"0\t999\n7\t10\n10\t7\n999\t0\n"


def test_an_edge_list_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(made("ppr", "--size", "1000", "--gzip"))
    edges = edgelist.read(tmp_path / "x").edges
    assert edges.shape == (1000, 2)
    assert int(edges.max()) < 200


def test_digits_are_read(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(made("digits", "--size", "5000", "--gzip"))
    (tmp_path / "labels").write_bytes(made("digits", "--size", "5000", "--part", "labels"))
    images, labels = idx.read(tmp_path / "images", 3), idx.read(tmp_path / "labels", 1)
    assert images.shape == (5000, 28, 28)
    assert set(labels.tolist()) == set(range(10))
    means = np.array([images[labels == digit].mean() for digit in range(10)])
    assert means.argmin() == 1
    assert means.argmax() == 8

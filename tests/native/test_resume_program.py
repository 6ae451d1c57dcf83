"""A program that is killed goes on from its checkpoint to the same answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from leaveout.models import save_family_file

from support import children
from support.cases import slow_question
from support.depth import IS_DEEP

SPEC = """\
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)

find bound: least b per label such that
    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)
"""

MAIN = """\
import sys
from leaveout.bab.native.files import checkpoint
checkpoint.EVERY = 0.2
from leaveout.__main__ import main
main()
"""


def _folder(tmp_path) -> None:
    instance = slow_question(5, 30, (4, 16, 16, 2))
    onnx.save(instance.network.model, tmp_path / "full.onnx")
    save_family_file(tmp_path / "family.npz", instance.family)
    (tmp_path / "test.spec").write_text(SPEC)
    (tmp_path / "main.py").write_text(MAIN)


def _verify(folder, *arguments):
    return children.start(
        [sys.executable, "main.py", "verify", "test.spec", "--json", "-", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _results(process):
    out, err = process.communicate(timeout=children.HANGS)
    assert process.returncode in {0, 3}, err
    return json.loads(out)["results"]


def _written(file):
    return file.stat().st_mtime_ns if file.exists() else 0


def _wait_for_a_checkpoint(process, file, before):
    """Wait until one is written; or until it is over, which needs none."""
    there = lambda: process.poll() is not None or _written(file) > before
    children.wait_until(there, "a checkpoint")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_program_killed_again_and_again_gives_the_same_answer(tmp_path, workers):
    _folder(tmp_path)
    truth = _results(_verify(tmp_path))
    file = tmp_path / "run.checkpoint"
    arguments = ("--resume", file.name, "--workers", workers)
    for _ in range(3 if IS_DEEP else 1):
        before = _written(file)
        process = _verify(tmp_path, *arguments)
        _wait_for_a_checkpoint(process, file, before)
        children.end(process)
    found = _results(_verify(tmp_path, *arguments))
    again = _results(_verify(tmp_path, *arguments))
    for one, two, three in zip(truth, found, again):
        assert two["verdict"] == one["verdict"]
        room = 0.01 * max(one["upper"], two["upper"]) + 1e-9
        assert abs(one["upper"] - two["upper"]) <= room
        assert abs(one["lower"] - two["lower"]) <= room
        for name in ("verdict", "lower", "upper"):
            assert three[name] == two[name]
        assert three == two or not IS_DEEP


def test_bad_checkpoints_exit_with_2_in_one_line(tmp_path):
    _folder(tmp_path)
    file = tmp_path / "run.checkpoint"
    file.write_bytes(b"PK\\3\\4 damaged")
    for change in (lambda: None, lambda: _other_family(tmp_path, file)):
        change()
        process = _verify(tmp_path, "--resume", file.name)
        out, err = process.communicate(timeout=children.HANGS)
        assert process.returncode == 2
        assert out == ""
        assert len(err.splitlines()) == 1
        assert "run.checkpoint" in err


def _other_family(folder: Path, file: Path) -> None:
    file.unlink()
    _results(_verify(folder, "--resume", file.name))
    other = slow_question(5, 31, (4, 16, 16, 2))
    save_family_file(folder / "family.npz", other.family)

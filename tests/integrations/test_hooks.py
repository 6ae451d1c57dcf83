"""The hooks of pre-commit: their file says what it must, and their commands do it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from leaveout.verifier.cli.app import run

HOOKS = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text())

UGLY = 'let   N=network( "a.onnx" )\n'
NEAT = 'let N = network("a.onnx")\n'


@pytest.mark.parametrize("hook", HOOKS, ids=[each["id"] for each in HOOKS])
def test_a_hook_lays_out_or_names_what_is_not_laid_out(hook, tmp_path, capsys, snapshot):
    assert {"id", "name", "entry", "language", "files"} <= set(hook)
    # Of an installed package the entry is a program.
    program, *words = shlex.split(hook["entry"])
    assert program == "leaveout"
    assert hook["language"] == "python"
    ugly, neat = tmp_path / "ugly.spec", tmp_path / "neat.spec"
    ugly.write_text(UGLY)
    neat.write_text(NEAT)
    assert all(re.search(hook["files"], str(each)) for each in (ugly, neat))
    assert not re.search(hook["files"], "tests/test_spec.py")
    status = run([*words, str(ugly), str(neat)])
    said = capsys.readouterr().out
    assert neat.read_text() == NEAT
    if "--check" in words:
        assert (status, ugly.read_text()) == (1, UGLY)
        assert said == snapshot
        assert f"{ugly}" in said
    else:
        # pre-commit fails a hook that changed a file.
        assert (status, ugly.read_text()) == (0, NEAT)

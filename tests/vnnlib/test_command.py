"""The command and the scripts of the competition: answers, files, exit codes."""

import os
import re
import sys
import types
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from typer.testing import CliRunner

import leaveout.verifier
from leaveout.errors import SpecError
from leaveout.verifier.cli.vnnlib import vnnlib

from support import children

SCRIPTS = Path(__file__).parents[2] / "examples" / "vnncomp"


@pytest.fixture
def folder(tmp_path, queries, network):
    onnx.save(network.model, tmp_path / "net.onnx")
    for name, text in queries.items():
        (tmp_path / f"{name}.vnnlib").write_text(text)
    return tmp_path


@pytest.fixture
def run(monkeypatch, folder):
    app = typer.Typer()
    app.command()(vnnlib)
    asked = []

    def start(*arguments, verdict="proved", reason=None):
        def decide(query, *, seconds=None, seed=0, progress=None, ready=None):
            asked.append((query, seconds, seed))
            points = tuple(np.full(box.dimension, 0.1, np.float32) for box in query.points)
            scores = tuple(
                np.arange(a.network.labels, dtype=np.float32) for a in query.applications
            )
            refuted = verdict == "refuted"
            return types.SimpleNamespace(
                verdict=verdict,
                reason=reason,
                points=points if refuted else None,
                scores=scores if refuted else None,
            )

        module = types.ModuleType("leaveout.verifier.points.query")
        module.decide = decide
        monkeypatch.setitem(sys.modules, "leaveout.verifier.points.query", module)
        monkeypatch.setattr(leaveout.verifier, "query", module, raising=False)
        monkeypatch.chdir(folder)
        return CliRunner().invoke(app, [str(each) for each in arguments])

    start.asked = asked
    return start


@pytest.mark.parametrize(
    ("verdict", "reason", "answer", "code"),
    [
        ("proved", None, "unsat\n", 0),
        ("unknown", "time", "timeout\n", 3),
        ("unknown", "numerical", "unknown\n", 3),
    ],
)
def test_answers_and_exit_codes(run, folder, verdict, reason, answer, code):
    done = run(
        "acas_1.vnnlib", "--network", "net.onnx", "--result", "r.txt",
        verdict=verdict, reason=reason,
    )  # fmt: skip
    assert done.exit_code == code
    assert done.stdout == answer
    assert (folder / "r.txt").read_text() == answer


def test_a_counter_example_of_version_1(run, folder):
    done = run("acas_1.vnnlib", "--network", "net.onnx", "--result", "r.txt", verdict="refuted")
    assert done.exit_code == 1
    text = (folder / "r.txt").read_text()
    assert done.stdout == text
    status, witness = text.split("\n", 1)
    assert status == "sat"
    pairs = re.findall(r"\(([XY]_\d) ([\d.e-]+)\)", witness)
    assert [name for name, _ in pairs] == ["X_0", "X_1", "X_2", "Y_0", "Y_1", "Y_2"]
    assert [np.float32(value) for _, value in pairs] == [np.float32(0.1)] * 3 + [0, 1, 2]
    assert re.sub(r"\([XY]_\d [\d.e-]+\)|\s", "", witness) == "()"


def test_a_counter_example_of_version_2(run, folder):
    done = run(
        "two.vnnlib", "--network", "net.onnx", "--network", "net.onnx", "--result", "r.txt",
        verdict="refuted",
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    lines = (folder / "r.txt").read_text().splitlines()
    assert lines[0] == "sat"
    heads = [line for line in lines if line[0].isalpha()]
    assert heads[1:] == [f"{t}{n} real [3]" for n in "fgh" for t in "XY"]
    assert len(lines) == 1 + 6 * 4
    assert np.float32(lines[2]) == np.float32(0.1)


def test_options_are_passed_on(run):
    before = os.sched_getaffinity(0)
    try:
        run(
            "one.vnnlib", "--network", "f=net.onnx", "--time", "60", "--seed", "7", "--workers", "1"
        )
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        os.sched_setaffinity(0, before)
    ((query, seconds, seed),) = run.asked
    assert query.applications[0].name == "f"
    assert 0 < seconds <= 60
    assert seed == 7


@pytest.mark.parametrize(
    "arguments",
    [
        ["no.vnnlib", "--network", "net.onnx"],
        ["two.vnnlib", "--network", "net.onnx"],
        ["one.vnnlib", "--network", "g=net.onnx"],
        ["one.vnnlib", "--network", "net.onnx", "--result", "."],
        ["one.vnnlib", "--network", "net.onnx", "--result", "no/r"],
    ],
)
def test_bad_input(run, folder, arguments, snapshot):
    done = run(*arguments)
    assert isinstance(done.exception, SpecError)
    assert str(done.exception) == snapshot
    assert not run.asked
    assert not (folder / "r.txt").exists()


@pytest.fixture
def programs(tmp_path):
    """A stand-in for an installation: python, and leaveout with this command alone."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (place / "leaveout").write_text(
        f"#!{sys.executable}\n"
        "import sys, typer\n"
        "from leaveout.errors import LeaveoutError\n"
        "from leaveout.verifier.cli.vnnlib import vnnlib\n"
        "app = typer.Typer()\n"
        "app.command()(vnnlib)\n"
        "app.callback()(lambda: None)\n"
        "try:\n"
        "    app()\n"
        "except LeaveoutError as error:\n"
        "    sys.exit(f'leaveout: {error}')\n"
    )
    for program in place.iterdir():
        program.chmod(0o755)
    return place


def script(name, programs, *arguments):
    return children.run(
        [SCRIPTS / name, *map(str, arguments)],
        env={**os.environ, "LEAVEOUT_BIN": str(programs)},
        cwd=programs.parent,
    )


def test_the_scripts_of_the_competition(folder, programs, queries):
    pytest.importorskip("leaveout.verifier.points.query")
    (folder / "spaced name.onnx").write_bytes((folder / "net.onnx").read_bytes())
    far = queries["acas_1"].replace("3.991125645861615", "1e6")
    (folder / "far.vnnlib").write_text(far)
    near = queries["two"].replace("(or (< Yf[0] Yg[0])", "(or (> Yf[0] -1000000.0)")
    (folder / "near.vnnlib").write_text(near)
    pairs = "[('f', 'net.onnx'), ('g', 'spaced name.onnx')]"
    for onnx_argument, query, answer in [
        ("spaced name.onnx", "far.vnnlib", "unsat"),
        (pairs, "near.vnnlib", "sat"),
    ]:
        done = script("prepare_instance.sh", programs, "v1", "any", onnx_argument, query)
        assert done.returncode == 0, done.stderr
        done = script("run_instance.sh", programs, "v1", "any", onnx_argument, query, "r.txt", "60")
        assert done.returncode == 0, done.stderr
        assert (folder / "r.txt").read_text().split("\n")[0] == answer, done.stderr


def test_the_scripts_report_errors(folder, programs, snapshot):
    pytest.importorskip("leaveout.verifier.points.query")
    assert script("run_instance.sh", programs, "v2").returncode == 1
    assert script("prepare_instance.sh", programs, "v1", "a", "x", "acas_1.vnnlib").returncode == 1
    done = script("run_instance.sh", programs, "v1", "a", "x", "acas_1.vnnlib", "r.txt", "30")
    assert done.returncode == 0
    assert (folder / "r.txt").read_text() == "error\n"
    assert done.stderr == snapshot

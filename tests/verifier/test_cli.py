"""The command line: exit codes, one clear line for bad input, nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from leaveout.models import load_family_file
from leaveout.verifier.cli import run as run_here

from support import children, networks
from support.files import BOUND, write_question


def run(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return children.run([sys.executable, "-m", "leaveout", *arguments], cwd=folder, **options)


@pytest.fixture
def answered(tmp_path, monkeypatch, capsys):
    """Return what runs the program in this process: nothing that these tests ask takes its own."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        status = run_here([*arguments])
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, said.out, said.err)

    return call


def test_all_proved_is_0_and_the_table_says_what_was_proved(tmp_path, snapshot):
    write_question(tmp_path)
    done = run(tmp_path, "verify", "test.spec", "--workers", "1", "--json", "r.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["name", "label", "verdict", "lower", "upper", "seconds"]
    assert lines[1].split()[:5] == ["bound", "0", "(kind", "0)", "proved"]
    assert done.stdout == snapshot
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [result["verdict"] for result in results] == ["proved", "proved"]


def test_something_refuted_is_1(answered, tmp_path):
    claim = "forall x in X, M in F: confidence(N, x) > 0.1 => label(M, x) == label(N, x)"
    write_question(tmp_path, text=BOUND + f"guarantee g: {claim}\n")
    done = answered("verify", "test.spec", "--workers", "1", "--json", "-")
    assert done.returncode == 1, done.stderr
    last = json.loads(done.stdout)["results"][-1]
    assert (last["name"], last["verdict"]) == ("g", "refuted")
    assert last["witness"]["scores"]


@pytest.mark.parametrize("target", [["--json", "-"], ["--json", "r.json"]])
@pytest.mark.parametrize(("threshold", "status"), [("0.95", 0), ("0.1", 1)])
def test_the_exit_status_is_that_of_the_verdicts_also_where_nobody_reads(
    tmp_path, target, threshold, status
):
    premise = f"confidence(N, x) > {threshold}"
    claim = f"forall x in X, M in F: {premise} => label(M, x) == label(N, x)"
    text = BOUND[: BOUND.index("find")] + f"guarantee g: {claim}\n"
    write_question(tmp_path, text=text)
    reader, writer = os.pipe()
    os.close(reader)
    done = run(tmp_path, "verify", "test.spec", "--workers", "1", *target, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (status, "")
    assert target[-1] == "-" or json.loads((tmp_path / "r.json").read_text())["results"]


def test_something_unknown_is_3(tmp_path, snapshot):
    write_question(tmp_path)
    done = run(tmp_path, "verify", "test.spec", "--workers", "1", "--time", "0.01")
    assert done.returncode == 3
    assert done.stdout == snapshot


def _spec(old: str = "", new: str = ""):
    def change(folder: Path) -> None:
        write_question(folder, text=BOUND.replace(old, new) if old else BOUND)

    return change


def _network(model: onnx.ModelProto):
    def change(folder: Path) -> None:
        write_question(folder)
        onnx.save(model, folder / "full.onnx")

    return change


def _family(**arrays: np.ndarray):
    def change(folder: Path) -> None:
        write_question(folder)
        family = load_family_file(folder / "family.npz")
        np.savez(
            folder / "family.npz", **{"removed": family.removed, **family.parameters, **arrays}
        )

    return change


def _not_onnx(folder: Path) -> None:
    write_question(folder)
    (folder / "full.onnx").write_text("I am a text")


def _empty_family(folder: Path) -> None:
    write_question(folder)
    family = load_family_file(folder / "family.npz").first
    none = {k: v[:0] for k, v in family(1).parameters.items()}
    np.savez(folder / "family.npz", removed=np.zeros(0, np.int64), **none)


HEAD = BOUND[: BOUND.index("find")]
CLAIM = "guarantee g: forall x in X: score(N, x, 0) <= 1e6\n"
SINE = networks.model([helper.make_node("Sin", ["x"], ["y"])], {}, ["n", 3], ["n", 3])
NAN = networks.model(
    [helper.make_node("MatMul", ["x", "W"], ["y"])],
    {"W": np.full((3, 2), np.nan, np.float32)},
    ["n", 3],
    ["n", 2],
)
BAD_INPUT = {
    "missing spec": (lambda folder: None, [], "test.spec: no such file"),
    "missing network": (_spec("full.onnx", "fool.onnx"), [], "fool.onnx: no such file"),
    "missing family": (_spec("family.npz", "famly.npz"), [], "famly.npz: no such file"),
    "not ONNX": (_not_onnx, [], "full.onnx: not a valid ONNX model"),
    "unsupported operator": (
        _network(SINE),
        [],
        "(Sin): not supported: of smooth functions, only",
    ),
    "NaN weights": (_network(NAN), [], "initialiser 'W' contains NaN"),
    "member of another shape": (
        _family(**{"layers.0.weight": np.zeros((2, 9, 3), np.float32)}),
        [],
        "'layers.0.weight' of shape (9, 3)",
    ),
    "NaN member": (
        _family(**{"layers.0.bias": np.full((2, 4), np.nan, np.float32)}),
        [],
        "of member 0 is not a finite float32",
    ),
    "empty family": (_empty_family, [], "the family is empty"),
    "label out of range": (
        _spec(
            "per label such that\n    forall x in X, M in F: confidence(N, x) > b => "
            "label(M, x) == label(N, x)",
            "such that\n    forall x in X, M in F: confidence(N, x, 7) > b => label(M, x) == 7",
        ),
        [],
        "label 7 is out of range",
    ),
    "box upside down": (_spec("box(0, 1)", "box(1, 0)"), [], "lower bound 1 is above"),
    "box of another dimension": (
        _spec("box(0, 1)", "box([0, 0], [1, 1])"),
        [],
        "2 bounds for 3 features",
    ),
    "typo in a name": (_spec("confidence(N", "confidnce(N"), [], "did you mean 'confidence'?"),
    "unknown solver": (_spec(), ["--solver", "hihgs"], "highs, gurobi, pulp, ortools, scip"),
    "unknown engine": (_spec(), ["--engine", "magic"], "known engines: native, lucid"),
    "formula of the lucid engine": (
        lambda folder: write_question(folder, text=HEAD + CLAIM),
        ["--engine", "lucid"],
        "drop --engine lucid",
    ),
    "folder that holds a family file": (_spec('"family.npz"', '"."'), [], "did you mean "),
    "unknown variant": (_spec(), ["--variant", "magic"], "known variants: naive, H"),
    "array instead of a family": (
        lambda folder: (
            write_question(folder),
            np.save(folder / "family.npy", np.zeros(3)),
            (folder / "family.npy").rename(folder / "family.npz"),
        ),
        [],
        "not a family file",
    ),
    "box beyond float32": (_spec("box(0, 1)", "box(0, 1e39)"), [], "float32's range"),
    "no path": (_spec('"family.npz"', '""'), [], "family needs a quoted path"),
    "odd seed": (_spec(), ["--seed", "-1"], "the seed must be a whole number from 0"),
    "endless time": (_spec(), ["--time", "inf"], "omit it for no limit"),
    "no time": (_spec(), ["--time", "0"], "positive number of seconds"),
    "folder for results": (_spec(), ["--json", "no/where.json"], "no such folder"),
}


@pytest.mark.parametrize(
    "target", ["test.spec", "full.onnx", "family.npz", "link", ".", "package.json"]
)
def test_results_never_overwrite_anything_but_results(answered, tmp_path, target):
    write_question(tmp_path)
    (tmp_path / "link").symlink_to("test.spec")
    (tmp_path / "package.json").write_text('{"name": "mine"}')
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    done = answered("verify", "test.spec", "--json", target)
    assert done.returncode == 2
    assert "--json" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_results_are_written_through_a_link_and_over_earlier_results(answered, tmp_path):
    write_question(tmp_path)
    (tmp_path / "real.json").write_text('{"leaveout": "0", "results": []}')
    (tmp_path / "link.json").symlink_to("real.json")
    done = answered("verify", "test.spec", "--workers", "1", "--json", "link.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "link.json").is_symlink()
    assert len(json.loads((tmp_path / "real.json").read_text())["results"]) == 2
    assert not list(tmp_path.glob(".leaveout-*"))


@pytest.mark.parametrize(
    "arguments",
    [["verify"], ["verify", "a.spec", "--tme", "3"], ["vrify"], ["verify", "--time", "x"]],
)
def test_wrong_usage_is_one_line_and_exit_2(answered, arguments):
    done = answered(*arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("leaveout: ")
    assert line.endswith("--help")


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_clear_message_exit_2_and_writes_nothing(answered, tmp_path, case):
    change, options, message = BAD_INPUT[case]
    change(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    options = options or ["--json", "r.json"]
    done = answered("verify", "test.spec", *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    # A message about the specification shows the line, a caret and the cure; others are one line.
    lines = done.stderr.splitlines()
    assert len(lines) == 1 or any(set(line.strip()) == {"^"} for line in lines)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_ctrl_c_gives_the_best_bounds_so_far_and_leaves_no_process(tmp_path):
    from support.cases import question

    instance = question(
        0,
        model=networks.dense(np.random.default_rng(0), (6, 40, 40, 2), 0.5),
        spread=0.01,
        negative=False,
    )
    write_question(tmp_path)
    onnx.save(instance.network.model, tmp_path / "full.onnx")
    np.savez(tmp_path / "family.npz", removed=instance.family.removed, **instance.family.parameters)
    options = ["--json", "r.json", "--engine", "lucid"]
    process = children.start(
        [sys.executable, "-m", "leaveout", "verify", "test.spec", *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    def solving():
        # A solver that was only started has not worked so much.
        return any(children.worked(pid) > 3 for pid in children.children(process.pid))

    children.wait_until(solving, "a solver at work", process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=children.HANGS)
    assert process.returncode == 3, errors
    assert "interrupted" in output
    assert "Traceback" not in errors
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [result["label"] for result in results] == [0, 1]
    for result in results:
        assert 0 <= result["lower"] <= result["upper"]
    assert not children.session(process.pid)


def test_solvers_lists_what_is_installed(tmp_path):
    done = run(tmp_path, "solvers")
    assert done.returncode == 0
    assert "highs" in done.stdout
    assert "MIT" in done.stdout


def test_functions_are_listed_and_described(answered, snapshot):
    listed = answered("functions")
    assert listed.returncode == 0
    assert (
        "label(network: Network | Forest | Linear | Trees, point: Point) -> Label\n    "
        in listed.stdout
    )
    assert listed.stdout == snapshot
    described = answered("functions", "radius", "box")
    assert described.stdout.startswith("### `radius`\n\n```\nradius(votes: ")
    assert "\n\n### `box`\n" in described.stdout
    coloured = json.loads(answered("functions", "--grammar").stdout)
    assert any("|answered_right|" in each.get("match", "") for each in coloured["patterns"])
    wrong = answered("functions", "confidnce")
    assert wrong.returncode == 2
    assert wrong.stderr == snapshot


def test_help_teaches_and_starting_is_light(tmp_path, snapshot):
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    assert " ".join(done.stdout.split()) == snapshot
    code = (
        "import sys, leaveout.verifier.cli.app\n"
        "heavy = {'torch', 'onnxruntime', 'sklearn', 'highspy', 'scipy.optimize'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    light = children.run([sys.executable, "-c", code])
    assert light.returncode == 0, light.stderr


def test_a_script_without_a_main_guard_can_verify(tmp_path):
    spec = write_question(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(
        f"import leaveout\nreport = leaveout.verify({str(spec)!r}, workers=2)\n"
        "print([result.verdict for result in report.results])\n"
    )
    done = children.run([sys.executable, script])
    assert done.stdout.strip() == "['proved', 'proved']", done.stderr

"""The command ``leaveout train``: flags in, files and a table out."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from leaveout.errors import TrainingError
from leaveout.models.family import load_family_file
from leaveout.models.onnx.file import load_network
from leaveout.models.train import parse_layers
from leaveout.verifier.cli.train import train

pytestmark = pytest.mark.usefixtures("here")

app = typer.Typer(add_completion=False)
app.command()(train)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_it_trains_and_says_what_comes_next(blobs, tmp_path, snapshot):
    pytest.importorskip("torch")
    out = tmp_path / "out"
    words = [
        blobs,
        "--layers",
        "9,5",
        "--epochs",
        2,
        "--batch",
        20,
        "--members",
        4,
        "--workers",
        1,
        "-o",
        out,
    ]
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if line[0] != " ")
    assert (lines["rows"], lines["features"], lines["labels"]) == ("61", "6", "3")
    assert lines["members"] == "4"
    assert lines["next"] == f"leaveout verify {out / 'idp.spec'}"
    assert "test accuracy" in result.stdout
    assert str(out / "family.npz") in result.stdout
    assert result.stderr == ""

    again = invoke(*words)
    assert again.exit_code == 0
    assert again.stderr == snapshot
    assert "seconds" not in again.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--layers", "50,,50"],
        ["--layers", "50x50"],
        ["--layers", "50,-1"],
        ["--layers", "none,5"],
        ["--optimizer", "lbfgs"],
        ["--optimizer", "adam", "--momentum", "0.9"],
        ["--momentum", "1"],
        ["--schedule", "linear"],
        ["--step-every", "0"],
        ["--step-factor", "2"],
        ["--class-weights", "1,x,2"],
        ["--class-weights", "1,2"],
        ["--class-weights", "1,0,2"],
        ["--id", "patient"],
        ["--unit", "dose"],
        ["--unit", "dose=mg"],
        ["--cnn", "--layers", "50"],
        ["--batch", "0"],
        ["--epochs", "0"],
        ["--lr", "-1"],
    ],
)
def test_bad_flags_are_one_error_that_names_the_flag(blobs, tmp_path, words, snapshot):
    result = invoke(blobs, "-o", tmp_path / "out", *words)
    assert isinstance(result.exception, TrainingError)
    assert str(result.exception) == snapshot
    assert not (tmp_path / "out").exists()


def test_the_help_teaches():
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for word in ("--label", "--layers", "--cnn", "--members", "one-hot", "family.npz"):
        assert word in result.stdout


def test_layers_are_read_with_blanks():
    assert parse_layers("50, 50") == (50, 50)
    assert parse_layers(" None ") == parse_layers("") == ()


def test_every_option_of_the_recipe_reaches_it(blobs, tmp_path):
    pytest.importorskip("torch")
    words = "--layers none --optimizer adam --lr 0.05 --schedule step --step-every 3 "
    words += "--step-factor 0.5 --class-weights balanced --epochs 4 --members 2 --workers 1"
    result = invoke(blobs, "-o", tmp_path / "out", *words.split())
    assert result.exit_code == 0, result.output
    recipe = load_family_file(tmp_path / "out" / "family.npz").manifest.recipe
    expected = {
        "layers": [],
        "optimizer": "adam",
        "learning_rate": 0.05,
        "schedule": "step",
        "step_every": 3,
        "step_factor": 0.5,
        "class_weights": "balanced",
    }
    assert expected.items() <= recipe.items()
    network = load_network(tmp_path / "out" / "full.onnx")
    assert [node.op_type for node in network.model.graph.node] == ["Gemm"]

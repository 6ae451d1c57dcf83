"""``leaveout guard``: a CSV in, labels out."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from leaveout.errors import GuardError
from leaveout.models import DataFacts, Manifest
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard

from support import children, networks
from support.guards import make_folder

RECIPE = {
    "encoding": {
        "label": "ill",
        "columns": [
            {"type": "number", "name": "age", "minimum": 20.0, "maximum": 70.0},
            {"type": "category", "name": "sex", "categories": ["f", "m"]},
        ],
    }
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    facts = DataFacts(
        sha256="", rows=6, minimum=(0, 0, 0), maximum=(1, 1, 1),
        features=("age", "sex=f", "sex=m"), labels=("no", "yes"),
    )  # fmt: skip
    model = networks.dense(np.random.default_rng(8), (3, 4, 2))
    manifest = Manifest(data=facts, recipe=RECIPE)
    return make_folder(tmp_path_factory.mktemp("trained"), model, manifest=manifest, seconds=0.5)


@pytest.fixture
def ask(trained, tmp_path, capsys, monkeypatch):
    def ask_(text, *options, stdin=False, folder=trained.folder):
        source = tmp_path / "rows.csv"
        source.write_text(text)
        if stdin:
            monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        given = [] if stdin else [str(source)]
        memory = [] if "--memory" in options else ["--memory", str(tmp_path / "m.sqlite")]
        code = run(["guard", str(folder), *given, "--epsilon", "0.2", *memory, *options])
        out, err = capsys.readouterr()
        return code, out, err

    return ask_


ROWS = "age,sex,ill\n30,f,yes\n 44.5 , m,no\n70,m,\n"


def test_labels_of_rows_in_their_own_units(ask, trained, tmp_path, snapshot):
    code, out, err = ask(ROWS, "--seed", "1")
    assert code == 0
    assert err == snapshot
    with Guard.load(trained.folder, 0.2, memory=tmp_path / "o.sqlite", seed=1) as guard:
        rows = list(csv.DictReader(io.StringIO(ROWS), skipinitialspace=True))
        expected = [guard.names[label] for label in guard.labels(guard.encode(rows))]
    assert out.split() == ["label", *expected]


def test_standard_input_and_files_are_answered_alike(ask):
    first = ask(ROWS)
    assert ask(ROWS, stdin=True) == first
    assert ask(ROWS, stdin=True)[1] == first[1]


def test_rows_are_answered_as_they_come(trained, tmp_path):
    """The first label is there before the second row is sent."""
    command = [sys.executable, "-m", "leaveout", "guard", str(trained.folder), "--epsilon", "0.2"]
    process = children.start(
        [*command, "--memory", str(tmp_path / "m.sqlite")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    )
    assert process.stdin is not None and process.stdout is not None
    for row in ("age,sex", "30,f", "40,m"):
        process.stdin.write(row + "\n")
        process.stdin.flush()
        if row != "age,sex":
            assert process.stdout.readline().strip() in ("label", "no", "yes")
    rest, _ = process.communicate()
    assert rest.strip() in ("no", "yes")
    assert process.returncode == 0


def test_refused_rows_are_empty_and_counted(ask, snapshot):
    code, out, err = ask("age,sex\n30,f\n90,f\n19,m\n")
    assert code == 3
    labels = [row[0] if row else "" for row in csv.reader(io.StringIO(out))][1:]
    assert labels[0] in ("no", "yes") and labels[1:] == ["", ""]
    assert err == snapshot


def test_outside_can_be_noised(ask):
    code, out, _ = ask("age,sex\n90,f\n", "--outside", "noise")
    assert code == 0 and out.split()[1] in ("no", "yes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("age\n30\n", "no column 'sex'"),
        ("agee,sex\n30,f\n", r"no column 'age' (did you mean 'agee'?)"),
        ("age,sex,age\n30,f,1\n", "two columns are named 'age'"),
        ("age,sex\n30,f\nold,f\n", "line 3, column 'age': 'old' is not a finite number"),
        ("age,sex\n30,f\nnan,f\n", "line 3, column 'age': 'nan' is not a finite number"),
        ("age,sex\n30,x\n", "line 2, column 'sex': 'x' is not a category"),
        ("age,sex\n30,f,1\n", "line 2: 3 cells, expected 2"),
        ('age,sex\n"30,f\n', "not CSV"),
        ("age,sex\n1e300,f\n", "line 2: feature 0 (age) is inf"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(ask, text, message, tmp_path):
    code, _, err = ask(text, "-o", str(tmp_path / "labels.csv"))
    assert code == 2
    assert message in err and err.count("\n") == 1
    assert not (tmp_path / "labels.csv").exists()
    assert not list(tmp_path.glob(".leaveout*"))


def test_a_file_is_written_whole(ask, tmp_path):
    target = tmp_path / "labels.csv"
    target.write_text("before")
    assert ask("age,sex\n30,f\nold,f\n", "-o", str(target))[0] == 2
    assert target.read_text() == "before"
    code, out, _ = ask(ROWS, "-o", str(target))
    assert (code, out) == (0, "")
    assert len(target.read_text().splitlines()) == 4


def test_what_noise_costs_is_for_the_owner(trained, ask, tmp_path, capsys, snapshot):
    rng = np.random.default_rng(0)
    rows = [f"{age},{sex}" for age in 20 + 50 * rng.random(300) for sex in "fm"]
    ask("age,sex\n" + "\n".join(rows) + "\n")
    code = run(["guard", str(trained.folder), "--account", "--memory", str(tmp_path / "m.sqlite")])
    out, _ = capsys.readouterr()
    assert code == 0
    with Guard.load(trained.folder, 0.2, memory=tmp_path / "m.sqlite") as guard:
        account = guard.account()
    assert account.answers > 0
    assert out == snapshot
    assert f"{account.answers:,}" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--outside", "answer"], "--outside must be refuse or noise"),
        (["--when-spent", "stop"], "--when-spent must be"),
        (["--cap", "-1"], "the cap must be"),
        (["--epsilon", "-1"], "epsilon must be"),
        (["--serve"], "--serve accepts no rows"),
        (["--account"], "--account accepts no rows"),
        (["-o", "."], "is a folder"),
        (["-o", "none/x.csv"], "cannot write"),
        (["--memory", "none/x.sqlite"], "cannot be used"),
    ],
)
def test_options_are_checked(ask, options, message):
    code, _, err = ask(ROWS, *options)
    assert code == 2 and message in err and err.count("\n") == 1


def test_epsilon_is_asked_for(trained, capsys):
    assert run(["guard", str(trained.folder)]) == 2
    assert "--epsilon 0.2" in capsys.readouterr().err


def test_unnamed_features_are_taken_in_order(leaky, ask, snapshot):
    code, out, err = ask("a,b\n0.5,0.5\n", folder=leaky.folder)
    assert (code, err) == (0, "")
    assert out.split()[1] in ("0", "1", "2")
    code, _, err = ask("a,b,c\n0.5,0.5,1\n", folder=leaky.folder)
    assert code == 2
    assert err == snapshot


@pytest.mark.parametrize("name", ["answers.sqlite", "bounds.npz", "family.npz", "full.onnx"])
def test_labels_do_not_replace_what_the_guard_needs(ask, trained, name, snapshot):
    code, _, err = ask(ROWS, "-o", str(trained.folder / name))
    assert code == 2
    assert err == snapshot


def test_labels_do_not_replace_the_rows(ask, tmp_path, snapshot):
    code, _, err = ask(ROWS, "-o", str(tmp_path / "rows.csv"))
    assert code == 2
    assert err == snapshot
    assert (tmp_path / "rows.csv").read_text() == ROWS


def test_odd_cells_of_encoded_rows_are_said_in_one_line(trained):
    with Guard.load(trained.folder, 0.2) as guard:
        for odd in (None, [1], {}, 10**400):
            with pytest.raises(GuardError):
                guard.encode([{"age": odd, "sex": "f"}])


def test_bounds_and_a_memory_from_elsewhere_are_taken_where_that_is_said(
    ask, trained, own_state, monkeypatch, tmp_path, snapshot
):
    """Of another user, whose key this one has not."""
    code, _, err = ask(ROWS)
    assert code == 2
    assert err.count("\n") == 1
    assert err == snapshot
    assert "--adopt" in err
    code, out, err = ask(ROWS, "--adopt")
    assert (code, out.splitlines()[0]) == (0, "label")
    assert err == snapshot
    memory = tmp_path / "m.sqlite"
    assert run(["guard", str(trained.folder), "--account", "--memory", str(memory)]) == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "third"))
    assert run(["guard", str(trained.folder), "--account", "--memory", str(memory)]) == 2
    assert ask(ROWS, "--adopt", "--memory", str(memory))[0] == 0
    assert run(["guard", str(trained.folder), "--account", "--memory", str(memory)]) == 0

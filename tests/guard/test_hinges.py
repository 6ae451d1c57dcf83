"""On whom decisions hinge: as by really leaving everybody out, one by one."""

import csv

import numpy as np
import pytest

from leaveout.errors import GuardError
from leaveout.models.linear.fit import coefficients_of, with_rows
from leaveout.verifier.cli import run
from leaveout.verifier.guard.hinges import decisions, shares
from leaveout.verifier.guard.loading import load_subject

from support.linear_tables import opened, table, trained, write

POINTS = np.random.default_rng(3).random((300, 2))


def test_members_that_turn_a_decision_are_found(either, tmp_path):
    points = POINTS.astype(np.float32)
    np.savez(tmp_path / "p.npz", X=points.astype(np.float64))
    found = decisions(load_subject(either.folder, adopt=True), tmp_path / "p.npz")
    answers = either.answers(points)
    assert found.labels.tolist() == answers[0].tolist()
    assert found.hinge.any() and not found.hinge.all()
    for at, by in enumerate(found.turned_by):
        assert by.tolist() == np.flatnonzero(answers[1:, at] != answers[0, at]).tolist()


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_rows_that_turn_a_linear_models_decision_are_found(kind, tmp_path):
    rows = table(5, 40, 2 if kind == "logistic" else 3)
    folder, asked = trained(tmp_path, rows, kind=kind), table(6, 60)
    source = write(tmp_path, asked, "asked.csv")
    found = decisions(load_subject(folder), source, "person")
    model = opened(folder).model
    X = model.design.with_sizes(load_subject(folder).encode(asked))[0]
    certain = turned = 0
    for member in range(40):
        left = with_rows(model, np.delete(np.arange(40), member))
        scores = X @ coefficients_of(left.problems).T
        scores = np.concatenate([0 * scores, scores], 1) if scores.shape[1] == 1 else scores
        margins = np.sort(scores, 1)[:, -1] - np.sort(scores, 1)[:, -2]
        for at in np.flatnonzero(margins > 1e-3).tolist():
            # Each asked row is of the person whose number it has.
            turns = scores[at].argmax() != found.labels[at] and member != at
            assert (member in found.turned_by[at]) == turns
            certain, turned = certain + 1, turned + turns
    assert certain > 2000 and turned > 0


def test_a_column_that_names_nobody_is_refused(tmp_path):
    folder, source = trained(tmp_path, table(5, 40)), write(tmp_path, table(6, 9), "asked.csv")
    with pytest.raises(GuardError, match="no cell is a training row's name"):
        decisions(load_subject(folder), source, "ward")


def people(row):
    return row["who"].split("; ") if row["who"] else []


def test_what_is_printed_and_written(tmp_path, capsys):
    rows = table(5, 40)
    folder, source = trained(tmp_path, rows), write(tmp_path, table(6, 60), "asked.csv")
    out = tmp_path / "h.csv"
    words = ["hinges", str(folder), str(source), "--by", "ward", "-o", str(out), "--names"]
    assert run(words) == 0
    told = capsys.readouterr().out
    with out.open() as stream:
        written = list(csv.DictReader(stream))
    assert len(written) == 60 and written[0]["row"] == "line 2"
    hinging = [each for each in written if each["hinges_on"] != "0"]
    assert f"hinge           {len(hinging)}: " in told
    assert all(len(people(each)) == int(each["hinges_on"]) for each in written)
    assert {who for each in written for who in people(each)} <= {f"P-{k}" for k in range(40)}
    found = decisions(load_subject(folder), source)
    wards = [row["ward"] for row in table(6, 60)]
    known = {each.words[0]: each for each in shares(found, ["ward"])}
    assert set(known) == set(wards)
    for ward, each in known.items():
        inside = np.array([own == ward for own in wards])
        assert (each.count, each.hinging) == (inside.sum(), found.hinge[inside].sum())
        assert each.low <= each.hinging / each.count <= each.high
    # Nothing is overwritten, least of all the decisions.
    held = source.read_bytes()
    for target in (out, source):
        assert run([*words[:5], "-o", str(target)]) == 2
        assert "exists; name a new file" in capsys.readouterr().err
    assert source.read_bytes() == held
    assert run([*words[:3]]) == 0
    assert "who" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "change", [{"by": ["colour"]}, {"person": "colour"}, {"source": "p.npz", "person": "person"}]
)
def test_what_cannot_be_counted_is_refused_in_a_line(change, tmp_path, snapshot):
    folder = trained(tmp_path, table(5, 40))
    write(tmp_path, table(6, 20), "asked.csv")
    np.savez(tmp_path / "p.npz", X=np.zeros((2, opened(folder).model.inputs)))
    subject, source = load_subject(folder), tmp_path / change.get("source", "asked.csv")
    with pytest.raises(Exception) as told:
        shares(decisions(subject, source, change.get("person", "")), change.get("by", []))
    assert str(told.value).replace(str(tmp_path), ".") == snapshot
    assert "\n" not in str(told.value)


def test_a_row_outside_the_box_is_named(leaky, tmp_path):
    np.savez(tmp_path / "p.npz", X=np.array([[0.5, 0.5], [2.0, 0.5]]))
    with pytest.raises(GuardError, match=r"p.npz, row 1: .*drop the row"):
        decisions(load_subject(leaky.folder, adopt=True), tmp_path / "p.npz")

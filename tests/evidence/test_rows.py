"""What is said of each row, held against every member asked by itself through onnxruntime."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leaveout
from leaveout.bab import Replayer, make_instance
from leaveout.bab.attack.leak_attack import find_leak
from leaveout.encoders import Box
from leaveout.models import Family, load_family, load_network, save_family_file
from leaveout.models.replay import with_parameters
from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.rows import in_order, named, rows, to_csv, to_json
from leaveout.verifier.evidence.rows_search import search_rows
from leaveout.verifier.points import idp
from leaveout.verifier.report import Report
from leaveout.verifier.row_records import RowsError

from support.clinic import NAMES, write_clinic
from support.files import BOUND, write_question


def loaded(folder):
    network = load_network(folder / "full.onnx")
    return network, load_family(folder / "family.npz", network)


def scores_of(folder, x):
    """Return the scores of N, and of each member, by onnxruntime, a point at a time."""
    network, family = loaded(folder)

    def ask(own=None):
        runner = network.runner() if own is None else network.runner(own)
        return np.stack([runner.scores(point[None])[0] for point in x])

    members = [
        ask({name: stack[0] for name, stack in family.take([m]).items()})
        for m in range(len(family))
    ]
    return ask(), members


def margin(scores, labels):
    at = np.arange(len(scores))
    rest = scores.astype(np.float64)
    own = rest[at, labels].copy()
    rest[at, labels] = -np.inf
    return own - rest.max(axis=1)


def points(folder, count=300, seed=3, low=-0.2, high=1.2):
    width = load_network(folder / "full.onnx").inputs
    return np.random.default_rng(seed).uniform(low, high, (count, width)).astype(np.float32)


def saved(report, path):
    path.write_bytes(report.to_json())
    return msgspec.json.decode(path.read_bytes(), type=Report)


@pytest.mark.parametrize("seed", [4, 6, 8])
def test_no_leak_of_a_member_is_above_its_rows_bound(tmp_path, seed):
    report = saved(leaveout.verify(write_question(tmp_path, seed=seed)), tmp_path / "r.json")
    network, family = loaded(tmp_path)
    found = {each.row: each for each in report.rows()}
    box = Box(np.zeros(network.inputs), np.ones(network.inputs))
    x = points(tmp_path, 600, low=0.0, high=1.0)
    own, members = scores_of(tmp_path, x)
    labels = own.argmax(axis=1)
    confidences = margin(own, labels)
    seen = 0
    for member, removed in enumerate(family.removed.tolist()):
        bounds = {each.label: each.bound for each in found[removed].labels}
        leaks = (confidences > 0) & (margin(members[member], labels) <= 0)
        for label in range(network.labels):
            worst = confidences[leaks & (labels == label)].max(initial=0.0)
            one = make_instance(
                network, Family(family.take([member]), family.removed[[member]]), box
            )
            attacked = find_leak(one, label, Replayer(one))
            worst = max(worst, attacked.confidence if attacked is not None else 0.0)
            assert worst <= bounds[label]
            seen += worst > 0
    assert seen > len(family) // 2


@pytest.mark.parametrize("seed", [4, 6, 8])
def test_the_worst_row_has_the_statements_bound(tmp_path, seed):
    report = leaveout.verify(write_question(tmp_path, seed=seed))
    for result in report.results:
        own = [each for row in report.rows() for each in row.labels if each.label == result.label]
        bounds = [each.bound for each in own if each.bound is not None]
        leaks = [each.leak for each in own if each.leak is not None]
        assert max(bounds) <= result.upper
        assert max(bounds) == pytest.approx(result.upper, rel=2e-3)
        assert max(leaks, default=0.0) == pytest.approx(result.lower, rel=1e-9)


@pytest.mark.parametrize("engine", ["native", "lucid"])
def test_a_known_leak_is_one(tmp_path, engine):
    report = saved(leaveout.verify(write_question(tmp_path), engine=engine), tmp_path / "r.json")
    network, family = loaded(tmp_path)
    known = 0
    for row in report.rows():
        for each in row.labels:
            if each.leak is None:
                continue
            known += 1
            x = np.asarray(each.x, np.float32)[None]
            own = network.runner().scores(x)[0].astype(np.float64)
            assert own.argmax() == each.label
            assert margin(own[None], [each.label])[0] == each.leak <= each.bound
            (member,) = np.flatnonzero(family.removed == row.row)
            taken = {name: stack[0] for name, stack in family.take([member]).items()}
            other = network.runner(taken).scores(x)[0].astype(np.float64)
            assert margin(other[None], [each.label])[0] <= 0
            assert other.argmax() == each.member_label
    assert known


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_what_a_row_changes_is_what_its_member_answers_otherwise(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("rows")
    report = leaveout.verify(write_question(folder, seed=seed % 40), time=5)
    x = points(folder, 120, seed)
    own, members = scores_of(folder, x)
    labels = own.argmax(axis=1)
    confidences = margin(own, labels)
    _, family = loaded(folder)
    found = {each.row: each for each in report.rows(x) if each.members}
    inside = ((x >= 0) & (x <= 1)).all(axis=1)
    for member, removed in enumerate(family.removed.tolist()):
        changed = (confidences > 0) & (margin(members[member], labels) <= 0)
        given_points = found[removed].points
        assert given_points.changed == tuple(np.flatnonzero(changed).tolist())
        assert given_points.points == len(x)
        bounds = {each.label: each.bound for each in found[removed].labels}
        above = np.array([c > bounds[k] for c, k in zip(confidences, labels, strict=True)])
        assert given_points.not_excluded == (~(inside & above)).sum()
        # What is changed is a leak, and the worst one known is no less.
        worst = confidences[changed & inside].max(initial=0.0)
        assert worst <= (found[removed].leak or 0.0) <= found[removed].bound


def test_rows_that_were_not_left_out_are_named_and_nothing_is_said_of_them(tmp_path):
    spec = write_question(tmp_path, rows=50)
    _, family = loaded(tmp_path)
    found = leaveout.verify(spec).rows(points(tmp_path, 20))
    assert [each.row for each in found] == list(range(50))
    for each in found:
        left_out = each.row in family.removed
        assert (each.members, each.bound is not None) == (left_out, left_out)
        if not left_out:
            assert each.words == f"row {each.row}: not retrained: nothing is proved of it"
            assert each.points is None
            assert each.leak is None


def test_of_several_members_without_a_row_the_worst_counts(tmp_path):
    spec = write_question(tmp_path)
    single = {each.row: each for each in leaveout.verify(spec).rows() if each.members}
    _, family = loaded(tmp_path)
    removed = np.zeros(len(family), np.int64)
    save_family_file(tmp_path / "family.npz", Family(family.parameters, removed, family.manifest))
    x = points(tmp_path, 80)
    found = {each.row: each for each in leaveout.verify(spec).rows(x)}
    assert found[0].members == len(family)
    own, members = scores_of(tmp_path, x)
    labels = own.argmax(axis=1)
    changed = (np.min([margin(each, labels) for each in members], axis=0) <= 0) & (
        margin(own, labels) > 0
    )
    assert found[0].points.changed == tuple(np.flatnonzero(changed).tolist())
    worst = max(each.bound for each in single.values())
    assert found[0].bound == pytest.approx(worst, rel=2e-3)


def test_rows_searched_one_at_a_time_keep_their_leaks_below_lower_bounds(tmp_path):
    report = leaveout.verify(write_clinic(tmp_path, spread=0.3))
    (record,) = report.by_row
    closer, done = search_rows(record, 60.0)
    assert done == len(set(loaded(tmp_path)[1].removed.tolist()))
    after = {each.row: each for each in rows(msgspec.structs.replace(report, by_row=(closer,)))}
    gained = 0
    for before in report.rows():
        now = after[before.row]
        if before.bound is None:
            assert now.bound is None
            continue
        assert now.bound <= before.bound
        assert (now.leak or 0.0) >= (before.leak or 0.0)
        gained += now.bound < before.bound or now.leak != before.leak
        for each in now.labels:
            assert (each.leak or 0.0) <= each.bound
            assert each.bound - (each.leak or 0.0) <= max(2e-3 * each.bound, 1e-4)
    assert gained
    # No time, no change.
    assert search_rows(record, 0.0) == (record, 0)


def test_names_are_those_of_the_table(tmp_path, capsys):
    report = leaveout.verify(write_clinic(tmp_path))
    path = tmp_path / "r.json"
    saved(report, path)
    found = report.rows()
    assert tuple(each.name for each in found) == NAMES
    assert [each.name for each in found[0].labels] == ["no", "yes"]
    assert [each.name for each in in_order(found, "name")] == sorted(NAMES)
    assert named(found, "P-03") == named(found, "row 2") == [found[2]]
    assert run(["rows", str(path), "--row", "P-03"]) == 0
    assert capsys.readouterr().out.startswith("P-03 (row 2): proved: ")
    assert run(["rows", str(path), "--row", "Q-03"]) == 2
    assert "did you mean 'P-03'?" in capsys.readouterr().err


def test_points_of_a_table_are_counted_as_the_file_counts_them(tmp_path):
    report = leaveout.verify(write_clinic(tmp_path, spread=0.3))
    lines = [f"{age},{ward}" for age in range(20, 81, 2) for ward in "abc"]
    (tmp_path / "new.csv").write_text("age,ward\n" + "\n".join(lines) + "\n")
    found = report.rows(tmp_path / "new.csv")
    assert any(each.points.changed for each in found)
    for each in found:
        assert each.points.data == "new.csv"
        assert each.points.places == tuple(f"line {at + 2}" for at in each.points.changed)


def test_csv_and_json_hold_every_row(tmp_path, capsys):
    report = leaveout.verify(write_question(tmp_path, rows=50))
    path = tmp_path / "r.json"
    saved(report, path)
    x = points(tmp_path, 40)
    np.savez(tmp_path / "x.npz", X=x)
    options = ["--data", str(tmp_path / "x.npz"), "--sort", "row"]
    given = [str(tmp_path / "rows.csv"), str(tmp_path / "rows.json")]
    assert run(["rows", str(path), *options, "--csv", given[0], "--json", given[1]]) == 0
    shown = capsys.readouterr().out
    assert "and 30 more rows; --top 50 shows all" in shown
    found = report.rows(x)
    table = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    written = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len(table) == len(written) == len(found) == 50
    for line, item, each in zip(table, written, found, strict=True):
        assert int(line["row"]) == item["row"] == each.row
        assert line["words"].partition("; of the ")[0] == each.words.partition("; of the ")[0]
        assert item["bound"] == each.bound
        if each.bound is None:
            assert line["bound"] == line["changed"] == ""
            continue
        assert float(line["bound"]) == each.bound
        assert int(line["changed"]) == len(each.points.changed)
        for own in each.labels:
            assert float(line[f"bound {own.name or own.label}"]) == own.bound
    # The whole of it on standard output, and nothing else.
    assert run(["rows", str(path), "--csv", "-"]) == 0
    assert capsys.readouterr().out == to_csv(in_order(report.rows()))
    assert run(["rows", str(path), "--json", "-"]) == 0
    assert capsys.readouterr().out.encode() == to_json(in_order(report.rows()))


def test_the_worst_come_first(tmp_path):
    found = leaveout.verify(write_question(tmp_path, rows=50)).rows(points(tmp_path))
    for by, key in (
        ("bound", lambda each: -1.0 if each.bound is None else each.bound),
        ("leak", lambda each: -1.0 if each.leak is None else each.leak),
        ("changed", lambda each: -1 if each.points is None else len(each.points.changed)),
    ):
        values = [key(each) for each in in_order(found, by)]
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1] == -1


def test_results_of_before_say_what_to_do(tmp_path, capsys):
    spec = write_question(tmp_path)
    old = json.loads(leaveout.verify(spec).to_json())
    del old["by_row"]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(old))
    assert msgspec.json.decode(path.read_bytes(), type=Report).by_row == ()
    assert run(["rows", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"leaveout verify {spec} --json FILE" in said


def test_another_network_than_that_of_the_results_is_refused(tmp_path, capsys):
    report = leaveout.verify(write_question(tmp_path, seed=8))
    path = tmp_path / "r.json"
    saved(report, path)
    np.savez(tmp_path / "x.npz", X=points(tmp_path, 5))
    options = ["rows", str(path), "--data", str(tmp_path / "x.npz")]
    (tmp_path / "moved").mkdir()
    for name in ("full.onnx", "family.npz"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert run(options) == 2
    assert "no such file; say where it lies now with --network" in capsys.readouterr().err
    moved = [f"--network={tmp_path}/moved/full.onnx", f"--family={tmp_path}/moved/family.npz"]
    assert run([*options, *moved]) == 0
    other = tmp_path / "other"
    other.mkdir()
    write_question(other, seed=4)
    capsys.readouterr()
    assert run([*options, f"--network={other}/full.onnx", moved[1]]) == 2
    assert "is not the network that the results are of" in capsys.readouterr().err


def test_files_are_found_from_the_folder_of_the_results(tmp_path, monkeypatch, capsys):
    models = tmp_path / "models"
    models.mkdir()
    write_question(models)
    monkeypatch.chdir(tmp_path)
    assert run(["verify", "models/test.spec", "--json", "models/r.json"]) in (0, 3)
    np.savez(tmp_path / "x.npz", X=points(models, 5))
    models.rename(tmp_path / "moved")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    capsys.readouterr()
    assert run(["rows", "../moved/r.json", "--data", "../x.npz"]) == 0
    assert "5 answers to x.npz" in capsys.readouterr().out


def test_a_folder_of_members_is_asked_too(tmp_path):
    spec = write_question(tmp_path)
    network, family = loaded(tmp_path)
    x = points(tmp_path, 60)
    before = {each.row: each.points for each in leaveout.verify(spec).rows(x)}
    members = tmp_path / "members"
    members.mkdir()
    for member, removed in enumerate(family.removed.tolist()):
        own = {name: stack[0] for name, stack in family.take([member]).items()}
        onnx.save(with_parameters(network.model, own), members / f"member_{removed:05}.onnx")
    spec.write_text(BOUND.replace("family.npz", "members"))
    report = saved(leaveout.verify(spec), tmp_path / "r.json")
    after = [each for each in report.rows(x) if each.members]
    assert len(after) == len(family)
    assert all(each.points.changed == before[each.row].changed for each in after)


def lowered(report, share):
    (record,) = report.by_row
    labels = tuple(
        msgspec.structs.replace(
            each, levels=tuple(level * share for level in each.levels), leaks=()
        )
        for each in record.labels
    )
    record = msgspec.structs.replace(record, labels=labels)
    return msgspec.structs.replace(report, by_row=(record,))


def test_a_bound_that_a_point_or_a_leak_contradicts_is_refused(tmp_path):
    report = leaveout.verify(write_question(tmp_path, seed=6))
    x = points(tmp_path, 2000, low=0.0, high=1.0)
    assert any(each.points.changed for each in report.rows(x) if each.points)
    with pytest.raises(RowsError, match=r"the results are wrong of row \d+"):
        lowered(report, 1e-3).rows(x)
    (record,) = report.by_row
    labels = tuple(
        msgspec.structs.replace(each, leaks=before.leaks)
        for each, before in zip(lowered(report, 1e-3).by_row[0].labels, record.labels, strict=True)
    )
    forged = msgspec.structs.replace(record, labels=labels)
    with pytest.raises(RowsError, match=r"above the row's bound"):
        msgspec.structs.replace(report, by_row=(forged,)).rows()


FORGED = {
    "as many": lambda each: msgspec.structs.replace(each, members=each.members[1:]),
    "ascend": lambda each: msgspec.structs.replace(each, rows=each.rows[::-1]),
    "box": lambda each: msgspec.structs.replace(
        each, box=msgspec.structs.replace(each.box, lower=())
    ),
    "left out": lambda each: msgspec.structs.replace(each, members=(0,) * len(each.members)),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_does_not_fit_together_is_refused(tmp_path, name):
    report = leaveout.verify(write_question(tmp_path))
    forged = FORGED[name](report.by_row[0])
    with pytest.raises(RowsError):
        msgspec.structs.replace(report, by_row=(forged,)).rows()


@pytest.mark.parametrize("change", [{"level": (7000,)}, {"levels": (float("nan"),)}, {"level": ()}])
def test_levels_that_are_not_there_are_refused(tmp_path, change):
    report = leaveout.verify(write_question(tmp_path))
    (record,) = report.by_row
    own = record.labels[0]
    if change.get("level"):
        change = {"level": change["level"] * len(own.level)}
    labels = (msgspec.structs.replace(own, **change), *record.labels[1:])
    forged = msgspec.structs.replace(record, labels=labels)
    with pytest.raises(RowsError):
        msgspec.structs.replace(report, by_row=(forged,)).rows()


def test_a_leak_above_its_own_rows_bound_discredits_every_bound(tmp_path, monkeypatch):
    honest = leaveout.verify(write_question(tmp_path))
    worst = max(honest.results, key=lambda each: each.lower)

    def wrong(instance, kept, clock):
        for each in kept.values():
            each.upper[:] = 0.0

    monkeypatch.setattr(idp, "tighten", wrong)
    report = leaveout.verify(tmp_path / "test.spec")
    assert {each.verdict for each in report.results} == {"unknown"}
    assert all("exceeds a bound" in each.reason for each in report.results)
    by_label = {each.label: each.upper for each in report.results}
    assert by_label[worst.label] >= worst.lower
    for row in report.rows():
        for each in row.labels:
            if each.bound is not None:
                assert each.bound >= (each.leak or 0.0)
                assert each.bound == by_label[each.label]


def test_time_and_update_write_what_was_found(tmp_path, capsys):
    report = leaveout.verify(write_clinic(tmp_path, spread=0.3))
    path = tmp_path / "r.json"
    saved(report, path)
    assert run(["rows", str(path), "--update"]) == 2
    assert "give --time too" in capsys.readouterr().err
    assert run(["rows", str(path), "--time", "30", "--update"]) == 0
    assert "rows were searched" in capsys.readouterr().err
    after = msgspec.json.decode(path.read_bytes(), type=Report)
    assert after.results == report.results
    gaps = [
        sum((own.bound or 0.0) - (own.leak or 0.0) for each in one.rows() for own in each.labels)
        for one in (report, after)
    ]
    assert gaps[1] < gaps[0]


def test_a_deadline_leaves_sound_bounds_of_every_row(tmp_path):
    spec = write_question(tmp_path)
    whole = {each.row: each for each in leaveout.verify(spec).rows()}
    for time in (0.001, 0.05):
        for each in leaveout.verify(spec, time=time).rows():
            if each.members:
                assert each.bound >= (whole[each.row].leak or 0.0)


def test_a_statement_about_one_label_says_nothing_of_others(tmp_path):
    text = BOUND.replace("per label ", "").replace("confidence(N, x)", "confidence(N, x, 1)")
    report = leaveout.verify(write_question(tmp_path, text=text))
    found = [each for each in report.rows(points(tmp_path, 50)) if each.members]
    assert all([own.label for own in each.labels] == [1] for each in found)
    assert all("no answer 'kind 1'" in each.words for each in found)
    own, _ = scores_of(tmp_path, points(tmp_path, 50))
    others = int((own.argmax(axis=1) != 1).sum())
    assert all(each.points.not_excluded >= others for each in found)

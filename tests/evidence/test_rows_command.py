"""The command ``leaveout rows``: results in, a line for each row out."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import numpy as np

import leaveout
from leaveout.verifier.cli.app import run
from leaveout.verifier.report import Report
from leaveout.verifier.rows.known import find_rows, in_order, to_csv, to_json

from support.clinic import NAMES, write_clinic
from support.files import write_question
from support.rows import points, saved
from support.snapshots import passages


def test_names_are_those_of_the_table(tmp_path, capsys, snapshot):
    report = leaveout.verify(write_clinic(tmp_path))
    path = tmp_path / "r.json"
    saved(report, path)
    found = report.rows()
    assert tuple(each.name for each in found) == NAMES
    assert [each.name for each in found[0].labels] == ["no", "yes"]
    assert [each.name for each in in_order(found, "name")] == sorted(NAMES)
    assert find_rows(found, "P-03") == find_rows(found, "row 2") == [found[2]]
    assert run(["rows", str(path), "--row", "P-03"]) == 0
    assert capsys.readouterr().out == snapshot
    assert run(["rows", str(path), "--row", "Q-03"]) == 2
    assert capsys.readouterr().err == snapshot


def test_points_of_a_table_are_counted_as_the_file_counts_them(tmp_path):
    report = leaveout.verify(write_clinic(tmp_path, spread=0.3))
    lines = [f"{age},{ward}" for age in range(20, 81, 2) for ward in "abc"]
    (tmp_path / "new.csv").write_text("age,ward\n" + "\n".join(lines) + "\n")
    found = report.rows(tmp_path / "new.csv")
    assert any(each.points.changed for each in found)
    for each in found:
        assert each.points.data == "new.csv"
        assert each.points.places == tuple(f"line {at + 2}" for at in each.points.changed)


def test_csv_and_json_hold_every_row(tmp_path, capsys, snapshot):
    report = leaveout.verify(write_question(tmp_path, rows=50))
    path = tmp_path / "r.json"
    saved(report, path)
    x = points(tmp_path, 40)
    np.savez(tmp_path / "x.npz", X=x)
    options = ["--data", str(tmp_path / "x.npz"), "--sort", "row"]
    given = [str(tmp_path / "rows.csv"), str(tmp_path / "rows.json")]
    assert run(["rows", str(path), *options, "--csv", given[0], "--json", given[1]]) == 0
    shown = capsys.readouterr().out
    assert passages(shown, "--top") == snapshot
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


def test_results_of_before_say_what_to_do(tmp_path, capsys, snapshot):
    spec = write_question(tmp_path)
    old = json.loads(leaveout.verify(spec).to_json())
    del old["by_row"]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(old))
    assert msgspec.json.decode(path.read_bytes(), type=Report).by_row == ()
    assert run(["rows", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said == snapshot
    assert f"{spec}" in said


def test_another_network_than_that_of_the_results_is_refused(tmp_path, capsys, snapshot):
    report = leaveout.verify(write_question(tmp_path, seed=8))
    path = tmp_path / "r.json"
    saved(report, path)
    np.savez(tmp_path / "x.npz", X=points(tmp_path, 5))
    options = ["rows", str(path), "--data", str(tmp_path / "x.npz")]
    (tmp_path / "moved").mkdir()
    for name in ("full.onnx", "family.npz"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert run(options) == 2
    assert capsys.readouterr().err == snapshot
    moved = [f"--network={tmp_path}/moved/full.onnx", f"--family={tmp_path}/moved/family.npz"]
    assert run([*options, *moved]) == 0
    other = tmp_path / "other"
    other.mkdir()
    write_question(other, seed=4)
    capsys.readouterr()
    assert run([*options, f"--network={other}/full.onnx", moved[1]]) == 2
    assert capsys.readouterr().err == snapshot


def test_files_are_found_from_the_folder_of_the_results(tmp_path, monkeypatch, capsys, snapshot):
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
    assert capsys.readouterr().out == snapshot


def test_time_and_update_write_what_was_found(tmp_path, capsys, snapshot):
    report = leaveout.verify(write_clinic(tmp_path, spread=0.3))
    path = tmp_path / "r.json"
    saved(report, path)
    assert run(["rows", str(path), "--update"]) == 2
    assert capsys.readouterr().err == snapshot
    assert run(["rows", str(path), "--time", "30", "--update"]) == 0
    assert capsys.readouterr().err == snapshot
    after = msgspec.json.decode(path.read_bytes(), type=Report)
    assert after.results == report.results
    gaps = [
        sum((own.bound or 0.0) - (own.leak or 0.0) for each in one.rows() for own in each.labels)
        for one in (report, after)
    ]
    assert gaps[1] < gaps[0]

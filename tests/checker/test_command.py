"""``verify --certificate`` and ``check`` as a user runs them."""

from __future__ import annotations

import dataclasses
import math

import pytest

from leaveout.verifier.amounts import bound
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run
from leaveout.verifier.points import network_leaks
from leaveout.verifier.run import verify

from support.certificates import Content
from support.files import BOUND, write_question

HEAD = BOUND[: BOUND.index("find")]
GUARANTEE = (
    "guarantee g: forall x in X, M in F: confidence(N, x) > 1e6 => label(M, x) == label(N, x)\n"
)
FORMULA = "guarantee sure: forall x in X: score(N, x, 0) <= 1e6\n"
TWICE = "guarantee twice: forall x in X, y in X, M in F: score(M, x, 0) - score(M, y, 0) <= 1e6\n"
FALSE = "guarantee never: forall x in X: score(N, x, 0) <= -1e6\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    spec = write_question(folder)
    arguments = ["verify", str(spec), "--certificate", str(folder / "proof.cert")]
    # Without --time, which counts from the start of the process.
    assert run(arguments) in {0, 3}
    return folder


def test_an_accepted_certificate_says_what_it_proves(folder, capsys):
    assert run(["check", str(folder / "proof.cert")]) == 0
    out, err = capsys.readouterr()
    assert out.count("accepted") == 2
    assert "in [0, 1]" in out
    assert err == ""


def test_a_rejected_one_names_what_fails_in_one_line(folder, capsys, snapshot):
    content = Content.of(folder / "proof.cert")
    worst = max(content.manifest["results"], key=lambda r: r["upper"])
    worst["upper"] *= 0.5
    content.save(folder / "false.cert")
    assert run(["check", str(folder / "false.cert")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err == snapshot
    assert "node " in err


@pytest.mark.parametrize("name", ["nowhere.cert", "full.onnx", "family.npz", "test.spec", "."])
def test_what_is_no_certificate_is_refused_in_one_line(folder, capsys, name):
    assert run(["check", str(folder / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_other_files_of_leaveout_are_recognised_and_not_written_over(tmp_path, capsys, snapshot):
    spec = write_question(tmp_path)
    verify(spec, bounds=tmp_path / "bounds.npz")
    for name in ("family.npz", "bounds.npz"):
        path = tmp_path / name
        before = path.read_bytes()
        assert run(["check", str(path)]) == 2
        assert capsys.readouterr().err == snapshot
        assert run(["verify", str(spec), "--certificate", str(path)]) == 2
        assert capsys.readouterr().err == snapshot
        assert path.read_bytes() == before


def test_a_missing_network_is_named(folder, capsys):
    assert run(["check", str(folder / "proof.cert"), "--network", "gone.onnx"]) == 2
    assert "gone.onnx" in capsys.readouterr().err


def test_a_certificate_elsewhere_says_how_to_check_it(folder, tmp_path, capsys, snapshot):
    target = tmp_path / "proof.cert"
    assert run(["verify", str(folder / "test.spec"), "--certificate", str(target)]) in {0, 3}
    files = [
        "--network",
        str(folder / "full.onnx"),
        "--family",
        str(folder / "family.npz"),
    ]
    assert " ".join(files) in capsys.readouterr().out.replace("\n", " ")
    assert run(["check", str(target)]) == 2
    told = capsys.readouterr().err
    assert told == snapshot
    # The folder that it names is found from here.
    assert run(["check", str(target), "--files", told.split()[-1]]) == 0
    assert run(["check", str(target), *files]) == 0


def test_the_milp_engine_has_no_certificate(folder, capsys):
    target = folder / "lucid.cert"
    arguments = ["verify", str(folder / "test.spec"), "--engine", "lucid"]
    assert run([*arguments, "--certificate", str(target)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "MILP" in err
    assert not target.exists()


def test_other_files_are_not_written_over(folder, capsys):
    arguments = ["verify", str(folder / "test.spec"), "--certificate"]
    before = (folder / "family.npz").read_bytes()
    assert run([*arguments, str(folder / "family.npz")]) == 2
    assert run([*arguments, str(folder / "missing" / "proof.cert")]) == 2
    assert (folder / "family.npz").read_bytes() == before
    assert capsys.readouterr().err.count("\n") == 2


def stop_after(monkeypatch, searches):
    """Let Ctrl-C strike at the search after so many."""
    begun, real = [], network_leaks.search_native

    def search(*arguments, **given):
        begun.append(0)
        if len(begun) > searches:
            raise KeyboardInterrupt
        return real(*arguments, **given)

    monkeypatch.setattr(network_leaks, "search_native", search)


def about_certificates(report):
    return [note for note in report.notes if "certificate" in note]


@pytest.mark.parametrize("text", [BOUND, BOUND.replace(" per label", ""), HEAD + GUARANTEE])
def test_labels_that_were_not_searched_are_named(tmp_path, monkeypatch, capsys, text, snapshot):
    stop_after(monkeypatch, 1)
    report = verify(write_question(tmp_path, text=text), certificate=tmp_path / "p.cert")
    (note,) = about_certificates(report)
    assert note == snapshot
    found = check(tmp_path / "p.cert")
    labels = found[0].subject.labels
    assert [each.label for each in found] == [0] and labels == 2 + ("labels" in note)
    assert run(["check", str(tmp_path / "p.cert")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == snapshot
    assert f"{labels}" in last


def test_a_whole_certificate_leaves_nothing_out(tmp_path, capsys, snapshot):
    report = verify(write_question(tmp_path), certificate=tmp_path / "p.cert")
    assert about_certificates(report) == []
    assert run(["check", str(tmp_path / "p.cert")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == snapshot


def test_a_statement_that_an_earlier_search_decided_is_named_in_the_certificate(tmp_path):
    spec = write_question(tmp_path, text=BOUND + GUARANTEE)
    assert about_certificates(verify(spec, certificate=tmp_path / "p.cert")) == []
    assert {each.name for each in check(tmp_path / "p.cert")} == {"bound, g"}


@pytest.mark.parametrize(
    "text",
    [
        HEAD + FALSE,
        BOUND,
        BOUND + TWICE,
    ],
)
def test_one_note_says_why_there_is_no_certificate(tmp_path, monkeypatch, text, snapshot):
    stop_after(monkeypatch, 0)
    report = verify(write_question(tmp_path, text=text), certificate=tmp_path / "p.cert")
    (note,) = about_certificates(report)
    assert note == snapshot
    assert report.notes == snapshot
    assert not (tmp_path / "p.cert").exists()


def test_a_bound_below_what_is_proved_says_what_it_rests_on(tmp_path, monkeypatch, snapshot):
    real = network_leaks.search_native

    def search(*arguments, **given):
        found = real(*arguments, **given)
        return dataclasses.replace(
            found, upper=found.upper / 2, lower=0.0, closed=False, reason="time", detail="over"
        )

    monkeypatch.setattr(network_leaks, "search_native", search)
    report = verify(write_question(tmp_path), certificate=tmp_path / "p.cert")
    assert about_certificates(report)
    for note, each in zip(about_certificates(report), check(tmp_path / "p.cert"), strict=True):
        assert note == snapshot
        assert bound(each.upper, up=True) in note
        assert note == snapshot
        assert math.isfinite(each.upper)

"""Params, includes and ``--dry-run``: what a run reads, and what it would solve."""

import pytest

import leaveout
from leaveout.errors import SpecError
from leaveout.models import load_network
from leaveout.specs import (
    box,
    confidence,
    family,
    forall,
    guarantee,
    label,
    let,
    network,
    param,
    parse,
    spec,
)
from leaveout.verifier.cli.app import run
from leaveout.verifier.plan import plan
from leaveout.verifier.resolve_names import read_spec

from support.files import BOUND, write_other, write_question
from support.samples import MEMBERS, write_sample
from support.snapshots import passages

HEAD = BOUND[: BOUND.index("find")]
QUIET = (
    "param sure = 0.95\nguarantee quiet: forall x in X, M in F: confidence(N, x) > sure => "
    "label(M, x) == label(N, x)\n"
)


@pytest.fixture
def nested(tmp_path):
    """Write a specification whose network, family and box are in another folder's file."""
    (tmp_path / "lib").mkdir()
    write_question(tmp_path / "lib")
    (tmp_path / "lib" / "nets.spec").write_text(HEAD)
    path = tmp_path / "root.spec"
    path.write_text(f'include "lib/nets.spec"\n{QUIET}')
    return path


def test_a_param_is_set_and_the_report_says_so(nested, snapshot):
    report = leaveout.verify(nested, params={"sure": 0.1})
    assert [result.verdict for result in report.results] == ["refuted"]
    assert any("sure = 0.1" in note for note in report.notes)
    assert report.notes == snapshot
    report = leaveout.verify(nested)
    assert [result.verdict for result in report.results] == ["proved"]
    assert "param sure = 0.95" in report.notes


def test_the_command_line_sets_a_param(nested, capsys):
    assert run(["verify", str(nested), "--set", "sure=0.1"]) == 1
    assert "param sure = 0.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "settings",
    [
        ["sure"],
        ["=1"],
        ["sure=1", "sure=2"],
        ["shure=1"],
        ["sure=much"],
    ],
)
def test_a_wrong_setting_is_one_line(nested, capsys, settings, snapshot):
    options = [part for each in settings for part in ("--set", each)]
    assert run(["verify", str(nested), *options]) == 2
    error = capsys.readouterr().err
    assert error == snapshot
    assert error.count("\n") == 1


def test_what_is_decided_is_kept_as_one_text(nested):
    text = read_spec(nested, values={"sure": 0.1}).text
    whole = parse(text)
    assert [each.name for each in whole.statements] == ["N", "F", "X", "sure", "quiet"]
    assert 'network("lib/full.onnx")' in text
    assert "param sure = 0.1\n" in text


def test_without_params_and_includes_the_text_is_as_written(tmp_path):
    path = write_question(tmp_path)
    assert read_spec(path).text == BOUND


def test_an_error_of_an_included_file_s_network_is_shown_there(nested, tmp_path):
    (tmp_path / "lib" / "full.onnx").unlink()
    with pytest.raises(SpecError) as caught:
        leaveout.verify(nested)
    first, line, carets, *_ = str(caught.value).splitlines()
    assert first.startswith(f"{tmp_path}/lib/nets.spec:1:9: ")
    assert line == 'let N = network("full.onnx")'
    assert carets == " " * 8 + "^" * 20


def test_a_specification_built_in_python_is_decided(tmp_path):
    write_question(tmp_path)
    N, sure = let("N", network("full.onnx")), param("sure", 0.95)
    claim = forall(
        {"x": box(0, 1), "M": family("family.npz")},
        lambda x, M: (confidence(N, x) > sure).implies(label(M, x) == label(N, x)),
    )
    built = spec(N, sure, guarantee("quiet", claim))
    for values, verdict in (({}, "proved"), ({"sure": 0.1}, "refuted")):
        report = leaveout.verify(built, folder=tmp_path, params=values)
        assert [result.verdict for result in report.results] == [verdict]


def test_a_plan_says_what_would_be_solved(nested, tmp_path):
    (row,) = plan(nested).statements
    assert (row.name, row.kind, row.searches) == ("quiet", "guarantee", 2)
    network, family = (tmp_path / "lib" / name for name in ("full.onnx", "family.npz"))
    widths = [layer.width for layer in load_network(network).stack.layers]
    assert row.about == {
        "network": f"{network}: 3 inputs, layers of {', '.join(map(str, widths))} "
        f"({sum(widths[:-1])} ReLUs), 2 labels",
        "members": f"{family}: 2 members",
        "inputs": "3 continuous, 0 listed",
        "searches": "2, for labels 0 and 1",
    }


def test_a_dry_run_solves_nothing(nested, capsys, monkeypatch, snapshot):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr("leaveout.verifier.points.network_leaks.search_native", refuse)
    assert run(["verify", str(nested), "--dry-run", "--set", "sure=0.5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("guarantee quiet\n")
    assert out == snapshot
    assert passages(out, ("sure", "0.5", "0.95")) == snapshot


@pytest.mark.parametrize(
    "options",
    [
        ["--json", "-"],
        ["--engine", "magic"],
        ["--engine", "lucid", "--solver", "magic"],
    ],
)
def test_a_dry_run_of_what_cannot_be_run_is_bad_input(nested, capsys, options, snapshot):
    assert run(["verify", str(nested), "--dry-run", *options]) == 2
    assert capsys.readouterr().err == snapshot


def test_a_dry_run_of_a_missing_file_is_bad_input(nested, tmp_path):
    (tmp_path / "lib" / "family.npz").unlink()
    assert run(["verify", str(nested), "--dry-run"]) == 2


def test_a_plan_counts_what_is_searched(tmp_path, capsys, snapshot):
    write_question(tmp_path)
    path = tmp_path / "several.spec"
    path.write_text(
        'let N = network("full.onnx")\nlet F = family("family.npz")\n'
        "guarantee value: 1 < 2\n"
        "guarantee drift: forall x in box(0, 1), M in F: difference(N, M, x) <= 100\n"
        "guarantee low: forall x in box(0, 1): score(N, x, 0) <= 100\n"
    )
    value, drift, low = plan(path).statements
    assert (value.searches, low.searches) == (0, 1)
    assert (drift.about["members"], "members" in low.about) == ("2", False)
    assert run(["verify", str(path), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "    members   2\n" in out
    assert passages(out, "5") == snapshot
    assert f"{drift.searches + 1}" in out


def test_a_plan_of_values_has_no_search(tmp_path, snapshot):
    path = tmp_path / "value.spec"
    path.write_text("guarantee value: 1 < 2\n")
    assert str(plan(path)) == snapshot


def test_a_plan_of_two_networks_names_both(tmp_path, snapshot):
    write_question(tmp_path)
    write_other(tmp_path / "full.onnx", tmp_path / "again.onnx")
    path = tmp_path / "two.spec"
    path.write_text(
        'let N = network("full.onnx")\nlet Q = network("again.onnx")\n'
        "guarantee same: forall x in box(0, 1): label(Q, x) == label(N, x)\n"
    )
    (row,) = plan(path).statements
    assert row.about["network"].startswith(f"{tmp_path / 'full.onnx'}: ")
    assert row.about["against"] == str(tmp_path / "again.onnx")
    assert f"    against   {tmp_path}/again.onnx\n" in str(row)


def test_a_plan_of_a_sample_is_that_of_its_members(tmp_path):
    (row,) = plan(write_sample(tmp_path)).statements
    assert (row.name, row.searches) == ("bound", 2)
    assert row.about["members"] == f"{tmp_path / 'family.npz'}: {MEMBERS} members"
    assert list(row.about)[-2:] == ["searches", "again"]

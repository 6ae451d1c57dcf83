"""Statements about forests against every cell of their inputs, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout import verify
from leaveout.errors import LeaveoutError
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.scored import ScoredForest
from leaveout.verifier.plan import plan
from leaveout.verifier.report import Report

from support.forest_families import member_by_deleting

_LETS = 'let T = forest("t.npz")\nlet U = forest("u.npz")\nlet F = leave_one_out(T)\n'
_FIND = (
    "find bound: least b per label such that\n"
    "    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)\n"
)


def _said(folder: Path, text: str, **options: object) -> Report:
    (folder / "a.spec").write_text(_LETS + text)
    return verify(folder / "a.spec", **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Case:
    forest: DareForestClassifier
    other: DareForestClassifier
    inputs: np.ndarray


def _case(folder: Path, seed: int, labels: int = 2) -> _Case:
    """Return small forests over whole numbers from 0 to 3, and every input there is."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (14, 2)).astype(float)
    y = np.concatenate((np.arange(labels), rng.integers(0, labels, 14 - labels)))
    settings = {"max_depth": 3, "random_state": seed % 97}
    forest = DareForestClassifier(3, **settings).fit(X, y)
    other = forest.unlearn([int(rng.integers(14))])
    forest.save(folder / "t.npz")
    other.save(folder / "u.npz")
    grid = np.stack(np.meshgrid(*[np.arange(0, 3.01, 0.25)] * 2), axis=-1).reshape(-1, 2)
    return _Case(forest, other, grid)


def _worst(case: _Case, others: list[ScoredForest], inputs: np.ndarray) -> dict[int, float]:
    """Return the greatest confidence of a leak of each label; -1 where there is none."""
    scores = case.forest.predict_proba(inputs)
    own = scores.argmax(axis=1)
    rest = scores.copy()
    rest[np.arange(len(inputs)), own] = -np.inf
    confidence = scores.max(axis=1) - rest.max(axis=1)
    leaks = np.zeros(len(inputs), bool)
    for each in others:
        leaks |= each.probabilities(inputs).argmax(axis=1) != own
    labels = range(scores.shape[1])
    return {at: float(max(confidence[leaks & (own == at)], default=-1.0)) for at in labels}


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**20), st.integers(2, 3))
def test_bounds_are_those_of_every_input(
    tmp_path_factory: pytest.TempPathFactory, seed: int, labels: int
) -> None:
    folder = tmp_path_factory.mktemp("forest")
    case = _case(folder, seed, labels)
    members = [member_by_deleting(case.forest, row) for row in case.forest.rows_.tolist()]
    # Thresholds lie between whole numbers, so the quarters meet every cell.
    everywhere = _worst(case, members, case.inputs)
    least = max(everywhere.values())
    text = "let X = box(0, 3)\n" + _FIND
    text += "guarantee all: forall x in X, M in F: label(M, x) == label(T, x)\n"
    text += (
        f"guarantee at: forall x in X, M in F: confidence(T, x) > {max(least, 0.0)!r} => "
        "label(M, x) == label(T, x)\n"
        f"guarantee from: forall x in X, M in F: confidence(T, x) >= {max(least, 0.0)!r} => "
        "label(M, x) == label(T, x)\n"
    )
    results = {(each.name, each.label): each for each in _said(folder, text).results}
    for label, value in everywhere.items():
        found = results["bound", label]
        assert found.verdict == "proved"
        worst = max(value, 0.0)
        assert worst * 0.998 <= found.lower <= worst <= found.upper <= worst * 1.002 + 1e-9
        assert (found.witness is None) == (value < 0.0)
    verdicts = {name: found.verdict for (name, _), found in results.items()}
    assert verdicts["all"] == ("proved" if least < 0.0 else "refuted")
    assert verdicts["at"] == "proved"
    assert verdicts["from"] == ("proved" if least < 0.0 else "refuted")


@pytest.mark.parametrize("seed", range(4))
def test_two_forests_and_listed_values(tmp_path: Path, seed: int) -> None:
    case = _case(tmp_path, seed)
    whole = case.inputs[(case.inputs % 1 == 0).all(axis=1)]
    other = member_by_deleting(
        case.forest, int(np.setdiff1d(case.forest.rows_, case.other.rows_)[0])
    )
    least = max(_worst(case, [other], whole).values())
    text = (
        "let X = integers(integers(box(0, 3), at = 0), at = 1)\n"
        "find b: least b such that forall x in X: confidence(T, x) > b => "
        "label(U, x) == label(T, x)\n"
        "guarantee g: forall x in X: label(T, x) == label(U, x)\n"
    )
    found, same = _said(tmp_path, text).results
    assert found.verdict == "proved"
    assert 0.998 * max(least, 0.0) <= found.lower <= max(least, 0.0) <= found.upper
    assert same.verdict == ("proved" if least < 0.0 else "refuted")
    if same.witness is not None:
        x = np.array([same.witness.x])
        assert (x % 1 == 0).all()
        assert case.forest.predict(x) != case.other.predict(x)
        assert same.witness.other
        assert same.witness.words


def test_a_witness_names_the_row_and_is_replayed(tmp_path: Path, snapshot) -> None:
    case = _case(tmp_path, 3)
    text = "let X = box(0, 3)\nguarantee g: forall x in X, M in F: label(M, x) == label(T, x)\n"
    (result,) = _said(tmp_path, text).results
    witness = result.witness
    assert result.verdict == "refuted"
    assert witness is not None
    x = np.array([witness.x])
    left = case.forest.unlearn([witness.removed])
    assert case.forest.predict_proba(x)[0].tolist() == list(witness.scores)
    assert left.predict_proba(x)[0].tolist() == list(witness.member_scores)
    assert left.predict(x) != case.forest.predict(x)
    assert witness.words == snapshot
    assert f"{witness.removed}" in witness.words


@pytest.mark.parametrize("swapped", [False, True])
def test_a_witness_of_two_forests_names_the_labels_of_either(
    tmp_path: Path, swapped: bool, snapshot
) -> None:
    X = np.array([[0.0], [1.0]])
    forests = [
        DareForestClassifier(1, random_state=1).fit(X, labels)
        for labels in (["b", "c"], ["a", "d"])
    ]
    for forest, name in zip(forests[::-1] if swapped else forests, "tu", strict=True):
        forest.save(tmp_path / f"{name}.npz")
    text = "let X = box(1, 1)\nguarantee g: forall x in X: label(U, x) == label(T, x)\n"
    witness = _said(tmp_path, text).results[0].witness
    assert witness is not None
    one, two = ("d", "c") if swapped else ("c", "d")
    assert witness.words == snapshot
    assert f"{one}" in witness.words
    assert f"{two}" in witness.words
    assert (witness.label_names[witness.label], witness.label_names[witness.member_label]) == (
        one, two,
    )  # fmt: skip
    assert witness.scores[witness.label] == witness.member_scores[witness.member_label] == 1.0
    assert len(witness.scores) == len(witness.member_scores) == len(witness.label_names) == 4


def test_no_time_leaves_sound_bounds(tmp_path: Path) -> None:
    _case(tmp_path, 3)
    results = _said(tmp_path, "let X = box(0, 3)\n" + _FIND, time=1e-6).results
    for each in results:
        assert each.verdict == "unknown"
        assert each.reason is not None
        assert each.reason.startswith("time")
        assert each.upper == 1.0


def test_rows_outside_the_inputs_are_told(tmp_path: Path, snapshot) -> None:
    _case(tmp_path, 3)
    report = _said(tmp_path, "let X = box(0, 1)\n" + _FIND)
    assert report.notes == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "guarantee g: forall x in X, M in leave_one_out(U): confidence(T, x) > 0.5 => "
        "label(M, x) == label(T, x)",
        "guarantee g: forall x in X: label(T, x) == 1 or label(U, x) == 1",
        "guarantee g: forall x in X: label(T, x) == 1 or label(U, x) == 1",
        "guarantee g: forall x in X: score(T, x, 1) > 0.5",
        "guarantee g: forall x in X: confidence(T, x, 5) > 0.1 => label(U, x) == 5",
        "guarantee g: forall x in box([0, 0, 0], 1): label(T, x) == label(U, x)",
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, snapshot) -> None:
    _case(tmp_path, 1)
    with pytest.raises(LeaveoutError) as told:
        _said(tmp_path, "let X = box(0, 3)\n" + text)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("option", ["bounds", "data"])
def test_options_of_networks_are_refused(tmp_path: Path, option: str, snapshot) -> None:
    _case(tmp_path, 1)
    given = {option: tmp_path / "b.npz" if option == "bounds" else np.zeros((2, 2))}
    with pytest.raises(LeaveoutError) as told:
        _said(tmp_path, "let X = box(0, 3)\n" + _FIND, **given)
    assert str(told.value) == snapshot
    assert not (tmp_path / "b.npz").exists()


def test_a_plan_says_what_would_be_searched(tmp_path: Path, snapshot) -> None:
    _case(tmp_path, 1)
    (tmp_path / "a.spec").write_text(_LETS + "let X = box(0, 3)\n" + _FIND)
    text = str(plan(tmp_path / "a.spec"))
    assert text == snapshot

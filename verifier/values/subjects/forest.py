"""Forests that unlearn: deletions against training anew, cached statistics, equal answers."""

from __future__ import annotations

import csv
import re

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests import Answers, compare_answers, leaves_within
from leaveout.encoders import Box
from leaveout.errors import ForestError
from leaveout.files import TABLE, opened_text
from leaveout.models.forest import (
    DareForestClassifier,
    Forest,
    ScoredForest,
    SklearnForest,
    exact_forest,
    read_forest,
)
from leaveout.models.forest import caches_sound as first_unsound
from leaveout.specs.deciders import Arguments, Decided
from leaveout.verifier.values.subjects.solving import proving_solver

__all__ = ["caches_sound", "forest", "points", "retrain", "same_function", "unlearn"]

_COLUMN = "row"


def forest(given: Arguments) -> Forest:
    """Read a forest, exact or of scikit-learn."""
    return read_forest(given.path("path"))


def points(given: Arguments) -> list[tuple[int, ...]]:
    """Read which rows are deleted: a record a line, several rows of one with blanks between."""
    path = given.path("path")
    found: list[tuple[int, ...]] = []
    try:
        with opened_text(path, TABLE) as stream:
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            names = [name.strip() for name in next(reader, [])]
            if names.count(_COLUMN) != 1:
                raise ForestError(
                    f"{path}, line 1: there is no one column {_COLUMN!r}; it names the rows to "
                    "delete, counted from 0 in the data the forest was first fitted to"
                )
            column = names.index(_COLUMN)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise ForestError(
                        f"{path}, line {reader.line_num}: {len(cells)} cells, expected "
                        f"{len(names)} as in the header; rows deleted one after the other have "
                        "blanks between"
                    )
                words = cells[column].split()
                if not words or not all(re.fullmatch("[0-9]{1,18}", word) for word in words):
                    raise ForestError(
                        f"{path}, line {reader.line_num}: {_COLUMN!r} is {cells[column]!r}, "
                        "expected a row number, or several with blanks between"
                    )
                found.append(tuple(map(int, words)))
    except OSError as error:
        raise ForestError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ForestError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except csv.Error as error:
        raise ForestError(f"{path}, line {reader.line_num}: not CSV: {error}") from None
    if not found:
        raise ForestError(f"{path}: there is no record below the header; name a row to delete")
    return found


def unlearn(given: Arguments) -> DareForestClassifier:
    """Delete the rows of a record, one after the other."""
    whole = _forest(given, "forest")
    first, *others = _rows(given)
    regrown = whole.deletion_cost(first)
    left = whole.unlearned(first)
    for row in others:
        regrown += left.deletion_cost(row)
        left.delete(row)
    trees, rows = left.n_estimators, len(left.rows_)
    given.tell(
        {
            "rows": _rows(given),
            "rows_left": rows,
            "trees": trees,
            "rows_regrown": regrown,
            "rows_retrained": trees * rows,
        }
    )
    return left


def retrain(given: Arguments) -> DareForestClassifier:
    """Train anew without the rows of a record."""
    return _forest(given, "forest").retrained(_rows(given))


def caches_sound(given: Arguments) -> Decided:
    """Compute every cached statistic again from the rows, and train anew to compare draws."""
    held = _forest(given, "forest")
    wrong = first_unsound(held) or held.difference(held.retrained())
    given.tell({"trees": held.n_estimators, "rows": len(held.rows_)})
    return Decided("proved") if wrong is None else Decided("refuted", witness=wrong)


def same_function(given: Arguments) -> Decided:
    """Look for an input of a box that two forests give different labels."""
    one, other, box = given["forest"], given["other"], given["inputs"]
    assert isinstance(one, Forest)
    assert isinstance(other, Forest)
    assert isinstance(box, Box)
    if one.n_features_in_ != other.n_features_in_:
        raise ForestError(
            f"the forests read {one.n_features_in_} and {other.n_features_in_} features; compare "
            "forests of the same data"
        )
    if (one.classes_.dtype.kind in "biuf") != (other.classes_.dtype.kind in "biuf"):
        raise ForestError("the labels of one forest are numbers, those of the other texts")
    given.tell(
        {
            "trees": one.n_estimators,
            "trees_other": other.n_estimators,
            "features": len(box.lower),
            "inputs_tried": _TRIES,
        }
    )
    tried = _tried(one, other, box, given.seed)
    if tried is not None:
        return tried
    # In Python, where a label beyond float64's whole numbers stays itself.
    classes = sorted({*one.classes_.tolist(), *other.classes_.tolist()})
    answers = [_answers(each, classes, box) for each in (one, other)]
    with proving_solver(given.solver) as solver:
        found = compare_answers(answers[0], answers[1], box.lower, box.upper, solver, given.seconds)
    if found.verdict == "alike":
        return Decided("proved", note=_outside(one, other, box))
    if found.verdict == "apart" and found.x is not None:
        if box.choices and not np.array_equal(box.nearest(found.x), found.x):
            reason = "numerical: the forests differ, but at values that are not listed"
            return Decided("unknown", reason)
        return _apart(one, other, found.x) or Decided(
            "unknown", "numerical: the shares of two labels tie"
        )
    return Decided("unknown", found.reason)


def _outside(one: Forest, other: Forest, box: Box) -> str:
    """Say how many of the forests' rows a claim about a box leaves out."""
    exact = [each for each in (one, other) if isinstance(each, DareForestClassifier)]
    if not exact:
        return ""
    rows = np.concatenate([each.ensemble().X for each in exact])
    left = int(np.count_nonzero(~box.contains(rows)))
    if not left:
        return ""
    whose = "two forests" if len(exact) == 2 else "exact forest"
    return f"{left:,} of the {len(rows):,} rows of the {whose} lie outside the set of inputs"


_TRIES = 4096
"""Inputs that are tried before a solver is asked."""


def _tried(one: Forest, other: Forest, box: Box, seed: int) -> Decided | None:
    """Ask both forests about random cells of the box that their thresholds make."""
    rng = np.random.default_rng(seed)
    trees = [tree for each in (one, other) for tree in _scored(each).trees]
    x = np.empty((_TRIES, len(box.lower)))
    for at in range(x.shape[1]):
        cuts = np.unique(np.concatenate([t.threshold[t.feature == at] for t in trees]))
        cuts = cuts[(box.lower[at] <= cuts) & (cuts < box.upper[at])]
        x[:, at] = rng.choice(np.append(cuts, box.upper[at]), _TRIES)
    x = box.nearest(x)
    labels = [np.array(each.predict(x).tolist(), dtype=object) for each in (one, other)]
    differ = np.flatnonzero(labels[0] != labels[1])
    return _apart(one, other, x[differ[0]]) if len(differ) else None


def _apart(one: Forest, other: Forest, x: NDArray[np.float64]) -> Decided | None:
    """Return the refutation by an input, None if both forests answer it alike."""
    labels = [each.predict(x[None]).tolist()[0] for each in (one, other)]
    if labels[0] == labels[1]:
        return None
    shown = f"({', '.join(map(repr, x.tolist()))})"
    return Decided(
        "refuted",
        witness=f"at x = {shown} one answers {labels[0]}, the other {labels[1]}",
        facts={"one": str(labels[0]), "other": str(labels[1]), "x": shown},
    )


def _scored(each: Forest) -> ScoredForest:
    """Return a forest that answers every float64 input alike and rounds none."""
    if isinstance(each, SklearnForest):
        return each.scored.unrounded()
    return ScoredForest.of(each.ensemble())


def _answers(each: Forest, classes: list[object], box: Box) -> Answers:
    scored = _scored(each)
    place = {label: column for column, label in enumerate(classes)}
    columns = [place[label] for label in scored.classes.tolist()]
    found = []
    for tree in scored.trees:
        shares = np.zeros((len(tree.feature), len(classes)))
        shares[:, columns] = tree.shares
        arrays = tree.feature, tree.threshold, tree.left, tree.right
        found.append(leaves_within(*arrays, shares, box.lower, box.upper))
    return tuple(found)


def _forest(given: Arguments, name: str) -> DareForestClassifier:
    """Return a forest that knows its rows."""
    return exact_forest(given[name])


def _rows(given: Arguments) -> tuple[int, ...]:
    value = given["record"]
    assert isinstance(value, tuple)
    return value

"""Forests that unlearn: deletions against training anew, cached statistics, equal answers."""

from __future__ import annotations

import csv

import numpy as np

from leaveout.encoders import Box
from leaveout.encoders.forests import Answers, compare_answers, leaves_within
from leaveout.errors import ForestError
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest import caches_sound as first_unsound
from leaveout.solvers import find_solver
from leaveout.specs.deciders import Arguments, Decided

__all__ = ["caches_sound", "forest", "points", "retrain", "same_function", "unlearn"]

_COLUMN = "row"


def forest(given: Arguments) -> DareForestClassifier:
    """Read a forest."""
    return DareForestClassifier.load(given.path("path"))


def points(given: Arguments) -> list[tuple[int, ...]]:
    """Read which rows are deleted: a record a line, several rows of one with blanks between."""
    path = given.path("path")
    found: list[tuple[int, ...]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            if _COLUMN not in names:
                raise ForestError(
                    f"{path}, line 1: there is no column {_COLUMN!r}; it names the rows to delete, "
                    "counted from 0 in the data the forest was first fitted to"
                )
            reader.fieldnames = names
            for record in reader:
                cell = record[_COLUMN] or ""
                try:
                    rows = tuple(int(word) for word in cell.split())
                except ValueError:
                    rows = ()
                if not rows or min(rows) < 0:
                    raise ForestError(
                        f"{path}, line {reader.line_num}: {_COLUMN!r} is {cell!r}, expected a row "
                        "number, or several with blanks between"
                    )
                found.append(rows)
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
    left = _forest(given, "forest")
    first, *others = _rows(given)
    left = left.unlearned(first)
    for row in others:
        left.delete(row)
    return left


def retrain(given: Arguments) -> DareForestClassifier:
    """Train anew without the rows of a record."""
    return _forest(given, "forest").retrained(_rows(given))


def caches_sound(given: Arguments) -> Decided:
    """Compute every cached statistic again from the rows."""
    wrong = first_unsound(_forest(given, "forest"))
    return Decided("proved") if wrong is None else Decided("refuted", witness=wrong)


def same_function(given: Arguments) -> Decided:
    """Look for an input of a box that two forests give different labels."""
    one, other, box = _forest(given, "forest"), _forest(given, "other"), given["inputs"]
    assert isinstance(box, Box)
    if one.n_features_in_ != other.n_features_in_:
        raise ForestError(
            f"the forests read {one.n_features_in_} and {other.n_features_in_} features; compare "
            "forests of the same data"
        )
    if (one.classes_.dtype.kind in "biuf") != (other.classes_.dtype.kind in "biuf"):
        raise ForestError("the labels of one forest are numbers, those of the other texts")
    classes = np.union1d(one.classes_, other.classes_)
    found = compare_answers(
        _answers(one, classes, box),
        _answers(other, classes, box),
        box.lower,
        box.upper,
        find_solver(given.solver),
        given.seconds,
    )
    if found.verdict == "alike":
        return Decided("proved")
    if found.verdict == "apart" and found.x is not None:
        if box.choices and not np.array_equal(box.nearest(found.x), found.x):
            reason = "numerical: the forests differ, but at values that are not listed"
            return Decided("unknown", reason)
        labels = [each.predict(found.x[None])[0] for each in (one, other)]
        if labels[0] != labels[1]:
            x = tuple(float(value) for value in found.x)
            return Decided(
                "refuted",
                witness=f"at x = {_shown(x)} one answers {labels[0]}, the other {labels[1]}",
                facts={"one": str(labels[0]), "other": str(labels[1]), "x": _shown(x)},
            )
        return Decided("unknown", "numerical: the shares of two labels tie")
    return Decided("unknown", found.reason)


def _answers(each: DareForestClassifier, classes: np.ndarray, box: Box) -> Answers:
    ensemble = each.ensemble()
    columns = np.searchsorted(classes, ensemble.classes)
    found = []
    for tree in ensemble.trees:
        shares = np.zeros((len(tree.feature), len(classes)))
        shares[:, columns] = tree.probabilities
        arrays = tree.feature, tree.threshold, tree.left, tree.right
        found.append(leaves_within(*arrays, shares, box.lower, box.upper))
    return tuple(found)


def _forest(given: Arguments, name: str) -> DareForestClassifier:
    value = given[name]
    assert isinstance(value, DareForestClassifier)
    return value


def _rows(given: Arguments) -> tuple[int, ...]:
    value = given["record"]
    assert isinstance(value, tuple)
    return value


def _shown(x: tuple[float, ...]) -> str:
    """Return an input exactly, so that it can be tried again."""
    return f"({', '.join(map(repr, x))})"

"""Unlearning forests: deletion against retraining, cached statistics, equal answers."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Witness
from leaveout.bab.forests.box_trees import NotProvedError, record_boxes
from leaveout.bab.forests.search import Question, search_forests
from leaveout.cores import cores
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.errors import ForestError
from leaveout.files import TABLE, open_text_file
from leaveout.kernel.deletion import ends_of
from leaveout.models.forest import DareForestClassifier, Forest, exact_forest, read_forest
from leaveout.models.forest import caches_sound as first_unsound
from leaveout.models.forest.files import digest_of
from leaveout.models.forest.plain import Ensemble
from leaveout.models.forest.reading import scored_with_rows
from leaveout.specs.deciders import Arguments, Decided


def changes_between(before: Ensemble, after: Ensemble) -> dict[str, NDArray[Any]]:
    """Return the nodes of each tree where splits changed, and a digest."""
    changes: list[tuple[int, int, int]] = []
    features = [np.zeros(0, np.int32)]
    thresholds = [np.zeros(0)]
    for i, (old, new) in enumerate(zip(before.trees, after.trees, strict=True)):
        new_ends = ends_of(new.feature)
        stack = [(0, 0)]
        while stack:
            a, b = stack.pop()
            if old.feature[a] == new.feature[b] and old.threshold[a] == new.threshold[b]:
                if old.feature[a] >= 0:
                    stack += [
                        (int(old.right[a]), int(new.right[b])),
                        (int(old.left[a]), int(new.left[b])),
                    ]
                continue
            changes.append((i, a, int(new_ends[b]) - b))
            features.append(new.feature[b : new_ends[b]])
            thresholds.append(new.threshold[b : new_ends[b]])
    columns = np.array(changes, np.int32).reshape(-1, 3)
    return {
        "tree": columns[:, 0].copy(),
        "node": columns[:, 1].copy(),
        "size": columns[:, 2].copy(),
        "feature": np.concatenate(features),
        "threshold": np.concatenate(thresholds),
        "digest": np.frombuffer(bytes.fromhex(digest_of(after)), np.uint8),
    }


_COLUMN = "row"


def forest(given: Arguments) -> Forest:
    """Read an exact or scikit-learn forest."""
    return read_forest(given.path("path"))


def points(given: Arguments) -> list[tuple[int, ...]]:
    """Read the deletions: one record per line, rows separated by blanks."""
    path = given.path("path")
    found: list[tuple[int, ...]] = []
    try:
        with open_text_file(path, TABLE) as stream:
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            names = [name.strip() for name in next(reader, [])]
            if names.count(_COLUMN) != 1:
                raise ForestError(
                    f"{path}, line 1: expected exactly one column {_COLUMN!r}; it lists the rows "
                    "to delete, counted from 0 in the data the forest was first fitted to"
                )
            column = names.index(_COLUMN)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise ForestError(
                        f"{path}, line {reader.line_num}: {len(cells)} cells; expected "
                        f"{len(names)} as in the header; separate rows deleted one after the "
                        "other with blanks"
                    )
                words = cells[column].split()
                if not words or not all(re.fullmatch("[0-9]{1,18}", word) for word in words):
                    raise ForestError(
                        f"{path}, line {reader.line_num}: {_COLUMN!r} is {cells[column]!r}; "
                        "expected a row number, or several separated by blanks"
                    )
                found.append(tuple(map(int, words)))
    except OSError as error:
        raise ForestError(f"{path}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ForestError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except csv.Error as error:
        raise ForestError(f"{path}, line {reader.line_num}: not CSV: {error}") from None
    if not found:
        raise ForestError(f"{path}: no records below the header; name a row to delete")
    return found


def unlearn(given: Arguments) -> DareForestClassifier:
    """Delete the rows of a record one after another."""
    whole = _whole_groups(given)
    first, *others = _rows(given)
    regrown = whole.deletion_cost(first)
    left = whole.unlearn(first)
    for row in others:
        regrown += left.deletion_cost(row)
        left.delete(row, part=True)
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
    if given.proving:
        recorded = changes_between(whole.ensemble(), left.ensemble())
        given.prove(lambda: recorded)
    return left


def retrain(given: Arguments) -> DareForestClassifier:
    """Train again without the rows of a record."""
    return _whole_groups(given).retrain(_rows(given))


def caches_sound(given: Arguments) -> Decided:
    """Recompute every cached statistic from the rows; retrain to compare draws."""
    held = _forest(given, "forest")
    wrong = first_unsound(held) or held.difference(held.retrain())
    given.tell({"trees": held.n_estimators, "rows": len(held.rows_)})
    return Decided("proved") if wrong is None else Decided("refuted", witness=wrong)


def same_function(given: Arguments) -> Decided:
    """Search a box for an input with different labels from two forests."""
    one, other, box = given["forest"], given["other"], given["inputs"]
    assert isinstance(one, Forest)
    assert isinstance(other, Forest)
    assert isinstance(box, Box)
    if one.n_features_in_ != other.n_features_in_:
        raise ForestError(
            f"the forests read {one.n_features_in_} and {other.n_features_in_} features; compare "
            "forests trained on the same data"
        )
    deadline = Deadline.after(given.seconds)
    (whole, X), (against, other_X) = scored_with_rows(one), scored_with_rows(other)
    question = Question.of(whole, against, box)
    given.tell(
        {
            "trees": one.n_estimators,
            "trees_other": other.n_estimators,
            "features": len(box.lower),
            "inputs_tried": _TRIES,
        }
    )
    drawn = question.overlay.cells.sample(np.random.default_rng(given.seed), _TRIES)
    tries = np.concatenate([drawn, X, other_X])
    late = False
    for label in range(len(whole.classes)):
        found = search_forests(
            whole, against, box, label, floor=_ANY, decide=True, seconds=deadline.limit,
            threads=cores(), tries=tries, question=question,
        )  # fmt: skip
        if found.interrupted:
            raise KeyboardInterrupt
        if found.witness is not None:
            given.prove(partial(dict, x=found.witness.x))
            return _apart(question, found.witness)
        late = late or not found.closed
    if late:
        return Decided("unknown", "time: not all sets of inputs were decided")
    if given.proving:
        _prove_same(given, question, len(whole.classes))
    return Decided("proved", note=_outside([X, other_X], box))


def _prove_same(given: Arguments, question: Question, labels: int) -> None:
    """Store the trees of boxes of every label, or note why there are none."""
    found = {}
    try:
        for label in range(labels):
            trees = record_boxes(question, label, _ANY, most=_MOST, threads=cores())
            for name in ("size", "feature", "value"):
                found[f"{label}.{name}"] = getattr(trees, name)
    except NotProvedError as error:
        given.unproved = str(error)
    else:
        given.prove(lambda: found)


_MOST = 2**22  # boxes of one label in a certificate, at most
_TRIES = 4096  # inputs that are tried before all are reasoned about
_ANY = -1e-9  # a floor below every confidence, that of a tie included


def _outside(known: Sequence[NDArray[np.float64]], box: Box) -> str:
    """Return a note on the known rows of the forests that a claim leaves out."""
    rows = np.concatenate(known)
    left = int(np.count_nonzero(~box.contains(rows)))
    if not left:
        return ""
    whose = "two forests" if all(map(len, known)) else "exact forest"
    return f"{left:,} of the {len(rows):,} rows of the {whose} lie outside the set of inputs"


def _apart(question: Question, witness: Witness) -> Decided:
    """Return the refutation by an input with different labels."""
    scores = witness.scores, witness.member_scores
    one, two = (
        known[int(each.argmax())] for known, each in zip(question.labels, scores, strict=True)
    )
    shown = f"({', '.join(map(repr, witness.x.tolist()))})"
    return Decided(
        "refuted",
        witness=f"at x = {shown}, one answers {one} and the other {two}",
        facts={"one": str(one), "other": str(two), "x": shown},
    )


def _forest(given: Arguments, name: str) -> DareForestClassifier:
    return exact_forest(given[name])


def _whole_groups(given: Arguments) -> DareForestClassifier:
    """Return the forest; where rows leave together, a record must have all of a group."""
    whole = _forest(given, "forest")
    whole.refuse_part(_rows(given))
    return whole


def _rows(given: Arguments) -> tuple[int, ...]:
    value = given["record"]
    assert isinstance(value, tuple)
    return value

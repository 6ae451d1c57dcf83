"""Membership attacks on a folder's model, with its own members as references."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.errors import GuardError
from leaveout.models.archive import archive_names, read_archive
from leaveout.models.reading import FURTHER, read_table
from leaveout.verifier.audits.attacks import (
    CONFIDENCE,
    Attack,
    Range,
    judge_answers,
    judge_scores,
    label_advantage,
    offline_ratios,
    online_ratios,
    scaled_confidence,
)
from leaveout.verifier.audits.intervals import clopper_pearson
from leaveout.verifier.guard.inputs import encode_inputs
from leaveout.verifier.guard.reference_models import STRANGER, UNCLEAR, References
from leaveout.verifier.guard.subject import OnProgress

LEAST_ROWS = 10
"""Of members, and of strangers where there are some, for anything to be measured."""

_MOST_RISKS = 10


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that attacks are tried on.

    Attributes
    ----------
    X : ndarray, shape (rows, inputs)
    y : ndarray of int64, shape (rows,)
    member : ndarray of int64, shape (rows,)
        Which member lacks each; -1 for rows that the model was not trained on.
    places : tuple of str
        Where each stands.
    unclear : int
        How many training rows were left aside, as no member lacks them.
    """

    X: NDArray[Any]
    y: Integers
    member: Integers
    places: tuple[str, ...]
    unclear: int


@dataclass(frozen=True)
class Guarded:
    """What a guard's answers give away about the row asked about: measured, and proved."""

    epsilon: float
    advantage: Range
    bound: float


@dataclass(frozen=True)
class Risk:
    """A training row that shows: what the model says of its label, and the one without it."""

    place: str
    unit: str
    score: float
    with_row: float
    without: float
    turned: bool


@dataclass(frozen=True)
class Found:
    """What attacks give away.

    Attributes
    ----------
    members, strangers, unclear : int
        Rows, and training rows left aside as no member lacks them.
    confidence : float
        Of each interval by itself.
    models : int
        Without a row each.
    references : int
        Models with the row, by which the likelihood ratio of ``same_rows`` is taken.
    strangers_attacks : tuple of Attack
        On training rows against other rows; empty without such.
    same_rows : tuple of Attack
        On the model against the one without the row asked about, a coin choosing for each row.
    scores_differ, labels_differ : Range
        Share of training rows of whose label the two models say another confidence, or where they
        answer another label.
    noised : int or None
        Training rows at which some row's leaving may change the label, as proved; None where
        nothing is proved.
    guarded : Guarded or None
    risks : tuple of Risk
        Rows that show most, the first the most.
    """

    members: int
    strangers: int
    unclear: int
    confidence: float
    models: int
    references: int
    strangers_attacks: tuple[Attack, ...]
    same_rows: tuple[Attack, ...]
    scores_differ: Range
    labels_differ: Range
    noised: int | None
    guarded: Guarded | None
    risks: tuple[Risk, ...]


def read_asked(references: References, source: Path, column: str = "") -> Asked:
    """Read rows, and tell those that the model was trained on.

    Parameters
    ----------
    references : References
    source : Path
        A CSV with the columns of the training table and labels, or an NPZ with ``X_train`` and
        ``y_train``, and perhaps ``X_test`` and ``y_test``.
    column : str
        Names rows, or groups, as the training table does; empty for the column that the folder
        knows, or where there is none, rows are found by what they hold.

    Raises
    ------
    GuardError
        If rows or labels cannot be read, or it cannot be told which the model was trained on.
    """
    if source.suffix == ".npz":
        if column:
            raise GuardError(f"{source}: an NPZ has no columns; drop --id")
        X, words, places = _read_arrays(references, source)
        cells = None
    else:
        X, words, places, cells = _read_table(references, source, column or references.identity)
    known = {name: at for at, name in enumerate(references.names)}
    wrong = next((at for at, word in enumerate(words) if word not in known), None)
    if wrong is not None:
        raise GuardError(
            f"{places[wrong]}: {words[wrong]!r} is not a label of this model; it has "
            f"{', '.join(references.names)}"
        )
    y = np.array([known[word] for word in words], np.int64)
    if cells is not None:
        member = _members_of(references, cells, places)
    else:
        try:
            member = references.find(X, y)
        except GuardError as error:
            raise GuardError(f"{source}: {error}") from None
    kept = np.flatnonzero(member != UNCLEAR)
    return Asked(
        X[kept], y[kept], member[kept], tuple(places[at] for at in kept.tolist()),
        len(X) - len(kept),
    )  # fmt: skip


def _read_arrays(
    references: References, source: Path
) -> tuple[NDArray[Any], list[str], tuple[str, ...]]:
    names = archive_names(source, GuardError)
    parts = [each for each in ("train", "test") if f"X_{each}" in names]
    if "train" not in parts:
        raise GuardError(f"{source}: no array 'X_train'; save X_train, y_train, X_test and y_test")
    wanted = [f"{letter}_{each}" for each in parts for letter in "Xy"]
    arrays = read_archive(source, GuardError, only=wanted)
    for each in parts:
        X, y = arrays[f"X_{each}"], arrays.get(f"y_{each}")
        if X.ndim != 2 or X.dtype.kind not in "fiub" or not np.isfinite(X).all():
            raise GuardError(f"{source}: 'X_{each}' must be rows of finite numbers")
        if y is None or y.shape != (len(X),):
            raise GuardError(f"{source}: no array 'y_{each}' with a label of each row")
    if len({arrays[f"X_{each}"].shape[1] for each in parts}) > 1:
        raise GuardError(f"{source}: 'X_train' and 'X_test' have different numbers of features")
    X = np.concatenate([arrays[f"X_{each}"] for each in parts]).astype(references.kind)
    words = [str(label) for each in parts for label in arrays[f"y_{each}"].tolist()]
    places = tuple(
        f"{source}, X_{each} row {at}" for each in parts for at in range(len(arrays[f"X_{each}"]))
    )
    return X, words, places


def _read_table(
    references: References, source: Path, column: str
) -> tuple[NDArray[Any], list[str], tuple[str, ...], list[str] | None]:
    encoding = references.encoding
    if encoding is None:
        raise GuardError(f"{source}: the model was trained on arrays; pass an NPZ")
    table = read_table(source, reading=encoding.to_reading if encoding else FURTHER)
    if not len(table):
        raise GuardError(f"{source}: no rows below the header")
    table.require(encoding.label, "it contains the labels")
    if column:
        table.require(column, "it says which rows the model was trained on")
    try:
        X = encode_inputs(table.records(), references.encode)
    except GuardError as error:
        raise GuardError(f"{source}: {error}") from None
    places = tuple(f"{source}, line {line}" for line in table.lines)
    words = table.column(encoding.label)
    return X.astype(references.kind), words, places, table.column(column) if column else None


def _members_of(references: References, cells: list[str], places: tuple[str, ...]) -> Integers:
    """Return which member lacks each row, by what the rows are called."""
    known = {name: at for at, name in enumerate(references.units)}
    unclear = dict.fromkeys(references.unclear, UNCLEAR)
    found = np.array([known.get(each, unclear.get(each, STRANGER)) for each in cells], np.int64)
    if not references.group:
        for name, times in Counter(each for each in cells if each in known).items():
            if times > 1:
                twice = [at for at, each in enumerate(cells) if each == name][1]
                raise GuardError(f"{places[twice]}: a second row {name!r}; drop one")
    return found


def attack(
    references: References,
    asked: Asked,
    *,
    epsilon: float | None = None,
    count: int = 64,
    seed: int = 0,
    progress: OnProgress | None = None,
) -> Found:
    """Try attacks on a model.

    Parameters
    ----------
    references, asked
    epsilon : float or None
        Of a guard whose answers are attacked, too; no answer is drawn or remembered.
    count : int
        Most models that serve as references with a row.
    seed : int
        Draws the references, and which of two models is asked about each row.
    progress : callable or None
        Told how many answers of members are known, and of how many.

    Raises
    ------
    GuardError
        If there are too few rows, or nothing is proved for a guard.
    """
    inside, outside = (np.flatnonzero(part) for part in (asked.member >= 0, asked.member < 0))
    if len(inside) < LEAST_ROWS or 0 < len(outside) < LEAST_ROWS:
        raise GuardError(
            f"{len(inside)} rows that the model was trained on and {len(outside)} others; expected "
            f"at least {LEAST_ROWS} of each, or none of the others"
        )
    if epsilon is not None and references.leaks is None:
        raise GuardError("nothing is proved for a guard yet; run leaveout verify --bounds first")
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(references.units))[:count])
    # Each stranger's reference lacks some row, as a member's does: both know equally much.
    drawn = rng.integers(len(references.units), size=len(outside))
    heads = rng.permutation(len(inside)) < len(inside) // 2
    scores = references.whole(asked.X)
    whole, labels = scaled_confidence(scores, asked.y), scores.argmax(axis=1)
    rows = np.concatenate((inside, outside, np.repeat(inside, len(chosen))))
    members = np.concatenate((asked.member[inside], drawn, np.tile(chosen, len(inside))))
    told, answers = _ask(references, asked, rows, members, progress)
    first, last = len(inside), len(inside) + len(outside)
    own, kept = told[:first], told[last:].reshape(first, len(chosen))
    kept = np.where(asked.member[inside][:, None] == chosen, np.nan, kept)
    right, turned = labels == asked.y, answers[:first] != labels[inside]
    leaks = _find_leaks(references, asked)
    ratios = offline_ratios(
        np.concatenate((whole[inside], whole[outside])), told[:last].astype(np.float64)
    )
    strangers: list[Attack] = []
    if len(outside):
        strangers += [
            judge_scores("likelihood ratio", ratios[:first], ratios[first:]),
            judge_scores("loss", whole[inside], whole[outside]),
            _judge("label", right.astype(np.float64), inside, outside),
        ]
    seen, right_without = np.where(heads, whole[inside], own), answers[:first] == asked.y[inside]
    same = [
        judge_scores("likelihood ratio", *_split(online_ratios(seen, kept, own), heads)),
        judge_scores("loss", *_split(seen, heads)),
        judge_answers("label", *_split(np.where(heads, right[inside], right_without) + 0.0, heads)),
    ]
    guarded = None
    if epsilon is not None and leaks is not None:
        gain = label_advantage(epsilon, len(references.names))
        noised = np.where(leaks, _chance(right, gain, len(references.names)), right)
        if len(outside):
            strangers.append(_judge(f"label, epsilon {epsilon:g}", noised, inside, outside))
        share = _share(turned)
        found = Range(*(gain * each for each in share))
        bound = float(leaks[inside].mean() * np.tanh(epsilon / 2))
        guarded = Guarded(epsilon, found, bound)
    return Found(
        first, len(outside), asked.unclear, CONFIDENCE, len(references.units), len(chosen),
        tuple(strangers), tuple(same), _share(own != whole[inside]), _share(turned),
        None if leaks is None else int(leaks[inside].sum()), guarded,
        _risks(references, asked, inside, ratios[:first], whole[inside], own, turned),
    )  # fmt: skip


def _ask(
    references: References,
    asked: Asked,
    rows: Integers,
    members: Integers,
    progress: OnProgress | None,
) -> tuple[Floats, Integers]:
    """Return what members say of rows' labels, and which labels they answer."""
    told, answers, done = np.zeros(len(rows)), np.zeros(len(rows), np.int64), 0
    for places, scores in references.without(asked.X, rows, members):
        told[places] = scaled_confidence(scores, asked.y[rows[places]])
        answers[places] = scores.argmax(axis=1)
        done += len(places)
        if progress is not None:
            progress(done, len(rows))
    return told, answers


def _find_leaks(references: References, asked: Asked) -> NDArray[np.bool_] | None:
    """Return which rows a guard answers with noise; those outside what is proved among them."""
    if references.leaks is None:
        return None
    inside = np.array([not references.where_outside(x) for x in asked.X])
    found = ~inside
    findings = references.leaks.find_all(asked.X[inside])
    found[inside] = [each.leak for each in findings]
    return found


def _chance(right: NDArray[np.bool_], gain: float, labels: int) -> Floats:
    """Return the chance that a noised answer is the row's own label."""
    other = (1.0 - gain) / labels
    return np.where(right, other + gain, other)


def _judge(name: str, chances: NDArray[Any], inside: Integers, outside: Integers) -> Attack:
    return judge_answers(name, chances[inside], chances[outside])


def _split(values: Floats, heads: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    return values[heads], values[~heads]


def _share(which: NDArray[np.bool_]) -> Range:
    count = int(which.sum())
    return Range(count / len(which), *clopper_pearson(count, len(which), CONFIDENCE))


def _risks(
    references: References,
    asked: Asked,
    inside: Integers,
    ratios: Floats,
    whole: Floats,
    own: Floats,
    turned: NDArray[np.bool_],
) -> tuple[Risk, ...]:
    chance = [1.0 / (1.0 + np.exp(-np.clip(each, -700, 700))) for each in (whole, own)]
    return tuple(
        Risk(
            asked.places[inside[at]], references.units[asked.member[inside[at]]],
            float(ratios[at]), float(chance[0][at]), float(chance[1][at]), bool(turned[at]),
        )
        for at in np.argsort(-ratios, kind="stable")[:_MOST_RISKS].tolist()
    )  # fmt: skip

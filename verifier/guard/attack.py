"""Membership attacks on a folder's model, with its own members as references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.errors import GuardError
from leaveout.models.archive import archive_names, read_archive
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
from leaveout.verifier.guard.hinges import read_inputs
from leaveout.verifier.guard.reference_models import STRANGER, UNCLEAR, References
from leaveout.verifier.guard.subject import OnProgress

LEAST_ROWS = 10  # of members, and of strangers where there are some, for anything to be measured

_MOST_RISKS = 10

_BLOCK = 512  # rows of which it is asked together whether a guard would noise them


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that attacks are tried on."""

    X: NDArray[Any]  # shape (rows, inputs)
    y: Integers  # shape (rows,)
    member: Integers  # shape (rows,): which lacks each; -1 if the model was not trained on it
    places: tuple[str, ...]  # where each stands
    unclear: int  # how many training rows were left aside, as no member lacks them
    told: str = ""  # how training rows were told from others
    changed: int = 0  # rows with a known name but other contents: they are others


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

    ``others_attacks`` are on training rows against other rows, ``same_rows`` on the model against
    the one without the row asked about, a coin choosing for each row.
    """

    members: int  # rows
    others: int  # rows
    unclear: int  # training rows left aside as no member lacks them
    confidence: float  # of each interval by itself
    models: int  # without a row each
    references: int  # models with the row, by which the likelihood ratio of same_rows is taken
    others_attacks: tuple[Attack, ...]  # empty without other rows
    same_rows: tuple[Attack, ...]
    scores_differ: Range  # share of training rows whose label has another confidence without them
    labels_differ: Range  # share of training rows that are answered another label without them
    noised: int  # training rows at which some row's leaving may change the label
    guarded: Guarded | None
    risks: tuple[Risk, ...]  # rows that show most, the first the most


def read_asked(references: References, source: Path, column: str = "") -> Asked:
    """Read rows of a CSV or NPZ, and tell those that the model was trained on.

    They are told by a column that names rows, or groups, as the training table does: the one given
    or that the folder knows; where there is none, by what they hold.
    """
    subject, names = references.subject, references.names
    if source.suffix == ".npz":
        if column:
            raise GuardError(f"{source}: an NPZ has no columns; drop --id")
        X, words, places = _read_arrays(references, source)
        cells = None
    else:
        table, X, places = read_inputs(subject, source)
        if subject.encoding is None or table is None:
            raise GuardError(f"{source}: the model was trained on arrays; pass an NPZ")
        table.require(subject.encoding.label, "each row needs its label")
        words, column = table.column(subject.encoding.label), column or references.identity
        if column:
            table.require(column, "training rows are told by their names")
        cells = table.column(column) if column else None
    known = {name: at for at, name in enumerate(names)}
    for at, word in enumerate(words):
        if word not in known:
            what = f"{word!r} is not a label of this model; it has {', '.join(names)}"
            raise GuardError(f"{places[at]}: {what}")
    y = np.array([known[word] for word in words], np.int64)
    named = None if cells is None else _members_of(references, cells, places)
    if named is not None and (named == STRANGER).all():
        where = references.identity
        hint = f"; names are in column {where!r}" if where not in ("", column) else ""
        raise GuardError(f"{source}, column {column!r}: names no training row{hint}")
    try:
        member = references.find(X, y, named)
    except GuardError as error:
        raise GuardError(f"{source}: {error}") from None
    told = "contents" if references.holds else "the digest of the first rows"
    if named is not None:
        what = "contents and numbers of rows" if subject.group else "contents"
        told = f"column {column!r}; {what} are {'' if references.holds else 'not '}compared"
    changed = 0 if named is None else int(((member == STRANGER) & (named != STRANGER)).sum())
    kept = np.flatnonzero(member != UNCLEAR)
    return Asked(
        X[kept], y[kept], member[kept], tuple(places[at] for at in kept.tolist()),
        len(X) - len(kept), told, changed,
    )  # fmt: skip


def _read_arrays(
    references: References, source: Path
) -> tuple[NDArray[Any], list[str], tuple[str, ...]]:
    names = archive_names(source, GuardError)
    parts = [each for each in ("train", "test") if f"X_{each}" in names]
    if "train" not in parts or any(f"y_{each}" not in names for each in parts):
        raise GuardError(f"{source}: expected arrays X_train, y_train and perhaps X_test, y_test")
    held = read_archive(source, GuardError)
    X, words, places = [], [], []
    for each in parts:
        try:
            X.append(references.subject.domain.points(held[f"X_{each}"]))
        except GuardError as error:
            raise GuardError(f"{source}: 'X_{each}': {error}") from None
        if held[f"y_{each}"].shape != (len(X[-1]),) or not np.isfinite(X[-1]).all():
            raise GuardError(
                f"{source}: 'X_{each}' needs finite numbers, and 'y_{each}' a label a row"
            )
        words += [str(label) for label in held[f"y_{each}"].tolist()]
        places += [f"{source}, X_{each} row {at}" for at in range(len(X[-1]))]
    return np.concatenate(X), words, tuple(places)


def _members_of(references: References, cells: list[str], places: tuple[str, ...]) -> Integers:
    """Return which member lacks each row, by what the rows are called."""
    known = {name: at for at, name in enumerate(references.subject.unit_names)}
    unclear = dict.fromkeys(references.unclear, UNCLEAR)
    found = np.array([known.get(each, unclear.get(each, STRANGER)) for each in cells], np.int64)
    if not references.subject.group:
        for name, times in Counter(cells).items():
            if times > 1 and (name in known or name in unclear):
                twice = [at for at, each in enumerate(cells) if each == name][1]
                raise GuardError(f"{places[twice]}: another row has this name; drop one")
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
    """Try attacks on a model, with at most ``count`` models with a row as references.

    With an epsilon the answers of such a guard are attacked, too; none is drawn or stored. The seed
    draws the references, and which of two models is asked about each row.
    """
    inside, outside = (np.flatnonzero(part) for part in (asked.member >= 0, asked.member < 0))
    if len(inside) < LEAST_ROWS or 0 < len(outside) < LEAST_ROWS:
        known = f" ({asked.changed} have a known name but other contents)" * (asked.changed > 0)
        raise GuardError(
            f"{len(inside)} rows that the model was trained on and {len(outside)} others{known}; "
            f"expected at least {LEAST_ROWS} of each, or none of the others"
        )
    models = references.subject.members
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(models)[:count])
    # Each stranger's reference lacks some row, as a member's does: both know equally much.
    drawn = rng.integers(models, size=len(outside))
    heads = rng.permutation(len(inside)) < len(inside) // 2
    scores = references.whole(asked.X)
    whole, labels = scaled_confidence(scores, asked.y), scores.argmax(axis=1)
    rows = np.concatenate((inside, outside, np.repeat(inside, len(chosen))))
    members = np.concatenate((asked.member[inside], drawn, np.tile(chosen, len(inside))))
    watched = inside if epsilon is None else np.arange(len(asked.X))
    total, done = len(rows) + len(watched), 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    told, answers = _ask(references, asked, rows, members, tell)
    first, last = len(inside), len(inside) + len(outside)
    own, kept = told[:first], told[last:].reshape(first, len(chosen))
    kept = np.where(asked.member[inside][:, None] == chosen, np.nan, kept)
    right, turned = labels == asked.y, answers[:first] != labels[inside]
    leaks = _find_leaks(references, asked, watched, tell)
    ratios = offline_ratios(np.concatenate((whole[inside], whole[outside])), told[:last])
    strangers: list[Attack] = []
    if len(outside):
        strangers += [
            judge_scores("likelihood ratio", ratios[:first], ratios[first:]),
            judge_scores("loss", whole[inside], whole[outside]),
            judge_answers("label", right[inside] + 0.0, right[outside] + 0.0),
        ]
    seen, right_without = np.where(heads, whole[inside], own), answers[:first] == asked.y[inside]
    same = [
        judge_scores("likelihood ratio", *_split(online_ratios(seen, kept, own), heads)),
        judge_scores("loss", *_split(seen, heads)),
        judge_answers("label", *_split(np.where(heads, right[inside], right_without) + 0.0, heads)),
    ]
    guarded = None
    if epsilon is not None:
        gain = label_advantage(epsilon, len(references.names))
        # A noised answer is any one other label with this chance, and the model's with gain more.
        chance = (1.0 - gain) / len(references.names)
        noised = np.where(leaks, chance + gain * right, right)
        name = f"label, epsilon {epsilon:g}"
        without = np.where(leaks[inside], chance + gain * right_without, right_without)
        answered = np.where(heads, noised[inside], without)
        same.append(judge_answers(name, *_split(answered, heads)))
        if len(outside):
            strangers.append(judge_answers(name, noised[inside], noised[outside]))
        share = _share(turned)
        found = Range(*(gain * each for each in share))
        bound = float(leaks[inside].mean() * np.tanh(epsilon / 2))
        guarded = Guarded(epsilon, found, bound)
    return Found(
        first, len(outside), asked.unclear, CONFIDENCE, models, len(chosen),
        tuple(strangers), tuple(same), _share(own != whole[inside]), _share(turned),
        int(leaks[inside].sum()), guarded,
        _risks(references, asked, inside, ratios[:first], whole[inside], own, turned),
    )  # fmt: skip


def _ask(
    references: References,
    asked: Asked,
    rows: Integers,
    members: Integers,
    tell: Callable[[int], None],
) -> tuple[Floats, Integers]:
    """Return what members say of rows' labels, and which labels they answer."""
    told, answers = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    for places, scores in references.without(asked.X, rows, members):
        told[places] = scaled_confidence(scores, asked.y[rows[places]])
        answers[places] = scores.argmax(axis=1)
        tell(len(places))
    return told, answers


def _find_leaks(
    references: References, asked: Asked, watched: Integers, tell: Callable[[int], None]
) -> NDArray[np.bool_]:
    """Return which of some rows a guard would noise, or refuse as nothing is proved of them."""
    subject, found = references.subject, np.zeros(len(asked.X), bool)
    for first in range(0, len(watched), _BLOCK):
        own = watched[first : first + _BLOCK]
        outside = np.array([bool(subject.where_outside(x)) for x in asked.X[own]])
        found[own[outside]], known = True, own[~outside]
        found[known] = [each.leak for each in subject.leaks.find_all(asked.X[known])]
        tell(len(own))
    return found


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
            asked.places[inside[at]], references.subject.unit_names[asked.member[inside[at]]],
            float(ratios[at]), float(chance[0][at]), float(chance[1][at]), bool(turned[at]),
        )
        for at in np.argsort(-ratios, kind="stable")[:_MOST_RISKS].tolist()
    )  # fmt: skip

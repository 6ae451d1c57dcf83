"""A model and the models without a row each, as references of membership attacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.bab import make_instance
from leaveout.bab.native.files.manifest_parts import family_digest, network_digest
from leaveout.encoders import Box
from leaveout.errors import GuardError
from leaveout.models.family import FAMILY
from leaveout.models.family_load import load_family
from leaveout.models.forest.columns import FOREST
from leaveout.models.forest.state import load_plain
from leaveout.models.linear.family import centre, refine
from leaveout.models.linear.file import LINEAR, load_linear
from leaveout.models.onnx.file import load_network
from leaveout.models.train.data import TrainingData
from leaveout.models.train.export import BOUNDS, NETWORK
from leaveout.verifier.guard.access import Access, ProvedBounds
from leaveout.verifier.guard.forests.leaks import ForestLeakTest
from leaveout.verifier.guard.linear import LinearLeakTest
from leaveout.verifier.guard.loading import NetworkSubject, load_subject
from leaveout.verifier.guard.subject import OnProgress, Subject, TableSubject
from leaveout.verifier.guard.trees import TreeLeakTest

_LEAST_SHARE = 1e-6  # a forest's shares are taken to be at least this, as their logarithm is asked

_MOST_REFITTED = 4096
"""Members of a linear model that are refitted; others are known in closed form."""

_AT_ONCE = 2**22

Pairs = Iterator[tuple[Integers, Floats]]
"""Blocks of answered pairs: their places, and their scores, shape (pairs, labels)."""

Find = Callable[[NDArray[Any], Integers, Integers | None], Integers]
Whole = Callable[[NDArray[Any]], Floats]
Without = Callable[[NDArray[Any], Integers, Integers], Pairs]

STRANGER, UNCLEAR = -1, -2


@dataclass(frozen=True, eq=False)
class References:
    """A model of labels and its members.

    ``find`` returns of rows and labels which member lacks each, perhaps given which by name:
    `STRANGER` where none does, `UNCLEAR` for training rows that no member lacks. It raises where
    that cannot be told.
    """

    subject: Subject
    names: tuple[str, ...]  # of labels
    unclear: frozenset[str]  # what training rows are called that no member lacks
    identity: str  # the column that names rows, or groups; empty if it is not known
    holds: bool  # whether it has its training rows, so that contents are compared
    find: Find
    whole: Whole  # returns the model's scores of inputs, shape (n, labels)
    without: Without  # yields the scores of pairs of inputs (places in the first one) and members


def load_references(
    folder: Path, progress: OnProgress | None = None, *, adopt: bool = False
) -> References:
    """Read a folder that `load_subject` reads, or a network of which nothing is proved yet."""
    if (folder / NETWORK).exists() and not (folder / BOUNDS).exists():
        return _of_network(NetworkSubject(_access_without_bounds(folder)))
    subject = load_subject(folder, progress, adopt=adopt)
    if isinstance(subject, NetworkSubject):
        return _of_network(subject)
    assert isinstance(subject, TableSubject)
    return _of_table(folder, subject)


def _access_without_bounds(folder: Path) -> Access:
    """Read a network with bounds that say nothing, so that every member is asked."""
    if not (folder / FAMILY).exists():
        raise GuardError(f"{folder}: no {FAMILY}, so there are no references; train it again")
    network = load_network(folder / NETWORK)
    family = load_family(folder / FAMILY, network)
    facts = family.manifest.data
    if facts is None or len(facts.minimum) != network.inputs:
        raise GuardError(
            f"{folder}: its family does not say in which box its rows lie; prove bounds first, "
            "with leaveout verify --bounds"
        )
    box = Box(np.array(facts.minimum), np.array(facts.maximum))
    nothing = np.full((network.labels, len(family)), np.inf)
    bounds = ProvedBounds(network_digest(network), family_digest(family), box, nothing)
    return Access(folder, make_instance(network, family, box), bounds)


def _of_network(subject: NetworkSubject) -> References:
    network, family = subject.instance.network, subject.instance.family
    facts, lacked = family.manifest.data, family.removed.tolist()
    count = len(family) if facts is None else facts.rows
    called = (() if facts is None else facts.ids) or map(str, range(count))

    def find(X: NDArray[Any], y: Integers, named: Integers | None) -> Integers:
        if named is not None:
            return named
        given = None
        if facts is not None and not facts.group and len(X) >= facts.rows:
            given = TrainingData(X[: facts.rows], y[: facts.rows], ()).facts().sha256
        if facts is None or given != facts.sha256:
            raise GuardError(
                "the first rows are not, unchanged and in order, those that the network was "
                "trained on; name training rows by a column, with --id"
            )
        found = np.full(len(X), STRANGER)
        found[: facts.rows] = UNCLEAR
        found[lacked] = np.arange(len(lacked))
        return found

    def without(X: NDArray[Any], rows: Integers, members: Integers) -> Pairs:
        for places in _by(members):
            own = {n: part[0] for n, part in family.take([members[places[0]]]).items()}
            yield places, network.runner(own).scores(X[rows[places]]).astype(np.float64)

    return References(
        subject, subject.names or tuple(map(str, range(subject.labels))),
        frozenset(called) - set(subject.unit_names), "" if facts is None else facts.group, False,
        find, lambda X: network.runner().scores(X).astype(np.float64), without,
    )  # fmt: skip


def _of_table(folder: Path, subject: TableSubject) -> References:
    leaks = subject.leaks
    column = subject.columns.identity or "" if subject.columns is not None else ""
    find: Find
    whole: Whole
    if isinstance(leaks, LinearLeakTest):
        model = load_linear(folder / LINEAR)
        find = _finder(model.X, model.y.astype(np.int64), model.units)
        whole, without = model.scores, _linear_pairs(leaks)
        column = column if model.groups is None else model.groups.column
    elif isinstance(leaks, ForestLeakTest):
        forest = load_plain(folder / FOREST)
        find = _finder(forest.X, forest.y.astype(np.int64), forest.units)
        none = np.empty(0, np.int64)
        whole = lambda X: _logs(np.array([leaks.shares(x, none)[0] for x in X]))  # noqa: E731
        without = _forest_pairs(leaks)
        column = column if forest.groups is None else forest.groups.column
    else:
        assert isinstance(leaks, TreeLeakTest)
        if len(leaks.family) < leaks.family.rows:
            raise GuardError(
                f"{folder}: only {len(leaks.family):,} of {leaks.family.rows:,} training rows have "
                "a member, and it is not known which rows the others are; train it with all members"
            )
        ensemble = leaks.family.whole
        find, whole = _no_rows, lambda X: _both(ensemble.scores(X), ensemble.center)
        without = _tree_pairs(leaks)
        column = leaks.family.group or column
    holds = find is not _no_rows
    return References(subject, subject.names, frozenset(), column, holds, find, whole, without)


def _no_rows(X: NDArray[Any], y: Integers, named: Integers | None) -> Integers:
    if named is not None:
        return named
    raise GuardError("trees do not hold their rows; name them by a column of a CSV, with --id")


def _finder(X: Floats, y: Integers, units: Integers) -> Find:
    """Return what finds rows among those held (of the name given), each as often as it is held."""

    def keys(X: NDArray[Any], *numbers: Integers) -> Iterator[tuple[bytes, ...]]:
        parts = ([(each + 0).tobytes() for each in part] for part in (X, *numbers))
        return zip(*parts, strict=True)

    def find(others: NDArray[Any], labels: Integers, named: Integers | None) -> Integers:
        held: dict[tuple[bytes, ...], list[int]] = {}
        own, asked = ((y,), (labels,)) if named is None else ((y, units), (labels, named))
        for at, key in reversed([*enumerate(keys(X, *own))]):
            held.setdefault(key, []).append(int(units[at]))
        known = map(held.get, keys(others, *asked))
        # Further copies of a row are no strangers: nothing is said of them.
        found = (STRANGER if each is None else each.pop() if each else UNCLEAR for each in known)
        return np.array([*found], np.int64)

    return find


def _by(numbers: Integers) -> Iterator[Integers]:
    """Yield the places of equal numbers."""
    order = np.argsort(numbers, kind="stable")
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def _both(scores: Floats, center: float) -> Floats:
    if scores.shape[-1] > 1:
        return scores
    return np.concatenate([np.zeros_like(scores), scores - center], axis=-1)


def _logs(shares: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(shares, _LEAST_SHARE)))


def _linear_pairs(leaks: LinearLeakTest) -> Without:
    def without(X: NDArray[Any], rows: Integers, members: Integers) -> Pairs:
        # In closed form members are less near to their minimum than attacks see.
        family = refine(leaks.family, np.unique(members)[:_MOST_REFITTED])
        design = family.model.design(X)
        for places in _by(members):
            own = centre(family, int(members[places[0]]))
            yield places, _both(design[rows[places]] @ own.T, 0.0)

    return without


def _forest_pairs(leaks: ForestLeakTest) -> Without:
    def without(X: NDArray[Any], rows: Integers, members: Integers) -> Pairs:
        for places in _by(rows):
            yield places, _logs(leaks.shares(X[rows[places[0]]], members[places])[1:])

    return without


def _tree_pairs(leaks: TreeLeakTest) -> Without:
    family = leaks.family
    step = max(1, _AT_ONCE // (len(family.pool.roots) + len(family) * len(family.whole.base)))

    def without(X: NDArray[Any], rows: Integers, members: Integers) -> Pairs:
        for first in range(0, len(X), step):
            places = np.flatnonzero((rows >= first) & (rows < first + step))
            found = family.scores(X[first : first + step])[rows[places] - first, members[places]]
            yield places, _both(found, family.whole.center)

    return without

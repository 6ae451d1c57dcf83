"""Inputs whose answer some leave-out member of a linear model changes, asking few of them.

A member's margin is N's plus ``z w``, where z is how its unit moves the fit and w the input, both
in coordinates in which the curvature is the identity. Nobody with |z| |w| below N's margin
disagrees; the others come first in the order of |z|, in which float32 copies of z are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.errors import GuardError
from leaveout.kernel.family import Family, Part, Score
from leaveout.kernel.model import LinearModel
from leaveout.kernel.numbers import gamma, lengths, no_less
from leaveout.models.linear.family import bound_members, refine
from leaveout.models.linear.file import LINEAR, arrays_of, load_linear, manifest_of
from leaveout.models.linear.folder import COLUMNS, LinearFolder, frozen_features
from leaveout.models.train.changes import Former, write_changed
from leaveout.models.train.folder import open_for_change
from leaveout.verifier.guard.inputs import Finding, Glance, LeakFinder, Point
from leaveout.verifier.guard.subject import Identity, OnProgress, TableSubject

_SINGLE = 2.0**-24  # relative error of one rounding of float32
_BELOW = 1e-30  # far above what float32 loses below its least number, of any z w with |w| = 1
_PAD = 1.0 + 1e-9  # what sums of a few non-negative numbers may lose

_FIRST_BLOCK, _LAST_BLOCK = 2**11, 2**18
"""Units evaluated together: few at first, since who moves most disagrees first."""

_WIDE, _MOST_WIDE = 0.1, 512
"""A member is refitted at first if its radius is more of the longest step, so many at most."""

_NEAR = 1e-4  # how near to its minimum such a member is refitted, relative to the longest step
_MOST_REFITTED = 4096  # most members that one call of `find_all` refits


class _Layer(NamedTuple):
    """One fit's members but those with centres of their own, in the order of all layers."""

    z: NDArray[np.float32]  # shape (units, parameters)
    near: Floats  # shape (units,): what is unknown of z w, relative to |w|
    wide: Floats  # shape (units,): the same, relative to the input's size


class _Term(NamedTuple):
    """What one fit contributes to a margin at an input."""

    fit: int
    factor: Floats  # shape (outputs,)
    w: Floats  # shape (parameters,)
    far: float  # at least |w|
    wide: float  # the input's size: norms of R's rows times sizes of design columns


class _Rival(NamedTuple):
    """N's margin over one rival at an input."""

    margin: float
    error: float  # rounding of N's and of any member's served margin
    score: Score
    terms: list[_Term]


class _Sight(NamedTuple):
    """An input as it is compared with members."""

    label: int
    row: Floats  # shape (columns,)
    sizes: Floats  # shape (columns,)
    rivals: list[_Rival]  # the closest first


@dataclass(frozen=True, eq=False)
class _Own:
    """Members with centres of their own, which are evaluated at every input."""

    family: Family
    units: Integers
    apart: tuple[Floats, ...]  # of each fit the centres minus N, (units, outputs, columns)

    @staticmethod
    def of(family: Family) -> _Own:
        apart = tuple(part.members.centres - part.at.theta for part in family.parts)
        return _Own(family, family.parts[0].members.measured, apart)

    def margins(self, sight: _Sight, rival: _Rival) -> tuple[Floats, Floats]:
        """Return the members' margins, and what these may be off."""
        found, size = np.full(len(self.units), rival.margin), np.zeros(len(self.units))
        for term in rival.terms:
            apart = np.einsum("q,mqk->mk", term.factor, self.apart[term.fit])
            found += apart @ sight.row
            size += np.abs(apart) @ sight.sizes
        count = self.family.model.design.roundings
        reach = [term.far for term in rival.terms]
        error = self.family.slack(rival.score, sight.sizes, reach, count, self.units)
        return found, (error + 2.0 * gamma(count) * size + rival.error) * _PAD


class LinearLeakTest(LeakFinder):
    """Finds inputs at which a member answers otherwise, ties, or is left open by its radius."""

    # Only `find_all` refits and keeps such members: elsewhere the time would tell of it.

    def __init__(self, family: Family) -> None:
        # A member with a centre of its own in one fit gets one in each.
        measured = np.unique(np.concatenate([each.members.measured for each in family.parts]))
        family = refine(family, measured)
        self._model, self._parts, self._lock = family.model, family.parts, Lock()
        self._count = count = family.model.design.roundings
        self._first = self._own = _Own.of(family)
        closed = np.setdiff1d(np.arange(len(family)), measured)
        near, reach = [], np.zeros(len(closed))
        for part in family.parts:
            step = part.members.step[closed]
            single = _SINGLE * 1.01 * (part.at.R.shape[1] + 4)
            near.append(no_less(part.members.radius[closed] + step * single + _BELOW))
            reach = np.maximum(reach, no_less(step + near[-1]))
        order = np.argsort(-reach, kind="stable")
        self._units, self._reach = closed[order], reach[order]
        self._layers = []
        for part, each in zip(family.parts, near, strict=True):
            step, moved = part.members.step[self._units], part.distances[self._units]
            wide = no_less(part.centre_errors[self._units] + gamma(count) * (moved + 2.0 * step))
            z = self._moves(family, part)
            # Steps beyond float32 say nothing.
            known = np.where(np.isfinite(z).all(axis=1), each[order], np.inf)
            self._layers.append(_Layer(z, known, wide))
        self._widest = [float(each.wide.max(initial=0.0)) for each in self._layers]

    def _moves(self, family: Family, part: Part) -> NDArray[np.float32]:
        place = np.full(len(family), -1)
        place[self._units] = np.arange(len(self._units))
        found = np.empty((len(self._units), part.at.R.shape[1]), np.float32)
        for first, last in family.blocks():
            here = place[first:last]
            with np.errstate(over="ignore"):
                found[here[here >= 0]] = part.moves(first, last)[here >= 0]
        return found

    @property
    def family(self) -> Family:
        """The members as they are known by now."""
        return self._own.family

    def label(self, x: Point) -> int:
        return int(self._model.answers(x[None])[0])

    def glance(self, x: Point) -> Glance:
        """Evaluate the model, and whether even the member that moves most must agree."""
        sight = self._sight(x)
        clear = all(self._is_clear(sight, rival) for rival in sight.rivals)
        return Glance(sight.label, sight.rivals[0].margin, clear)

    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether a member answers otherwise or ties, or may."""
        dissents, near = self._ask(x)
        return dissents or len(near) > 0

    def dissenters(self, points: NDArray[np.float64], labels: Integers) -> list[Integers]:
        """See `LeakFinder.dissenters`: members whose answers are open are refitted, and kept."""
        near = [self._dissenters(x)[1] for x in points]
        self._refit(np.unique(np.concatenate([np.empty(0, np.int64), *near])))
        return [np.union1d(*self._dissenters(x)) for x in points]

    def _refit(self, units: Integers) -> None:
        with self._lock:
            left = np.setdiff1d(units, self._own.units)
            if len(left):
                self._own = _Own.of(refine(self._own.family, left[:_MOST_REFITTED]))

    def _dissenters(self, x: Point) -> tuple[Integers, Integers]:
        """Return units that certainly answer otherwise or tie, and those that may."""
        sight, own = self._sight(x), self._own
        sure, near = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        with np.errstate(over="ignore", invalid="ignore"):
            for rival in sight.rivals:
                if not (rival.margin > rival.error and np.isfinite(self._spare(rival))):
                    return np.arange(len(own.family)), near[0]
                for units, margins, error in self._evaluate(own, sight, rival, False):
                    certain = margins + error <= 0.0
                    sure.append(units[certain])
                    near.append(units[~(certain | (margins > error))])
        return np.concatenate(sure), np.concatenate(near)

    def ask_all(self, x: Point) -> None:
        self._ask(x, every=True)

    def find_all(self, points: NDArray[np.float64]) -> list[Finding]:
        """Decide inputs; members whose answers to them are open are refitted, and kept."""
        near: set[int] = set()
        for x in points:
            if len(near) < _MOST_REFITTED and not self.glance(x).is_clear:
                dissents, units = self._ask(x)
                near.update([] if dissents else units.tolist())
        self._refit(np.array(sorted(near), np.int64))
        return super().find_all(points)

    def _sight(self, x: Point) -> _Sight:
        with np.errstate(over="ignore", invalid="ignore"):
            rows, sizes = self._model.design.with_sizes(x[None])
            scores, size = self._model.scores_of(rows)[0], sizes[0]
            label = int(scores.argmax())
            pulled = []
            for part in self._parts:
                w = rows @ part.at.R.reshape(*part.at.theta.shape, -1)
                pulled.append((w[:, 0], no_less((part.norms * size).sum(axis=1))))
            rivals = []
            for other in np.flatnonzero(np.arange(len(scores)) != label).tolist():
                score, terms = self._first.family.margin(label, other), []
                for fit, factor in enumerate(score.factors):
                    if factor is None:
                        continue
                    w, wide = factor @ pulled[fit][0], float(np.abs(factor) @ pulled[fit][1])
                    far = float(no_less(lengths(w) + gamma(self._count) * wide * _PAD))
                    terms.append(_Term(fit, factor, w, far, wide * _PAD))
                error = 2.0 * self._first.family.served_error(score, size, self._count)
                rivals.append(_Rival(float(scores[label] - scores[other]), error, score, terms))
        return _Sight(label, rows[0], size, sorted(rivals, key=lambda each: each.margin))

    def _spare(self, rival: _Rival) -> float:
        """Return how far the steps of members must reach for one to disagree, for |w| = 1."""
        unknown = rival.error + sum(self._widest[each.fit] * each.wide for each in rival.terms)
        far = sum(each.far for each in rival.terms)
        return (rival.margin - unknown * _PAD) / (far * _PAD)

    def _is_clear(self, sight: _Sight, rival: _Rival) -> bool:
        # Not "<=": what is no number is not clear.
        if not self._spare(rival) > self._reach[:1].sum():
            return False
        margins, error = self._first.margins(sight, rival)
        return bool(np.all(margins > error))

    def _ask(self, x: Point, every: bool = False) -> tuple[bool, Integers]:
        """Return whether a member certainly disagrees, and units that may."""
        sight, own, dissents = self._sight(x), self._own, False
        near: list[Integers] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for rival in sight.rivals:
                # Where N's own label is in doubt, or beyond float64, so is that of members.
                dissents |= not (rival.margin > rival.error and np.isfinite(self._spare(rival)))
                for units, margins, error in self._evaluate(own, sight, rival, every):
                    if dissents and not every:
                        return True, units[:0]
                    dissents |= bool(np.any(margins + error <= 0.0))
                    near.append(units[~(margins > error)])
        return dissents, np.unique(np.concatenate(near))

    def _evaluate(
        self, own: _Own, sight: _Sight, rival: _Rival, every: bool
    ) -> Iterator[tuple[Integers, Floats, Floats]]:
        """Yield units, their margins, and what these may be off; all who may disagree."""
        yield own.units, *own.margins(sight, rival)
        count, first, size = len(self._units), 0, _FIRST_BLOCK
        if not every:
            count -= int(np.searchsorted(self._reach[::-1], self._spare(rival)))
        singles = [(each.w / each.far).astype(np.float32) for each in rival.terms]
        while first < count:
            chosen = slice(first, min(first + size, count))
            margins, error = (np.full(chosen.stop - first, v) for v in (rival.margin, rival.error))
            for term, w in zip(rival.terms, singles, strict=True):
                layer = self._layers[term.fit]
                margins += term.far * (layer.z[chosen] @ w)
                error += term.far * layer.near[chosen] + term.wide * layer.wide[chosen]
            units = self._units[chosen]
            if own is not self._first:
                margins[np.isin(units, own.units)] = np.inf  # asked already
            yield units, margins, error * _PAD
            first, size = chosen.stop, min(size * 4, _LAST_BLOCK)


class LinearSubject(TableSubject):
    """A linear model whose members are the models without one of its rows, or groups.

    A memory is bound to kind, design, penalty and labels only, so it outlives deletions and
    additions; which inputs may be noised depends on the rows.
    """

    def __init__(self, folder: Path, progress: OnProgress = lambda done, of: None) -> None:
        path, read = folder / LINEAR, None
        if (folder / COLUMNS).exists():
            read = LinearFolder.read(folder)
        model = load_linear(path) if read is None else read.model
        if not model.labels:
            raise GuardError(
                f"{path}: a regression answers with numbers; a guard answers with labels: train a "
                "model with --kind logistic, softmax or svm"
            )
        group = "" if model.groups is None else model.groups.column
        super().__init__(folder, model.inputs, None if read is None else read.columns, group)
        self._network = b"" if read is None else read.network
        self._frozen = folder / ("" if read is None else read.columns.frozen)
        family = known_members(model, path, progress)
        self.leaks = LinearLeakTest(family)
        self.labels, self.names, self.members = len(model.labels), model.labels, len(family)
        unit = repr(group) if group else "row"
        self.identity = Identity(_kind_digest(model), f"every {unit}", model.digest)
        self.unit_names = self._names_of(model)
        self._lower, self._upper = model.X.min(axis=0), model.X.max(axis=0)

    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[np.float64]:
        found = super().encode(rows)
        if not self._network or self.columns is None:
            return found
        return frozen_features(self._network, str(self._frozen), found)

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw inputs from the box of the rows held."""
        return rng.uniform(self._lower, self._upper, (count, len(self._lower)))

    def delete(self, rows: Sequence[int]) -> None:
        """Delete rows of the model in the folder; this subject stays as it is."""
        with open_for_change(LinearFolder, self.folder) as folder:
            model, gone = folder.model, np.unique(np.asarray(rows, np.int64))
            missing = np.setdiff1d(gone, model.names)
            if len(missing) or not len(gone):
                what = f"no row {missing[0]}" if len(missing) else "no row is named"
                raise GuardError(f"{self.folder / LINEAR}: {what}; nothing was deleted")
            leaves = np.isin(model.names, gone)
            left = np.isin(model.units, model.units[leaves]) & ~leaves
            if left.any():
                raise GuardError(
                    f"{self.folder / LINEAR}: row {model.names[left][0]} leaves together with some "
                    "of these; name all rows of a group"
                )
            write_changed(folder.without(gone.tolist()), Former.of(folder))


def known_members(model: LinearModel, path: Path, progress: OnProgress) -> Family:
    """Bound all members, and refit those that would leave many answers open."""
    family = bound_members(model, progress)
    radius, step = (
        np.max([getattr(each.members, what) for each in family.parts], axis=0)
        for what in ("radius", "step")
    )
    wide = np.argsort(-radius, kind="stable")
    wide = wide[radius[wide] > _WIDE * step.max()]
    unbounded = np.count_nonzero(~np.isfinite(radius))
    wide = wide[: max(_MOST_WIDE, unbounded)]
    family = refine(family, wide, progress, _NEAR * float(step.max()))
    for part in family.parts:
        unknown = np.flatnonzero(~np.isfinite(part.members.radius))
        if len(unknown):
            row = int(model.unit_names[unknown[0]])
            raise GuardError(
                f"{path}: {len(unknown):,} of {len(family):,} members are not known, such as that "
                f"without row {row}, so every answer would be noised; set a larger penalty"
            )
    return family


def _kind_digest(model: LinearModel) -> str:
    """Return a digest of what deletions and additions leave as it is."""
    said = {**manifest_of(model), "next_name": 0}
    found = hashlib.sha256(repr(sorted(said.items())).encode())
    rows = ("manifest", "coefficients", "X", "y", "weights", "names", "group")
    for name, array in arrays_of(model).items():
        if name not in rows:
            found.update(f"{name} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()

"""Leaking inputs of networks, by their label's proved bound or by asking members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from os import getpid
from threading import Event, Lock

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import Instance
from leaveout.cores import cores
from leaveout.encoders import Box, Interval, rounding_error
from leaveout.errors import GuardError
from leaveout.kernel.smooth import FUNCTIONS
from leaveout.models import confidence
from leaveout.verifier.guard.access import ProvedBounds
from leaveout.verifier.guard.coarse import CoarseCopy
from leaveout.verifier.guard.inputs import Glance, LeakFinder, Point
from leaveout.verifier.guard.margins import MarginBounds
from leaveout.verifier.guard.packing import Packed, find_leak, pack

_SUSPECTS = 8  # members that disagreed last, which are asked first: few members leak in many places

_ALONE = 256
"""Members that one core is asked about before others help: that takes less than waking them."""

_BLOCK = 32  # inputs whose scores of many members are held at once

_ROUNDING = 1e-9
"""Relative error, far above it, of a sum in float64; what float32 loses is 1e8 times as much."""

_SPARE = 1e-6  # share added to what float32 may lose, for what float64 loses


def _doubt(instance: Instance) -> float:
    """Return how many times float32's error a score may be off.

    The error that is charged for smooth activations is more than that of their tables, which are
    evaluated here; so both together are at most twice that.
    """
    return 2.0 if instance.network.stack.is_smooth else 1.0


class Crowd:
    """All members of a family, asked whether they agree on an input.

    Answers are onnxruntime's in float32: a member whose exact margin is within float32 rounding is
    replayed.
    """

    def __init__(self, instance: Instance) -> None:
        network = instance.network
        kinds = {
            k for layer in network.stack.layers if layer.kinds is not None for k in layer.kinds
        }
        if any(FUNCTIONS[kind].touch for kind in kinds):
            raise GuardError(
                f"{network.source}: it multiplies data by data, as attention and layer "
                "normalisation do, and such members are not evaluated together; train without "
                "attention, and with batch normalisation"
            )
        self._instance = instance
        self._labels = instance.labels
        scale = float(instance.pair.hyper[-1].magnitude.max())
        self._doubt = _doubt(instance)
        self._margin = self._doubt * instance.member_error * (1.0 + _SPARE)
        self._margin += _ROUNDING * (1.0 + scale)
        # Reads every member: here, or the first input near a tie would take longer than others.
        self._evaluation = instance.others.evaluation()
        self._suspects: dict[int, tuple[int, ...]] = {}
        self._loading = Lock()
        self._coarse: CoarseCopy | None = None
        self._threads = cores()
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def __len__(self) -> int:
        return len(self._instance.family)

    @property
    def error(self) -> float:
        """The rounding bound: beyond this exact margin a float32 answer is certain."""
        return self._margin

    @cached_property
    def packed_members(self) -> Packed:
        """The members, laid out for compiled loops."""
        return pack(self._instance)

    def prepare(self, order: NDArray[np.int64]) -> None:
        """Make coarse copies of members, so that far fewer need full evaluation."""
        if len(self) > _ALONE:
            self._coarse = CoarseCopy.of(self.packed_members, order)
            # What has to be compiled is: no first input takes longer than others.
            self.ask_all(
                np.zeros(self._instance.network.inputs, np.float32), 0, order[: _ALONE + 1]
            )

    def suspect(self, x: NDArray[np.float32], label: int) -> int | None:
        """Return a recent dissenter that surely disagrees, or None."""
        suspects = self._suspects.get(label, ())
        if suspects:
            found, _ = self._ask_in_order(x, label, np.asarray(suspects, np.int64), self._margin)
            if found >= 0:
                return found
        return None

    def dissenter(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64]
    ) -> int | None:
        """Return a member that does not give a label or ties; None if all agree."""
        found, close = self._ask_in_parallel(x, label, members, self._margin)
        if found < 0:
            return next(self._close_dissenters(x, label, close), None)
        before = (each for each in self._suspects.get(label, ()) if each != found)
        self._suspects[label] = (found, *before)[:_SUSPECTS]
        return found

    def ask_all(self, x: NDArray[np.float32], label: int, members: NDArray[np.int64]) -> None:
        """Evaluate members whatever they answer."""
        self._ask_in_parallel(x, label, members, np.inf)

    def dissenters(
        self, x: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return for each input all members that do not give its label, or tie.

        All are evaluated in matrix products; near ties are decided as in `dissenter`.
        """
        points = x.astype(np.float64)
        apart: list[list[int]] = [[] for _ in points]
        for chosen, stack in self._instance.members.chunks():
            for start in range(0, len(points), _BLOCK):
                own = labels[start : start + _BLOCK]
                margin = _margins(stack.scores(points[start : start + _BLOCK]), own)
                sure = margin < -self._margin
                # Not "<=": what is no number is close, too.
                close = ~(sure | (margin > self._margin))
                for at in np.flatnonzero(sure.any(axis=0) | close.any(axis=0)).tolist():
                    here = start + at
                    undecided = chosen[close[:, at]]
                    apart[here] += chosen[sure[:, at]].tolist()
                    apart[here] += self._close_dissenters(x[here], int(own[at]), undecided)
        return [np.sort(np.asarray(each, np.int64)) for each in apart]

    def _ask_in_parallel(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64], margin: float
    ) -> tuple[int, NDArray[np.int64]]:
        """Ask on all cores, coarse copies first where that pays."""
        first, rest = members[:_ALONE], members[_ALONE:]
        found, close = self._ask_in_order(x, label, first, margin)
        if found >= 0 or not len(rest):
            return found, close
        done = Event()
        look = None
        if self._coarse is not None:
            look = self._coarse.at(x, label, self._labels, margin)
            rest = self._coarse.in_stored_order(rest)

        def ask(blocks: list[NDArray[np.int64]]) -> tuple[int, list[NDArray[np.int64]]]:
            undecided = []
            for block in blocks:
                if done.is_set():
                    break
                part = block if look is None else look.open(block)
                found, close = self._ask_in_order(x, label, part, margin)
                undecided.append(close)
                if found >= 0:
                    done.set()
                    return found, undecided
            return -1, undecided

        blocks = [rest[at : at + _ALONE] for at in range(0, len(rest), _ALONE)]
        shares = [blocks[at :: self._threads] for at in range(self._threads)]
        others = [self._pool().submit(ask, share) for share in shares[1:]]
        answers = [ask(shares[0]), *(each.result() for each in others)]
        parts = chain.from_iterable(undecided for _, undecided in answers)
        return max(found for found, _ in answers), np.concatenate([close, *parts])

    def _pool(self) -> ThreadPoolExecutor:
        """Return this process's threads: those of before a fork answer nothing after it."""
        process = getpid()
        if process not in self._pools:
            self._pools = {process: ThreadPoolExecutor(self._threads, "members")}
        return self._pools[process]

    def _ask_in_order(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64], margin: float
    ) -> tuple[int, NDArray[np.int64]]:
        """Return the first sure dissenter, or -1, and the near ties before it."""
        packed = self.packed_members
        close = np.empty(len(members), np.int64)
        room = np.empty(packed.values)
        found, undecided = find_leak(
            packed.weights, packed.biases, packed.plan, packed.curves, self._labels, room,
            x, label, members, margin, close,
        )  # fmt: skip
        return int(found), close[:undecided]

    def _close_dissenters(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64]
    ) -> Iterator[int]:
        """Yield dissenters among near ties, decided by bound, then replay."""
        if not len(members):
            return
        stack = self._instance.members.take(members)
        activations = stack.activations(x[None].astype(np.float64))
        margin = confidence(activations[-1][:, 0], label)
        rounding = self._rounding(x, activations)
        for at in np.argsort(margin, kind="stable").tolist():
            member = int(members[at])
            if margin[at] > rounding:
                return
            if margin[at] < -rounding:
                yield member
                continue
            with self._loading:
                runner = self._instance.others.runner(member)
            scores = runner.scores(x[None])[0].astype(np.float64)
            if not float(confidence(scores, label)) > 0:
                yield member

    def _rounding(self, x: NDArray[np.float32], activations: list[Floats]) -> float:
        """Bound the float32 rounding of these members' margins at this input."""
        bounds = []
        for layer in activations:
            padding = (_ROUNDING if self._doubt == 1.0 else _SPARE) * (1.0 + np.abs(layer).max())
            low, high = layer.min(axis=(0, 1)) - padding, layer.max(axis=(0, 1)) + padding
            bounds.append(Interval(low, high))
        at = x.astype(np.float64)
        local = rounding_error(self._evaluation, bounds, Box(at, at)).of_confidence()
        scale = max(float(np.abs(layer).max()) for layer in activations)
        return min(self._doubt * local * (1.0 + _SPARE) + _ROUNDING * (1.0 + scale), self._margin)


def _margins(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the confidence of each point's label, shape (m, p), from (m, p, labels)."""
    points = np.arange(len(labels))
    own = scores[:, points, labels]
    rest = scores.copy()
    rest[:, points, labels] = -np.inf
    return np.asarray(own - rest.max(axis=2))


_TOGETHER = 1024  # inputs whose scores are held at once


class LeakTest(LeakFinder):
    """Distinguishes leaks from other inputs of the box exactly."""

    def __init__(self, instance: Instance, bounds: ProvedBounds, *, local: bool = False) -> None:
        self._runner = instance.network.runner()
        self._network = instance.network.stack
        self._crowd = Crowd(instance)
        self._upper = bounds.upper
        self._thresholds: list[float] = bounds.thresholds.tolist()
        scale = float(max(each.magnitude.max() for each in instance.bounds))
        self._error = _doubt(instance) * instance.network_error + _ROUNDING * (1.0 + scale)
        self._margins = (
            MarginBounds(self._crowd.packed_members, instance.box, bounds.upper, self._crowd.error)
            if local
            else None
        )
        if self._margins is not None:
            self._crowd.prepare(self._margins.differences.order)

    def label(self, x: Point) -> int:
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        return scores.index(max(scores))

    def ask_all(self, x: Point) -> None:
        """Bound and evaluate every member at an input: the most work any needs."""
        label = self.label(x)
        self._crowd.suspect(x, label)
        everyone = np.arange(len(self._crowd))
        if self._margins is not None:
            everyone = self._margins.open(x, label, np.inf, everyone=True)
        self._crowd.ask_all(x, label, everyone)

    def dissenters(
        self, points: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        return self._crowd.dissenters(points, labels)

    def glance(self, x: Point) -> Glance:
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        best = max(scores)
        label = scores.index(best)
        scores[label] = -np.inf
        confidence = best - max(scores)
        return Glance(label, confidence, confidence > self._thresholds[label])

    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether an input leaks, asking the members left by the bounds."""
        if self._crowd.suspect(x, seen.label) is not None:
            return True
        # Not ">=": a confidence that is no number leaves everybody to be asked.
        members = (
            np.flatnonzero(~(self._upper[seen.label] < seen.confidence))
            if self._margins is None
            else self._margins.open(x, seen.label, seen.confidence)
        )
        return self._crowd.dissenter(x, seen.label, members) is not None

    def glances(self, points: NDArray[np.float32]) -> list[Glance]:
        """Evaluate N alone at several inputs, in float64 matrix products.

        Where float32 rounding could decide, N is evaluated as in `glance`, so answers do not depend
        on the batch; a confidence may be too low by the rounding.
        """
        seen: list[Glance] = []
        for start in range(0, len(points), _TOGETHER):
            part = points[start : start + _TOGETHER]
            scores = self._network.scores(part.astype(np.float64))[0]
            labels, rows = scores.argmax(axis=1), np.arange(len(part))
            best = scores[rows, labels]
            scores[rows, labels] = -np.inf
            margins = best - scores.max(axis=1)
            low, high = margins - self._error, margins + self._error
            known = np.asarray(self._thresholds)[labels]
            sure = (low > 0) & ((low > known) | (high <= known))
            found = zip(
                labels.tolist(), low.tolist(), (low > known).tolist(), sure.tolist(), strict=True
            )
            seen += [
                Glance(label, least, clear) if certain else self.glance(x)
                for x, (label, least, clear, certain) in zip(part, found, strict=True)
            ]
        return seen

    def leaks_at(self, points: NDArray[np.float32], seen: Sequence[Glance]) -> NDArray[np.bool_]:
        at = np.arange(len(points))
        found = np.zeros(len(points), bool)
        if self._margins is not None and len(points):
            labels = np.asarray([each.label for each in seen], np.int64)
            confidences = np.asarray([each.confidence for each in seen])
            at = np.flatnonzero(self._margins.open_inputs(points, labels, confidences))
        for each in at.tolist():
            found[each] = self.leaks(points[each], seen[each])
        return found

"""Branching: choice of a node's split by the past gains of each kind of split."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.native.nodes import Node, Split
from leaveout.bab.native.question import SMALL_REGION
from leaveout.kernel.smooth import FUNCTIONS, Kinds

_SPREAD = 0.3  # least share of a bound's open part due to the set for its members to be split
_NARROW = 1e-9  # narrower inputs and ranges are not split

_INNER = 0.15
"""A range is split where curvature changes, unless that is nearer to an end than this share."""

_LITTLE = 0.25  # least share of the rounding error that input splits must be able to gain

_NOTHING = 1e-4
"""Least share of a bound's open part that inputs must be able to gain, if members can be split."""

_TINY_REGION = 1e-5  # widest input of a region whose rest is left to float32 rounding

_KINDS = {"input": 0, "phase": 1, "range": 1, "untied": 2}

_TRIED = 4  # nodes of a size class that are split in several ways before one kind is preferred
_EXPLORE = 0.03  # share of nodes that are split in several ways later

_FORGET = 0.995

_OFTEN = 4  # trials of a neuron, in all and for one member, after which its gains are known
_CANDIDATES = 4  # neurons that are tried for one member, where all members' gains are known

_OWN, _COMMON = 2.0, 1.0
"""Trials that expectations count for: those of all members, and those by the gap of phases."""

_LARGEST = 4.0  # largest gap of a neuron's phases, relative to the mean, that counts
_EXTRA = 0.4  # phases that may be tried beside the best one, relative to those that are kept


@dataclass(eq=False)
class Gains:
    """Gains by neuron: their sums, for both sides of a split, how many, and trials begun."""

    hidden: int
    sums: Floats = field(init=False)
    count: Floats = field(init=False)
    begun: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.sums = np.zeros((2, self.hidden))
        self.count, self.begun = np.zeros(self.hidden), np.zeros(self.hidden)

    def add(self, neuron: int, gains: list[float]) -> None:
        """Record the gains of a split."""
        self.sums[:, neuron] += gains
        self.count[neuron] += 1.0

    def average(self, prior: Floats, trials: float) -> Floats:
        """Return mean gains, where those expected before count for some trials."""
        known: Floats = (self.sums + trials * prior) / (self.count + trials)
        return known


@dataclass(eq=False)
class Brancher:
    """Gains of splits: pseudo-costs by neuron and member, and an average per kind.

    Gains are relative to the bound's excess over the target, so that they are comparable. Neurons
    whose gains are not known are tried beside the best one (reliability branching: Achterberg, Koch
    and Martin, 2005), as long as such trials take a small share of all nodes.
    """

    hidden: int
    seed: int
    ties: bool = True  # whether phases are split, not only inputs
    virtual: bool = True  # whether ties of phases concern pairs, and may admit virtual values
    noise: float = 0.0  # largest effect of padding on a value
    kinds: Kinds | None = None  # smooth neurons, whose ranges are split instead
    common: Gains = field(init=False)  # of all members
    _own: dict[int, Gains] = field(init=False, default_factory=dict)
    _kept: int = field(init=False)
    _extra: int = field(init=False)
    _won: Floats = field(init=False)
    _tried: Floats = field(init=False)
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.common, self._kept, self._extra = Gains(self.hidden), 0, 0
        sizes = 1 + self.hidden.bit_length()
        self._won, self._tried = np.zeros((2, 3, sizes)), np.zeros((2, 3, sizes))
        self._rng = np.random.default_rng(self.seed)

    def choose(self, node: Node, target: float) -> list[Split]:
        """Return candidate splits of a node (side 0); the best one is kept."""
        open_part = node.value - target
        if _open_by_rounding(node, open_part, self.noise):
            return []
        if len(node.members) > 1 and node.spread > _SPREAD * open_part:
            return [Split("members")]
        widths = node.upper - node.lower
        wide = widths > _NARROW
        by_input = int(
            np.argmax(np.where(wide, node.input_score if node.input_score.any() else widths, -1.0))
        )
        can_input = bool(wide[by_input])
        free = self._free(node)
        has_free = bool(free.any())
        if len(node.members) > 1 and not has_free:
            # A bound that does not use the set shows no spread, though the set may be its cause.
            can_input &= float(node.input_score.sum()) > _NOTHING * open_part
        tied = self.virtual and bool(node.phase.any())
        if tied and not has_free and float(widths.max()) < SMALL_REGION:
            # The rest of the bound is mostly virtual.
            return [Split("untied")]
        middle = (node.lower[by_input] + node.upper[by_input]) / 2
        splits = [Split("input", by_input, 0, float(middle))] if can_input else []
        splits += [Split("phase")] if has_free else []
        if tied:
            splits.append(Split("untied"))
        if len(splits) > 1:
            splits = self._preferred_kinds(splits, node)
        if not splits and len(node.members) > 1:
            return [Split("members")]
        return [
            each
            for split in splits
            for each in (self._neurons(node, free) if split.kind == "phase" else [split])
        ]

    def learn(self, split: Split, node: Node, children: list[float], target: float) -> float:
        """Record the gains of a neuron's phases; return the gain of a split."""
        open_part = max(node.value - target, 1e-300)
        gains = [min(max(node.value - value, 0.0) / open_part, 1.0) for value in children]
        if split.kind in ("phase", "range"):
            self.common.add(split.index, gains)
            if (own := self._own_gains(node)) is not None:
                own.add(split.index, gains)
        return math.sqrt(min(gains) * max(gains))

    def best(self, splits: list[Split], node: Node, won: list[float]) -> int:
        """Return the index of the best tried split, given their gains."""
        kinds: dict[int, int] = {}
        for i, split in enumerate(splits):
            kind = _KINDS.get(split.kind, -1)
            if kind not in kinds or won[i] > won[kinds[kind]]:
                kinds[kind] = i
        firsts = list(kinds.values())
        for i in firsts if splits[0].kind in _KINDS else ():
            at = int(node.phase.any()), _KINDS[splits[i].kind], _size(node)
            self._won[at] = _FORGET * self._won[at] + won[i]
            self._tried[at] = _FORGET * self._tried[at] + 1.0
        chosen = firsts[0]
        if len(firsts) > 1:
            tried, gains = self._gains([splits[i] for i in firsts], node)
            scores = [won[i] for i in firsts] if tried.min() <= _TRIED else gains
            chosen = firsts[int(np.argmax(scores))]
        neurons = sum(split.kind in ("phase", "range") for split in splits)
        self._extra += max(neurons - 1, 0)
        self._kept += splits[chosen].kind in ("phase", "range")
        return chosen

    def _preferred_kinds(self, splits: list[Split], node: Node) -> list[Split]:
        """Return splits of the best kind for such nodes; all while still learning."""
        tried, gains = self._gains(splits, node)
        if len(node.members) == 1 and (tried.min() < _TRIED or self._rng.random() < _EXPLORE):
            return splits
        return [splits[int(np.argmax(gains))]]

    def _gains(self, splits: list[Split], node: Node) -> tuple[Floats, Floats]:
        """Return the trials and the gains of each kind for such nodes."""
        tied, size = int(node.phase.any()), _size(node)
        kinds = [_KINDS[split.kind] for split in splits]
        tried = self._tried[tied, kinds, size]
        gains = self._won[tied, kinds, size] / np.maximum(tried, 1e-9)
        if not tied:
            # The gain of the next split counts, too, which may be less below a tie.
            best = float(gains.max())
            gains = gains + np.array([best, self._below(size, best)])
        return tried, gains

    def _below(self, size: int, known: float) -> float:
        """Return the expected gain below tied nodes; ``known`` after few trials."""
        tried = self._tried[1, :, size]
        if tried.max() < _TRIED:
            return known
        return float((self._won[1, :, size] / np.maximum(tried, 1.0)).max())

    def _own_gains(self, node: Node) -> Gains | None:
        return self._own.get(int(node.members[0])) if len(node.members) == 1 else None

    def _free(self, node: Node) -> NDArray[np.bool_]:
        """Return the neurons that can be split: tied, or smooth ones by their ranges."""
        free: NDArray[np.bool_] = node.neuron_score > 0.0
        ties = self.ties and not node.plain
        if self.kinds is None:
            return free & ties
        wide = node.state[1] - node.state[0] > _NARROW
        return free & np.where(self.kinds > 0, wide, ties)

    def _neurons(self, node: Node, free: NDArray[np.bool_]) -> list[Split]:
        """Return the split of a neuron that is expected to gain most, then others to try."""
        gaps = np.where(free, node.neuron_score, 0.0)
        mean = self.common.sums.sum(axis=1, keepdims=True) / max(self.common.count.sum(), 1.0)
        gaps = np.minimum(gaps * (free.sum() / gaps.sum()), _LARGEST)
        expected = self.common.average(np.maximum(mean, 1e-3) * gaps, _COMMON)
        own = self._own_gains(node)
        if own is not None:
            expected = own.average(expected, _OWN)
        score = np.where(free, expected[0] * expected[1], -1.0)
        order = np.argsort(-score, kind="stable")[: int(free.sum())]
        left = int(_EXTRA * self._kept) - self._extra
        unknown = self.common.begun[order] < _OFTEN
        if left > 0 and len(node.members) == 1:
            own = self._own.setdefault(int(node.members[0]), Gains(self.hidden))
            unknown[:_CANDIDATES] |= own.begun[order[:_CANDIDATES]] < _OFTEN
        unknown[0] = False
        tried = order[np.concatenate([[0], np.flatnonzero(unknown)[: max(left, 0)]])]
        for each in (self.common, own) if own is not None else (self.common,):
            each.begun[tried] += 1.0
        return [self._of_neuron(node, int(j)) for j in tried]

    def _of_neuron(self, node: Node, j: int) -> Split:
        """Return the split of a neuron: of its phase, or at its bend or the middle of its range."""
        if self.kinds is None or not self.kinds[j]:
            return Split("phase", j)
        low, high = float(node.state[0, j]), float(node.state[1, j])
        own, least = FUNCTIONS[self.kinds[j]], _INNER * (high - low)
        bends = (0.0,) if own.bend is None else (own.bend, -own.bend)
        inside = [z for z in bends if low + least < z < high - least]
        return Split("range", j, 0, inside[0] if inside else (low + high) / 2)


def _size(node: Node) -> int:
    """Return a node's size class: the bit length of its number of undecided pairs."""
    return int((node.neuron_score >= 0.0).sum()).bit_length()


def _open_by_rounding(node: Node, open_part: float, noise: float) -> bool:
    """Return whether only float32 rounding keeps a node open.

    Errors are weighted like their forms. A region wide enough to gain more than that is still
    split.
    """
    used = node.share > 0.0
    rounding = float(node.share[used] @ node.errors[used])
    if len(node.members) > 1 or open_part > rounding + noise:
        return False
    return (
        float(node.input_score.sum()) <= _LITTLE * rounding
        or float((node.upper - node.lower).max()) < _TINY_REGION
    )

"""Branching: choice of a node's split by the past gains of each kind of split."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.nodes import Node, Split
from leaveout.bab.native.question import SMALL_REGION
from leaveout.kernel.smooth import FUNCTIONS, Kinds

_SPREAD = 0.3
"""Least share of a bound's open part due to the set for its members to be split."""

_NARROW = 1e-9
"""Narrower inputs and ranges are not split."""

_INNER = 0.15
"""A range is split where curvature changes, unless that is nearer to an end than this share."""

_LITTLE = 0.25
"""Least share of the rounding error that input splits must be able to gain."""

_NOTHING = 1e-4
"""Least share of a bound's open part that inputs must be able to gain, if members can be split."""

_TINY_REGION = 1e-5
"""Widest input of a region whose rest is left to float32 rounding."""

_KINDS = ("input", "phase", "untied", "range")

_TRIED = 4
"""Nodes of a size class that are split in both ways before one is preferred."""

_EXPLORE = 0.03
"""Share of nodes that are split in both ways later."""

_FORGET = 0.995
_SMALL, _LARGE = 0.4, 0.6
"""Exponents of the smaller and larger gain of two children in their geometric mean."""


@dataclass(eq=False)
class Brancher:
    """Gains of splits: pseudo-costs per neuron, and an average per kind.

    Gains are relative to the bound's excess over the target, so that they are comparable.
    """

    hidden: int
    seed: int
    ties: bool = True  # whether phases are split, not only inputs
    virtual: bool = True  # whether ties of phases concern pairs, and may admit virtual values
    noise: float = 0.0  # largest effect of padding on a value
    kinds: Kinds | None = None  # smooth neurons, whose ranges are split instead
    _gain: Floats = field(init=False)
    _count: Floats = field(init=False)
    _won: Floats = field(init=False)
    _tried: Floats = field(init=False)
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._gain, self._count = np.zeros((2, self.hidden)), np.zeros((2, self.hidden))
        sizes = 1 + self.hidden.bit_length()
        self._won, self._tried = np.zeros((2, 4, sizes)), np.zeros((2, 4, sizes))
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
        by_phase = self._neuron(node, ties=self.ties and not node.plain)
        can_input = bool(wide[by_input])
        if len(node.members) > 1 and by_phase is None:
            # A bound that does not use the set shows no spread, though the set may be its cause.
            can_input &= float(node.input_score.sum()) > _NOTHING * open_part
        tied = self.virtual and bool(node.phase.any())
        if tied and by_phase is None and float(widths.max()) < SMALL_REGION:
            # The rest of the bound is mostly virtual.
            return [Split("untied")]
        middle = (node.lower[by_input] + node.upper[by_input]) / 2
        splits = [Split("input", by_input, 0, float(middle))] if can_input else []
        splits += [self._of_neuron(node, by_phase)] if by_phase is not None else []
        if tied:
            splits.append(Split("untied"))
        if len(splits) > 1:
            splits = self._preferred_kinds(splits, node)
        if not splits and len(node.members) > 1:
            return [Split("members")]
        return splits

    def learn(self, split: Split, node: Node, children: list[float], target: float) -> float:
        """Record the gain of a split and return it."""
        if split.kind not in _KINDS:
            return 0.0
        open_part = max(node.value - target, 1e-300)
        gains = [min(max(node.value - value, 0.0) / open_part, 1.0) for value in children]
        at = int(node.phase.any()), _KINDS.index(split.kind), _size(node)
        won = float(min(gains) ** _SMALL * max(gains) ** _LARGE)
        self._won[at] = _FORGET * self._won[at] + won
        self._tried[at] = _FORGET * self._tried[at] + 1.0
        if split.kind in ("phase", "range"):
            self._gain[:, split.index] += gains
            self._count[:, split.index] += 1.0
        return won

    def best(self, splits: list[Split], node: Node, won: list[float]) -> int:
        """Return the index of the best tried split, given their gains."""
        if len(splits) == 1:
            return 0
        tried, gains = self._gains(splits, node)
        return int(np.argmax(won if tried.min() <= _TRIED else gains))

    def _preferred_kinds(self, splits: list[Split], node: Node) -> list[Split]:
        """Return splits of the best kind for such nodes; all while still learning."""
        tried, gains = self._gains(splits, node)
        if len(node.members) == 1 and (tried.min() < _TRIED or self._rng.random() < _EXPLORE):
            return splits
        return [splits[int(np.argmax(gains))]]

    def _gains(self, splits: list[Split], node: Node) -> tuple[Floats, Floats]:
        """Return the trials and the gains of each kind for such nodes."""
        tied, size = int(node.phase.any()), _size(node)
        kinds = [_KINDS.index(split.kind) for split in splits]
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

    def _of_neuron(self, node: Node, j: int) -> Split:
        """Return the split of a neuron: of its phase, or at its bend or the middle of its range."""
        if self.kinds is None or not self.kinds[j]:
            return Split("phase", j)
        low, high = float(node.state[0, j]), float(node.state[1, j])
        own, least = FUNCTIONS[self.kinds[j]], _INNER * (high - low)
        bends = (0.0,) if own.bend is None else (own.bend, -own.bend)
        inside = [z for z in bends if low + least < z < high - least]
        return Split("range", j, 0, inside[0] if inside else (low + high) / 2)

    def _neuron(self, node: Node, *, ties: bool) -> int | None:
        free = node.neuron_score > 0.0
        if self.kinds is not None:
            wide = node.state[1] - node.state[0] > _NARROW
            free &= (self.kinds > 0) & wide if not ties else (self.kinds == 0) | wide
        elif not ties:
            return None
        if not free.any():
            return None
        tried = self._count.sum()
        if tried < 4 * self.hidden or self._rng.random() < _EXPLORE:
            return int(np.argmax(np.where(free, node.neuron_score, -1.0)))
        mean = self._gain.sum(axis=1, keepdims=True) / self._count.sum(axis=1, keepdims=True)
        known = (self._gain + mean) / (self._count + 1.0) + 1e-12
        score = known.min(axis=0) ** 0.2 * known.max(axis=0) ** 0.8
        return int(np.argmax(np.where(free, score, -1.0)))


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

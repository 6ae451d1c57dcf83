"""Random nodes of random questions, and single members evaluated at single points of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from leaveout.bab.forms import Forms, concatenate_forms, leak_forms
from leaveout.bab.native.kernels.interface import OPEN, Batch, MemberSets, Work
from leaveout.bab.native.space import Space, make_space

from support import networks
from support.cases import question

__all__ = ["NODES", "Case", "Member", "space_of"]

NODES = 24
SHAPES = ((2, 3, 2), (2, 4, 3, 2), (3, 3, 3), (2, 3, 3, 2, 3), (1, 5, 4), (3, 4, 4, 2))


def space_of(instance) -> Space:
    return make_space(instance.network.stack, instance.members, instance.box)


def random_forms(rng: np.random.Generator, inputs: int, scores: int, size: float) -> Forms:
    """Return a few cases of random forms, such as claims in the language fall into."""
    parts = []
    for _ in range(3):
        count = int(rng.choice([1, 2, 3, 5, 9]))
        goal = rng.random(count) < 0.5
        goal[rng.integers(count)] = True
        sparse = rng.choice([-1.0, 0.0, 1.0], (3, count, max(inputs, scores)))
        own = sparse[0, :, :scores] * np.round(rng.uniform(0.5, 2.0, (count, scores)), 2)
        # Of one network, of how another differs, or of either.
        kind = rng.choice(3, (count, 1))
        change = np.where(kind == 0, 0.0, np.where(kind == 1, own, sparse[1, :, :scores]))
        own = np.where(kind == 2, 0.0, own)
        features = size * sparse[2, :, :inputs] * (rng.random((count, 1)) < 0.3)
        constant = size * rng.choice([0.0, -0.5, 1.0], count)
        errors = size * rng.choice([0.0, 1e-6, 0.05], count)
        parts.append(Forms.of_case(features, own, change, constant, errors, goal))
    return concatenate_forms(parts)


@dataclass(frozen=True)
class Case:
    """Some random nodes of a random question."""

    rng: np.random.Generator
    pairs: Space
    groups: list[np.ndarray]
    sets: MemberSets
    forms: Forms
    batch: Batch
    work: Work
    above: Case | None = None
    """The nodes above those that are warm."""

    @staticmethod
    def of(seed: int, *, scales: bool = True, leaks: bool = True) -> Case:
        rng = np.random.default_rng(seed)
        scale = 10.0 ** float(rng.integers(-6, 7)) if scales and rng.random() < 0.5 else 1.0
        kind = rng.integers(8)
        if kind == 0:
            scale, model = 1.0, networks.residual(rng)
        elif kind == 1:
            scale, model = 1.0, networks.convolution_1d(rng)
        else:
            model = networks.dense(rng, SHAPES[rng.integers(len(SHAPES))], scale)
        spread = scale * 10.0 ** float(rng.uniform(-7, -0.5))
        pairs = space_of(question(seed, model=model, spread=spread))
        members = pairs.count
        groups = [np.array([i]) for i in range(members)] + [np.arange(members)]
        labels, layout = pairs.layout.labels, pairs.layout
        rough = float(pairs.numbers.rough[layout.hidden :].max())
        if leaks:
            label = int(rng.integers(labels))
            asked = leak_forms(label, labels, layout.inputs, 0.0, 0.0)
        else:
            asked = random_forms(rng, layout.inputs, labels, rough)
        forms = pairs.read(asked)
        width = pairs.upper - pairs.lower
        size = rng.choice([1.0, 0.3, 1e-3, 1e-6], (NODES, 1)) * rng.random((NODES, 1))
        lower = pairs.lower + (1 - size) * rng.random((NODES, layout.inputs)) * width
        case = rng.integers(forms.cases, size=NODES)
        share, errors = np.zeros((NODES, forms.width)), np.zeros((NODES, forms.width))
        for i in range(NODES):
            rows = forms.case(case[i])
            share[i, np.argmax(forms.goal[rows])] = 1.0
            own = rng.choice([0.0, 1e-6, 0.1]) * rough
            errors[i, : rows.stop - rows.start] = np.where(
                forms.goal[rows] & leaks, 0.0, forms.errors[rows] + own
            )
        cold = (NODES, layout.hidden)
        batch = Batch(
            which=rng.integers(len(groups), size=NODES),
            case=case,
            lower=lower,
            upper=np.minimum(lower + size * width, pairs.upper),
            state=np.repeat(pairs.root[None], NODES, axis=0),
            phase=np.zeros(cold, np.int8),
            lines=np.zeros((NODES, 4, layout.hidden)),
            known=np.zeros((NODES, forms.kept_bounds, layout.inputs + 2)),
            share=share,
            warm=np.zeros(NODES, bool),
            errors=errors,
            refresh=np.ones(cold, bool),
            cut=rng.choice([-1.0, 0.0, 0.05], NODES) * rough,
            stop_at=np.full(NODES, -np.inf),
        )
        work = Work(int(rng.choice([0, 3, 20])))
        return Case(rng, pairs, groups, pairs.sets(groups), forms, batch, work).cut()

    def cut(self) -> Case:
        """Let the cut of some nodes be what a point of them leads to: some matter, some do not."""
        cut = self.batch.cut.copy()
        rough = self.pairs.numbers.rough[self.pairs.layout.hidden :].max()
        for i in range(NODES):
            if self.rng.random() < 0.6:
                found = [self.at(i, self.point(i), self.member(i)) for _ in range(4)]
                worst = [each.worst for each in found if each is not None and each.counts]
                # A node whose forms just reach the cut is cut down by what rounding leaves.
                below = 1e-3 * self.rng.random() * rough
                cut[i] = self.rng.choice(worst) - below if worst else cut[i]
        return replace(self, batch=replace(self.batch, cut=cut))

    def member(self, i: int) -> Member:
        """Return one of the members that a node is about."""
        return Member(self, int(self.rng.choice(self.groups[self.batch.which[i]])))

    def point(self, i: int) -> np.ndarray:
        """Return a point of a node's box: inside, or a corner."""
        lower, upper = self.batch.lower[i], self.batch.upper[i]
        x = lower + self.rng.random(len(lower)) * (upper - lower)
        corner = self.rng.random(len(lower)) < 0.4
        return np.where(corner, np.where(self.rng.random(len(lower)) < 0.5, lower, upper), x)

    def tied(self) -> Case:
        """Tie some pairs of each node to phases that some point of it has."""
        phase = np.zeros_like(self.batch.phase)
        for i in range(NODES):
            member = self.member(i)
            true = member.phases(self.point(i))
            either = self.rng.choice([-1, 1], true.shape)
            chosen = self.rng.random(true.shape) < self.rng.choice([0.0, 0.2, 0.7])
            phase[i] = np.where(chosen, np.where(true == 0, either, true), 0)
        return replace(self, batch=replace(self.batch, phase=phase))

    def after(self, found) -> Case:
        """Inherit what was found of each node that is open, and start warm there."""
        fine = found.status == OPEN
        names = ("lower", "upper", "state", "lines", "known", "share")
        arrays = {
            name: np.array(
                [(found if fine[i] else self.batch).__dict__[name][i] for i in range(NODES)]
            )
            for name in names
        }
        return replace(self, above=self, batch=replace(self.batch, warm=fine, **arrays))

    def halved(self) -> Case:
        """Keep one side of each node's box, at some point of some input."""
        lower, upper = self.batch.lower.copy(), self.batch.upper.copy()
        for i in range(NODES):
            j = self.rng.integers(lower.shape[1])
            point = lower[i, j] + self.rng.random() * (upper[i, j] - lower[i, j])
            (lower if self.rng.random() < 0.5 else upper)[i, j] = point
        return replace(self, batch=replace(self.batch, lower=lower, upper=upper))

    def at(self, i: int, x: np.ndarray, member: Member) -> Reached | None:
        """Return what a point of a node leads to; None where the node is not about it."""
        forms, hidden, numbers = self.forms, self.pairs.layout.hidden, self.pairs.numbers
        on = member.assignments(x, self.batch.phase[i])
        if not len(on):
            return None
        z, dz = member.run(x, on)
        rows = forms.case(self.batch.case[i])
        # Evaluating a point rounds too.
        top, top_d = numbers.rough[hidden:].max(), numbers.rough_difference[hidden:].max()
        slack = 4e-14 * (forms.sizes[rows].max() + forms.width * (top + top_d))
        scores = np.tile(z[hidden:], (len(on), 1))
        values = forms.values(np.tile(x, (len(on), 1)), scores, dz[:, hidden:])[rows]
        # Of all ways to pass a difference the best counts; where there are several, one form
        # at most has to do with it.
        assert len(on) == 1 or forms.has_differences[rows].sum() <= 1
        best = values.max(axis=1) + self.batch.errors[i, : len(values)]
        goal = forms.goal[rows]
        counts = bool((best[~goal] >= slack).all())
        return Reached(z, dz, values, float(best[goal].min()), counts, slack)

    def clipped(self, i: int, x: np.ndarray, member: Member) -> bool:
        """Whether what was found of the nodes above may have cut a point away."""
        if self.above is None or not self.batch.warm[i]:
            return False
        found = self.above.at(i, x, member)
        out = found is None or not found.counts or found.worst <= self.batch.cut[i] + found.slack
        return out or self.above.clipped(i, x, member)

    def bound(self, kernel):
        return kernel.bound(self.pairs.numbers, self.forms, self.sets, self.batch, self.work)


@dataclass(frozen=True)
class Reached:
    """What a point leads to, over all ways to pass differences.

    ``z`` and ``dz`` are N's and the differences, ``values`` those of the forms, ``worst`` the
    least goal, which counts where no condition is negative; ``slack`` is for rounding.
    """

    z: np.ndarray
    dz: np.ndarray
    values: np.ndarray
    worst: float
    counts: bool
    slack: float


class Member:
    """One member beside N, evaluated at single points, with some differences virtual."""

    def __init__(self, case: Case, index: int) -> None:
        self.pairs, self.layout = case.pairs, case.pairs.layout
        sets = case.pairs.sets([np.array([index])])
        self.change, self.shift = sets.centre[0], sets.shift[0]

    def run(self, x: np.ndarray, on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (z of N, dz): ``on`` is nan for a true pair, else what part of dz passes.

        ``on`` has shape (assignments, hidden), and so has dz but for the scores.
        """
        layout, numbers = self.layout, self.pairs.numbers
        outputs = layout.hidden + layout.labels
        z, dz = numbers.bias.copy(), np.tile(self.shift, (len(on), 1))
        h = np.concatenate([x, np.zeros(layout.hidden)])
        dh = np.zeros((len(on), layout.inputs + layout.hidden))
        assert len(z) == outputs
        for k in range(layout.layers):
            rows = slice(int(layout.starts[k]), int(layout.starts[k + 1]))
            for b, (layer, start, width, _, _) in enumerate(layout.blocks):
                if layer == k:
                    at = slice(start, start + width)
                    w, e = layout.matrix(numbers.weights, b), layout.matrix(self.change, b)
                    z[rows] += w @ h[at]
                    dz[:, rows] += e @ h[at] + dh[:, at] @ (w + e).T
            if k < layout.layers - 1:
                here = slice(layout.inputs + rows.start, layout.inputs + rows.stop)
                h[here] = np.maximum(z[rows], 0)
                d = dz[:, rows]
                true = np.where(z[rows] > 0, np.maximum(d, -z[rows]), np.maximum(z[rows] + d, 0))
                dh[:, here] = np.where(np.isnan(on[:, rows]), true, on[:, rows] * d)
        return z, dz

    def phases(self, x: np.ndarray) -> np.ndarray:
        """1 where N and the member are on, -1 where they are off, 0 where they differ."""
        z, dz = self.run(x, np.full((1, self.layout.hidden), np.nan))
        hidden = self.layout.hidden
        own, other = z[:hidden] > 0, z[:hidden] + dz[0, :hidden] > 0
        return np.where(own == other, np.where(own, 1, -1), 0)

    def assignments(self, x: np.ndarray, phase: np.ndarray) -> np.ndarray:
        """All ways to pass differences that a node with these phases must cover."""
        true = self.phases(x)
        if ((phase != 0) & (true != 0) & (phase != true)).any():
            return np.zeros((0, self.layout.hidden))
        tied = np.flatnonzero(phase)
        layer = np.searchsorted(self.layout.starts[1:], np.arange(len(phase)), side="right")
        bottom = layer[tied].min() if len(tied) else self.layout.layers
        choices = [
            [(phase[j] + 1) / 2]
            if phase[j]
            else (
                [np.nan] if layer[j] <= bottom else [(true[j] + 1) / 2] if true[j] else [0.0, 1.0]
            )
            for j in range(len(phase))
        ]
        return np.array(list(itertools.islice(itertools.product(*choices), 256)))

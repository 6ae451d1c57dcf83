"""Bounds of nodes: alike in every kernel, and above everything that can be sampled."""

import itertools
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leaveout.bab.forms import Forms, leak_forms, stacked
from leaveout.bab.native.kernels import make_kernel
from leaveout.bab.native.kernels.interface import EMPTY, Batch, MemberSets, Work
from leaveout.bab.native.leaks import search
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.space import Space, make_space
from leaveout.errors import SolverError

from support import networks
from support.cases import BruteForce, question

NODES = 24
SHAPES = ((2, 3, 2), (2, 4, 3, 2), (3, 3, 3), (2, 3, 3, 2, 3), (1, 5, 4), (3, 4, 4, 2))
ARRAYS = ("numpy", "torch:cpu")

seeds = st.integers(0, 2**32 - 1)
cheap = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def kernels():
    pytest.importorskip("numba")
    pytest.importorskip("torch")
    return {name: make_kernel(name, 1) for name in ("cpu", *ARRAYS)}


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
    return stacked(parts)


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

    @staticmethod
    def of(seed: int, *, scales: bool = True, leaks: bool = True) -> "Case":
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
            cz=np.zeros(cold),
            cd=np.zeros(cold),
            share=share,
            warm=np.zeros(NODES, bool),
            errors=errors,
            cut=rng.choice([-1.0, 0.0, 0.05], NODES) * rough,
            stop_at=np.full(NODES, -np.inf),
        )
        work = Work(int(rng.choice([0, 3, 20])))
        return Case(rng, pairs, groups, pairs.sets(groups), forms, batch, work)

    def point(self, i: int) -> np.ndarray:
        """Return a point of a node's box: inside, or a corner."""
        lower, upper = self.batch.lower[i], self.batch.upper[i]
        x = lower + self.rng.random(len(lower)) * (upper - lower)
        corner = self.rng.random(len(lower)) < 0.4
        return np.where(corner, np.where(self.rng.random(len(lower)) < 0.5, lower, upper), x)

    def tied(self) -> "Case":
        """Tie some pairs of each node to phases that some point of it has."""
        phase = np.zeros_like(self.batch.phase)
        for i in range(NODES):
            group = self.groups[self.batch.which[i]]
            member = Member(self, int(self.rng.choice(group)))
            true = member.phases(self.point(i))
            either = self.rng.choice([-1, 1], true.shape)
            chosen = self.rng.random(true.shape) < self.rng.choice([0.0, 0.2, 0.7])
            phase[i] = np.where(chosen, np.where(true == 0, either, true), 0)
        return replace(self, batch=replace(self.batch, phase=phase))

    def after(self, found) -> "Case":
        """Inherit what was found of each node, and start warm where it was open."""
        batch = replace(
            self.batch,
            lower=found.lower, upper=found.upper, state=found.state, cz=found.cz, cd=found.cd,
            share=found.share, warm=np.isfinite(found.value) & (found.status < 2),
        )  # fmt: skip
        return replace(self, batch=batch)

    def bound(self, kernel):
        return kernel.bound(self.pairs.numbers, self.forms, self.sets, self.batch, self.work)


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


def holds(case: Case, found, points: int) -> int:
    """Check what was found at random points and members of every node; returns how many."""
    batch, forms = case.batch, case.forms
    hidden, numbers = case.pairs.layout.hidden, case.pairs.numbers
    # Evaluating a point rounds too.
    noise, noise_d = 1e-14 * numbers.rough, 1e-14 * numbers.rough_difference
    checked = 0
    for i in range(NODES):
        for _ in range(points):
            x = case.point(i)
            member = Member(case, int(case.rng.choice(case.groups[batch.which[i]])))
            on = member.assignments(x, batch.phase[i])
            if not len(on):
                continue
            z, dz = member.run(x, on)
            _, true = member.run(x, np.full((1, hidden), np.nan))
            rows = forms.case(batch.case[i])
            slack = 4 * (1e-14 * forms.sizes[rows].max() + noise[hidden:].max() * forms.width)
            slack += 4 * noise_d[hidden:].max() * forms.width
            scores = np.tile(z[hidden:], (len(on), 1))
            values = forms.values(np.tile(x, (len(on), 1)), scores, dz[:, hidden:])[rows]
            # Of all ways to pass a difference the best counts; where there are several, one form
            # at most has to do with it.
            assert len(on) == 1 or forms.touching[rows].sum() <= 1
            best = values.max(axis=1) + batch.errors[i, : len(values)]
            goal = forms.goal[rows]
            counts = bool((best[~goal] >= slack).all())
            worst = best[goal].min()
            checked += 1
            if counts:
                assert worst <= found.value[i] + slack
                assert found.value[i] >= batch.cut[i]
            if counts and worst > batch.cut[i] + slack:
                assert found.status[i] < 2
                assert (found.lower[i] <= x).all() and (x <= found.upper[i]).all()
            if found.status[i] == EMPTY:
                continue
            low, high, p, q, low_d, high_d = found.state[i]
            own, change = z[:hidden], dz[:, :hidden]
            room, room_d = noise[:hidden], noise_d[:hidden]
            assert (low <= own + room).all() and (own <= high + room).all()
            assert (low_d <= change + room_d).all() and (change <= high_d + room_d).all()
            assert (true[0, :hidden] <= p + room_d).all()
            assert (-true[0, :hidden] <= q + room_d).all()
    return checked


def same(one, other, case: Case) -> None:
    """Two kernels found the same, but for rounding."""
    numbers, hidden = case.pairs.numbers, case.pairs.layout.hidden
    z, d = (r[:hidden] + 1e-300 for r in (numbers.rough, numbers.rough_difference))
    top = numbers.rough[hidden:].max()
    sizes = {
        "status": 1.0, "lower": 1.0, "upper": 1.0, "state": np.stack([z, z, d, d, d, d]),
        "value": top, "cz": top / z, "cd": top / z, "share": 1.0,
        "input_score": top, "neuron_score": top,
    }  # fmt: skip
    apart = np.zeros(NODES, bool)
    for name, size in sizes.items():
        a, b = getattr(one, name) / size, getattr(other, name) / size
        if name == "state":
            a, b = (np.where((one.status == EMPTY)[:, None, None], 0.0, each) for each in (a, b))
        # Multipliers are float32 numbers: the last bit of a sum may round them another way.
        room = 1e-9 if name in {"status", "lower", "upper", "state"} else 3e-7
        near = np.isclose(a, b, rtol=room, atol=room).reshape(NODES, -1).all(axis=1)
        if name in {"status", "lower", "upper", "state"} or case.work.steps <= 3:
            assert near.all(), name
        apart |= ~near
    # A long ascent may come so close to a tie that the last bit decides which way it goes on.
    assert apart.sum() <= 1


@pytest.mark.parametrize("leaks", (True, False))
@pytest.mark.parametrize("name", ARRAYS)
@cheap
@given(seed=seeds)
def test_every_kernel_finds_the_same(kernels, name, leaks, seed):
    case = Case.of(seed, leaks=leaks)
    for _ in range(2):
        found = case.bound(kernels["cpu"])
        same(found, case.bound(kernels[name]), case)
        case = case.after(found).tied()


@pytest.mark.parametrize("leaks", (True, False))
@pytest.mark.parametrize("name", ("cpu", "numpy"))
@cheap
@given(seed=seeds)
def test_nothing_is_above_what_was_found(kernels, name, leaks, seed):
    case = Case.of(seed, leaks=leaks)
    found = case.bound(kernels[name])
    assert holds(case, found, 8) == 8 * NODES
    child = case.after(found)
    assert holds(child, child.bound(kernels[name]), 8) == 8 * NODES


@pytest.mark.parametrize("name", ("cpu", "numpy"))
@cheap
@given(seed=seeds)
def test_tied_phases_cover_every_way_to_pass_a_difference(kernels, name, seed):
    case = Case.of(seed).tied()
    found = case.bound(kernels[name])
    holds(case, found, 8)
    # A child keeps its parent's ties and bounds, and ties some more.
    child = case.after(found).tied()
    phase = np.where(case.batch.phase != 0, case.batch.phase, child.batch.phase)
    child = replace(child, batch=replace(child.batch, phase=phase))
    holds(child, child.bound(kernels[name]), 8)


@pytest.mark.parametrize("name", ("cpu", "numpy"))
@cheap
@given(seed=seeds)
@example(seed=75)
@example(seed=99)
def test_bounds_of_true_differences_are_not_inherited_by_tied_ones(kernels, name, seed):
    case = Case.of(seed, scales=False)
    case = replace(case, batch=replace(case.batch, cut=np.full(NODES, -np.inf)))
    child = case.after(case.bound(kernels[name])).tied()
    holds(child, child.bound(kernels[name]), 8)


@pytest.mark.parametrize("name", ("cpu", *ARRAYS))
def test_a_neuron_that_is_always_zero_hides_nothing(kernels, name):
    rng = np.random.default_rng(0)
    model = networks.dense(rng, (2, 3, 2))
    for part in model.graph.initializer:
        if part.name.startswith("layers.0"):
            value = np.frombuffer(part.raw_data, np.float32).copy()
            value[: len(value) // 3] = 0.0
            part.raw_data = value.tobytes()
    case = Case.of(0)
    pairs = space_of(question(0, model=model, spread=0.0))
    layout = pairs.layout
    asked = leak_forms(0, 2, layout.inputs, 0.0, 0.0)
    forms = pairs.read(asked)
    batch = replace(
        case.batch,
        which=0 * case.batch.which,
        case=0 * case.batch.case,
        lower=np.tile(pairs.lower, (NODES, 1)), upper=np.tile(pairs.upper, (NODES, 1)),
        state=np.repeat(pairs.root[None], NODES, axis=0),
        phase=np.zeros((NODES, layout.hidden), np.int8),
        cz=np.zeros((NODES, layout.hidden)), cd=np.zeros((NODES, layout.hidden)),
        share=np.tile([1.0, 0.0], (NODES, 1)),
        errors=np.tile([0.0, 1e6], (NODES, 1)), cut=np.full(NODES, -np.inf),
    )  # fmt: skip
    groups = [np.array([0])]
    case = Case(rng, pairs, groups, pairs.sets(groups), forms, batch, Work(0))
    found = case.bound(kernels[name])
    assert (found.status == 0).all() and np.isfinite(found.value).all()
    assert holds(case, found, 4) == 4 * NODES


@cheap
@given(seed=seeds)
def test_small_pieces_change_nothing(kernels, seed):
    case = Case.of(seed)
    case = replace(case, work=replace(case.work, steps=3))
    whole = case.bound(kernels["numpy"])
    kernel = make_kernel("numpy")
    kernel._space = replace(kernel._space, room=1)
    same(whole, case.bound(kernel), case)


def test_an_unknown_kernel_is_named():
    with pytest.raises(SolverError, match="unknown kernel 'cuda'"):
        make_kernel("cuda")


@pytest.mark.parametrize("name", ["cpu:", "torch:", "cpu:0", "numpy:gpu", "torch:tpu"])
def test_a_device_that_a_kernel_does_not_have_is_refused(name):
    with pytest.raises(SolverError, match=f"{name.partition(':')[0]}"):
        make_kernel(name)


def refuse(device, threads):
    raise SystemExit(0)


@pytest.mark.parametrize(
    "made",
    [
        "no_such_module:x",
        "kernels_of_others:nothing",
        "kernels_of_others:refuse",
        "builtins:dict",
        "kernels_of_others:empty",
    ],
)
def test_a_kernel_of_others_that_cannot_be_made_is_named(made, monkeypatch):
    module = ModuleType("kernels_of_others")
    module.refuse, module.empty = refuse, lambda device, threads: object()
    monkeypatch.setitem(sys.modules, "kernels_of_others", module)
    points = EntryPoints([EntryPoint("own", made, "leaveout.kernels")])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    with pytest.raises(SolverError, match=f"kernel 'own' \\({made}\\)"):
        make_kernel("own")


@pytest.mark.parametrize("name", ("cpu", *ARRAYS))
def test_a_network_without_a_relu_is_bounded_too(name):
    instance = question(4, model=networks.dense(np.random.default_rng(4), (2, 2)), spread=0.2)
    options = NativeOptions(seconds=60, kernel=name)
    result = search(instance, 0, options)
    assert result.closed
    assert BruteForce.of(instance, 2000).best[0] <= result.upper

"""Bounds of nodes: alike in every kernel, and above everything that can be sampled."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from leaveout_arrays import NumpyKernel, TorchKernel

from leaveout.bab.forms import leak_forms
from leaveout.bab.native.kernels import make_kernel
from leaveout.bab.native.kernels.interface import CUT, EMPTY, Work
from leaveout.bab.native.leaks import search
from leaveout.bab.native.options import NativeOptions
from leaveout.errors import SolverError
from leaveout.models import lowering
from leaveout.models.matrices import Sparse, dense, settle

from support import networks
from support.cases import BruteForce, question
from support.depth import rounds
from support.random_nodes import NODES, Case, space_of

ARRAYS = ("numpy", "torch:cpu")

seeds = st.integers(0, 2**32 - 1)
cheap = settings(max_examples=rounds(25), deadline=None, derandomize=True)


def array_kernel(spec):
    name, _, device = spec.partition(":")
    return {"numpy": NumpyKernel, "torch": TorchKernel}[name](device, 1)


@pytest.fixture(scope="module")
def kernels():
    pytest.importorskip("numba")
    pytest.importorskip("torch")
    return {"cpu": make_kernel("cpu", 1), **{name: array_kernel(name) for name in ARRAYS}}


def holds(case: Case, found, points: int) -> int:
    """Check what was found at random points and members of every node; returns how many matter."""
    batch, hidden, numbers = case.batch, case.pairs.layout.hidden, case.pairs.numbers
    # Evaluating a point rounds too.
    room = 1e-14 * numbers.rough[:hidden]
    room_d = 1e-14 * numbers.rough_difference[:hidden]
    matter = 0
    for i in range(NODES):
        for _ in range(points):
            x, member = case.point(i), case.member(i)
            here = case.at(i, x, member)
            if here is None:
                continue
            assert not here.counts or found.value[i] >= batch.cut[i]
            if case.clipped(i, x, member):
                continue
            if here.counts:
                assert here.worst <= found.value[i] + here.slack
            if here.counts and here.worst > batch.cut[i] + here.slack:
                matter += 1
                assert found.status[i] < CUT
                assert (found.lower[i] <= x).all() and (x <= found.upper[i]).all()
            if found.status[i] == EMPTY or (batch.warm[i] and found.status[i] == CUT):
                continue
            low, high, p, q, low_d, high_d = found.state[i]
            own, change = here.z[:hidden], here.dz[:, :hidden]
            true = member.run(x, np.full((1, hidden), np.nan))[1][0, :hidden]
            assert (low <= own + room).all() and (own <= high + room).all()
            assert (low_d <= change + room_d).all() and (change <= high_d + room_d).all()
            assert (true <= p + room_d).all() and (-true <= q + room_d).all()
    return matter


def same(one, other, case: Case) -> None:
    """Two kernels found the same, but for rounding."""
    numbers, hidden = case.pairs.numbers, case.pairs.layout.hidden
    z, d = (r[:hidden] + 1e-300 for r in (numbers.rough, numbers.rough_difference))
    top, whole = numbers.rough[hidden:].max(), case.forms.sizes.max() + case.batch.errors.max()
    ones = np.ones(hidden)
    sizes = {
        "status": 1.0, "lower": 1.0, "upper": 1.0, "state": np.stack([z, z, d, d, d, d]),
        "known": whole / np.concatenate([case.pairs.upper + 1e-300, [1.0, 1.0]]),
        "value": top, "cz": top / z, "cd": top / z, "share": 1.0,
        "lines": np.stack([ones, ones, top / z, top / z]),
        "input_score": top, "neuron_score": top,
    }  # fmt: skip
    apart = np.zeros(NODES, bool)
    far = (one.status >= CUT) & (other.status >= CUT)
    surely = {"status", "lower", "upper", "state", "known"}
    for name, size in sizes.items():
        a, b = getattr(one, name) / size, getattr(other, name) / size
        # Multipliers are float32 numbers: the last bit of a sum may round them another way.
        room = 1e-9 if name in surely else 3e-7
        near = np.isclose(a, b, rtol=room, atol=room).reshape(NODES, -1).all(axis=1)
        if name in surely - {"status"}:
            # Of what is cut away it is as far as each got.
            near |= far
        if name in surely or case.work.steps == 0:
            assert near.all(), name
        apart |= ~near
    # An ascent may come so close to a tie that the last bit decides which way it goes on.
    assert apart.sum() <= 1


@pytest.mark.parametrize("leaks", (True, False))
@pytest.mark.parametrize("name", ARRAYS)
@cheap
@given(seed=seeds)
def test_every_kernel_finds_the_same(kernels, name, leaks, seed):
    case = Case.of(seed, leaks=leaks)
    for below in (Case.halved, Case.tied, Case.halved):
        found = case.bound(kernels["cpu"])
        same(found, case.bound(kernels[name]), case)
        case = below(case.after(found))


@pytest.mark.parametrize("leaks", (True, False))
@pytest.mark.parametrize("name", ("cpu", "numpy"))
@cheap
@given(seed=seeds)
def test_nothing_is_above_what_was_found(kernels, name, leaks, seed):
    case = Case.of(seed, leaks=leaks)
    for _ in range(3):
        found = case.bound(kernels[name])
        holds(case, found, 8)
        case = case.after(found).halved()


def all_entries(matrices, m):
    """Return matrices as entries, all of them, in order."""
    written = settle(dense(matrices), m)
    _, rows, columns = written.shape
    places = np.tile(np.arange(columns), rows)
    return Sparse(np.arange(rows + 1) * columns, places, written.reshape(m, -1), columns)


@cheap
@given(seed=seeds)
def test_entries_are_bounded_like_matrices(kernels, seed):
    case = Case.of(seed)
    with mock.patch.object(lowering, "settle", all_entries):
        entries = Case.of(seed)
    assert all(map(entries.pairs.layout.is_sparse, range(len(entries.pairs.layout.blocks))))
    holds(entries, entries.bound(kernels["cpu"]), 8)
    # Steps of an ascent take rounding for slopes where these vanish.
    case, entries = replace(case, work=Work(0)), replace(entries, work=Work(0))
    one, two = case.bound(kernels["cpu"]), entries.bound(kernels["cpu"])
    scale = np.abs(one.value) + case.pairs.numbers.rough.max()
    near = np.isinf(one.value) | (np.abs(one.value - two.value) <= 1e-6 * scale)
    assert ((one.status == two.status) & near).mean() >= 0.95
    case, entries = case.after(one).halved(), entries.after(two).halved()
    holds(entries, entries.bound(kernels["cpu"]), 8)


@cheap
@given(seed=seeds)
def test_neurons_that_are_not_bounded_again_keep_their_bounds(kernels, seed):
    case = Case.of(seed)
    case = case.tied() if seed % 2 else case
    for _ in range(3):
        some = case.rng.random(case.batch.refresh.shape) < 0.3
        case = replace(case, batch=replace(case.batch, refresh=some))
        found = case.bound(kernels["cpu"])
        holds(case, found, 8)
        case = case.after(found).halved()


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
    found = child.bound(kernels[name])
    holds(child, found, 8)
    child = child.after(found).halved()
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
        lines=np.zeros((NODES, 4, layout.hidden)),
        known=np.zeros((NODES, forms.kept_bounds, layout.inputs + 2)),
        share=np.tile([1.0, 0.0], (NODES, 1)),
        errors=np.tile([0.0, 1e6], (NODES, 1)), cut=np.full(NODES, -np.inf),
    )  # fmt: skip
    groups = [np.array([0])]
    case = Case(rng, pairs, groups, pairs.sets(groups), forms, batch, Work(0))
    found = case.bound(kernels[name])
    assert (found.status == 0).all() and np.isfinite(found.value).all()
    assert holds(case, found, 4) == 4 * NODES


@pytest.mark.parametrize("name", ("cpu", "numpy"))
def test_what_was_kept_above_clips_the_bounds_below(kernels, name):
    narrower = matter = 0
    for seed in range(4):
        case = Case.of(seed)
        child = case.after(case.bound(kernels[name])).halved()
        found = child.bound(kernels[name])
        matter += holds(child, found, 8)
        forgotten = replace(child, batch=replace(child.batch, warm=np.zeros(NODES, bool)))
        bare = forgotten.bound(kernels[name])
        fine = (found.status < CUT) & (bare.status < CUT) & child.batch.warm
        width, other = (each.state[fine, 1] - each.state[fine, 0] for each in (found, bare))
        narrower += (width < 0.99 * other).sum()
    assert narrower > 20 and matter > 100


@cheap
@given(seed=seeds)
def test_small_pieces_change_nothing(kernels, seed):
    case = Case.of(seed)
    case = replace(case, work=replace(case.work, steps=3))
    whole = case.bound(kernels["numpy"])
    kernel = array_kernel("numpy")
    kernel._space = replace(kernel._space, room=1)
    same(whole, case.bound(kernel), case)


def test_an_unknown_kernel_is_named(snapshot):
    with pytest.raises(SolverError) as told:
        make_kernel("cuda")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("name", ["cpu:", "cpu:0"])
def test_a_device_that_a_kernel_does_not_have_is_refused(name):
    with pytest.raises(SolverError, match="cpu"):
        make_kernel(name)


@pytest.mark.parametrize("name", ["numpy:gpu", "torch:tpu"])
def test_a_device_that_an_array_kernel_does_not_have_is_refused(name):
    pytest.importorskip(name.partition(":")[0])
    with pytest.raises(SolverError, match=name.partition(":")[0]):
        array_kernel(name)


def test_a_kernel_of_the_package_of_arrays_names_the_package():
    with pytest.raises(SolverError, match="examples/plugin_kernel"):
        make_kernel("torch")


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
def test_a_kernel_of_others_that_cannot_be_made_is_named(made, monkeypatch, snapshot):
    module = ModuleType("kernels_of_others")
    module.refuse, module.empty = refuse, lambda device, threads: object()
    monkeypatch.setitem(sys.modules, "kernels_of_others", module)
    points = EntryPoints([EntryPoint("own", made, "leaveout.kernels")])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    with pytest.raises(SolverError) as told:
        make_kernel("own")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("name", ("cpu", *ARRAYS))
def test_a_network_without_a_relu_is_bounded_too(name):
    instance = question(4, model=networks.dense(np.random.default_rng(4), (2, 2)), spread=0.2)
    options = NativeOptions(seconds=60, kernel=name)
    result = search(instance, 0, options)
    assert result.closed
    assert BruteForce.of(instance, 2000).best[0] <= result.upper

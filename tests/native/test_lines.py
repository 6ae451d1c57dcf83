"""The dual at multipliers that follow any lines: above everything that can be sampled."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leaveout_arrays import nodes_of
from leaveout_arrays.bounds import numpy_space

from leaveout.bab.native.kernels import make_kernel
from leaveout.bab.native.kernels.interface import OPEN, MemberSets, Work

from support.depth import rounds
from support.random_nodes import NODES, Case

pytest.importorskip("numba")

seeds = st.integers(0, 2**32 - 1)
cheap = settings(max_examples=rounds(25), deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def kernel():
    return make_kernel("cpu", 1)


def inner(case: Case, kernel) -> tuple[Case, np.ndarray]:
    """Return nodes with the bounds found of them, and which are open."""
    found = replace(case, work=Work(0)).bound(kernel)
    batch = replace(case.batch, lower=found.lower, upper=found.upper, state=found.state)
    return replace(case, batch=batch), found.status == OPEN


def random_lines(case: Case) -> np.ndarray:
    """Any slopes from 0 to 1, ends included, and any offsets."""
    rng, numbers, hidden = case.rng, case.pairs.numbers, case.pairs.layout.hidden
    shape = (NODES, 2, hidden)
    slopes = rng.choice([0.0, 1.0, 0.5], shape)
    slopes = np.where(rng.random(shape) < 0.5, rng.random(shape), slopes)
    size = numbers.rough[hidden:].max() / (numbers.rough[:hidden] + 1e-300)
    offsets = rng.normal(size=shape) * size * rng.choice([0.0, 1e-3, 0.1, 10.0], (NODES, 1, 1))
    return np.concatenate([slopes, offsets], axis=1)


def random_share(case: Case) -> np.ndarray:
    """Any convex weights of goals, and any multipliers of conditions."""
    share = np.zeros_like(case.batch.share)
    for i in range(NODES):
        rows = case.forms.case(case.batch.case[i])
        goal, own = case.forms.goal[rows], case.rng.random(rows.stop - rows.start)
        own[goal] /= own[goal].sum()
        share[i, : len(own)] = own
    return share


@cache
def passes():
    """What is compiled into larger passes, compiled by itself."""
    from numba import njit

    from leaveout.bab.native.kernels.line_bounds import along, by_lines
    from leaveout.bab.native.kernels.node_bounds import on_top
    from leaveout.bab.native.kernels.pair_bounds import OPTIONS

    return [njit(**OPTIONS)(each) for each in (along, by_lines, on_top)]


def compiled(case: Case, lines: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, ...]:
    """Values, multipliers, and slopes in their offsets, by the compiled passes."""
    from leaveout.bab.native.kernels.arguments import net_of, own_of, rows_of
    from leaveout.bab.native.kernels.neuron_bounds import first_tied
    from leaveout.bab.native.kernels.node_bounds import case_of
    from leaveout.bab.native.kernels.pair_bounds import over_box

    along, by_lines, on_top = passes()
    layout, batch, numbers = case.pairs.layout, case.batch, case.pairs.numbers
    net, own, sets, every = (
        net_of(layout), own_of(numbers), case.sets, rows_of(case.forms)
    )  # fmt: skip
    differs = bool(case.forms.has_differences.any())
    outputs, sources = len(numbers.bias), layout.inputs + layout.hidden
    values, cz, cd, gz, gd = np.zeros(NODES), *(np.zeros((NODES, outputs)) for _ in range(4))
    for i in range(NODES):
        s = batch.which[i]
        members = MemberSets(*(each[s] for each in sets))
        rows, bottom = case_of(every, batch.case[i]), first_tied(net.starts, batch.phase[i])
        ah, ad, h, after = (np.zeros(sources) for _ in range(4))
        x, slopes, size = np.zeros(layout.inputs), np.zeros((5, layout.hidden)), sizes(case)[i]
        constant = on_top(rows, batch.errors[i], layout.hidden, share[i], cz[i], cd[i], x)
        total, magnitude = by_lines(
            net, own, members, batch.state[i], batch.phase[i], bottom, size, lines[i],
            cz[i], cd[i], ah, ad, slopes, differs,
        )  # fmt: skip
        ah[: layout.inputs] += x
        rows = case.forms.case(batch.case[i])
        count = rows.stop - rows.start
        magnitude += share[i, :count] @ (case.forms.sizes[rows] + batch.errors[i, :count])
        shift = total + constant + numbers.unit * magnitude
        values[i] = over_box(ah[: layout.inputs], shift, batch.lower[i], batch.upper[i])
        along(
            net, own, members, batch.lower[i], batch.upper[i], batch.state[i], batch.phase[i],
            bottom, size, cz[i], cd[i], ah, ad, slopes, h, after, gz[i], gd[i], differs,
        )  # fmt: skip
    hidden = layout.hidden
    return values, cz[:, :hidden], cd[:, :hidden], gz, gd


def sizes(case: Case) -> np.ndarray:
    """Largest difference of what each neuron passes on."""
    _, u, p, _, vl, vu = (case.batch.state[:, row] for row in range(6))
    return np.where((case.batch.phase >= 0) & (u > -p), np.maximum(abs(vl), abs(vu)), 0.0)


def of_arrays(case: Case, lines: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the same over whole arrays."""
    from leaveout_arrays.ascent import along, gather_forms, try_multipliers

    space, batch = numpy_space(), case.batch
    given = {name: getattr(batch, name) for name in ("lower", "upper", "state", "phase")}
    nodes = nodes_of(space, case.pairs.numbers, case.sets, given, batch.which)
    nodes.size[:] = sizes(case)
    differs = bool(case.forms.has_differences.any())
    with np.errstate(all="ignore"):
        now = try_multipliers(nodes, gather_forms(space, case.forms, batch), lines, share, differs)
        gz, gd, _ = along(nodes, now.found, now.top, differs)
    return now.value, now.found.cz, now.found.cd, gz, gd


@pytest.mark.parametrize("leaks", (True, False))
@cheap
@given(seed=seeds)
def test_any_lines_prove_a_bound(kernel, leaks, seed):
    case = Case.of(seed, leaks=leaks)
    case, is_open = inner(case.tied() if leaks else case, kernel)
    lines, share = random_lines(case), random_share(case)
    for values in (compiled(case, lines, share)[0], of_arrays(case, lines, share)[0]):
        for i in np.flatnonzero(is_open):
            for _ in range(4):
                here = case.at(i, case.point(i), case.member(i))
                if here is not None:
                    weight = share[i, : len(here.values)]
                    errors = case.batch.errors[i, : len(here.values)]
                    most = (weight @ (here.values + errors[:, None])).max()
                    assert most <= values[i] + 4 * here.slack * (1.0 + weight.sum())


@pytest.mark.parametrize("leaks", (True, False))
@cheap
@given(seed=seeds)
def test_arrays_follow_lines_alike(kernel, leaks, seed):
    case = Case.of(seed, leaks=leaks)
    case, is_open = inner(case.tied(), kernel)
    lines, share = random_lines(case), random_share(case)
    numbers, hidden = case.pairs.numbers, case.pairs.layout.hidden
    top, z = numbers.rough[hidden:].max(), numbers.rough[:hidden] + 1e-300
    differs = bool(case.forms.has_differences.any())
    pairs = zip(compiled(case, lines, share), of_arrays(case, lines, share), strict=True)
    for place, (own, other) in enumerate(pairs):
        if place == 4 and not differs:
            continue
        # Multipliers are float32 numbers: the last bit of a sum may round them another way.
        size = (top, top / z, top / z, numbers.rough, numbers.rough_difference + 1e-300)[place]
        close = np.isclose(own / size, other / size, rtol=3e-7, atol=3e-7)
        apart = ~close.reshape(NODES, -1).all(axis=1) & is_open
        # A last bit may also decide which of two equal places a pair is at.
        assert apart.sum() <= (0 if place < 3 else 1)

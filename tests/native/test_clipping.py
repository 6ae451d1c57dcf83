"""The largest value of a form over a box and half-spaces: beside linear programs."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leaveout_arrays.bounds import (
    concatenate_cuts,
    contract_all,
    numpy_space,
    torch_space,
    useful_cuts,
)
from leaveout_arrays.bounds import largest as largest_of_arrays
from numba import njit
from scipy.optimize import linprog

from support.depth import rounds

clipping = pytest.importorskip("leaveout.bab.native.kernels.pair_bounds")

add_cut, largest = (njit(**clipping.OPTIONS)(each) for each in (clipping.add_cut, clipping.largest))
seeds = st.integers(0, 2**32 - 1)
cheap = settings(max_examples=rounds(100), deadline=None, derandomize=True)


@dataclass(frozen=True)
class Problem:
    """Some forms, a box, and half-spaces ``rows x + shift >= 0``."""

    forms: np.ndarray
    constant: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rows: np.ndarray
    shift: np.ndarray

    @staticmethod
    def of(rng: np.random.Generator, inputs: int, cuts: int) -> "Problem":
        whole = rng.random() < 0.3
        size = 10.0 ** float(rng.integers(-4, 5))

        def some(*shape: int) -> np.ndarray:
            values = rng.integers(-2, 3, shape) if whole else rng.normal(size=shape)
            return np.where(rng.random(shape) < 0.7, values, 0.0) * (1.0 if whole else size)

        lower = rng.integers(0, 3, inputs) if whole else rng.random(inputs)
        width = np.where(rng.random(inputs) < 0.1, 0.0, 2.0 * rng.random(inputs))
        upper = lower + (np.ceil(width) if whole else width)
        rows = some(cuts, inputs)
        if cuts > 1 and rng.random() < 0.3:
            rows[-1] = rows[0]
        point = lower + rng.random(inputs) * (upper - lower)
        spread = np.abs(rows) @ (upper - lower)
        # Most pass near a point of the box; some miss it altogether.
        shift = -rows @ point + rng.choice([0.0, 0.1, 0.3, -0.2, -1.5], cuts) * spread
        return Problem(some(3, inputs), some(3), lower * 1.0, upper * 1.0, rows, shift)

    def optimum(self, k: int) -> tuple[float, np.ndarray] | None:
        """Value and place of a point that surely is in all half-spaces, and is about the best."""
        scale = np.maximum(np.abs(self.rows) @ (self.upper - self.lower), 1e-300)
        found = linprog(
            -self.forms[k] / max(np.abs(self.forms[k]).max(), 1e-300),
            A_ub=-self.rows / scale[:, None],
            b_ub=self.shift / scale - 1e-6,
            bounds=np.stack([self.lower, self.upper], axis=1),
            method="highs",
        )
        if found.status != 0:
            return None
        x = np.clip(found.x, self.lower, self.upper)
        if (self.rows @ x + self.shift < 0.0).any():
            return None
        return float(self.forms[k] @ x + self.constant[k]), x

    @property
    def pads(self) -> np.ndarray:
        """What evaluating each half-space may round."""
        return 1e-13 * (np.abs(self.rows) @ self.upper + np.abs(self.shift))

    def compiled(self) -> np.ndarray:
        """What the compiled pass says of each form."""
        cuts = clipping.no_cuts(len(self.rows), len(self.lower))
        for row, shift, pad in zip(self.rows, self.shift, self.pads, strict=True):
            add_cut(cuts, row, shift + pad, pad, self.lower, self.upper)
        return np.array(
            [
                largest(form, constant, self.lower, self.upper, cuts)
                for form, constant in zip(self.forms, self.constant, strict=True)
            ]
        )


class Boxes:
    """What array code reads of nodes: their boxes."""

    def __init__(self, space, problems: list[Problem]) -> None:
        self.space = space
        self.lower = space.put(np.stack([each.lower for each in problems]))
        self.upper = space.put(np.stack([each.upper for each in problems]))
        self.every = space.put(np.arange(len(problems)))

    def __len__(self) -> int:
        return len(self.every)


def laid(space, problems: list[Problem]):
    """Return boxes, and the half-spaces of each as arrays, in two parts."""
    nodes = Boxes(space, problems)
    most = max(len(each.rows) for each in problems)
    rows = np.zeros((len(problems), most, len(problems[0].lower)))
    shift, pads, there = (np.zeros(rows.shape[:2]) for _ in range(3))
    for i, each in enumerate(problems):
        count = len(each.rows)
        rows[i, :count], there[i, :count] = each.rows, 1.0
        shift[i, :count], pads[i, :count] = each.shift + each.pads, each.pads
    parts = [
        useful_cuts(nodes, *(space.put(a[:, at]) for a in (rows, shift, pads, there > 0.0)))
        for at in (slice(0, 1), slice(1, None))
    ]
    return nodes, concatenate_cuts(nodes, *parts)


@cheap
@given(seed=seeds, inputs=st.integers(1, 6), cuts=st.integers(0, 8))
def test_no_point_in_all_half_spaces_is_above(seed, inputs, cuts):
    problem = Problem.of(np.random.default_rng(seed), inputs, cuts)
    found = problem.compiled()
    for k in range(len(problem.forms)):
        best = problem.optimum(k)
        if best is not None:
            value, x = best
            size = np.abs(problem.forms[k]) @ np.abs(x) + abs(problem.constant[k])
            assert value <= found[k] + 1e-12 * size
    reach = problem.forms.clip(0, None) @ problem.upper + problem.forms.clip(None, 0) @ (
        problem.lower
    )
    assert (found <= reach + problem.constant + 1e-12 * (1.0 + np.abs(reach))).all()


@cheap
@given(seed=seeds, inputs=st.integers(1, 6))
def test_of_one_half_space_it_is_the_optimum(seed, inputs):
    problem = Problem.of(np.random.default_rng(seed), inputs, 1)
    found = problem.compiled()
    steep = np.abs(problem.rows[0]) * (problem.upper - problem.lower)
    for k in range(len(problem.forms)):
        best = problem.optimum(k)
        if best is None:
            continue
        # What the half-space that the program was given loses against the true one.
        used = (steep > 1e-9) & (np.abs(problem.rows[0]) > 0.0)
        ratio = np.abs(problem.forms[k][used] / problem.rows[0][used]).max(initial=0.0)
        room = 2e-6 * (ratio * steep.sum() + np.abs(problem.forms[k]) @ problem.upper)
        assert found[k] <= best[0] + room + 1e-6 * abs(problem.constant[k])


@pytest.mark.parametrize("make", (numpy_space, lambda: torch_space("cpu")))
@cheap
@given(seed=seeds, inputs=st.integers(1, 6))
def test_arrays_find_the_same(make, seed, inputs):
    if make is not numpy_space:
        pytest.importorskip("torch")
    space, rng = make(), np.random.default_rng(seed)
    problems = [Problem.of(rng, inputs, int(rng.integers(9))) for _ in range(6)]
    nodes, cuts = laid(space, problems)
    forms = space.put(np.stack([each.forms for each in problems]))
    constant = space.put(np.stack([each.constant for each in problems]))
    with np.errstate(all="ignore"):
        found = space.take(largest_of_arrays(nodes, forms, constant, cuts))
    for own, problem in zip(found, problems, strict=True):
        size = np.abs(problem.forms) @ problem.upper + np.abs(problem.constant)
        known = problem.compiled()
        assert (np.isinf(known) == np.isinf(own)).all()
        fine = np.isfinite(known)
        assert np.allclose(own[fine] / (size[fine] + 1e-300), known[fine] / (size[fine] + 1e-300))


@cheap
@given(seed=seeds, inputs=st.integers(1, 6), cuts=st.integers(1, 8))
def test_boxes_lose_no_point_in_all_half_spaces(seed, inputs, cuts):
    problem = Problem.of(np.random.default_rng(seed), inputs, cuts)
    nodes, arrays = laid(numpy_space(), [problem])
    with np.errstate(all="ignore"):
        fine = contract_all(nodes, arrays, np.array([True]))
    for k in range(len(problem.forms)):
        best = problem.optimum(k)
        if best is not None:
            assert fine[0]
            assert (nodes.lower[0] <= best[1]).all() and (best[1] <= nodes.upper[0]).all()

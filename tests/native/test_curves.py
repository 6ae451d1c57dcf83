"""Compiled bounds of smooth neurons: as the kernel's tables, and above what is sampled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.bab.native.kernels import curve_tables as rows
from leaveout.bab.native.kernels import curves
from leaveout.kernel.smooth import FUNCTIONS, KIND, Curve

NAMES = [each.name for each in FUNCTIONS[1:]]
TABLED = [each.name for each in FUNCTIONS[1:] if each.touch is None]
KNOTS, DATA = rows.tables()
seeds = st.integers(0, 2**32 - 1)


def states(rng, name, count, far=1.0):
    least = FUNCTIONS[KIND[name]].least
    low = np.maximum(rng.uniform(-5, 5, count) * rng.choice([0.1, 1], count), least)
    high = low + 10.0 ** rng.uniform(-5, 1, count)
    below = far * rng.normal(size=count) * 10.0 ** rng.uniform(-8, 0, count)
    below = np.maximum(below, least - low)
    above = below + far * 10.0 ** rng.uniform(-8, 0, count)
    kinds = np.full(count, KIND[name], np.int8)
    band = np.maximum(above, 0), np.maximum(-below, 0)
    state = np.stack([low, high, *band, below, above])[None]
    return curves.shapes(kinds, state, pair=True)[0]


def test_closed_forms_are_those_from_the_square_on():
    """Compiled code tells them by their number."""
    closed = [kind for kind, each in enumerate(FUNCTIONS) if each.touch]
    assert closed == [KIND["Square"], KIND["InverseRoot"]]
    assert closed[-1] == len(FUNCTIONS) - 1


@given(name=st.sampled_from(NAMES), seed=seeds)
def test_extrema_are_those_of_the_kernel(name, seed):
    rng, kind = np.random.default_rng(seed), KIND[name]
    low = np.maximum(rng.uniform(-6, 6, 10), FUNCTIONS[kind].least)
    high = low + 10.0 ** rng.uniform(-5, 1.2, 10)
    a, c = rng.normal(size=(2, 10))
    known = Curve.of(kind).top(a, c, low, high)
    for i in range(10):
        top, at = curves.curve_top(KNOTS, DATA, kind, a[i], c[i], low[i], high[i])
        assert low[i] <= at <= high[i]
        assert top == pytest.approx(known[i], abs=1e-9, rel=1e-6)


@pytest.mark.parametrize("name", TABLED)
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_lines_around_knots_are_above_or_below_them(name, side):
    kind, curve = KIND[name], Curve.of(KIND[name])
    for i in range(4096 - 800, 4096 + 801):
        z, value, slope = (i - 4096) * curve.function.step, curve.values[i], curve.slopes[i]
        line, constant = curves.best_line(KNOTS, DATA, kind, side, z - 0.004, z + 0.004)
        assert side * value <= side * (line * z + constant) + 1e-14
        for ratio in (slope * (1 + 2.0**-53), slope * (1 - 2.0**-53)):
            given_ = KNOTS, DATA, kind, side, side * ratio, z - 0.06, z + 0.06
            assert side * value - side * ratio * z <= curves.curve_top(*given_)[0]


@given(name=st.sampled_from(NAMES), seed=seeds)
def test_lines_and_ranges_bound_what_is_sampled(name, seed):
    rng, curve = np.random.default_rng(seed), Curve.of(KIND[name])
    state = states(rng, name, 6, far=float(rng.choice([1e-6, 1.0])))
    z = rng.uniform(state[0], state[1], (200, 6))
    d = rng.uniform(state[4], state[5], (200, 6))
    h, after = curve.at(z)[0], curve.at(z + d)[0]
    assert (h <= state[rows.UP] * z + state[rows.UP_AT] + 1e-12).all()
    assert (h >= state[rows.DOWN] * z + state[rows.DOWN_AT] - 1e-12).all()
    # Apart, the lines are those of z + dz.
    apart = state[rows.APART] > 0
    at, value = np.where(apart, z + d, d), np.where(apart, after, after - h)
    room = 2.1e-10 + 1e-14 * np.abs(after)
    assert (value <= state[rows.UP_D] * at + state[rows.UP_D_AT] + room).all()
    assert (value >= state[rows.DOWN_D] * at + state[rows.DOWN_D_AT] - room).all()


@given(name=st.sampled_from(NAMES), seed=seeds)
def test_no_pair_is_above_its_bound_whatever_the_multipliers(name, seed):
    rng, curve = np.random.default_rng(seed), Curve.of(KIND[name])
    state = states(rng, name, 4)
    a, b, cz, cd = rng.normal(size=(4, 4))
    z, d = (rng.uniform(state[i], state[i + 1], (200, 4)) for i in (0, 4))
    h, after = curve.at(z)[0], curve.at(z + d)[0]
    value = a * h + b * (after - h) - cz * z - cd * d
    alone = a * h - cz * z
    for j in range(4):
        given_ = KNOTS, DATA, state, j, a[j], b[j], cz[j], cd[j]
        top, at, *_ = curves.curve_pair(*given_, True)
        assert state[0, j] <= at <= state[1, j]
        assert (value[:, j] <= top + 1e-11).all()
        assert (alone[:, j] <= curves.curve_pair(*given_, False)[0] + 1e-11).all()
        by_z, by_d, constant = curves.by_curve(state, j, a[j], b[j], True)
        along = a[j] * h[:, j] + b[j] * (after - h)[:, j] - by_z * z[:, j] - by_d * d[:, j]
        assert (along <= constant + 1e-9).all()


@pytest.mark.parametrize("name", TABLED)
def test_the_line_of_a_convex_or_concave_piece_is_its_chord_or_a_tangent(name):
    kind, curve = KIND[name], Curve.of(KIND[name])
    step = curve.function.step
    for first, last, sign in curve.pieces:
        low, high = ((i - 4096) * step for i in (max(first, 3600), min(last, 4600)))
        for side in (1.0, -1.0):
            slope, _ = curves.best_line(KNOTS, DATA, kind, side, low, high)
            chord = (curve.at(np.array(high))[0] - curve.at(np.array(low))[0]) / (high - low)
            tangent = curve.at(np.array((low + high) / 2))[1]
            assert slope == pytest.approx(chord if sign == side else tangent, abs=1e-6)

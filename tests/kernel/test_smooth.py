"""Smooth activations: tables, extrema, slopes and pairs against the functions themselves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.kernel.leaks import Leaks
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.smooth import (
    FUNCTIONS,
    HALF,
    KIND,
    SLOPE,
    VALUE,
    Curve,
    change_of,
    pair_ends,
    tops,
)
from leaveout.models.onnx.outlines import FORMS
from leaveout.verifier.certify.networks import lines_only, split

from support import kernel_rules as rules
from support.kernel_networks import honest, random_question

NAMES = [each.name for each in FUNCTIONS[1:]]
TABLED = [each.name for each in FUNCTIONS[1:] if each.touch is None]
seeds = st.integers(0, 2**32 - 1)


def exact(name, z):
    """Return values raised by the floor."""
    own = FUNCTIONS[KIND[name]]
    return np.array([own.value(float(v)) for v in np.ravel(z)]).reshape(np.shape(z)) + own.floor


def of_form(text, z):
    """Return values of a form, with its rounded numbers."""
    arithmetic = {
        "Add": lambda *v: math.fsum(v), "Mul": lambda *v: math.prod(v), "Pow": math.pow,
        "Div": lambda a, b: a / b, "Erf": math.erf, "Tanh": math.tanh,
        "Sigmoid": FUNCTIONS[KIND["Sigmoid"]].value,
    }  # fmt: skip
    return np.array([eval(text, {**arithmetic, "x": float(x)}) for x in z])


@pytest.mark.parametrize("name", TABLED)
def test_tables_are_as_near_as_they_say_and_slopes_are_those_of_the_function(name):
    own, curve = FUNCTIONS[KIND[name]], Curve.of(KIND[name])
    rng = np.random.default_rng(0)
    middles = (np.arange(-1500, 1500) + 0.5) * own.step
    z = np.concatenate([rng.uniform(-12, 12, 4000), rng.uniform(-40, 40, 2000), middles])
    values, slopes = curve.at(z)
    # Half of what is charged, so that what is declared of fourth derivatives has room.
    assert np.abs(values - exact(name, z)).max() < VALUE / 2
    assert np.abs(slopes - [own.slope(float(v)) for v in z]).max() < SLOPE / 2
    h = 1e-5
    near = (exact(name, z + h) - exact(name, z - h)) / (2 * h)
    away = np.abs(z) > 2 * h
    assert np.abs(near - slopes)[away].max() < 1e-4


@pytest.mark.parametrize("text", sorted(FORMS))
def test_forms_with_rounded_numbers_are_within_their_bounds_over_the_reals(text):
    name = FORMS[text].partition("_")[0]
    z = np.linspace(-8, 8, 4001)
    value = of_form(text, z) + FUNCTIONS[KIND[name]].floor
    low, high = Curve.of(KIND[name]).ends(z, z)
    assert (low <= value).all()
    assert (value <= high).all()


@pytest.mark.parametrize("name", TABLED)
def test_no_value_is_below_the_floor_and_far_away_it_is_a_line(name):
    own = FUNCTIONS[KIND[name]]
    assert exact(name, np.linspace(-40, 40, 20_001)).min() >= 0
    far = HALF * own.step
    assert abs(own.value(far * 2) - (own.value(far) + own.rising * far)) < 1e-12
    assert abs(own.value(-far * 2) - own.value(-far)) < 1e-12


@pytest.mark.parametrize("name", TABLED)
def test_curvature_changes_where_it_is_said_to(name):
    curve = Curve.of(KIND[name])
    for first, last, sign in curve.pieces:
        slopes = curve.slopes[first : last + 1]
        assert (sign * np.diff(slopes) >= -1e-15).all()


@given(name=st.sampled_from(NAMES), seed=seeds)
def test_extrema_and_slopes_bound_what_is_sampled(name, seed):
    rng, own = np.random.default_rng(seed), FUNCTIONS[KIND[name]]
    curve = Curve.of(KIND[name])
    low = np.maximum(rng.uniform(-5, 5, 8) * rng.choice([0.01, 1, 10], 8), own.least)
    high = low + 10.0 ** rng.uniform(-6, 1.5, 8)
    a = rng.normal(size=8) * rng.choice([0, 1, 1, 1, 100], 8)
    middle = np.array([own.slope(v) for v in (low + high) / 2])
    c = a * np.where(rng.random(8) < 0.5, middle, rng.uniform(-0.5, 1.5, 8))
    c = np.where(rng.random(8) < 0.2, rng.normal(size=8), c)
    top = curve.top(a, c, low, high)
    least, most = curve.steepness(low, high)
    z = np.linspace(low, high, 300)
    values = a * exact(name, z) - c * z
    size = np.abs(a) * np.maximum(1, np.maximum(-least, most)) + np.abs(c)
    assert (values <= top + 1e-13 * (1 + np.abs(values))).all()
    step = (high - low) / 300
    assert (top <= values.max(0) + 2 * size * step + 1e-8 * size).all()
    slopes = np.array([[own.slope(float(v)) for v in row] for row in z])
    assert ((least <= slopes) & (slopes <= most)).all()


@pytest.mark.parametrize("name", TABLED)
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_line_that_touches_at_a_knot_is_above_it_however_its_slope_is_rounded(name, side):
    curve = Curve.of(KIND[name])
    at = np.arange(HALF - 2000, HALF + 2001)
    z, values, slope = (at - HALF) * curve.function.step, curve.values[at], curve.slopes[at]
    for away in (0, 1, 2, 5, 100, 10**5):
        for ratio in (slope * (1 + away * 2.0**-53), slope * (1 - away * 2.0**-53)):
            a = np.full(len(z), side)
            top = curve.top(a, side * ratio, z - 0.06, z + 0.06)
            assert (side * values - side * ratio * z <= top).all()


@given(name=st.sampled_from(NAMES), seed=seeds)
def test_no_pair_is_above_what_bounds_it(name, seed):
    rng, width = np.random.default_rng(seed), 6
    kinds = np.full(width, KIND[name], np.int8)
    least = FUNCTIONS[KIND[name]].least
    low = np.maximum(rng.uniform(-4, 4, (1, width)), least)
    high = low + 10.0 ** rng.uniform(-4, 1, (1, width))
    below = rng.normal(size=(1, width)) * 10.0 ** rng.uniform(-8, 1, (1, width))
    below = np.maximum(below, least - low)
    above = below + 10.0 ** rng.uniform(-8, 0.5, (1, width))
    ends = pair_ends(kinds, low, high, below, above)
    a, b, cz, cd = rng.normal(size=(4, 1, 1, width))
    z, d = rng.uniform(low, high, (200, width)), rng.uniform(below, above, (200, width))
    h, after = exact(name, z), exact(name, z + d)
    least, most = change_of(ends)
    room = 1e-13 * (1 + np.abs(h) + np.abs(after))
    assert ((least - room <= after - h) & (after - h <= most + room)).all()
    value = a[0] * h + b[0] * (after - h) - cz[0] * z - cd[0] * d
    for apart in (False, True):
        found = tops(kinds, ends, np.full((1, width), apart), a, b, cz, cd)
        assert (value <= found[0] + 1e-12 * (1 + np.abs(value))).all()
    alone = tops(kinds, ends, np.zeros((1, width), bool), a, None, cz, None)
    assert (a[0] * h - cz[0] * z <= alone[0] + 1e-12).all()


total = [kind for kind, each in enumerate(FUNCTIONS) if each.least == -math.inf]
some_kinds = st.tuples(*(st.sampled_from(total),) * 2).filter(any)


@given(seed=seeds, kinds=some_kinds)
def test_layers_are_within_their_bounds_everywhere(seed, kinds):
    rules.check_everywhere(seed, kinds)


@given(seed=seeds, wild=st.booleans(), kinds=some_kinds)
def test_a_form_is_above_what_it_stands_for_whatever_the_slopes(seed, wild, kinds):
    rules.check_forms(seed, wild, kinds)


def test_what_is_true_is_proved_and_what_is_false_is_not_whatever_the_hints():
    proved = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        kinds = tuple(rng.integers(1, 1 + len(TABLED), 2).tolist())
        question = random_question(seed, labels=2, spread=0.05, kinds=kinds)
        for label, leak in enumerate(question.worst(rng, 1000)):
            proved += rules.prove(question, label, max(0.0, leak) + 0.2)
            if leak > 1e-6:
                for _ in range(6):
                    assert not rules.prove(question, label, 0.99 * leak, rng)
    assert proved >= 10, proved


def tree_answers(question, tree):
    ask = honest(tree, np.array([1.0, 1.0]))
    left = [400]

    def answer(what, known):
        if what == "split":
            left[0] -= len(known["nodes"])
            return split(known) if left[0] > 0 else {}
        return ask(what, known)

    return answer


@pytest.mark.parametrize("seed", range(1, 4))
def test_ranges_of_neurons_are_split_and_ties_of_smooth_ones_are_not(seed):
    question = random_question(seed, labels=2, spread=0.05, kinds=(KIND["Tanh"], KIND["Gelu"]))
    worst = question.worst(np.random.default_rng(seed), 1000)
    leaks = Leaks.of(question.network, question.members, question.box, lines_only)
    split_by_range = rules.split_tree(5, index=[0, 1, 1], point=[0.0, 0.1, 0.1])
    leaks.check(0, max(0.0, worst[0]) + 0.5, tree_answers(question, split_by_range))
    # Either side alone leaves out what is on the other.
    if worst[0] > 1e-6:
        with pytest.raises(Rejected):
            leaks.check(0, 0.99 * worst[0], tree_answers(question, split_by_range))
    with pytest.raises(Rejected, match="tie"):
        leaks.check(0, 1e3, tree_answers(question, rules.split_tree(3)))


def test_numbers_that_are_none_bound_nothing():
    curve = Curve.of(KIND["Tanh"])
    one = np.ones(1)
    assert curve.top(one * math.nan, one, -one, one)[0] == math.inf


@pytest.mark.parametrize("text", sorted(FORMS))
def test_two_forms_of_one_function_may_differ_over_the_reals(text):
    name = FORMS[text].partition("_")[0]
    z = np.linspace(-8, 8, 4001)[None]
    values = [of_form(text, z[0]), exact(name, z[0]) - FUNCTIONS[KIND[name]].floor]
    kinds, none = np.full(z.shape[1], KIND[name], np.int8), np.zeros_like(z)
    ends = pair_ends(kinds, z, z, none, none)
    least, most = change_of(ends)
    for first, second in (values, values[::-1]):
        assert ((least[0] - 1e-14 <= second - first) & (second - first <= most[0] + 1e-14)).all()
        b, zero = np.ones((1, 1, z.shape[1])), np.zeros((1, 1, z.shape[1]))
        for apart in (False, True):
            for side in (1.0, -1.0):
                found = tops(kinds, ends, np.full(z.shape, apart), zero, side * b, zero, zero)
                assert (side * (second - first) <= found[0, 0] + 1e-14).all()

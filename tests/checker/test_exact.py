"""Exact arithmetic: nothing in it is rounded but what is kept, and that outwards."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.models import Members
from leaveout.verifier.checker import RejectedError, check
from leaveout.verifier.checker.arithmetic import EXACT, Exact
from leaveout.verifier.checker.inputs import Inputs
from leaveout.verifier.checker.layout import SetStore, make_net, start
from leaveout.verifier.checker.pairs import Nodes, facts_of, largest, pull_back, round_up_forms

from support.cases import question
from support.certificates import Content, write
from support.point_claims import KINDS
from support.points import write_kind

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1e-320, 5e-324, 1.0, 2.0**-1022, -(2.0**-30)]),
)
ROWS = st.lists(NUMBERS, min_size=4, max_size=4)


def fractions(value) -> list[Fraction]:
    """Return numbers, one after the other."""
    if isinstance(value, Exact):
        return [Fraction(int(n)) * Fraction(2) ** value.exponent for n in value.integers.ravel()]
    return [Fraction(float(v)) for v in np.ravel(value)]


@settings(max_examples=300, deadline=None)
@given(ROWS, ROWS)
def test_arithmetic_is_that_of_fractions(first, second):
    a, b = np.array(first), np.array(second)
    one, f, g = Exact.of(a), fractions(a), fractions(b)
    assert fractions(one) == f
    assert fractions(one + b) == [x + y for x, y in zip(f, g, strict=True)]
    assert fractions(b + one) == fractions(one + b)
    assert fractions(one - b) == [x - y for x, y in zip(f, g, strict=True)]
    assert fractions(b - one) == [y - x for x, y in zip(f, g, strict=True)]
    assert fractions(b * one) == [x * y for x, y in zip(f, g, strict=True)]
    assert fractions(abs(-one)) == [abs(x) for x in f]
    assert fractions(np.maximum(b, one)) == [max(x, y) for x, y in zip(f, g, strict=True)]
    assert fractions(np.minimum(one, b)) == [min(x, y) for x, y in zip(f, g, strict=True)]
    assert (one < b).tolist() == [x < y for x, y in zip(f, g, strict=True)]
    assert (b >= one).tolist() == [y >= x for x, y in zip(f, g, strict=True)]
    assert fractions(one @ b) == [sum(x * y for x, y in zip(f, g, strict=True))]
    assert fractions(b.reshape(2, 2) @ one.reshape(2, 2)) == fractions(
        Exact.of(b.reshape(2, 2)) @ a.reshape(2, 2)
    )
    assert fractions(np.where(a > b, one, b)) == [max(x, y) for x, y in zip(f, g, strict=True)]
    assert fractions(np.concatenate([one, b])) == f + g
    assert fractions(np.stack([b, one])[1]) == f
    assert fractions(one.sum()) == [sum(f)]
    changed = one.copy()
    changed[1:3] = b[1:3]
    assert fractions(changed) == [f[0], *g[1:3], f[3]]
    assert fractions(one) == f


@settings(max_examples=300, deadline=None)
@given(ROWS, ROWS)
def test_rounding_is_outwards_and_by_no_more_than_two_floats(first, second):
    number = Exact.of(np.array(first)) * np.array(second) + np.array(first)
    up, down, near = number.up(), number.down(), number.nearest()
    for true, high, low, middle in zip(fractions(number), up, down, near, strict=True):
        assert low == -np.inf or Fraction(float(low)) <= true
        assert high == np.inf or Fraction(float(high)) >= true
        # Numbers a thousand binary digits below the largest beside them are rounded more.
        if 1e-300 < abs(middle) < 1e300 and number._short()[1] == number.exponent:
            assert np.nextafter(np.nextafter(middle, np.inf), np.inf) >= high
            assert np.nextafter(np.nextafter(middle, -np.inf), -np.inf) <= low
    whole = Exact.of(np.array([0.0, 3.0, -0.5]))
    assert whole.up().tolist() == whole.down().tolist() == [0.0, 3.0, -0.5]


@pytest.mark.parametrize("rest", [-3.7086752344727505e-79, 3.7086752344727505e-79])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_beside_the_smallest_normal_number_rounding_is_outwards(sign, rest):
    """A number nearer to it than to any other is rounded to it, but for its side."""
    smallest = np.array([sign * float(np.finfo(np.float64).tiny)])
    number = Exact.of(smallest) * np.array([rest]) + smallest
    (true,) = fractions(number)
    assert Fraction(float(number.down()[0])) <= true <= Fraction(float(number.up()[0]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(RejectedError, match="range"):
        Exact.of(np.array([1.0, value]))


def _values(stack, number, x):
    """Return all outputs of a network of a stack at a point, and all ReLUs, as fractions."""
    sources, outputs = [x], []
    for layer in stack.layers:
        z = fractions(layer.bias[number])
        for s, weights in layer.weights.items():
            for row in range(layer.width):
                own = fractions(weights[number, row])
                z[row] += sum(w * h for w, h in zip(own, sources[s], strict=True))
        outputs.append(z)
        sources.append([max(v, Fraction(0)) for v in z])
    return outputs


@pytest.mark.parametrize("seed", range(12))
def test_forms_are_above_what_they_bound_without_any_tolerance(seed):
    """Both networks are evaluated in fractions; weights of very different sizes are among them."""
    rng = np.random.default_rng(seed)
    instance = question(seed, spread=0.2)
    stack, family = instance.network.stack, instance.family
    layers = [
        replace(layer, bias=layer.bias * rng.choice([1.0, 1e-12, 1e9])) for layer in stack.layers
    ]
    stack = replace(stack, layers=tuple(layers))
    inputs = Inputs(np.full(stack.inputs, -0.3), np.ones(stack.inputs))
    net = make_net(stack, inputs, EXACT)
    members = Members(instance.network.graph, family)
    store = SetStore(members, stack, net)
    group = np.arange(len(family), dtype=np.int64)
    sets = store.sets([0], [group])
    begin = start(net, sets)
    nodes = Nodes(net, sets, np.zeros(1, np.int64), begin.terms, begin.terms_d, [])
    for k in range(net.layers - 1):
        at = net.at(k)
        free = np.zeros((1, at.stop - at.start), np.int8)
        nodes.facts.append(facts_of(begin.state[None][:, :, at], free, np.zeros(1, bool)))
    top = net.layers - 1
    cz, cd = rng.normal(size=(2, 6, net.labels))
    forms = pull_back(nodes, np.zeros(6, np.int64), top, cz, cd)
    lower, upper = np.tile(net.lower, (6, 1)), np.tile(net.upper, (6, 1))
    flat, most = round_up_forms(forms, lower, upper, EXACT), largest(forms, lower, upper, EXACT)
    for _ in range(5):
        x = rng.uniform(inputs.lower, inputs.upper).astype(np.float32).astype(float)
        moved = [a - b for a, b in zip(fractions(x), fractions(net.origin), strict=True)]
        own = _values(stack, 0, fractions(x))[top]
        for chunk, other in members.chunks(group):
            for i in range(len(chunk)):
                there = _values(other, i, fractions(x))[top]
                for r in range(6):
                    change = [a - b for a, b in zip(there, own, strict=True)]
                    value = sum(c * z for c, z in zip(fractions(cz[r]), own, strict=True))
                    value += sum(c * d for c, d in zip(fractions(cd[r]), change, strict=True))
                    for each in (forms, flat):
                        slopes = zip(fractions(each.slopes[r]), moved, strict=True)
                        form = sum(s * y for s, y in slopes) + fractions(each.constant[[r]])[0]
                        assert value <= form
                    assert value <= Fraction(float(most[r]))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_accepted_of_leaks_is_accepted_exactly(tmp_path, seed):
    written = write(tmp_path, seed, ties=seed % 2 == 0, nodes=80)
    floats, exact = check(written.path), check(written.path, exact=True)
    assert [(c.label, c.upper, c.leaves) for c in floats] == [
        (c.label, c.upper, c.leaves) for c in exact
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_accepted_of_points_is_accepted_exactly(tmp_path, kind):
    path = write_kind(tmp_path, kind, 1)
    assert [c.upper for c in check(path, exact=True)] == [c.upper for c in check(path)]


def test_a_claim_a_hair_too_low_is_rejected_exactly_too(tmp_path):
    written = write(tmp_path, 8, ties=True, nodes=80)
    # The search ends within 2 % of what is true, by the clock: less than that may still be true.
    for less in (1e-2, 0.1, 1.0):
        content = Content.of(written.path)
        for result in content.manifest["results"]:
            result["upper"] -= less
            tree = result["tree"]
            for key in ("target", "claim"):
                name = f"{tree}.{key}"
                content.arrays[name] = np.minimum(content.arrays[name], result["upper"])
        content.save(tmp_path / "false.cert")
        for exact in (False, True):
            with pytest.raises(RejectedError):
                check(tmp_path / "false.cert", exact=exact)

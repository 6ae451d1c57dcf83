"""Whole numbers and charged float64 agree, and neither accepts what is false."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leaveout.errors import LinearError
from leaveout.kernel import exact
from leaveout.kernel.design import Design, Region
from leaveout.kernel.family import check_leaks
from leaveout.kernel.model import LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.family import bound_members, refine
from leaveout.models.linear.fit import coefficients_of

from support.depth import rounds
from support.linear_problems import leak_bounds, random_model, seeds


def model_of(seed: int, kind: str, *, grouped: bool) -> LinearModel:
    model = random_model(seed, kind, grouped=grouped)
    plain = all(each.degree <= 0 for each in model.design.columns)
    assume(plain and model.design.mix is None and len(model.labels) == 2)
    return model


@settings(max_examples=rounds(40))
@given(seeds, st.sampled_from(["logistic", "ridge"]), st.booleans())
def test_radii_agree_and_no_exact_one_is_larger(seed, kind, grouped):
    try:
        family = bound_members(model_of(seed, kind, grouped=grouped))
    except LinearError:
        assume(False)
    some = np.arange(0, len(family), 3)
    family = refine(family, some)
    model, part = family.model, family.parts[0]
    found = exact.members(model.problems[0], model.coefficients, part.at.R, family, 0)
    for unit, radius in enumerate(found.radius):
        told = part.members.radius[unit]
        if unit in part.members.measured or not np.isfinite(told):
            continue
        assert radius is not None
        if grouped:  # norms of their curvature are bounded by other powers
            assert told * 0.5 - 1e-9 <= float(radius) <= told * 2
        else:
            assert float(radius) <= told <= float(radius) * 1.001 + 1e-9


@settings(max_examples=rounds(30))
@given(seeds, st.sampled_from(["logistic", "ridge"]), st.integers(0, 1))
def test_claims_agree(seed, kind, label):
    try:
        family = bound_members(model_of(seed, kind, grouped=False))
    except LinearError:
        assume(False)
    assume(np.isfinite(family.parts[0].members.radius).all())
    rng = np.random.default_rng(seed)
    model = family.model
    lower = rng.uniform(-1, 0, model.inputs)
    region = Region.of(model.design, lower, lower + rng.uniform(0, 2, model.inputs))
    t = rng.uniform(0, 2, len(family))
    slack = family.slack_over(family.margin(label, 1 - label), region)
    bound = leak_bounds(family, region, label, 1 - label, (0, len(family)), t, slack)
    upper = float(bound.max())
    check_leaks(family, region, label, upper, {1 - label: t})
    exact.check_leaks(model, family, region, label, upper, {1 - label: t})
    lower_claim = upper - 1e-4 * (1 + abs(upper))
    for check in (
        lambda: check_leaks(family, region, label, lower_claim, {1 - label: t}),
        lambda: exact.check_leaks(model, family, region, label, lower_claim, {1 - label: t}),
    ):
        with pytest.raises(Rejected, match="not bounded"):
            check()


@pytest.mark.parametrize(
    ("kind", "tolerance", "weight"),
    [("svm", 0.0, 1.0), ("logistic", 0.1, 1.0), ("logistic", 0.0, 1e-12)],
)
def test_what_whole_numbers_do_not_cover_is_refused(kind, tolerance, weight):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(30, 2)), rng.integers(0, 2, 30).astype(float)
    weights = np.r_[np.ones(29), weight]
    model = LinearModel(
        kind, Design.plain(2), np.zeros((1, 3)), X, y, weights, np.ones(3), ("no", "yes")
    )
    model = replace(model, coefficients=coefficients_of(model.problems))
    family = bound_members(model)
    region = Region.of(model.design, np.zeros(2), np.ones(2))
    one = {0: np.ones(30)}
    check_leaks(family, region, 1, 1e9, one)
    with pytest.raises(Rejected):
        exact.check_leaks(replace(model, tolerance=tolerance), family, region, 1, 1e9, one)


@given(st.fractions(min_value=0, max_value=10**6))
def test_roots_are_no_less_and_close(value):
    found = exact.root(value)
    assert found * found >= value
    assert float(found) <= float(value) ** 0.5 * (1 + 1e-12) + 1e-29

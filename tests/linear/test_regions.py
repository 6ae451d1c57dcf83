"""Bounds over sets of inputs, next to vertices, linear programmes and random inputs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.optimize import linprog

from leaveout.errors import LinearError
from leaveout.kernel.budget import Change, budgets_of, check_change, largest_fall
from leaveout.kernel.design import Design, Region
from leaveout.kernel.family import check_leaks, check_shifts, prove_members
from leaveout.kernel.model import KINDS, LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.family import bound_members, centre, hints_of, refine
from leaveout.models.linear.fit import coefficients_of

from support.depth import rounds
from support.linear_problems import leak_bounds, random_design, random_model, random_region, seeds


@settings(max_examples=rounds(150))
@given(seeds)
def test_designs_are_what_scipy_computes_and_regions_contain_them(seed):
    rng = np.random.default_rng(seed)
    design = random_design(rng)
    region, points = random_region(rng, design)
    rows = design(points)
    at = 0
    parts = []
    for each in design.columns:
        x = points[:, each.at]
        if each.degree > 0:
            t, p = each.knots, each.degree
            inside = np.clip(x, t[p], t[-p - 1])
            basis = len(t) - p - 1
            values = np.stack([BSpline(t, np.eye(basis)[j], p)(inside) for j in range(basis)], 1)
            values = values if each.bias else values[:, :-1]
        elif each.degree == 0:
            values = (np.digitize(x, each.knots)[:, None] == np.arange(len(each.knots) + 1)) * 1.0
        else:
            values = x[:, None]
        parts.append(values)
        at += each.width
    expected = (np.concatenate(parts, axis=1) - design.shift) / design.scale
    if design.mix is not None:
        expected = expected @ design.mix + design.offset
    if design.constant:
        expected = np.c_[expected, np.full(len(expected), design.constant)]
    assert np.allclose(rows, expected, rtol=1e-12, atol=1e-12)
    slopes = rng.normal(size=(20, design.width))
    top = region.largest(slopes) + region.error(np.abs(slopes))
    assert (rows @ slopes.T <= top).all()
    assert (np.abs(rows) <= region.sizes).all()
    R = rng.normal(size=(design.width, 3))
    assert (np.linalg.norm(rows @ R, axis=1) <= region.reach(R)).all()


@settings(max_examples=rounds(60))
@given(seeds, st.sampled_from(KINDS), st.booleans())
def test_no_input_leaks_above_its_bound(seed, kind, grouped):
    try:
        model = random_model(seed, kind, grouped=grouped)
        family = bound_members(model)
    except LinearError:
        assume(False)
    assume(len(family) > 1 and all(np.isfinite(p.members.radius).all() for p in family.parts))
    rng = np.random.default_rng(seed + 1)
    if rng.random() < 0.5:
        family = refine(family, np.flatnonzero(rng.random(len(family)) < 0.5))
    region, points = random_region(rng, model.design)
    unit = int(rng.integers(len(family)))
    member = replace(model, coefficients=_retrained(model, unit))
    own, theirs = model.scores(points), member.scores(points)
    if not model.labels:
        for output in range(model.outputs):
            low, high = family.shift_bounds(
                region, family.output(output), 0, len(family),
                family.slack_over(family.output(output), region),
            )  # fmt: skip
            change = theirs[:, output] - own[:, output]
            assert low[unit] <= change.min() + 1e-12 and change.max() <= high[unit] + 1e-12
            check_shifts(family, region, output, max(-low.min(), high.max()))
        return
    for label in range(len(model.labels)):
        bounds, chosen = [], {}
        for rival in range(len(model.labels)):
            if rival == label:
                continue
            slack = family.slack_over(family.margin(label, rival), region)
            tried = [
                leak_bounds(
                    family, region, label, rival, (0, len(family)), np.full(len(family), t), slack
                )
                for t in (0.0, 0.5, 1.0, 1.5)
            ]
            best = np.argmin(tried, axis=0)
            chosen[rival] = np.array([0.0, 0.5, 1.0, 1.5])[best]
            bounds.append(np.min(tried, axis=0))
        bound = np.max(bounds, axis=0)
        confidence = own[:, label] - np.delete(own, label, axis=1).max(axis=1)
        margin = theirs[:, label] - np.delete(theirs, label, axis=1).max(axis=1)
        leaking = (confidence > 0) & (margin <= -1e-12)
        assert (confidence[leaking] <= bound[unit] + 1e-12).all()
        check_leaks(family, region, label, float(bound.max()), chosen)
        with pytest.raises(Rejected):
            lower = float(bound.max()) - 1e-6 * (1 + abs(float(bound.max())))
            check_leaks(family, region, label, lower, chosen)


def _retrained(model: LinearModel, unit: int) -> np.ndarray:
    left = model.units == unit
    kept = replace(model, weights=np.where(left, 0.0, model.weights))
    return coefficients_of(kept.problems)


@settings(max_examples=rounds(25), suppress_health_check=[HealthCheck.filter_too_much])
@given(seeds)
def test_bounds_are_those_of_a_linear_programme(seed):
    model = random_model(seed, "logistic")
    rng = np.random.default_rng(seed)
    assume(all(each.degree < 0 for each in model.design.columns) and model.design.mix is None)
    family = bound_members(model)
    family = refine(family, np.arange(len(family)))
    lower = rng.uniform(-1, 0, model.inputs)
    upper = lower + rng.uniform(0, 2, model.inputs)
    region = Region.of(model.design, lower, upper)
    unit = int(rng.integers(len(family)))
    own, theirs = model.coefficients[0], centre(family, unit)[0]
    points = [(a, b) for a, b in zip(region.lower, region.upper)]
    if model.design.constant:
        points.append((model.design.constant,) * 2)
    found = linprog(-own, A_ub=theirs[None], b_ub=[0.0], bounds=points)
    slack = family.slack_over(family.margin(1, 0), region)
    grid = np.r_[0.0, np.geomspace(1e-3, 1e3, 600)]
    tried = [
        leak_bounds(family, region, 1, 0, (unit, unit + 1), np.array([t]), slack)[0] for t in grid
    ]
    if found.status == 0:
        assert min(tried) >= -found.fun - 1e-9
        assert min(tried) <= -found.fun + 0.03 * (1 + abs(found.fun))


@settings(max_examples=rounds(25))
@given(seeds, st.sampled_from(["logistic", "ridge"]), st.integers(1, 3))
def test_any_few_rows_lower_no_score_by_more_than_the_sum(seed, kind, count):
    model = random_model(seed, kind)
    assume(len(model.labels) == 2)
    family = bound_members(model)
    rng = np.random.default_rng(seed)
    region, points = random_region(rng, model.design)
    for change in (Change("leave_out", count), Change("relabel", count)):
        bound, _ = largest_fall(family, budgets_of(family, change), region, family.margin(1, 0))
        if np.isfinite(bound):
            check_change(family, region, change, 1, bound)
            with pytest.raises(Rejected):
                check_change(family, region, change, 1, bound - 1e-9 * (1 + bound))
        for _ in range(3):
            chosen = rng.choice(len(model.X), count, replace=False)
            if change.kind == "leave_out":
                weights = model.weights.copy()
                weights[chosen] = 0.0
                other = replace(model, weights=weights)
            else:
                y = model.y.copy()
                y[chosen] = 1 - y[chosen]
                other = replace(model, y=y)
            try:
                other = replace(other, coefficients=coefficients_of(other.problems))
            except LinearError:
                assert bound == np.inf
                continue
            fall = model.raw_scores(points) - other.raw_scores(points)
            assert fall.max() <= bound + 1e-12


@settings(max_examples=rounds(25))
@given(seeds, st.sampled_from(["logistic", "svm", "softmax"]))
def test_hints_prove_the_members_again_and_bad_ones_nothing_false(seed, kind):
    try:
        model = random_model(seed, kind)
        family = refine(bound_members(model), np.arange(0, len(model.X), 3))
    except LinearError:
        assume(False)
    again = prove_members(model, hints_of(family))
    for one, two in zip(family.parts, again.parts):
        # Of a radius that rounding makes, more of it may differ.
        assert np.allclose(one.members.radius, two.members.radius, rtol=1e-6, atol=1e-7)
    rng = np.random.default_rng(seed)
    hint = hints_of(family)[0]
    moved = hint.centres + rng.normal(size=hint.centres.shape) * 0.1
    worse = prove_members(model, [hint._replace(centres=moved), *hints_of(family)[1:]])
    for place, unit in enumerate(hint.measured.tolist()):
        radius = worse.parts[0].members.radius[unit]
        apart = (moved - hint.centres)[place].reshape(-1)
        if kind != "softmax":
            away = np.linalg.norm(np.linalg.solve(hint.R, apart))
            assert radius >= away - family.parts[0].members.radius[unit] - 1e-9
    with pytest.raises(Rejected):
        prove_members(model, [hint._replace(measured=hint.measured + 10**6), *hints_of(family)[1:]])


@settings(max_examples=rounds(40))
@given(seeds, st.sampled_from(["logistic", "softmax", "ridge", "svm"]))
def test_one_more_row_of_any_label(seed, kind):
    model = random_model(seed, kind)
    assume(len(model.labels) >= 2)
    try:
        family = bound_members(model)
    except LinearError:
        assume(False)
    rng = np.random.default_rng(seed)
    within, added = random_region(rng, model.design)
    region, points = random_region(rng, model.design)
    budgets = budgets_of(family, Change("add_one", 1, within))
    for label in range(len(model.labels)):
        for rival in range(len(model.labels)):
            if rival == label:
                continue
            bound, _ = largest_fall(family, budgets, region, family.margin(label, rival))
            x, y = added[rng.integers(len(added))], rng.integers(len(model.labels))
            other = replace(
                model, X=np.r_[model.X, [x]], y=np.r_[model.y, float(y)], next_name=0,
                weights=np.r_[model.weights, 1.0], names=np.zeros(0, np.int64),
            )  # fmt: skip
            try:
                other = replace(other, coefficients=coefficients_of(other.problems))
            except LinearError:
                continue
            own, theirs = model.scores(points), other.scores(points)
            fall = (own[:, label] - own[:, rival]) - (theirs[:, label] - theirs[:, rival])
            assert fall.max() <= bound + 1e-9


def test_flips_of_more_than_two_labels_are_refused():
    X = np.repeat(np.eye(2), 4, axis=0)
    y = np.array([2.0, 2, 2, 2, 0, 0, 1, 1])
    design = Design.plain(2, 0.0)
    model = LinearModel(
        "logistic", design, np.zeros((3, 2)), X, y, np.ones(8), np.ones(2), ("a", "b", "c")
    )
    family = bound_members(replace(model, coefficients=coefficients_of(model.problems)))
    with pytest.raises(Rejected, match="two labels"):
        budgets_of(family, Change("relabel", 1))


def test_scores_of_softmax_with_a_tolerance_are_refused():
    model = replace(random_model(1, "softmax"), tolerance=1e-6)
    family = bound_members(model)
    with pytest.raises(Rejected, match="only differences"):
        family.output(0)
    assert family.margin(0, 1)

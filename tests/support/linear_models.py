"""Small linear models for tests, and their members as another solver finds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume
from scipy.optimize import minimize

from leaveout.encoders import Box, Choices
from leaveout.errors import LinearError
from leaveout.kernel.design import Column, Design
from leaveout.kernel.model import Groups, LinearModel
from leaveout.models.linear.fit import coefficients_of


def drawn_design(rng, inputs, plain):
    """Return a design: the inputs, or bins and splines of some, shifted, scaled and mixed."""
    if plain:
        return Design.plain(inputs)
    columns = []
    for at in range(inputs):
        match int(rng.integers(3)):
            case 0:
                columns.append(Column(at))
            case 1:
                columns.append(Column(at, 0, np.sort(rng.choice(np.arange(1, 9) / 10, 2, False))))
            case _:
                degree = int(rng.integers(1, 4))
                inner = np.array([0.0, 0.4, 1.0])
                ends = np.full(degree, 0.0), np.full(degree, 1.0)
                columns.append(Column(at, degree, np.concatenate([ends[0], inner, ends[1]])))
    width = sum(each.width for each in columns)
    mix = rng.normal(size=(width, width)) if rng.random() < 0.3 else None
    offset = None if mix is None else rng.normal(size=width)
    scale = rng.uniform(0.5, 2.0, width)
    return Design(inputs, tuple(columns), rng.normal(size=width), scale, mix, offset)


def drawn_model(seed, kind="logistic", *, plain=False, grouped=False, rows=14, labels=None):
    """Return a fitted model of a few random rows; without labels for regressions."""
    rng = np.random.default_rng(seed)
    design = drawn_design(rng, int(rng.integers(1, 4)), plain)
    X = rng.random((rows, design.inputs))
    count = labels or (3 if kind == "softmax" else 2)
    names = tuple(f"l{k}" for k in range(count))
    y = np.concatenate([np.arange(count), rng.integers(0, count, rows - count)]).astype(float)
    if kind in ("poisson", "gamma", "regression"):
        names = ()
        y = rng.poisson(2.0, rows) + (kind == "gamma") + 0.0
    outputs = count if kind == "softmax" or count > 2 else 1
    weights = rng.uniform(0.5, 2.0, rows)
    penalty = np.full(design.width, float(rng.choice([0.3, 1.0, 4.0])))
    groups = None
    if grouped:
        groups = Groups("who", np.array([f"g{k}" for k in rng.integers(0, rows - 4, rows)]))
    model = LinearModel(
        "ridge" if kind == "regression" else kind, design,
        np.zeros((1 if not names else outputs, design.width)), X, y, weights, penalty, names,
        groups=groups,
    )  # fmt: skip
    try:
        return replace(model, coefficients=coefficients_of(model.problems))
    except LinearError:
        assume(False)
        raise


def drawn_box(seed, inputs):
    """Return a set of inputs, at times with listed values."""
    rng = np.random.default_rng(seed + 1)
    low = rng.uniform(-0.2, 0.5, inputs)
    box = Box(low, low + rng.uniform(0.2, 0.9, inputs))
    if rng.random() < 0.5:
        return box
    at = np.array([int(rng.integers(inputs))])
    values = rng.uniform(box.lower[at], box.upper[at], (3, 1))
    return Box(box.lower, box.upper, (Choices(at, values, exact=True),))


def inputs_of(box, seed, count=400):
    """Return inputs of a set: corners first, then random ones."""
    rng = np.random.default_rng(seed + 2)
    x = rng.uniform(box.lower, box.upper, (count, box.dimension))
    corners = rng.integers(0, 2, (count // 2, box.dimension))
    x[: count // 2] = np.where(corners, box.upper, box.lower)
    for each in box.choices:
        x[:, each.columns] = each.values[rng.integers(0, len(each.values), count)]
    return x


def retrained(model, unit):
    """Return the model without a unit, as scipy finds it from 0."""
    kept = model.units != unit
    D, w = model.design(model.X[kept]), model.weights[kept]
    found = []
    for target in np.atleast_2d(model.targets()[:, kept]):
        outputs = model.outputs if model.kind == "softmax" else 1
        shape = outputs, D.shape[1]

        def look(flat, target=target, shape=shape):
            t = flat.reshape(shape)
            value, slope, curve = _loss(model.kind, D @ t.T, target, w)
            hessian = np.einsum("iqr,id,ie->qdre", curve, D, D).reshape(flat.size, flat.size)
            hessian += np.diag(np.tile(model.penalty, shape[0]))
            gradient = (slope.T @ D + model.penalty * t).reshape(-1)
            return value + float((model.penalty * t**2).sum()) / 2, gradient, hessian

        flat = np.zeros(outputs * D.shape[1])
        flat = minimize(lambda v: look(v)[0], flat, jac=lambda v: look(v)[1]).x
        for _ in range(20):
            _, gradient, hessian = look(flat)
            flat = flat - np.linalg.solve(hessian, gradient)
        assert np.abs(look(flat)[1]).max() < 1e-10
        found.append(flat.reshape(shape))
    return replace(model, coefficients=np.concatenate(found))


def _loss(kind, scores, target, w):
    """Return value, slope (n, q) and curvature (n, q, q)."""
    if kind == "softmax":
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        hit = np.eye(p.shape[1])[target.astype(int)]
        curve = w[:, None, None] * (p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None])
        return -w @ np.log((p * hit).sum(axis=1)), w[:, None] * (p - hit), curve
    m = scores[:, 0]
    if kind == "logistic":
        p = 1 / (1 + np.exp(-m))
        value, slope, curve = np.logaddexp(0, m) - target * m, p - target, p * (1 - p)
    elif kind == "poisson":
        value, slope, curve = np.exp(m) - target * m, np.exp(m) - target, np.exp(m)
    elif kind == "gamma":
        value, slope, curve = (
            target * np.exp(-m) + m, 1 - target * np.exp(-m), target * np.exp(-m),
        )  # fmt: skip
    elif kind == "ridge":
        value, slope, curve = (m - target) ** 2 / 2, m - target, np.ones_like(m)
    else:
        sign = np.where(target > 0, 1.0, -1.0)
        short = np.maximum(1 - sign * m, 0)
        value, slope, curve = short**2, -2 * sign * short, 2.0 * (short > 0)
    return w @ value, (w * slope)[:, None], (w * curve)[:, None, None]

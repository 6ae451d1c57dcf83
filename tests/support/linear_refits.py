"""Small linear models, and their members by really fitting them again, independently."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.kernel.design import Design
from leaveout.kernel.model import Groups, LinearModel
from leaveout.models.linear.fit import coefficients_of


def _loss(kind: str, scores: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Loss, first and second derivatives by score, of rows; y as the kind has it."""
    if kind == "softmax":
        shifted = scores - scores.max(axis=1, keepdims=True)
        p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        hit = np.eye(scores.shape[1])[y.astype(int)]
        value = np.log(np.exp(shifted).sum(axis=1)) - (shifted * hit).sum(axis=1)
        bend = np.einsum("iq,qr->iqr", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :]
        return value, p - hit, bend
    s = scores[:, 0]
    if kind == "ridge":
        value, first, second = (s - y) ** 2 / 2, s - y, np.ones(len(s))
    else:
        sign = 2.0 * y - 1.0
        if kind == "logistic":
            p = 1 / (1 + np.exp(-s))
            value, first, second = np.logaddexp(0, -sign * s), p - y, p * (1 - p)
        else:
            short = np.maximum(1 - sign * s, 0)
            value, first, second = short**2, -2 * sign * short, 2.0 * (short > 0)
    return value, first[:, None], second[:, None, None]


def minimum(
    kind: str,
    Z: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    penalty: np.ndarray,
    outputs: int,
    pull: np.ndarray,
) -> np.ndarray:
    """Coefficients at which the gradient is ``pull``: damped Newton steps, shape (outputs, d)."""
    d = Z.shape[1]
    tie = len(y) * float(kind == "softmax")

    def look(t):
        value, first, second = _loss(kind, Z @ t.T, y)
        total = weights @ value + (penalty * t**2).sum() / 2 - (pull * t).sum()
        total += tie * (t.sum(axis=0) ** 2).sum() / 2
        slope = (weights[:, None] * first).T @ Z + penalty * t - pull + tie * t.sum(axis=0)
        bend = np.einsum("i,iqr,ij,ik->qjrk", weights, second, Z, Z)
        bend += np.einsum("qr,j,jk->qjrk", np.eye(outputs), penalty, np.eye(d))
        bend += tie * np.einsum("qr,jk->qjrk", np.ones((outputs, outputs)), np.eye(d))
        return total, slope, bend.reshape(outputs * d, -1)

    t = np.zeros((outputs, d))
    for _ in range(300):
        value, slope, bend = look(t)
        step = np.linalg.solve(bend, slope.reshape(-1)).reshape(t.shape)
        if np.abs(step).max() < 1e-13:
            break
        size = 1.0
        while size > 1e-9 and look(t - size * step)[0] > value - 1e-4 * size * (slope * step).sum():
            size /= 2
        t = t - (size if size > 1e-9 else 1.0) * step
    return t


def member(model: LinearModel, unit: int, pull: float = 0.0, seed: int = 0) -> np.ndarray:
    """The model fitted without a unit, with a gradient of norm ``pull`` left, (outputs, d)."""
    stays = model.units != unit
    Z, weights = model.design(model.X[stays]), model.weights[stays]
    rng, found = np.random.default_rng(seed), []
    outputs = model.outputs if model.kind == "softmax" else 1
    for target in model.targets():
        y = target[stays]
        left = rng.normal(size=(outputs, Z.shape[1]))
        if outputs > 1:
            # The members of softmax that are compared have coefficients that add up to 0.
            left -= left.mean(axis=0)
        left *= pull / np.linalg.norm(left)
        found.append(minimum(model.kind, Z, y, weights, model.penalty, outputs, left))
    return np.concatenate(found)


def margins(model: LinearModel, coefficients: np.ndarray, labels: np.ndarray, X: np.ndarray):
    """How far each point's label is above the best other one, by other coefficients."""
    scores = replace(model, coefficients=coefficients).scores(X)
    rows = np.arange(len(X))
    own = scores[rows, labels]
    scores[rows, labels] = -np.inf
    return own - scores.max(axis=1)


KINDS = {  # kind: how many labels, outputs
    "logistic": (2, 1),
    "logistic of three": (3, 3),
    "softmax": (3, 3),
    "softmax of two": (2, 2),
    "ridge": (2, 1),
    "ridge of three": (3, 3),
    "svm": (2, 1),
    "svm of three": (3, 3),
}


def small_model(seed: int, kind: str, grouped: bool = False, tolerance: float = 0.0) -> LinearModel:
    """A model of few rows on a grid, many of them twice."""
    rng = np.random.default_rng(seed)
    labels, outputs = KINDS[kind]
    rows, inputs = int(rng.integers(6, 25)), int(rng.integers(1, 4))
    X = rng.integers(-3, 4, (rows, inputs)).astype(float) / rng.choice([1.0, 3.0])
    y = np.concatenate([np.arange(labels), rng.integers(0, labels, rows - labels)]).astype(float)
    X[rows // 2 :: 2], y[rows // 2 :: 2] = X[rows // 2], y[rows // 2]
    cells = rng.integers(0, max(2, rows // 3), rows).astype(str)
    groups = Groups("who", cells) if grouped and len(set(cells)) > 1 else None
    design = Design.plain(inputs, float(rng.choice([0.0, 1.0])))
    model = LinearModel(
        kind.split()[0], design, np.zeros((outputs, design.width)), X, y,
        rng.choice([1.0, 1.0, 2.5, 0.0], rows), rng.uniform(0.3, 4.0, design.width),
        tuple(f"label {k}" for k in range(labels)), groups=groups, tolerance=tolerance,
    )  # fmt: skip
    return replace(model, coefficients=coefficients_of(model.problems))


def telling_points(model: LinearModel, members: list[np.ndarray], seed: int) -> np.ndarray:
    """Points around the rows, far away, and near where N or a member ties."""
    rng = np.random.default_rng(seed)
    shape = 20, model.inputs
    near = rng.normal(size=shape) * 2
    far = near[:10] * 10.0 ** rng.integers(1, 8, (10, 1))
    bent = []
    for coefficients in (model.coefficients, *members[:8]):
        low, high = rng.normal(size=shape) * 3, rng.normal(size=shape) * 3
        served = replace(model, coefficients=coefficients)
        first = served.answers(low)
        across = first != served.answers(high)
        for _ in range(45):
            middle = (low + high) / 2
            same = (served.answers(middle) == first)[:, None]
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        bent.append((low + rng.choice([0, 0, 1e-9, 1e-4], (20, 1)) * near)[across])
    return np.concatenate([model.X, near, far, *bent, np.zeros((1, model.inputs))])

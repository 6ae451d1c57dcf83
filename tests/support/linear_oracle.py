"""Convex fits in long doubles, written independently of the package, as the truth of the tests."""

from __future__ import annotations

import numpy as np

LONG = np.longdouble


def solve(A, b):
    """Solve by Gaussian elimination with pivots, in long doubles."""
    A, b = A.astype(LONG).copy(), b.astype(LONG).copy()
    n = len(b)
    for k in range(n):
        p = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, p]], b[[k, p]] = A[[p, k]], b[[p, k]]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            A[i, k:] -= f * A[k, k:]
            b[i] -= f * b[k]
    x = np.zeros(n, LONG)
    for k in range(n - 1, -1, -1):
        x[k] = (b[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k]
    return x


def derivatives(kind, t, X, y, w, penalty, outputs):
    """Return value, gradient and Hessian of the objective at t, shape (outputs, columns)."""
    d = X.shape[1]
    m = X @ t.T
    grad, hess = np.zeros((outputs, d), LONG), np.zeros((outputs, d, outputs, d), LONG)
    if kind == "softmax":
        z = np.exp(m - m.max(axis=1, keepdims=True))
        p = z / z.sum(axis=1, keepdims=True)
        value = (
            w * (np.log(z.sum(axis=1)) + m.max(axis=1) - m[np.arange(len(y)), y.astype(int)])
        ).sum()
        r = p.copy()
        r[np.arange(len(y)), y.astype(int)] -= 1
        grad = (w[:, None] * r).T @ X
        for a in range(outputs):
            for b in range(outputs):
                c = w * (p[:, a] * (a == b) - p[:, a] * p[:, b])
                hess[a, :, b] = X.T @ (c[:, None] * X)
    else:
        s = m[:, 0]
        if kind == "logistic":
            sign = np.where(y > 0, LONG(1), LONG(-1))
            value = (w * np.logaddexp(LONG(0), -sign * s)).sum()
            p = 1 / (1 + np.exp(-s))
            r, c = p - y, p * (1 - p)
        elif kind == "poisson":
            value, r, c = (w * (np.exp(s) - y * s)).sum(), np.exp(s) - y, np.exp(s)
        elif kind == "gamma":
            value, r, c = (w * (y * np.exp(-s) + s)).sum(), 1 - y * np.exp(-s), y * np.exp(-s)
        elif kind == "squared":
            value, r, c = (w * (s - y) ** 2).sum() / 2, s - y, np.ones_like(s)
        else:
            sign = np.where(y > 0, LONG(1), LONG(-1))
            short = np.maximum(1 - sign * s, 0)
            value, r, c = (w * short**2).sum(), -2 * sign * short, 2.0 * (short > 0)
        grad[0] = X.T @ (w * r)
        hess[0, :, 0] = X.T @ ((w * c)[:, None] * X)
    value = value + (penalty * t**2).sum() / 2
    grad = grad + penalty * t
    for a in range(outputs):
        hess[a, :, a] += np.diag(penalty)
    return value, grad, hess.reshape(outputs * d, outputs * d)


def minimum(kind, X, y, w, penalty, outputs=1, start=None):
    """Return the minimum to about 1e-17, or None where Newton does not settle."""
    X, y, w, penalty = (np.asarray(each, LONG) for each in (X, y, w, penalty))
    d = X.shape[1]
    t = np.zeros((outputs, d), LONG) if start is None else np.asarray(start, LONG)
    tie = np.zeros((outputs * d,) * 2, LONG)
    if kind == "softmax":
        for a in range(outputs):
            for b in range(outputs):
                tie[a * d : (a + 1) * d, b * d : (b + 1) * d] = np.eye(d)
    for _ in range(200):
        value, grad, hess = derivatives(kind, t, X, y, w, penalty, outputs)
        total = t.sum(axis=0) if kind == "softmax" else np.zeros(d, LONG)
        grad = grad + total
        step = solve(hess + tie, grad.reshape(-1)).reshape(t.shape)
        length = LONG(1)
        while length > 1e-12:
            tried = t - length * step
            found = derivatives(kind, tried, X, y, w, penalty, outputs)[0]
            if (
                found + (tried.sum(axis=0) ** 2).sum() / 2 * (kind == "softmax")
                <= value + ((total**2).sum() / 2) + abs(value) * 1e-18
            ):
                break
            length /= 2
        t = t - length * step
        if np.abs(step).max() < 1e-17 * (1 + np.abs(t).max()):
            return t
    return t if np.abs(step).max() < 1e-14 * (1 + np.abs(t).max()) else None

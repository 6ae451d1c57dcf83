"""A linear model with the rows it was fitted to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .design import Column, Design
from .linear import Problem
from .numbers import Floats, need
from .records import parse

Integers = NDArray[np.int64]

Kind = Literal["logistic", "softmax", "ridge", "poisson", "gamma", "svm"]
"""What is fitted: ridge is least squares, svm has the squared hinge loss."""

KINDS: tuple[Kind, ...] = get_args(Kind)

_LOSS = {"ridge": "squared", "svm": "hinge"}


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows with equal cells in one column leave together."""

    column: str
    cells: NDArray[np.str_]  # shape (rows,)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A convex fit: scores are linear in design columns.

    F(t) is the sum of weight times loss over the rows, plus penalty times squared coefficients / 2;
    outputs of kinds other than softmax are fitted independently. Members are the minima of F
    without some rows, or, with a tolerance, all coefficients with a gradient of at most that norm.

    Attributes
    ----------
    kind : Kind
    design : Design
        From inputs to design columns, the intercept's last.
    coefficients : ndarray of float64, shape (outputs, columns)
        What is served.
    X : ndarray of float64, shape (rows, inputs)
    y : ndarray of float64, shape (rows,) or (rows, outputs)
        Labels' numbers if there are labels, else the numbers to predict.
    weights : ndarray of float64, shape (rows,)
    penalty : ndarray of float64, shape (columns,)
    labels : tuple of str
        Names of the labels; empty for a regression. Two labels may share one output: its score is
        that of label 1, and label 0 scores 0.
    names : ndarray of int64, shape (rows,)
        Ascending numbers of the rows, which never shift.
    next_name : int
    groups : Groups or None
    tolerance : float
    """

    kind: Kind
    design: Design
    coefficients: Floats
    X: Floats
    y: Floats
    weights: Floats
    penalty: Floats
    labels: tuple[str, ...] = ()
    names: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    next_name: int = 0
    groups: Groups | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.names):
            object.__setattr__(self, "names", np.arange(len(self.X)))
        if not self.next_name:
            object.__setattr__(self, "next_name", int(self.names[-1]) + 1)
        rows, width = len(self.X), self.design.width
        need(rows > 1 and self.X.shape == (rows, self.inputs), "the rows' shape")
        need(self.kind in KINDS, f"no such kind: {self.kind!r}")
        need(
            self.coefficients.shape == (self.outputs, width) and self.outputs > 0,
            "the coefficients",
        )
        need(self.penalty.shape == (width,) and self.weights.shape == (rows,), "the penalty")
        need(np.isfinite(self.X).all() and np.isfinite(self.coefficients).all(), "no number")
        need(0 <= self.tolerance < np.inf, "the tolerance")
        names = self.names
        need(names.shape == (rows,) and names[0] >= 0, "the rows' names")
        need(np.all(np.diff(names) > 0) and names[-1] < self.next_name < 2**62, "the rows' names")
        if self.labels:
            count = len(self.labels)
            need(len(set(self.labels)) == count >= 2, "the labels")
            need(self.outputs == count or (count == 2 and self.outputs == 1), "the outputs")
            need(self.kind != "softmax" or self.outputs == count, "softmax has an output a label")
            need(self.kind not in ("poisson", "gamma"), "counts are not labels")
            need(self.kind != "logistic" or self.outputs == 1 or count > 2, "the outputs")
            need(self.y.shape == (rows,), "a label a row")
            need(np.isin(self.y, np.arange(count)), "a row has no label")
        else:
            need(self.kind in ("ridge", "poisson", "gamma"), "this kind has labels")
            need(self.y.reshape(rows, -1).shape == (rows, self.outputs), "a target an output")
            need(np.isfinite(self.y).all(), "a target is no number")
        if self.groups is not None:
            need(self.groups.cells.shape == (rows,) and np.all(self.groups.cells != ""), "groups")

    @property
    def inputs(self) -> int:
        """The number of features of an input."""
        return self.design.inputs

    @property
    def outputs(self) -> int:
        """The number of scores."""
        return len(self.coefficients)

    @cached_property
    def units(self) -> Integers:
        """The unit of each row, shape (rows,): rows of one leave together."""
        if self.groups is None:
            return np.arange(len(self.X))
        _, first, unit = np.unique(self.groups.cells, return_index=True, return_inverse=True)
        # Units in the order of their first rows.
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[unit]

    @cached_property
    def unit_names(self) -> Integers:
        """The name of each unit's first row, shape (units,)."""
        _, first = np.unique(self.units, return_index=True)
        return self.names[first]

    @cached_property
    def order(self) -> Integers | None:
        """The rows by unit; None if they are already in that order."""
        return None if self.groups is None else np.argsort(self.units, kind="stable")

    def targets(self) -> Floats:
        """Return what each output is fitted to, shape (problems, rows)."""
        if not self.labels:
            return self.y.reshape(len(self.X), -1).T
        if self.kind == "softmax":
            return self.y[None]
        numbers = np.arange(self.outputs) if self.outputs > 1 else np.array([1])
        hit = (self.y[None] == numbers[:, None]).astype(np.float64)
        return np.asarray(2.0 * hit - 1.0) if self.kind == "ridge" else hit

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The convex fits: one for each independent output, or the one of softmax."""
        order = self.order
        starts = np.arange(len(self.X) + 1)
        if order is not None:
            counts = np.bincount(self.units)
            starts = np.concatenate([[0], np.cumsum(counts)])

        def rows(first: int, last: int) -> Floats:
            chosen = slice(first, last) if order is None else order[first:last]
            return self.design(self.X[chosen])

        everyone = slice(None) if order is None else order
        outputs = self.outputs if self.kind == "softmax" else 1
        return tuple(
            Problem(
                _LOSS.get(self.kind, self.kind), rows, np.ascontiguousarray(target[everyone]),
                self.weights[everyone], self.penalty, starts, outputs,
            )
            for target in self.targets()
        )  # fmt: skip

    def raw_scores(self, points: Floats) -> Floats:
        """Return each output's score, shape (n, outputs)."""
        return np.asarray(self.design(points) @ self.coefficients.T)

    def scores(self, points: Floats) -> Floats:
        """Return each label's score, shape (n, labels); of a regression each output's."""
        return self.scores_of(self.design(points))

    def scores_of(self, rows: Floats) -> Floats:
        """Return each label's score of design rows; of a regression each output's."""
        found = np.asarray(rows @ self.coefficients.T)
        if len(self.labels) == 2 and self.outputs == 1:
            return np.concatenate([np.zeros_like(found), found], axis=1)
        return found

    def answers(self, points: Floats) -> Integers:
        """Return labels' numbers: the first with the highest score, shape (n,)."""
        need(bool(self.labels), "a regression has no labels")
        return np.asarray(self.scores(points).argmax(axis=1))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that the model and its members depend on."""
        found = hashlib.sha256()
        parts: list[object] = [self.kind, self.labels, self.tolerance, self.design.inputs]
        arrays: list[NDArray[np.generic]] = [
            self.coefficients, self.X, self.y, self.weights, self.penalty, self.names,
            self.design.shift, self.design.scale,
        ]  # fmt: skip
        for each in self.design.columns:
            parts.append((each.at, each.degree, each.bias))
            arrays += [] if each.knots is None else [each.knots]
        if self.design.mix is not None and self.design.offset is not None:
            arrays += [self.design.mix, self.design.offset]
        parts += [self.design.constant, self.next_name]
        if self.groups is not None:
            parts.append((self.groups.column, self.groups.cells.tolist()))
        found.update(repr(parts).encode())
        for array in arrays:
            found.update(repr((array.shape, array.dtype.str)).encode())
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


VERSION = 1
_NEEDED = ("coefficients", "X", "y", "weights", "penalty", "names", "shift", "scale")


def model_from(arrays: dict[str, NDArray[Any]]) -> LinearModel:
    """Return the model that arrays hold; raise `Rejected` where they hold none."""
    raw = arrays.get("manifest")
    need(raw is not None and raw.dtype == np.uint8 and raw.ndim == 1, "no manifest")
    assert raw is not None
    try:
        held = parse(raw.tobytes())
        need(isinstance(held, dict) and held.get("format") == "leaveout linear model", "no model")
        need(held["version"] == VERSION, f"format version {held['version']!r}, not {VERSION}")
        for name in _NEEDED:
            need(name in arrays, f"no array {name!r}")
            kind = np.int64 if name == "names" else np.float64
            need(arrays[name].dtype == kind, f"{name!r} is {arrays[name].dtype}")
        columns = tuple(
            Column(int(at), int(degree), arrays.get(f"knots{k}"), bool(bias))
            for k, (at, degree, bias) in enumerate(held["columns"])
        )
        groups = None
        if held["group"] is not None:
            need(arrays["group"].dtype.kind == "U", "groups are words")
            groups = Groups(str(held["group"]), arrays["group"])
        design = Design(
            int(held["inputs"]), columns, arrays["shift"], arrays["scale"], arrays.get("mix"),
            arrays.get("offset"), float(held["constant"]),
        )  # fmt: skip
        given = {name: arrays[name] for name in ("coefficients", "X", "y", "weights", "penalty")}
        found = LinearModel(
            kind=held["kind"], design=design, **given, labels=tuple(map(str, held["labels"])),
            names=arrays["names"], next_name=int(held["next_name"]), groups=groups,
            tolerance=float(held["tolerance"]),
        )  # fmt: skip
        need(len(found.problems) > 0, "no fit")  # also checks weights, penalty and targets
        return found
    except (KeyError, TypeError, AttributeError, IndexError, UnicodeDecodeError) as error:
        need(False, f"damaged: {type(error).__name__}: {error}")
        raise

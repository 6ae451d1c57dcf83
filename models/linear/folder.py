"""The folder of a linear model, and changes of its rows with proved distances."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError
from leaveout.files import MODEL, read_whole, refuse_unread
from leaveout.kernel.design import Region
from leaveout.kernel.linear import fit_radius, survey
from leaveout.kernel.model import Groups, LinearModel
from leaveout.kernel.numbers import Rejected, lengths, no_less
from leaveout.kernel.trees import Ensemble
from leaveout.models.linear.file import LINEAR, load_linear, save_linear
from leaveout.models.linear.fit import coefficients_of, whitener, with_rows
from leaveout.models.onnx.file import network_from_bytes
from leaveout.models.table import Table
from leaveout.models.train import changes
from leaveout.models.train.changes import Addition, Deletion
from leaveout.models.train.columns import Subject, TableColumns
from leaveout.models.train.encoding import CategoryColumn, NumberColumn
from leaveout.models.train.folder import ModelFolder, Rows
from leaveout.models.train.rows import numbers_of
from leaveout.models.trees.reading import is_library_text, trees_of

FEATURES = "features.onnx"
"""The frozen network whose outputs the model reads."""

TREES = "features.trees"
"""The frozen trees whose leaves and scores the model reads, as their library wrote them."""


class LinearColumns(TableColumns, frozen=True, kw_only=True, omit_defaults=True):
    """As of a table, with what else becomes of it before a linear model reads it.

    Attributes
    ----------
    weight : str
        The column that says how much a row counts; empty if all count 1.
    network : str
        SHA-256 of ``features.onnx``, the network that reads the columns, and whose outputs the
        model reads; empty if there is none.
    trees : str
        SHA-256 of ``features.trees``, the trees that read the columns, and whose leaves and scores
        the model reads; empty if there are none.
    """

    weight: str = ""
    network: str = ""
    trees: str = ""

    @property
    def width(self) -> int | None:
        return None if self.frozen else super().width

    @property
    def frozen(self) -> str:
        """The file of a frozen network or of trees between columns and model; empty if none."""
        return TREES if self.trees else FEATURES * bool(self.network)


LINEARS = Subject("linear", "L", "model", LinearError, LinearColumns)
COLUMNS, SPEC = LINEARS.columns, LINEARS.spec


def frozen_features(content: bytes, source: str, X: Floats) -> Floats:
    """Return what a network answers to rows, or the leaves and scores of trees, in float64."""
    if is_library_text(content):
        return _leaves(trees_of(content, source), source, X)
    network = network_from_bytes(content, source)
    _expect_width(network.inputs, source, X)
    found = network.runner().scores(X.astype(np.float32)).astype(np.float64)
    if not np.isfinite(found).all():
        raise LinearError(f"{source}: an output for these rows is not a finite number")
    return found


def _leaves(trees: Ensemble, source: str, X: Floats) -> Floats:
    """Return an indicator of each leaf, and each score, shape (rows, leaves + scores)."""
    _expect_width(trees.features, source, X)
    leaves, width = trees.nodes.leaves(trees.prepare(X)), len(trees.nodes.values)
    found = np.zeros((len(X), width + len(trees.base)))
    np.put_along_axis(found, leaves, 1.0, axis=1)
    # One after the other, whatever the number of rows, so that a row's columns never differ.
    found[:, width:] = trees.base
    for leaf in leaves.T:
        found[:, width:] += trees.nodes.values[leaf]
    return found


def _expect_width(inputs: int, source: str, X: Floats) -> None:
    if inputs != X.shape[1]:
        raise LinearError(f"{source}: reads {inputs} features, but the rows have {X.shape[1]}")


@dataclass(frozen=True, eq=False)
class LinearFolder(ModelFolder):
    """A linear model, with what its file does not record about its table.

    Attributes
    ----------
    directory : Path
    columns : LinearColumns
    model : LinearModel
    network : bytes
        The contents of ``features.onnx`` or ``features.trees``; empty if there is neither.
    """

    subject: ClassVar[Subject] = LINEARS
    columns: LinearColumns
    model: LinearModel
    network: bytes = b""

    @classmethod
    def load(cls, directory: Path) -> LinearFolder:
        model = load_linear(directory / LINEAR)
        columns = LINEARS.load_columns(directory / COLUMNS, model.inputs)
        assert isinstance(columns, LinearColumns)
        network, path = b"", directory / columns.frozen
        if columns.frozen:
            with refuse_unread(LinearError, path):
                network = read_whole(path, MODEL)
            if hashlib.sha256(network).hexdigest() != (columns.network or columns.trees):
                kind = "trees" if columns.trees else "network"
                raise LinearError(f"{path}: not the {kind} that the model was trained on")
        return cls(directory, columns, model, network)

    @property
    def rows(self) -> LinearModel:
        return self.model

    @property
    def digest(self) -> str:
        return self.model.digest

    def save(self, path: Path) -> None:
        save_linear(path, self.model)

    def more(self) -> Mapping[str, bytes]:
        frozen = {self.columns.frozen: self.network} if self.network else {}
        return {**frozen, **super().more()}

    @property
    def columns_read(self) -> frozenset[str]:
        weight = self.columns.weight
        return super().columns_read | ({weight} if weight else set())

    @property
    def claim(self) -> str:
        if self.model.labels:
            return super().claim
        return "find d: least d such that\n    forall x in X, M in F: difference(L, M, x) <= d\n"

    def inputs(self) -> str:
        lower, upper = self._box()
        if lower.min() == lower.max() == 0 and upper.min() == upper.max() == 1:
            box = "box(0, 1)"
        else:
            box = f"box({lower.tolist()}, {upper.tolist()})"
        lines = [box]
        for at, (places, name) in enumerate(self._words()):
            lines[-1] = f"let X{at} = {lines[-1]}"
            lines.append(f"one_hot(X{at}, at = {places.tolist()})  # {name}")
        lines[-1] = f"let X = {lines[-1]}"
        return "\n".join(lines)

    def region(self) -> Region:
        """Return the inputs that the specification names."""
        choices = [(places, np.eye(len(places))) for places, _ in self._words()]
        return Region.of(self.model.design, *self._box(), choices)

    def _box(self) -> tuple[Floats, Floats]:
        X, encoding = self.model.X, self.columns.encoding
        if self.columns.frozen:
            return X.min(axis=0), X.max(axis=0)
        if encoding is None:
            unscaled = np.full(X.shape[1], X.min() < 0 or X.max() > 1)
        else:
            unscaled = np.repeat(
                [isinstance(each, NumberColumn) and not each.scaled for each in encoding.columns],
                [len(each.features) for each in encoding.columns],
            )
        return np.where(unscaled, X.min(axis=0), 0.0), np.where(unscaled, X.max(axis=0), 1.0)

    def _words(self) -> list[tuple[Integers, str]]:
        """Return the features of each column of words, and its name."""
        encoding = self.columns.encoding
        if encoding is None or self.columns.frozen:
            return []
        return [
            (np.arange(places.start, places.stop), " ".join(column.name.split()))
            for column, places in encoding.layout
            if isinstance(column, CategoryColumn)
        ]

    def distances(self) -> tuple[float, float]:
        """Bound how far the model is from the only minimum.

        Returns
        -------
        coefficients : float
            Euclidean, of all coefficients together.
        scores : float
            The most that a score differs by, before it is rounded, at any input of `region`.

        Raises
        ------
        LinearError
            If nothing is proved.
        """
        squares, scores, first, region = 0.0, 0.0, 0, self.region()
        for problem in self.model.problems:
            theta = self.model.coefficients[first : first + problem.outputs]
            first += problem.outputs
            try:
                at = survey(problem, theta, whitener(problem, theta))
                radius = fit_radius(problem, at)
            except Rejected as error:
                raise LinearError(f"the fit cannot be proved: {error}") from None
            if not np.isfinite(radius):
                raise LinearError(
                    "the coefficients are not proved to be near a minimum: set a penalty if there "
                    "is none, drop columns that depend on others, or pass the very rows and labels "
                    "that they were fitted to"
                )
            squares += float(no_less((lengths(lengths(at.R)) * radius) ** 2))
            for R in at.R.reshape(*theta.shape, -1):
                scores = max(scores, float(no_less(region.reach(R) * radius)))
        return float(no_less(np.sqrt(squares))), scores

    def without(self, names: Sequence[int]) -> LinearFolder:
        old = self.model
        kept = np.flatnonzero(~np.isin(old.names, names))
        if len(kept) < 2:
            raise LinearError(f"{self.directory}: fewer than 2 rows would be left")
        for label, word in enumerate(old.labels):
            if not (old.y[kept] == label).any():
                raise LinearError(
                    f"{self.directory}: no row with the label {word!r} would be left; train on the "
                    "other labels"
                )
        return self._refit(with_rows(old, kept))

    def _refit(self, model: LinearModel) -> LinearFolder:
        # The first of Newton's steps from the former fit leads to the closed form.
        coefficients = coefficients_of(model.problems, self.model.coefficients)
        return replace(self, model=replace(model, coefficients=coefficients))

    def rows_of(self, table: Table, X: NDArray[np.float64]) -> Rows:
        assert self.columns.encoding is not None
        label, labels = self.columns.encoding.label, self.model.labels
        if labels:
            cells = table.column(label)
            wrong = next((row for row, cell in enumerate(cells) if cell not in labels), None)
            if wrong is not None:
                raise LinearError(
                    f"{table.at(wrong, label)}: {cells[wrong]!r} is not a label of this model; it "
                    f"has {', '.join(labels)}"
                )
            y = np.array([labels.index(cell) for cell in cells], np.float64)
        else:
            y = numbers_of(table, label)
        weight = self.columns.weight
        if weight:
            table.require(weight, "it says how much each row counts")
        weights = numbers_of(table, weight) if weight else np.ones(len(X))
        if self.network:
            X = frozen_features(self.network, str(self.directory / self.columns.frozen), X)
        refuse_unfit(self.model.kind, y, weights, lambda row: table.at(row, label))
        return X, y, weights

    def with_rows(
        self, rows: Rows, cells: Sequence[str] | None
    ) -> tuple[LinearFolder, NDArray[np.int64]]:
        (X, y, weights), old = rows, self.model
        names = np.arange(old.next_name, old.next_name + len(X))
        groups = old.groups
        if groups is not None and cells is not None:
            groups = Groups(groups.column, np.concatenate([groups.cells, np.array(cells)]))
        model = replace(
            old,
            X=np.concatenate([old.X, X]),
            y=np.concatenate([old.y, y]),
            weights=np.concatenate([old.weights, weights]),
            names=np.concatenate([old.names, names]),
            next_name=old.next_name + len(X),
            groups=groups,
        )
        return self._refit(model), names

    def ends_with(self, rows: Rows) -> bool:
        held, count = (self.model.X, self.model.y, self.model.weights), len(rows[0])
        return all(np.array_equal(own[-count:], each) for own, each in zip(held, rows, strict=True))

    def check(self) -> float:
        """See `ModelFolder.check`: the same within the proved distances."""
        began = time.perf_counter()
        anew = replace(self.model, coefficients=coefficients_of(self.model.problems))
        seconds = time.perf_counter() - began
        allowed = self.distances()[0] + replace(self, model=anew).distances()[0]
        apart = float(np.linalg.norm(anew.coefficients - self.model.coefficients))
        if not apart <= allowed:
            raise LinearError(
                f"{self.directory}: {apart:.3g} from the coefficients of a new fit, though at most "
                f"{allowed:.3g} is proved"
            )
        return seconds

    def scales_left(self) -> tuple[str, ...]:
        encoding, X = self.columns.encoding, self.model.X
        if encoding is None or self.columns.frozen:
            return ()
        found = []
        for column, places in encoding.layout:
            values = X[:, places.start]
            if isinstance(column, CategoryColumn) or not column.scaled:
                continue
            spans = column.minimum == column.maximum or {values.min(), values.max()} == {0.0, 1.0}
            found += [] if spans else [column.name]
        return tuple(found)


def refuse_unfit(kind: str, y: Floats, weights: Floats, at: Callable[[int], str]) -> None:
    """Raise on numbers that a kind of model cannot be fitted to."""
    least = "of at least 0" if kind == "poisson" else "above 0"
    wrong = {"poisson": y < 0, "gamma": y <= 0}.get(kind, np.zeros(len(y), bool))
    for each, values, cure in (
        (wrong, y, f"--kind {kind} is for numbers {least}"),
        (weights < 0, weights, "a row's weight is at least 0"),
    ):
        if each.any():
            row = int(np.argmax(each))
            raise LinearError(f"{at(row)}: {values[row]:g}; {cure}")


def delete_rows(
    directory: Path | str,
    rows: Sequence[str],
    check: bool = False,
    tell: Callable[[Deletion], None] = lambda done: None,
) -> Deletion:
    """Delete rows: the model is then the minimum without them, to a proved distance.

    How inputs become columns stays: scales, bins, knots and words. ``check`` fits from zero as
    well. The parameters and errors are those of `leaveout.models.train.changes.delete_rows`; rows
    are also refused whose deletion leaves no minimum.
    """
    return changes.delete_rows(LinearFolder, Path(directory), rows, check, tell)


def add_rows(
    directory: Path | str,
    source: Path | str,
    tell: Callable[[Addition], None] = lambda done: None,
) -> Addition:
    """Add the rows of a table with the same columns, under the next numbers; see `delete_rows`."""
    return changes.add_rows(LinearFolder, Path(directory), Path(source), tell)

"""Explainable boosting machines of interpret, from JSON or fitted.

A term is a table of scores over the bins of one feature, or of several; it becomes one tree.
Where a feature is nominal, its categories must be whole numbers from 0 on.
"""

from __future__ import annotations

import warnings
from typing import Any

import msgspec
import numpy as np

from leaveout.arrays import Floats
from leaveout.kernel.numbers import need
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import (
    Sets,
    Tree,
    assemble,
    before,
    expect,
    label_names,
    place,
)

_LINKS = {"identity": "identity", "log": "exp", "logit": "sigmoid", "mlogit": "softmax"}
_CATEGORIES = 2**20
_MOST_CELLS = 2**22
"""Most cells of a term."""


class _Output(msgspec.Struct, forbid_unknown_fields=True):
    task: str
    link: str
    link_param: Any = None
    classes: list[str | int | float | bool] = []
    min_target: Any = None
    max_target: Any = None


class _Feature(msgspec.Struct, forbid_unknown_fields=True):
    """A feature, with bins for terms of one feature, of two, ...; the last serves all larger."""

    name: str
    type: str
    cuts: list[list[float]] = []
    categories: list[list[str | list[str]]] = []
    num_unique_vals: Any = None
    min: Any = None
    max: Any = None
    histogram_weights: Any = None


class _Term(msgspec.Struct, forbid_unknown_fields=True):
    term_features: list[str]
    scores: list[Any]
    standard_deviations: Any = None
    bagged_scores: Any = None
    bin_weights: Any = None


class _Ebm(msgspec.Struct, forbid_unknown_fields=True):
    outputs: list[_Output]
    intercept: list[float]
    features: list[_Feature]
    terms: list[_Term]
    bagged_intercept: Any = None
    noise_scale_binning: Any = None
    noise_scale_boosting: Any = None
    bag_weights: Any = None
    best_iteration: Any = None
    implementation: Any = None
    implementation_params: Any = None


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    version: str
    ebm: _Ebm


def read_json(data: bytes) -> Ensemble:
    """Read what ``to_json("model.json")`` wrote."""
    return _read(msgspec.json.decode(data, type=_Model))


def of_ebm(model: Any) -> Ensemble:
    """Return a fitted model's terms as trees."""
    need(hasattr(model, "to_jsonable"), "is not a model of trees that can be read; pass an EBM")
    with warnings.catch_warnings():
        # That the format may change is why its fields are read strictly.
        warnings.simplefilter("ignore")
        return _read(msgspec.convert(model.to_jsonable(detail="minimal"), _Model))


def _read(model: _Model) -> Ensemble:
    ebm = model.ebm
    need(model.version == "1.0", f"has version {model.version[:20]!r}, but '1.0' is read; save it "
         "with interpret 0.7")  # fmt: skip
    need(len(ebm.outputs) == 1, f"has {len(ebm.outputs)} outputs; train one model for each")
    output, scores = ebm.outputs[0], len(ebm.intercept)
    need(output.link in _LINKS, f"link {output.link[:40]!r} is not supported; train with one of "
         f"{', '.join(_LINKS)}")  # fmt: skip
    classifies = output.link in ("logit", "mlogit")
    expect(classifies == (output.task == "classification"), f"{output.link} does not fit its task")
    expect((output.link == "mlogit") == (scores > 1), f"{scores} intercepts do not fit its link")
    base = np.array(ebm.intercept, np.float64)
    places = {feature.name: number for number, feature in enumerate(ebm.features)}
    need(len(places) == len(ebm.features), "two features have one name; rename one, train again")
    expect(np.isfinite(base), "the intercept is not finite")
    sets, trees = Sets(), []
    for number, term in enumerate(ebm.terms):
        with place(f"term {number}"):
            trees.append(_tree(term, ebm.features, places, sets, scores))
    return Ensemble(
        assemble(trees, sets, scores, len(places)),
        base,
        label_names(np.array(output.classes, object), max(2, scores)) if classifies else (),
        len(places),
        tuple(places),
        link=_LINKS[output.link],
        whole_categories=True,
        source=f"interpret EBM ({output.link})",
    )


def _tree(
    term: _Term, features: list[_Feature], places: dict[str, int], sets: Sets, scores: int
) -> Tree:
    asked = [places[name] for name in term.term_features]
    expect(0 < len(asked) == len(set(asked)), "asks of no feature, or twice of one")
    bins = [_bins(features[place], len(asked)) for place in asked]
    table = np.array(term.scores, np.float64)
    shape = tuple(len(each) + 2 for each in bins)
    expected = shape if scores == 1 else (*shape, scores)
    expect(table.shape == expected, f"has scores of shape {table.shape}, not {expected}")
    need(table.size <= _MOST_CELLS, f"has over {_MOST_CELLS} cells; train with fewer bins")
    return _Grower(asked, bins, table.reshape(*shape, scores), sets).grow()


def _bins(feature: _Feature, size: int) -> list[Any]:
    """Return what each bin of a feature but the missing and unknown ones holds.

    Of numbers, the greatest one; of categories, those in it.
    """
    levels = feature.cuts if feature.type == "continuous" else feature.categories
    expect(feature.type in ("continuous", "nominal", "ordinal") and len(levels) > 0,
           f"feature {feature.name!r} of type {feature.type!r} has no bins")  # fmt: skip
    found: list[Any] = levels[min(len(levels), size) - 1]
    if feature.type == "continuous":
        cuts = np.array(found, np.float64)
        expect(cuts[1:] > cuts[:-1], f"cuts of {feature.name!r} do not ascend")
        # A number that is a cut is above it.
        return [*before(cuts).tolist(), np.inf]
    groups = [[each] if isinstance(each, str) else each for each in found]
    for name in (name for group in groups for name in group):
        plain = name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name
        need(plain and int(name) < _CATEGORIES, f"category {name[:40]!r} of {feature.name!r} is no "
             "whole number; number the categories 0, 1, ... and train again")  # fmt: skip
    return [[int(name) for name in group] for group in groups]


class _Grower:
    """A tree over the cells of a table, grown bin by bin, feature by feature."""

    def __init__(self, asked: list[int], bins: list[list[Any]], table: Floats, sets: Sets) -> None:
        self._asked, self._bins, self._table, self._sets = asked, bins, table, sets
        self._nodes: list[tuple[int, float, int]] = []
        self._sides: tuple[list[int], list[int]] = ([], [])
        self._values: list[Floats] = []
        # Sets are added once, for each range of bins of a feature.
        self._known: dict[tuple[int, int, int], int] = {}

    def grow(self) -> Tree:
        self._feature(())
        feature, threshold, asks = zip(*self._nodes, strict=True)
        left, right = (np.array(side, np.int64) for side in self._sides)
        return Tree(
            np.array(feature, np.int64),
            np.array(threshold, np.float64),
            np.zeros(len(feature), bool),
            np.array(asks, np.int64),
            left,
            right,
            np.array(self._values, np.float64),
        )

    def _node(self, feature: int, threshold: float = 0.0, asks: int = -1) -> int:
        self._nodes.append((feature, threshold, asks))
        for side in self._sides:
            side.append(0)
        self._values.append(np.zeros(self._table.shape[-1]))
        return len(self._nodes) - 1

    def _feature(self, cell: tuple[int, ...]) -> int:
        """Grow what asks of the features after those that chose the cell."""
        if len(cell) == len(self._asked):
            leaf = self._node(-1)
            self._values[leaf] = self._table[cell]
            return leaf
        # All that is there goes left; what is missing does not.
        names = self._bins[len(cell)]
        if self._nominal(cell):
            here = self._node(self._asked[len(cell)], 0.0, self._set(cell, 0, 0, left=False))
        else:
            here = self._node(self._asked[len(cell)], np.inf)
        last = len(names) + (1 if self._nominal(cell) else 0)
        self._sides[0][here] = self._range(cell, 1, last)
        self._sides[1][here] = self._feature((*cell, 0))
        return here

    def _nominal(self, cell: tuple[int, ...]) -> bool:
        return not self._bins[len(cell)] or isinstance(self._bins[len(cell)][0], list)

    def _range(self, cell: tuple[int, ...], first: int, last: int) -> int:
        """Grow what tells bins apart; the unknown one is the last of categories."""
        if first == last:
            return self._feature((*cell, first))
        names, half = self._bins[len(cell)], (first + last) // 2
        if self._nominal(cell):
            asks = self._set(cell, first - 1, half, left=True)
            here = self._node(self._asked[len(cell)], 0.0, asks)
        else:
            here = self._node(self._asked[len(cell)], names[half - 1])
        self._sides[0][here] = self._range(cell, first, half)
        self._sides[1][here] = self._range(cell, half + 1, last)
        return here

    def _set(self, cell: tuple[int, ...], first: int, last: int, *, left: bool) -> int:
        """Return the row of a set of the categories in some bins."""
        key = (len(cell), first, last)
        if key not in self._known:
            members = [each for group in self._bins[len(cell)][first:last] for each in group]
            self._known[key] = self._sets.add(members, left=left)
        return self._known[key]

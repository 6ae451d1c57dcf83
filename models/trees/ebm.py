"""Explainable boosting machines of interpret, from JSON or fitted.

A term is a table of scores over the bins of one feature, or of several; it becomes one tree.
Where a feature is nominal, its categories must be whole numbers from 0 on.
"""

from __future__ import annotations

import warnings
from functools import cache
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
_MOST_CELLS = 2**22  # most cells of a term


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
        assemble(trees, sets, scores, len(places)), base,
        label_names(np.array(output.classes, object), max(2, scores)) if classifies else (),
        len(places), tuple(places), link=_LINKS[output.link], whole_categories=True,
        source=f"interpret EBM ({output.link})",
    )  # fmt: skip


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
    return _grow(asked, bins, table.reshape(*shape, scores), sets)


def _bins(feature: _Feature, size: int) -> list[Any]:
    """Return each known bin's greatest number, or its categories."""
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


def _grow(asked: list[int], bins: list[list[Any]], table: Floats, sets: Sets) -> Tree:
    """Return a tree over the cells of a table, grown bin by bin, feature by feature."""
    # Each a feature, a threshold, a set, two children, and values.
    nodes: list[list[Any]] = []
    none = np.zeros(table.shape[-1])

    @cache
    def some(at: int, first: int, last: int, left: bool) -> int:
        """Add a set of the categories in some bins of a feature once; return its row."""
        return sets.add([each for group in bins[at][first:last] for each in group], left=left)

    def grow(cell: tuple[int, ...]) -> int:
        """Grow what asks of the features after those that chose the cell."""
        here, at = len(nodes), len(cell)
        if at == len(asked):
            nodes.append([-1, 0.0, -1, 0, 0, table[cell]])
            return here
        nominal = not bins[at] or isinstance(bins[at][0], list)
        # All that is there goes left; what is missing does not.
        what = (0.0, some(at, 0, 0, False)) if nominal else (np.inf, -1)
        nodes.append([asked[at], *what, 0, 0, none])
        nodes[here][3] = split(cell, 1, len(bins[at]) + nominal, nominal)
        nodes[here][4] = grow((*cell, 0))
        return here

    def split(cell: tuple[int, ...], first: int, last: int, nominal: bool) -> int:
        """Grow what tells bins apart; the unknown one is the last of categories."""
        if first == last:
            return grow((*cell, first))
        here, at, half = len(nodes), len(cell), (first + last) // 2
        what = (0.0, some(at, first - 1, half, True)) if nominal else (bins[at][half - 1], -1)
        nodes.append([asked[at], *what, 0, 0, none])
        nodes[here][3] = split(cell, first, half, nominal)
        nodes[here][4] = split(cell, half + 1, last, nominal)
        return here

    grow(())
    feature, threshold, asks, left, right, values = zip(*nodes, strict=True)
    return Tree(
        np.array(feature), np.array(threshold), np.zeros(len(nodes), bool), np.array(asks),
        np.array(left), np.array(right), np.array(values),
    )  # fmt: skip

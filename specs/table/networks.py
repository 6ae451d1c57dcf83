"""Networks, families, and their answers at a point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from leaveout.specs.table.signatures import Bound, Function, Parameter, Types
from leaveout.specs.text.expressions import Number
from leaveout.specs.types import (
    FAMILY,
    FOREST,
    LABEL,
    LINEAR,
    NETWORK,
    NUMBER,
    POINT,
    TEXT,
    TREE_FAMILY,
    TREES,
)


def _whole_label(given: Bound, types: Types) -> str | None:
    label = given.get("label")
    if isinstance(label, Number) and not (label.value >= 0 and float(label.value).is_integer()):
        return f"a label must be a whole number from 0, got {label}"
    return None


def _score(given: Bound, types: Types) -> str | None:
    if "label" not in given and types["network"] == NETWORK:
        return (
            "score needs 'label'\nonly a linear model or trees may have a single score: write "
            "score(N, x, 1)"
        )
    return _whole_label(given, types)


def same_kind(function: str, one: str, given: Bound, types: Types) -> str | None:
    """Return why a function does not compare two models, if they are of two kinds."""
    first, second = types[one], types["other"]
    wrong = f"{function} compares models of one kind, not {first.human} and {second.human}"
    return None if first == second else wrong


def _score_in_words(given: Mapping[str, str]) -> str:
    which = f" of label {given['label']}" if "label" in given else ""
    return f"{given['network']}'s score{which} at {given['point']}"


def _confidence_in_words(given: Mapping[str, str]) -> str:
    which = f" of label {given['label']}" if "label" in given else ""
    return f"{given['network']}'s confidence{which} at {given['point']}"


_MODEL = Parameter("network", (NETWORK, FOREST, LINEAR, TREES))
_SCORED = (NETWORK, LINEAR, TREES)
_POINT = Parameter("point", (POINT,))

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "network",
        (Parameter("path", (TEXT,)),),
        NETWORK,
        "The network in an ONNX file.",
        'let N = network("full.onnx")',
    ),
    Function(
        "family",
        (Parameter("path", (TEXT,)),),
        FAMILY,
        "The networks retrained without one point each.",
        'let F = family("family.npz")',
        threat="the training set loses any one point",
    ),
    Function(
        "linear",
        (Parameter("path", (TEXT,)),),
        LINEAR,
        "A linear model with its training rows, as leaveout linear train writes it.",
        'let L = linear("linear.npz")',
    ),
    Function(
        "trees",
        (Parameter("path", (TEXT,)),),
        TREES,
        "Boosted trees or a forest in a file of XGBoost, LightGBM or CatBoost, in an ONNX file of "
        "trees, or as leaveout writes them.",
        'let T = trees("model.json")',
    ),
    Function(
        "members",
        (Parameter("path", (TEXT,)),),
        TREE_FAMILY,
        "The trees retrained without one row each, as leaveout trees train writes them.",
        'let F = members("members.npz")',
        threat="the training set loses any one row",
    ),
    Function(
        "confidence",
        (_MODEL, _POINT, Parameter("label", (NUMBER,), optional=True)),
        NUMBER,
        "The score of a label, by default one with the highest score, minus the best other "
        "score; for a forest, scores are mean shares of labels.",
        "confidence(N, x) > 0.5",
        _whole_label,
        words=_confidence_in_words,
    ),
    Function(
        "label",
        (_MODEL, _POINT),
        LABEL,
        "The label that a model predicts for a point: the first one with the highest score.",
        "label(M, x) == label(N, x)",
        words="{network}'s label at {point}",
    ),
    Function(
        "score",
        (Parameter("network", _SCORED), _POINT, Parameter("label", (NUMBER,), optional=True)),
        NUMBER,
        "The score that a network gives a label, a float32 number as onnxruntime computes it; of a "
        "linear model its output with this number, or its only one, in float64; of trees their sum "
        "before a sigmoid or the like.",
        "score(N, x, 1) >= 0.5",
        _score,
        words=_score_in_words,
    ),
    Function(
        "difference",
        (Parameter("network", _SCORED), Parameter("other", _SCORED), _POINT),
        NUMBER,
        "The largest absolute difference, over all labels, of the scores of two models of one "
        "kind.",
        "difference(N, M, x) <= 0.1",
        partial(same_kind, "difference", "network"),
        words="the largest difference between the scores of {network} and {other} at {point}",
    ),
)

"""Networks, families, and their answers at a point."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.specs.table.signatures import Bound, Function, Parameter, Types
from leaveout.specs.text.expressions import Number
from leaveout.specs.types import FAMILY, FOREST, LABEL, NETWORK, NUMBER, POINT, TEXT


def _whole_label(given: Bound, types: Types) -> str | None:
    label = given.get("label")
    if isinstance(label, Number) and not (label.value >= 0 and float(label.value).is_integer()):
        return f"a label must be a whole number from 0, got {label}"
    return None


def _confidence_in_words(given: Mapping[str, str]) -> str:
    which = f" of label {given['label']}" if "label" in given else ""
    return f"{given['network']}'s confidence{which} at {given['point']}"


_NETWORK = Parameter("network", (NETWORK,))
_MODEL = Parameter("network", (NETWORK, FOREST))
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
        "The label a network or a forest predicts for a point: the first one with the highest "
        "score.",
        "label(M, x) == label(N, x)",
        words="{network}'s label at {point}",
    ),
    Function(
        "score",
        (_NETWORK, _POINT, Parameter("label", (NUMBER,))),
        NUMBER,
        "The score that a network gives a label, a float32 number as onnxruntime computes it.",
        "score(N, x, 1) >= 0.5",
        _whole_label,
        words="{network}'s score of label {label} at {point}",
    ),
    Function(
        "difference",
        (_NETWORK, Parameter("other", (NETWORK,)), _POINT),
        NUMBER,
        "The largest absolute difference, over all labels, of the scores of two networks.",
        "difference(N, M, x) <= 0.1",
        words="the largest difference between the scores of {network} and {other} at {point}",
    ),
)

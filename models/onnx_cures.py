"""Advice on unsupported operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_SMOOTH = (
    "it is no piecewise linear function, and those alone are read; train with ReLU, LeakyReLU or "
    "Hardsigmoid instead"
)
_NORMAL = (
    "it divides by what it computes of the data; train with batch normalisation instead (and a "
    "transformer is not read: dense layers or convolutions are)"
)
_ATTENTION = "it multiplies data with data; train with dense layers, convolutions and ReLU instead"
_RECURRENT = (
    "recurrent networks are not read; train a dense or convolutional one on a window of the series"
)
_QUANTISED = "quantised networks are another arithmetic; export the float32 model"
_TREES = "it is no network; train MLPClassifier, or DareForestClassifier where you want trees"
_JUMPS = "it jumps; train with ReLU instead"
_RESIZE = "images are not scaled inside a network; scale the data before it"
_FLOW = "a model without branches and loops is read; export one case of it"
_NORM = (
    "a norm of weights is folded into them before exporting: remove_parametrizations of "
    "torch.nn.utils.parametrize; one of the data is not read, scale that before the network"
)
_SPREAD = (
    "data is not spread over an axis; repeat it by a first layer, or, of a mean that is taken off, "
    "standardise the data before the network"
)
_SERIES = "the scores are one tensor; export them, [batch, labels]"
_TABLE = "data that picks places is not read; encode categories as one-hot columns"

_BY_KIND: Mapping[str, str] = {
    _SMOOTH: "Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu HardSwish Log Mish "
    "Pow Reciprocal Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh",
    _NORMAL: "GroupNormalization InstanceNormalization LayerNormalization LpNormalization LRN "
    "MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization LpPool GlobalLpPool "
    "Normalizer",
    _ATTENTION: "Attention Einsum MultiHeadAttention RotaryEmbedding",
    _RECURRENT: "GRU LSTM RNN Scan",
    _QUANTISED: "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv "
    "QLinearMatMul QuantizeLinear",
    _TREES: "SVMClassifier SVMRegressor TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
    _JUMPS: "And ArgMax ArgMin Ceil Equal Floor Greater GreaterOrEqual Less LessOrEqual Mod Not Or "
    "Round Sign ThresholdedRelu TopK Where Xor",
    _RESIZE: "Resize Upsample GridSample",
    _FLOW: "If Loop",
    _NORM: "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare",
    _SPREAD: "Expand Tile",
    _SERIES: "ConcatFromSequence Optional SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceInsert SplitToSequence",
    _TABLE: "Embedding GatherElements GatherND OneHot ScatterElements ScatterND",
}
_CURES = {name: text for text, names in _BY_KIND.items() for name in names.split()}

TELLING = frozenset(
    name
    for text in (_NORMAL, _ATTENTION, _RECURRENT, _QUANTISED, _TREES, _FLOW)
    for name in _BY_KIND[text].split()
)
"""Operators that say what kind of network it is; none of them computes on constants."""

_OTHER = (
    "simplify the model before exporting it, or say it in operators that are read "
    "(docs/own-model.md)"
)


def cure(operator: str, known: Iterable[str] | str) -> str:
    """Return why an operator is unsupported and what to do, to end a refusal."""
    if operator in _CURES:
        return f"not supported: {_CURES[operator]}"
    if isinstance(known, str):
        return f"{known}; {_OTHER}"
    return f"not supported; supported operators: {', '.join(sorted(known))}; {_OTHER}"


def with_cure(refusal: str) -> str:
    """Return a refusal with advice appended unless it already gives some."""
    return refusal if ";" in refusal or ": export" in refusal else f"{refusal}; {_OTHER}"

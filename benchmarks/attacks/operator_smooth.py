"""Smooth activations at random: as one node, and as exporters write them."""

from __future__ import annotations

import numpy as np

from leaveout.models.onnx.outlines import FORMS

from attacks.operator_draft import Draft

__all__ = ["SMOOTH", "write"]

_TEXTS = sorted(FORMS)


def _plain(op: str, **choices: list[object]) -> object:
    return lambda d: d.node(op, [], d.some(**choices), d.shape)


def write(d: Draft, text: str) -> None:
    """Append the nodes of an expression as in `FORMS` of the last tensor."""
    source, shape = d.last, d.shape

    def parse(rest: str) -> tuple[str, str]:
        end = min((at for at in map(rest.find, "(,)") if at >= 0), default=len(rest))
        word, rest = rest[:end].strip(), rest[end:]
        if not rest.startswith("("):
            if word == "x":
                return source, rest
            return d.constant(np.float32(word).reshape(())), rest
        names = []
        while rest[0] in "(,":
            name, rest = parse(rest[1:])
            names.append(name)
        if word in {"Add", "Mul"} and d.rng.random() < 0.5:
            names.reverse()
        d.last = names[0]
        d.node(word, names[1:], {}, shape)
        return d.last, rest[1:]

    parse(text)


def _form(d: Draft) -> None:
    text = _TEXTS[d.rng.integers(len(_TEXTS))]
    if d.rng.random() < 0.15:
        # Nearly one of them: refused, or read as what it is.
        text = text.replace("1.0", "1.0000001").replace("Sigmoid", "Tanh")
    write(d, text)


def _power(d: Draft) -> None:
    exponent = d.constant(np.float32(d.rng.choice([2.0, 3.0, 2.5])).reshape(()))
    d.node("Pow", [exponent], {}, d.shape)


def _gate(d: Draft) -> None:
    x = d.last
    d.node("Sigmoid" if d.rng.random() < 0.5 else "Relu", [], {}, d.shape)
    d.node("Mul", [x], {}, d.shape)


def _norm(d: Draft) -> None:
    scale = d.constant(d.rng.normal(size=d.shape[-1:]).astype(np.float32))
    epsilon = float(d.rng.choice([1e-5, 1e-3, 1e-8]))
    d.node("LayerNormalization", [scale], {"axis": -1, "epsilon": epsilon}, d.shape)


def _softmax(d: Draft) -> None:
    d.node("Softmax", [], {"axis": int(d.rng.integers(1, 1 + len(d.shape)))}, d.shape)


def _attend(d: Draft) -> None:
    """Multiply the data, as rows, by their own transpose, perhaps normalised."""
    x, shape, rank = d.last, d.shape, len(d.shape)
    if rank < 2:
        _softmax(d)
        return
    order = [*range(rank - 1), rank, rank - 1]
    d.node("Transpose", [], {"perm": order}, (*shape[:-2], shape[-1], shape[-2]))
    turned, d.last = d.last, x
    d.node("MatMul", [turned], {}, (*shape[:-1], shape[-2]))
    if d.rng.random() < 0.7:
        d.node("Softmax", [], {"axis": rank}, d.shape)
        d.node("MatMul", [x], {}, shape)


SMOOTH = {
    "Softmax": _softmax,
    "attention": _attend,
    "Sigmoid": _plain("Sigmoid"),
    "Tanh": _plain("Tanh"),
    "Softplus": _plain("Softplus"),
    "Elu": _plain("Elu", alpha=[1.0, 1.0, 0.5]),
    "Gelu": _plain("Gelu", approximate=["none", "tanh"]),
    "form": _form,
    "Pow": _power,
    "gate": _gate,
    "LayerNormalization": _norm,
    "Mish": _plain("Mish"),
    "HardSwish": _plain("HardSwish"),
}

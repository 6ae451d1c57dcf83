"""Claims over points as plain data: drawn, written in the language, and evaluated exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Scene",
    "draw_claim",
    "draw_number",
    "is_leak_shape",
    "margin",
    "number",
    "text",
    "truth",
]

Node = list[Any]
Array = NDArray[Any]

_FLIPPED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}


@dataclass(frozen=True, eq=False)
class Scene:
    """Points, and scores of networks there; floats, or in arrays of objects fractions.

    Attributes
    ----------
    points : dict of str to ndarray, shape (p, d)
    scores : dict of (str, str) to ndarray, shape (p, labels)
        By network and point.
    """

    points: dict[str, Array]
    scores: dict[tuple[str, str], Array]

    def exact(self, at: int) -> Scene:
        """Return one point of it in exact arithmetic."""
        return Scene(
            {k: _fractions(v[at : at + 1]) for k, v in self.points.items()},
            {k: _fractions(v[at : at + 1]) for k, v in self.scores.items()},
        )


def _fractions(value: Array) -> Array:
    found = np.empty(value.shape, object)
    for i, v in np.ndenumerate(value):
        found[i] = Fraction(float(v)) if np.isfinite(v) else float(v)
    return found


@dataclass(frozen=True)
class Words:
    """What a claim may speak of: networks with their labels, points, and features."""

    networks: dict[str, int]
    points: tuple[str, ...]
    width: int


def draw_claim(rng: np.random.Generator, words: Words, depth: int = 2) -> Node:
    """Draw a claim."""
    if depth and rng.random() < 0.55:
        kind = str(rng.choice(["and", "or", "=>", "not"]))
        parts = [draw_claim(rng, words, depth - 1) for _ in range(1 if kind == "not" else 2)]
        return [kind, *parts]
    way = rng.random()
    if way < 0.3:
        one, other = _pick(rng, words.networks), _pick(rng, words.networks)
        same = rng.random() < 0.5 or words.networks[one] != words.networks[other]
        right = int(rng.integers(words.networks[one])) if same else [other, _point(rng, words)]
        return ["label", str(rng.choice(["==", "!="])), [one, _point(rng, words)], right]
    if way < 0.4 and len(words.points) > 1:
        count = int(rng.integers(1, words.width + 1))
        return ["same", sorted(int(i) for i in rng.permutation(words.width)[:count])]
    operator = str(rng.choice(["<=", "<", ">=", ">"]))
    if rng.random() < 0.03:
        operator = str(rng.choice(["==", "!="]))
    return ["compare", operator, draw_number(rng, words), ["constant", _constant(rng)]]


def draw_number(rng: np.random.Generator, words: Words, depth: int = 2) -> Node:
    """Draw a number."""
    way = rng.random()
    if depth and way < 0.3:
        kind = str(rng.choice(["+", "-"]))
        return [kind, draw_number(rng, words, depth - 1), draw_number(rng, words, depth - 1)]
    if depth and way < 0.36:
        return [
            str(rng.choice(["*", "/"])),
            draw_number(rng, words, depth - 1),
            float(rng.choice([0.5, 2.0, -1.0, 0.1, 3.0])),
        ]
    if depth and way < 0.42:
        return ["abs", draw_number(rng, words, depth - 1)]
    network, point = _pick(rng, words.networks), _point(rng, words)
    label = int(rng.integers(words.networks[network]))
    if way < 0.65:
        return ["score", network, point, label]
    if way < 0.78:
        return ["confidence", network, point, None if rng.random() < 0.4 else label]
    if way < 0.86:
        return ["feature", point, int(rng.integers(words.width))]
    if way < 0.93 and len(words.points) > 1:
        return ["distance", *words.points]
    alike = [n for n, labels in words.networks.items() if labels == words.networks[network]]
    return ["difference", network, _pick(rng, dict.fromkeys(alike, 0)), point]


def _pick(rng: np.random.Generator, known: dict[str, int]) -> str:
    return str(rng.choice(list(known)))


def _point(rng: np.random.Generator, words: Words) -> str:
    return str(rng.choice(words.points))


def _constant(rng: np.random.Generator) -> float:
    return float(
        rng.choice([0.0, 0.1, 0.5, -0.5, 1.0, float(rng.normal()), float(3 * rng.normal())])
    )


def text(node: Node) -> str:
    """Write a claim or a number."""
    kind, *rest = node
    match kind:
        case "and" | "or" | "=>" | "+" | "-":
            return f"({text(rest[0])} {kind} {text(rest[1])})"
        case "*" | "/":
            return f"({text(rest[0])} {kind} {_written(rest[1])})"
        case "not" | "abs":
            return f"{kind} ({text(rest[0])})" if kind == "not" else f"abs({text(rest[0])})"
        case "label":
            operator, (network, point), right = rest
            other = str(right) if isinstance(right, int) else f"label({right[0]}, {right[1]})"
            return f"label({network}, {point}) {operator} {other}"
        case "same":
            return f"same_except(x, y, at = [{', '.join(map(str, rest[0]))}])"
        case "compare":
            return f"{text(rest[1])} {rest[0]} {text(rest[2])}"
        case "constant":
            return _written(rest[0])
        case "name":
            return str(rest[0])
        case "confidence" if rest[2] is None:
            return f"confidence({rest[0]}, {rest[1]})"
        case "distance" if isinstance(rest[1], list):
            return f"distance({rest[0]}, [{', '.join(_written(v) for v in rest[1])}])"
    return f"{kind}({', '.join(map(str, rest))})"


def _written(value: float) -> str:
    return repr(float(value))


def is_leak_shape(node: Node) -> bool:
    """Whether a claim could be read as one about leaks, which treats ties in its own way."""
    body = node[2] if node[0] == "=>" else node
    return bool(body[0] == "label")


def number(node: Node, scene: Scene) -> Array:
    """Evaluate a number at all points, in the arithmetic of the scene."""
    kind, *rest = node
    match kind:
        case "+":
            return np.asarray(number(rest[0], scene) + number(rest[1], scene))
        case "-":
            return np.asarray(number(rest[0], scene) - number(rest[1], scene))
        case "*":
            return np.asarray(number(rest[0], scene) * _like(rest[1], scene))
        case "/":
            return np.asarray(number(rest[0], scene) / _like(rest[1], scene))
        case "abs":
            return np.asarray(np.abs(number(rest[0], scene)))
        case "constant":
            return np.asarray([_like(rest[0], scene)])
        case "score":
            return scene.scores[rest[0], rest[1]][:, rest[2]]
        case "feature":
            return scene.points[rest[0]][:, rest[1]]
        case "difference":
            gap = scene.scores[rest[0], rest[2]] - scene.scores[rest[1], rest[2]]
            return np.asarray(np.abs(gap).max(axis=1))
        case "distance":
            first = scene.points[rest[0]]
            if isinstance(rest[1], str):
                return np.asarray(np.abs(first - scene.points[rest[1]]).max(axis=1))
            centre = np.asarray([_like(v, scene) for v in rest[1]])
            return np.asarray(np.abs(first - centre).max(axis=1))
    scores = scene.scores[rest[0], rest[1]]
    margins = _margins(scores)
    return margins.max(axis=1) if rest[2] is None else margins[:, rest[2]]


def _like(value: float, scene: Scene) -> Any:
    one = next(iter(scene.points.values()))
    return Fraction(value) if one.dtype == object else value


def _margins(scores: Array) -> Array:
    labels = scores.shape[1]
    return np.stack(
        [scores[:, c] - np.delete(scores, c, axis=1).max(axis=1) for c in range(labels)], axis=1
    )


def truth(node: Node, scene: Scene) -> Array:
    """Whether a claim is true, point by point; exact where the scene is."""
    kind, *rest = node
    match kind:
        case "and":
            return truth(rest[0], scene) & truth(rest[1], scene)
        case "or":
            return truth(rest[0], scene) | truth(rest[1], scene)
        case "=>":
            return ~truth(rest[0], scene) | truth(rest[1], scene)
        case "not":
            return ~truth(rest[0], scene)
        case "same":
            x, y = scene.points["x"], scene.points["y"]
            others = np.setdiff1d(np.arange(x.shape[1]), rest[0])
            return np.asarray((x[:, others] == y[:, others]).all(axis=1), bool)
        case "label":
            operator, (network, point), right = rest
            own = _label(scene.scores[network, point])
            other = right if isinstance(right, int) else _label(scene.scores[right[0], right[1]])
            return np.asarray((own == other) == (operator == "=="))
    left, right = number(rest[1], scene), number(rest[2], scene)
    found = {
        "<=": left <= right, "<": left < right, ">=": left >= right, ">": left > right,
        "==": left == right, "!=": left != right,
    }[rest[0]]  # fmt: skip
    return np.asarray(found, bool)


def _label(scores: Array) -> Array:
    return np.asarray(scores.argmax(axis=1))


def margin(node: Node, scene: Scene) -> Array:
    """By how much a claim is true, below 0 if it is not: what to go down on."""
    kind, *rest = node
    match kind:
        case "and":
            return np.minimum(margin(rest[0], scene), margin(rest[1], scene))
        case "or":
            return np.maximum(margin(rest[0], scene), margin(rest[1], scene))
        case "=>":
            return np.maximum(-margin(rest[0], scene), margin(rest[1], scene))
        case "not":
            return -margin(rest[0], scene)
        case "same":
            x, y = scene.points["x"], scene.points["y"]
            others = np.setdiff1d(np.arange(x.shape[1]), rest[0])
            gap = np.abs(x - y)[:, others].max(axis=1, initial=0.0)
            return np.where(gap > 0, -gap, 1e30)
        case "label":
            operator, (network, point), right = rest
            own = _margins(scene.scores[network, point])
            if isinstance(right, int):
                found = own[:, right]
            else:
                other = _margins(scene.scores[right[0], right[1]])
                found = np.minimum(own, other).max(axis=1)
            return np.asarray(found if operator == "==" else -found)
    gap = number(rest[2], scene) - number(rest[1], scene)
    if rest[0] in {"==", "!="}:
        gap = -np.abs(gap)
        return np.asarray(gap if rest[0] == "==" else -gap)
    return np.asarray(gap if rest[0] in {"<=", "<"} else -gap)

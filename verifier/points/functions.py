"""Functions about points and networks, read as linear forms of features and scores."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from leaveout.models.trees.model import TreeModel
from leaveout.specs import Call, Expression, ListOf
from leaveout.specs.table.signatures import Bound
from leaveout.verifier.points.claims import (
    Cases,
    ClaimReader,
    Comparison,
    Lin,
    Pieces,
    Reading,
    Test,
    add_pieces,
    greatest,
    least,
    plain,
    scale_pieces,
)

_MINUS = Fraction(-1)


def score(reader: ClaimReader, node: Call, given: Bound) -> Pieces:
    """Read the score of a label."""
    application, labels = reader.application_of(given["network"], given["point"])
    if "label" not in given:
        return plain(reader.score_of(application, _only_score(reader, node, application)))
    return plain(reader.score_of(application, reader.label_of(given["label"], labels)))


def confidence(reader: ClaimReader, node: Call, given: Bound) -> Pieces:
    """Read a confidence; without a label, that of any or of the ``per label`` one."""
    application, labels = reader.application_of(given["network"], given["point"])
    _refuse_regression(reader, node, application)
    chosen = list(range(labels)) if reader.label is None else [reader.label]
    if "label" in given:
        chosen = [reader.label_of(given["label"], labels)]
    each = [
        least(*(plain(_margin(reader, application, c, j)) for j in range(labels) if j != c))
        for c in chosen
    ]
    return greatest(*each)


def label(reader: ClaimReader, node: Call, given: Bound) -> dict[int, Cases]:
    """Read the cases of each predicted label; ties go to the first, as in onnxruntime."""
    application, labels = reader.application_of(given["network"], given["point"])
    _refuse_regression(reader, node, application)
    rivals = {c: [j for j in range(labels) if j != c] for c in range(labels)}
    return {
        c: (tuple(Test(_margin(reader, application, c, j), j < c) for j in rivals[c]),)
        for c in rivals
    }


def _refuse_regression(reader: ClaimReader, node: Call, application: int) -> None:
    model = reader.applications[application][0]
    if isinstance(model, TreeModel) and not model.is_classifier:
        raise reader.resolver.fail(node, f"{model.source} is a regression: it answers no labels")


def _only_score(reader: ClaimReader, node: Call, application: int) -> int:
    """Return the label whose score is meant where none is named."""
    model = reader.applications[application][0]
    assert isinstance(model, TreeModel), "the type check asks for a label"
    if len(model.whole.base) > 1:
        many = len(model.whole.base)
        raise reader.resolver.fail(
            node, f"{model.source} has {many} scores", "name one: score(T, x, 0)"
        )
    return 1 if model.is_classifier else 0


def difference(reader: ClaimReader, node: Call, given: Bound) -> Pieces:
    """Read the largest difference of the scores of two networks."""
    first, labels = reader.application_of(given["network"], given["point"])
    second, others = reader.application_of(given["other"], given["point"])
    if labels != others:
        raise reader.resolver.fail(node, f"these networks have {labels} and {others} labels")
    return _largest(
        [
            plain(reader.score_of(first, c).plus(reader.score_of(second, c), _MINUS))
            for c in range(labels)
        ]
    )


def feature(reader: ClaimReader, node: Call, given: Bound) -> Pieces:
    """Read a feature of a point."""
    point = reader.point_of(given["point"])
    return _feature(point, reader.feature_of(given["at"], point))


def distance(reader: ClaimReader, node: Call, given: Bound) -> Pieces:
    """Read the largest difference of the features of two points."""
    sides = [_coordinates(reader, given[name]) for name in ("point", "other")]
    _refuse_apart(reader, node, *map(len, sides))
    return _largest([add_pieces(a, scale_pieces(b, _MINUS)) for a, b in zip(*sides, strict=True)])


def same_except(reader: ClaimReader, node: Call, given: Bound) -> list[Comparison]:
    """Read that two points agree in all but some features."""
    first, second = reader.point_of(given["point"]), reader.point_of(given["other"])
    features = reader.boxes[first].dimension
    _refuse_apart(reader, node, features, reader.boxes[second].dimension)
    at = reader.resolver.value(given["at"])
    listed = at.items if isinstance(at, ListOf) else (at,)
    left_out = {reader.feature_of(each, first) for each in listed}
    return [
        (_feature(first, i), "==", _feature(second, i))
        for i in range(features)
        if i not in left_out
    ]


def absolute(reader: ClaimReader, node: Call, given: Bound) -> Pieces:
    """Read an absolute value."""
    return _largest([reader.number(given["number"])])


def _coordinates(reader: ClaimReader, node: Expression) -> list[Pieces]:
    value = reader.resolver.value(node)
    if isinstance(value, ListOf):
        return [reader.number(item) for item in value.items]
    point = reader.point_of(node)
    return [_feature(point, i) for i in range(reader.boxes[point].dimension)]


def _refuse_apart(reader: ClaimReader, node: Call, one: int, other: int) -> None:
    if one != other:
        raise reader.resolver.fail(node, "these points have different numbers of features")


def _largest(numbers: list[Pieces]) -> Pieces:
    """Return the largest absolute value."""
    return greatest(*numbers, *(scale_pieces(each, _MINUS) for each in numbers))


def _margin(reader: ClaimReader, application: int, label: int, rival: int) -> Lin:
    other = reader.score_of(application, rival)
    return reader.score_of(application, label).plus(other, _MINUS)


def _feature(point: int, feature: int) -> Pieces:
    return plain(Lin({("feature", point, feature): Fraction(1)}))


FORMS: Mapping[str, Reading] = {
    "abs": absolute,
    "confidence": confidence,
    "difference": difference,
    "distance": distance,
    "feature": feature,
    "label": label,
    "same_except": same_except,
    "score": score,
}
"""How calls of the built-in functions about points are read."""

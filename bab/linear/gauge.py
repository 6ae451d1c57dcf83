"""Bound what float32 evaluation may change within a node's region, where that matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.bab.linear.question import Question, errors_of
from leaveout.bab.linear.space import PairSpace
from leaveout.bab.native.nodes import Node
from leaveout.encoders import Box

__all__ = ["Gauge"]

_MATTERS = 8.0
"""Errors are bounded anew where they are more than one in so many of what keeps a node open."""

_NARROWER = 0.7
"""... and the region has shrunk this much since they last were."""


class Gauge:
    """Lowers the evaluation errors of forms that a node is charged.

    Parameters
    ----------
    question : Question
    space : PairSpace
    """

    def __init__(self, question: Question, space: PairSpace) -> None:
        self._question, self._space = question, space
        self._whole = question.forms.errors
        self._goals = question.forms.goal

    def __call__(self, node: Node, target: float) -> Node:
        """Return the node with errors of its own region, where they may help."""
        width = float((node.upper - node.lower).mean())
        if (
            not self._whole.any()
            or not np.isfinite(self._whole).all()
            or width > _NARROWER * node.gauged
            or node.value - target > _MATTERS * float(node.errors[self._goals].max())
        ):
            return node
        question = self._question
        low, high = node.lower + self._space.origin, node.upper + self._space.origin
        boxes = []
        for matrix, whole in zip(question.joint.points, question.query.points, strict=True):
            up, down = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
            least, most = up @ low + down @ high, up @ high + down @ low
            # Of the terms, which may cancel.
            room = 1e-9 * (np.abs(matrix) @ np.maximum(np.abs(low), np.abs(high)))
            least = np.minimum(np.maximum(least - room, whole.lower), whole.upper)
            boxes.append(Box(least, np.maximum(np.minimum(most + room, whole.upper), least)))
        errors = np.array(errors_of(question.query, question.rows, boxes))
        return replace(node, errors=np.minimum(node.errors, errors), gauged=width)

"""Paddings that onnxruntime's optimiser merges into the pooling after them."""

from __future__ import annotations

from collections.abc import Sequence

from leaveout.models.graph import Node
from leaveout.models.onnx_use import UnsupportedError
from leaveout.models.operators import Relu
from leaveout.models.operators.moving import Place, Take
from leaveout.models.operators.shape import Identity, Permute, Reshape


def refuse_padded(source: str, nodes: Sequence[Node]) -> None:
    """Refuse MaxPool over data padded with constants.

    onnxruntime fuses Pad and MaxPool and then ignores padding instead of using 0, which agrees only
    if all data are at least 0.
    """
    made = {node.output: node for node in nodes}
    node = made.get(source)
    while node is not None and isinstance(node.operator, (Identity, Permute, Reshape, Take)):
        node = made.get(node.inputs[0])
    if node is None or not isinstance(node.operator, Place):
        return
    before = made.get(node.inputs[0])
    if node.operator.fill or before is None or not isinstance(before.operator, Relu):
        raise UnsupportedError(
            "onnxruntime takes no number for the padding before it instead of the constant that "
            "is there; pad by the pooling itself (padding=1), or after a ReLU"
        )

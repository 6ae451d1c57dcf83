"""Whether two forests label every input of a set identically, proved by trees of boxes."""

from __future__ import annotations

import numpy as np

from leaveout.kernel.boxes import read_box
from leaveout.kernel.values import Given
from leaveout.verifier.checker.ensembles.boxes import Boxes, prove, read_boxes
from leaveout.verifier.checker.ensembles.deletion import Forest
from leaveout.verifier.checker.ensembles.leaks import pair_boxes
from leaveout.verifier.checker.ensembles.pairs import every_label
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.files import BoxPart

_NO_LEAK = -1e-9
"""Below every confidence, including that of a tie."""


def same_function(given: Given) -> bool | None:
    """Return whether two forests agree on all inputs; None if that is unknown."""
    one, other = (given.value_of_kind(name, Forest, "forest") for name in ("forest", "other"))
    part = given.value_of_kind("inputs", BoxPart, "set of inputs")
    if one.held.features != other.held.features:
        raise RejectedError("the two forests read different numbers of features")
    if not given.proof:
        return None
    inputs = read_box(part, one.held.features, str(one.held.path), single=False)
    boxes = pair_boxes(one.held, other.held, inputs)
    every = every_label(one.held, other.held)
    if set(given.proof) == {"x"}:
        return _apart(boxes, np.asarray(given.proof["x"]))
    for at, label in enumerate(one.held.labels):
        own = {
            name.removeprefix(f"{at}."): array
            for name, array in given.proof.items()
            if name.startswith(f"{at}.")
        }
        try:
            prove(boxes, every.index(label), _NO_LEAK, read_boxes(own, 1))
        except RejectedError as error:
            raise RejectedError(f"label {label!r}: {error}") from None
    return True


def _apart(boxes: Boxes, x: np.ndarray) -> bool:
    """Return False; raise unless the given input proves that two forests differ."""
    inputs = boxes.inputs
    if x.dtype != np.float64 or x.shape != inputs.lower.shape:
        raise RejectedError("the input at which they are claimed to differ is malformed")
    if not ((x >= inputs.lower) & (x <= inputs.upper)).all() or not all(
        (table.values == x[table.columns]).all(axis=1).any() for table in inputs.tables
    ):
        raise RejectedError("the input at which they are claimed to differ is not in the set")
    members, answers = boxes.members, []
    for roots, count in ((members.whole, 0), (members.others[0], 1)):
        total = np.zeros(members.pool.shares.shape[1])
        for root in roots.tolist():
            node = root
            while members.pool.feature[node] >= 0:
                below = x[members.pool.feature[node]] <= members.pool.threshold[node]
                node = int(members.pool.left[node] if below else members.pool.right[node])
            total += members.pool.shares[members.pool.left[node]]
        answers.append(int((total / members.trees[count]).argmax()))
    if answers[0] == answers[1]:
        raise RejectedError(
            "they give the same answer to the input at which they are claimed to differ"
        )
    return False

"""Witnesses: an input and a member that leak, replayed through onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.instance import Instance
from leaveout.models import confidence


@dataclass(frozen=True, eq=False)
class Witness:
    """A leak; all numbers are the models' own: for networks in float32, from onnxruntime."""

    x: NDArray[Any]  # shape (d,): in the set of inputs
    member: int  # position in the family; 0 for a single other model
    removed: int  # row of the training point that this member lacks; -1 for a single other forest
    label: int  # label answered by the model
    confidence: float  # of ``label``, in the model
    scores: NDArray[Any]  # shape (labels,)
    member_scores: NDArray[Any]  # shape (labels,)

    @property
    def value(self) -> float:
        """The bounded value: the confidence."""
        return self.confidence


class Replayer:
    """Replayer of candidates that keeps the worst leak of each member and label."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._worst: dict[tuple[int, int], Witness] = {}

    def worst(self, label: int) -> tuple[Witness, ...]:
        """Return the worst replayed leak of a label for each member with one."""
        return tuple(found for (own, _), found in self._worst.items() if own == label)

    def replay(self, point: Floats, member: int, label: int) -> Witness | None:
        """Replay a candidate; return a witness if it leaks, else None."""
        x = self._instance.box.float32(point)
        if not self._instance.box.contains(x.astype(np.float64)):
            return None
        scores = self._instance.own.runner().scores(x[None])[0]
        own = float(confidence(scores.astype(np.float64), label))
        if not own > 0:
            return None
        member_scores = self._instance.others.runner(member).scores(x[None])[0]
        if not float(confidence(member_scores.astype(np.float64), label)) <= 0:
            return None
        removed = int(self._instance.family.removed[member])
        found = Witness(x, member, removed, label, own, scores, member_scores)
        before = self._worst.get((label, member))
        if before is None or own > before.confidence:
            self._worst[label, member] = found
        return found

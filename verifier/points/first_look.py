"""Quick bounds of a label whose turn comes late, so that something is known early."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from leaveout.bab import EngineResult, Instance, NativeOptions
from leaveout.bab.native.leaks import Leaks
from leaveout.deadline import Deadline

_SHARE = 0.04
"""Share of the time left that a look may take ..."""

_MOST_SECONDS = 10.0
"""... and seconds."""


def quick_bounds(
    instance: Instance, label: int, options: NativeOptions, left: float | None
) -> EngineResult | None:
    """Bound a label's leaks by propagation, and attack it for a few seconds."""
    question = Leaks(instance, label)
    if not question.opens_slowly:
        return None
    begun = time.perf_counter()
    deadline = Deadline.after(_MOST_SECONDS if left is None else min(_MOST_SECONDS, _SHARE * left))
    witness = question.first(options, deadline)
    known = propagation_result(instance, label, "it was only looked at")
    return replace(
        known,
        lower=0.0 if witness is None else witness.confidence,
        witness=witness,
        closed=known.closed and witness is None,
        seconds=time.perf_counter() - begun,
        leaks=question.leaks,
    )


def propagation_result(instance: Instance, label: int, detail: str) -> EngineResult:
    """Return what propagation proves, with the reason it is not closed."""
    most = max(0.0, instance.most(label))
    everyone = np.full(len(instance.family), most)
    return EngineResult(label, 0.0, most, None, most == 0, "time", detail, everyone, 0, 0.0)

"""Members of a family, some at once: as layers, and what float32 adds to forms of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .float32 import Program, Region, Rounding
from .networks import HIGH, LOW, Integers, Layer, P, Q
from .numbers import UNIT, Floats

TOGETHER = 64
"""Networks read at once."""


class Members(Protocol):
    """Networks of one architecture, as programs."""

    def __len__(self) -> int: ...

    def take(self, members: Integers, /) -> Program:
        """Return some of them."""


@dataclass(frozen=True, eq=False)
class Folded:
    """Members as layers, a few at a time."""

    members: Members

    def __len__(self) -> int:
        return len(self.members)

    def chunks(self, members: Integers, /) -> Iterator[tuple[Integers, Sequence[Layer]]]:
        """See `leaveout.kernel.networks.Networks`."""
        for begin in range(0, len(members), TOGETHER):
            chosen = members[begin : begin + TOGETHER]
            yield chosen, self.members.take(chosen).layers()


def span(state: Floats, *, member: bool) -> tuple[Floats, Floats]:
    """Return the range of N's z, or of any member's: it is at most p above N's, q below."""
    low, high = state[:, LOW], state[:, HIGH]
    if member:
        low, high = low - state[:, Q], high + state[:, P]
        pad = 4 * UNIT * (np.abs(low) + np.abs(high))
        low, high = low - pad, high + pad
    return low, high


def errors_of(
    program: Program, which: Integers, region: Region, forms: Floats, *, subtract: bool = False
) -> Floats:
    """Bound the rounding of forms, shape (r, labels), in some nodes, shape (n, r)."""
    forms = np.broadcast_to(forms, (len(which), *forms.shape))
    return Rounding(program, which, region).of_forms(forms, subtract=subtract)


def errors_of_any(
    members: Members, region: Region, forms: Floats, *, subtract: bool = False
) -> Floats:
    """Bound the rounding of forms of any member in the one node of a region, shape (r,)."""
    found = np.zeros(len(forms))
    for begin in range(0, len(members), TOGETHER):
        which = np.arange(min(TOGETHER, len(members) - begin))
        program, same = members.take(begin + which), region.take(np.zeros_like(which))
        own = errors_of(program, which, same, forms, subtract=subtract)
        found = np.maximum(found, own.max(0))
    return found


def errors_of_single(
    members: Members, sets: Sequence[Integers], region: Region, forms: Floats, *,
    subtract: bool = False,
) -> Floats:  # fmt: skip
    """Bound the rounding of forms in nodes with one member, shape (n, r); infinite in others."""
    found = np.full((len(sets), len(forms)), np.inf)
    single = np.flatnonzero([len(each) == 1 for each in sets])
    for begin in range(0, len(single), TOGETHER):
        nodes = single[begin : begin + TOGETHER]
        chosen, which = np.unique([sets[i][0] for i in nodes], return_inverse=True)
        program, here = members.take(chosen), region.take(nodes)
        found[nodes] = errors_of(program, which, here, forms, subtract=subtract)
    return found

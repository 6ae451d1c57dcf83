"""Batched matrix products over the members of a stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Products:
    """Batched products of a fixed number of members at a time.

    Libraries may sum by batch size, as on GPUs; a fixed size makes a member's bits independent of
    the stack.
    """

    group: int | None = None  # how many; None: all

    def fill_size(self, members: int) -> int:
        """Return the stack size needed for some members."""
        return members if self.group is None else -(-members // self.group) * self.group

    def multiply(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Write ``left @ right`` to ``out``, (members, ...); ``left`` may have more members."""
        import torch

        if self.group is None:
            torch.bmm(left[: len(out)], right, out=out)
            return
        for part in self._parts(len(out), self.group):
            torch.bmm(left[part], right[part], out=out[part])

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left @ right``, shape (members, ...)."""
        out = left.new_empty((len(left), left.shape[1], right.shape[2]))
        self.multiply(left, right, out)
        return out

    def add(self, out: Tensor, left: Tensor, right: Tensor, *, keep: float, times: float) -> None:
        """Replace ``out`` with ``keep * out + times * left @ right``, (members, ...)."""
        for part in self._parts(len(out), self.group or len(out)):
            out[part].baddbmm_(left[part], right[part], beta=keep, alpha=times)

    @staticmethod
    def _parts(members: int, step: int) -> Iterator[slice]:
        return (slice(start, start + step) for start in range(0, members, step))

"""Networks of one architecture, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Stack


class Others(Protocol):
    """Networks with the first one's architecture, a few at a time."""

    def __len__(self) -> int: ...

    def chunks(self, indices: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        """Iterate over some networks, a few at a time, with their indices and stack."""
        ...

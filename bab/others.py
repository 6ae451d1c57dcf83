"""Networks of one architecture, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Stack


class Others(Protocol):
    """Networks of the first one's architecture, some at a time."""

    def __len__(self) -> int: ...

    def chunks(self, indices: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        """Go through some of them, a few at a time: which they are, and their stack."""
        ...

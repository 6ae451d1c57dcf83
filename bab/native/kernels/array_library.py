"""Array libraries for kernels: numpy, or torch on a CPU or GPU, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import SolverError


@dataclass(frozen=True)
class Space:
    """The functions that numpy and torch share, with adapters for the rest."""

    xp: Any
    device: Any
    room: int

    def put(self, array: NDArray[Any]) -> Any:
        """Copy an array to the device; never a view."""
        if self.device is None:
            return np.array(array)
        return self.xp.tensor(np.ascontiguousarray(array), device=self.device)

    def take(self, array: Any) -> NDArray[Any]:
        """Copy an array back to the host."""
        return np.asarray(array if self.device is None else array.cpu().numpy())

    def full(self, shape: tuple[int, ...], value: float) -> Any:
        """Return a float64 array filled with one value."""
        if self.device is None:
            return np.full(shape, value)
        return self.xp.full(shape, value, dtype=self.xp.float64, device=self.device)

    def eye(self, size: int) -> Any:
        """Return the identity in float64."""
        return self.put(np.eye(size))

    def order(self, array: Any) -> Any:
        """Return the stable sorting order along the last axis."""
        if self.device is None:
            return np.argsort(array, axis=-1, kind="stable")
        return self.xp.argsort(array, dim=-1, stable=True)

    def pick(self, array: Any, places: Any) -> Any:
        """Take indices along the last axis."""
        if self.device is None:
            return np.take_along_axis(array, places, -1)
        return self.xp.take_along_dim(array, places, -1)

    def round_to_float32(self, array: Any) -> Any:
        """Round to float32 numbers, kept as float64."""
        if self.device is None:
            return array.astype(np.float32).astype(np.float64)
        return array.to(self.xp.float32).to(self.xp.float64)


def numpy_space() -> Space:
    """Return the space of numpy's arrays."""
    return Space(np, None, 2**28)


def torch_space(device: str = "") -> Space:
    """Return the space of torch's arrays, by default on a GPU if torch sees one."""
    if device not in {"", "cpu", "cuda"}:
        raise SolverError(f"kernel 'torch' runs on 'torch:cpu' or 'torch:cuda', not on {device!r}")
    try:
        import torch
    except ImportError as error:
        raise SolverError(
            "kernel 'torch' needs torch; install it: pip install 'leaveout[train]'"
        ) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise SolverError(
            "kernel 'torch:cuda' needs a GPU that torch sees; install torch for CUDA "
            "(pip install 'leaveout[train]'), or take 'torch:cpu'"
        )
    if device != "cpu" and torch.cuda.is_available():
        return Space(torch, torch.device("cuda"), int(torch.cuda.mem_get_info()[0] // 4))
    return Space(torch, torch.device("cpu"), 2**28)

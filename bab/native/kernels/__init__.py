"""Bound kernels: the same bounds, for CPUs, for GPUs, and as plain numpy to read."""

from __future__ import annotations

from leaveout.bab.native.kernels.batch import Kernel

__all__ = ["KERNELS", "make_kernel"]

KERNELS = ("cpu", "torch", "torch:cpu", "torch:cuda", "numpy")


def make_kernel(name: str, threads: int | None = None) -> Kernel:
    """Return a kernel by name; ``torch`` takes a GPU where torch sees one.

    Raises
    ------
    SolverError
        If there is none of that name, or what it needs is not installed.
    """
    from leaveout.errors import SolverError

    if name not in KERNELS:
        raise SolverError(f"unknown kernel {name!r}; known kernels: {', '.join(KERNELS)}")
    if name == "cpu":
        from leaveout.bab.native.kernels.cpu import CpuKernel

        return CpuKernel(threads)
    from leaveout.bab.native.kernels.arrays import ArrayKernel

    return ArrayKernel(name)

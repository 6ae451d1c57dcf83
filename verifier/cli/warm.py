"""``leaveout warm``: compile everything now, so that no run has to."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def warm(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...",
            help="What to compile: points (claims over points), guard, forest_guard, growth "
            "(training forests), trees (deleting from them), forest (claims about them), "
            "forest_leaks (their families), survival (members that survive changes), and "
            "functions of votes, such as dpa and collective_accuracy.",
            show_default="everything",
        ),
    ] = None,
) -> None:
    """Compile all kernels now, for example when building an image.

    The compiled code is cached next to the program, or in the folder that NUMBA_CACHE_DIR names;
    set it in later runs too. It is specific to this processor and is rebuilt after an update.

    For example: NUMBA_CACHE_DIR=/var/cache/leaveout leaveout warm

    Exit status: 0 everything is compiled and cached, 2 no cache folder is writable.
    """
    from leaveout.compiling import can_keep, watch_compiling
    from leaveout.errors import LeaveoutError
    from leaveout.verifier.warm_up import KERNELS

    if not can_keep():
        raise LeaveoutError(
            "compiled code cannot be cached: set NUMBA_CACHE_DIR to a writable folder"
        )
    unknown = [name for name in kernels or [] if name not in KERNELS]
    if unknown:
        raise LeaveoutError(f"unknown kernel {unknown[0]!r}; expected one of {', '.join(KERNELS)}")
    for name in kernels or KERNELS:
        sys.stderr.write(f"leaveout: compiling {name.replace('_', ' ')}\n")
        with watch_compiling() as found:
            KERNELS[name]()
        sys.stdout.write(
            f"{name:20s}{found.functions:5d} functions compiled, {found.seconds:.1f} s\n"
        )
    raise typer.Exit(0)

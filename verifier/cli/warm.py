"""``leaveout warm``: compile everything now, so that no run has to."""

from __future__ import annotations

import typer

from leaveout.errors import LeaveoutError
from leaveout.verifier.cli.parameters import argument


def warm(
    kernels: list[str] | None = argument(
        "What to compile: points (claims over points), guard, forest_guard, growth (training "
        "forests), trees (deleting from them), forest (claims about them), forest_leaks (their "
        "families), survival (members that survive changes), and functions of votes, such as dpa "
        "and collective_accuracy.",
        default=None,
        metavar="[KERNEL]...",
        shown="everything",
    ),
) -> None:
    """Compile all kernels now, for example when building an image.

    The compiled code is kept in ~/.cache/leaveout, or in the folder that NUMBA_CACHE_DIR names; set
    it in later runs too. It is specific to this processor; after an upgrade, only what changed is
    compiled. Two such commands at once do no harm, and after an interrupt the next one goes on.

    For example: NUMBA_CACHE_DIR=/var/cache/leaveout leaveout warm

    Exit status: 0 everything is compiled and kept, 2 no folder for it is writable.
    """
    from leaveout.compiling import watch_compiling
    from leaveout.kept_code import why_not_kept
    from leaveout.verifier.cli.progress import progress
    from leaveout.verifier.warm_up import KERNELS, seconds_for, warm_beside

    if why := why_not_kept():
        raise LeaveoutError(
            f"compiled code cannot be kept: {why}; set NUMBA_CACHE_DIR to a folder that only you "
            "can write"
        )
    unknown = [name for name in kernels or [] if name not in KERNELS]
    if unknown:
        raise LeaveoutError(f"unknown kernel {unknown[0]!r}; expected one of {', '.join(KERNELS)}")
    if kernels is not None and len(kernels) == 1:
        with watch_compiling() as found:
            KERNELS[kernels[0]]()
        typer.echo(
            f"{kernels[0]:20s}{found.functions:5d} functions compiled, {found.seconds:.1f} s"
        )
        return
    with progress("compiling", "s", seconds_for(kernels or KERNELS)) as show:
        for line, seconds in warm_beside(kernels or KERNELS):
            typer.echo(line)
            if show is not None:
                show(seconds)

"""The programs: ``leaveout``, or ``python -m leaveout``, and ``leaveout-vnnlib``."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from leaveout.exit_codes import ExitCode

__all__ = ["main", "solver"]

_DEBUG = "LEAVEOUT_DEBUG"
"""Variable of the environment that asks for the traceback of what was not foreseen."""

_LONGEST = 300


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; an interrupt, or an error nobody foresaw, ends it in one line."""

    def run() -> int:
        from leaveout.verifier.cli import run

        return run()

    _run(run)


def solver() -> None:
    """Run ``leaveout-vnnlib``, the command line of VNN-LIB's standard, as `main` does its own."""

    def run() -> int:
        from leaveout.verifier.cli.solver import run_solver

        return run_solver()

    _run(run)


def _run(run: Callable[[], int]) -> NoReturn:
    try:
        # A polite request to end is answered as Ctrl-C is: with the best bounds so far.
        signal.signal(signal.SIGTERM, _terminate)
        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("leaveout: interrupted\n")
        code = ExitCode.INTERRUPTED
    except (Exception, SystemExit) as error:
        # Nothing here exits so: its status would pass for a verdict.
        code = _unforeseen(error)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End at once, with everything written and whatever asked to be told of the end told.

    The interpreter would wait for threads in the middle of a bound that nobody needs any more, and
    take every library apart.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # Whoever read them may have left.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _unforeseen(error: BaseException) -> int:
    """Say in one line what nobody foresaw, and where; return the exit status."""
    import traceback

    wanted = os.environ.get(_DEBUG, "0") not in {"", "0"}
    if wanted:
        traceback.print_exception(error)
    said = "out of memory" if isinstance(error, MemoryError) else f"{type(error).__name__}: {error}"
    shown = "the above" if wanted else f"what {_DEBUG}=1 in the environment shows"
    sys.stderr.write(
        f"leaveout: {' '.join(said.split())[:_LONGEST]} (in {_place(error)}). Nobody foresaw this, "
        f"and nothing is concluded: please report it, with {shown}\n"
    )
    return ExitCode.UNFORESEEN


def _place(error: BaseException) -> str:
    """Return the innermost line of this program that led to an error."""
    import traceback

    root = Path(__file__).parent
    frames = traceback.extract_tb(error.__traceback__)
    inside = [each for each in frames if Path(each.filename).is_relative_to(root)]
    return f"{Path(inside[-1].filename).relative_to(root).as_posix()}, line {inside[-1].lineno}"


if __name__ == "__main__":
    main()

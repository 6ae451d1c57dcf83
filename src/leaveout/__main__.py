"""The programs ``leaveout`` (also ``python -m leaveout``) and ``leaveout-vnnlib``."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from leaveout.exit_codes import ExitCode

_DEBUG = "LEAVEOUT_DEBUG"  # environment variable that requests the traceback of an internal error

_LONGEST = 300

_NO_MEMORY = ("bad_alloc", "can't allocate memory", "not enough memory")
"""What out-of-memory errors of onnxruntime and torch say."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; interrupts and internal errors end it in one line."""

    def run() -> int:
        from leaveout.verifier.cli import run

        return run()

    _run(run)


def solver() -> None:
    """Run ``leaveout-vnnlib``, the command line of VNN-LIB's standard, like `main`."""

    def run() -> int:
        from leaveout.verifier.cli.solver import run_solver

        return run_solver()

    _run(run)


def _run(run: Callable[[], int]) -> NoReturn:
    # A file name may not be valid text: it is printed as the system has it.
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    try:
        # SIGTERM acts like Ctrl-C: the best bounds so far are reported.
        signal.signal(signal.SIGTERM, _terminate)
        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("leaveout: interrupted\n")
        code = ExitCode.INTERRUPTED
    except (Exception, SystemExit) as error:
        # No code here raises SystemExit; its status could be mistaken for a verdict.
        code = (
            _report_out_of_memory(error)
            if _is_memory_error(error)
            else _report_internal_error(error)
        )
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Exit at once after flushing output and exit handlers.

    The interpreter would wait for threads whose results are not needed, and unload every library.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # The reader of the output may have gone.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _is_memory_error(error: BaseException) -> bool:
    """Return whether an error of Python, the system or C means that memory ran out."""
    return (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        or any(text in str(error) for text in _NO_MEMORY)
    )


def _report_out_of_memory(error: BaseException) -> int:
    """Report in one line where memory ran out; return the exit status."""
    said = " ".join(str(error).split())[:_LONGEST]
    sys.stderr.write(
        f"leaveout: out of memory{f': {said}' if said else ''} (in {_place(error)}). No verdict "
        "was reached: use a machine with more memory, close other programs, or request less at "
        "once\n"
    )
    return ExitCode.BAD_INPUT


def _report_internal_error(error: BaseException) -> int:
    """Report an internal error and its place in one line; return the exit status."""
    import traceback

    wanted = os.environ.get(_DEBUG, "0") not in {"", "0"}
    if wanted:
        traceback.print_exception(error)
    said = f"{type(error).__name__}: {error}"
    shown = (
        "the traceback above"
        if wanted
        else f"the traceback that {_DEBUG}=1 in the environment prints"
    )
    sys.stderr.write(
        f"leaveout: internal error: {' '.join(said.split())[:_LONGEST]} (in {_place(error)}). No "
        f"verdict was reached. Please report it, with {shown}\n"
    )
    return ExitCode.UNFORESEEN


def _place(error: BaseException) -> str:
    """Return this program's innermost line that led to an error."""
    import traceback

    root = Path(__file__).parent
    frames = traceback.extract_tb(error.__traceback__)
    inside = [each for each in frames if Path(each.filename).is_relative_to(root)]
    return f"{Path(inside[-1].filename).relative_to(root).as_posix()}, line {inside[-1].lineno}"


if __name__ == "__main__":
    main()

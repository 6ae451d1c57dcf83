"""Running the command line: one-line errors and the exit status."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from leaveout.errors import LeaveoutError
from leaveout.exit_codes import ExitCode
from leaveout.extras import name_extra

_ASKED = "_LEAVEOUT_COMPLETE"
_HELP = frozenset({"-h", "--help"})
_TOLD = frozenset({"--install-completion", "--show-completion"})


def run_application(application: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run a command line, user errors being one line; return its exit status."""
    try:
        code = typer.main.get_command(application).main(
            args=arguments, prog_name=application.info.name, standalone_mode=False
        )
    except LeaveoutError as error:
        sys.stderr.write(f"leaveout: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        known = name_extra(error)
        if known is error:
            raise
        sys.stderr.write(f"leaveout: {known}\n")
        return ExitCode.BAD_INPUT
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        message = str(error.format_message()).rstrip(".")
        if message:  # without a command, the help was shown
            name = getattr(getattr(error, "ctx", None), "command_path", "leaveout")
            sys.stderr.write(f"leaveout: {message}; see {name} --help\n")
        return ExitCode.BAD_INPUT
    except SystemExit as error:
        given = sys.argv[1:] if arguments is None else arguments
        if _completes(given):
            # The shell's requests for completion end this way; nothing was decided.
            return int(error.code or 0)
        if given and _HELP.isdisjoint(given) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # rich exits this way if the reader of the output has gone; the work is done by then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if code == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt  # which typer made a silent exit of
    return int(code or 0)


def _completes(arguments: Sequence[str]) -> bool:
    """Return whether a shell requests completion or its setup."""
    return _ASKED in os.environ or not _TOLD.isdisjoint(arguments)


_LOADED = time.perf_counter()
_BEFORE = 0.3
"""Approximate seconds from the interpreter's start to this line, if the system cannot tell."""

_LONGEST = 60.0  # longest plausible time, in seconds, from the process's start to this line


def since_start() -> float:
    """Return the seconds since the program started, from the system or estimated."""
    passed = time.perf_counter() - _LOADED
    told = _process_age()
    if told is not None and passed <= told <= passed + _LONGEST:
        return told
    return passed + _BEFORE


def _process_age() -> float | None:
    """Return the seconds since this process started, on Linux; else None."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begun = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - begun
    except (OSError, ValueError, IndexError, AttributeError):
        return None

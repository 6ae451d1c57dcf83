"""Run a command line: errors as one line, and the exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from leaveout.errors import LeaveoutError
from leaveout.exit_codes import ExitCode

__all__ = ["run_application"]


def run_application(application: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Every error a user can cause is one message on standard error; any other is raised.
    """
    try:
        code = typer.main.get_command(application).main(args=arguments, standalone_mode=False)
    except LeaveoutError as error:
        sys.stderr.write(f"leaveout: {error}\n")
        return error.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        message = str(error.format_message()).rstrip(".")
        if message:  # without one, the help was shown
            name = getattr(getattr(error, "ctx", None), "command_path", "leaveout")
            sys.stderr.write(f"leaveout: {message}; see {name} --help\n")
        return ExitCode.BAD_INPUT
    return int(code or 0)

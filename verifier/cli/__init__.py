"""The command line."""

from leaveout.verifier.cli import clock
from leaveout.verifier.cli.app import run

__all__ = ["clock", "run"]

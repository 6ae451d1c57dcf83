"""The command line."""

from leaveout.verifier.cli.app import run

__all__ = ["run"]

"""The command line."""

from leaveout.verifier.cli.app import main

__all__ = ["main"]

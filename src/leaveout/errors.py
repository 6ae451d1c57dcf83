"""The one family of errors: what went wrong, where, and what cures it, in one line."""

from __future__ import annotations

from leaveout.exit_codes import ExitCode


class LeaveoutError(Exception):
    """Base of every error a user can cause; the command line prints it as one line."""

    exit_code: ExitCode = ExitCode.BAD_INPUT  # what the command line exits with


class ModelError(LeaveoutError):
    """An ONNX file that cannot be read, or holds what no encoder supports."""


class FamilyError(LeaveoutError):
    """A family that is empty, damaged, or whose members do not match the network."""


class BallotError(LeaveoutError):
    """Ballots that are damaged, or that nothing can be certified of."""


class ForestError(LeaveoutError, ValueError):
    """Data, rows, settings or a file that no forest can be made of.

    A ``ValueError`` too, as scikit-learn asks of an estimator.
    """


class ShardedError(LeaveoutError):
    """A sharded service that is set up wrongly, damaged, or asked for what it cannot give."""


class AuditError(LeaveoutError):
    """An audit that is damaged, or that nothing can be estimated from."""


class GuardError(LeaveoutError):
    """A guard that cannot be set up, or an input that it does not answer."""


class SpecError(LeaveoutError):
    """A specification that does not parse, does not type-check or cannot be decided."""


class SolverError(LeaveoutError):
    """A solver that is unknown, not installed, or whose licence is too small."""


class TrainingError(LeaveoutError):
    """Training data or a recipe that cannot be used."""


class CheckpointError(LeaveoutError):
    """A checkpoint that is damaged, not this user's own, or of another question."""


class StateError(LeaveoutError):
    """What the program keeps of a user's own cannot be had, or is another's."""


def cause(error: BaseException) -> str:
    """Return what someone else's code raised, in one line: its class, and its own first line."""
    return f"{type(error).__name__}: {error}".split("\n")[0]

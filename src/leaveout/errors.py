"""The error classes; each message says in one line what is wrong, where, and the remedy."""

from __future__ import annotations

from leaveout.exit_codes import ExitCode
from leaveout.kernel.refusal import Rejected


class LeaveoutError(Exception):
    """Base of all user-caused errors; the command line prints them as one line."""

    exit_code: ExitCode = ExitCode.BAD_INPUT  # exit status of the command line


class ModelError(LeaveoutError):
    """An ONNX file that cannot be read or has unsupported content."""


class FamilyError(LeaveoutError):
    """A family that is empty, damaged, or whose members do not match the network."""


class BallotError(LeaveoutError):
    """Ballots that are damaged or for which nothing can be certified."""


class ForestError(LeaveoutError, ValueError):
    """Unusable data, rows, settings or files for a forest.

    Also a ``ValueError``, as scikit-learn requires of estimators.
    """


class LinearError(LeaveoutError, ValueError):
    """Unusable data, rows, settings or files for a linear model."""


class TreesError(LeaveoutError, ValueError):
    """A tree ensemble that cannot be read, or has parts that are not supported."""


class ShardedError(LeaveoutError):
    """A sharded service with wrong settings, damage, or an impossible request."""


class AuditError(LeaveoutError):
    """An audit that is damaged or allows no estimate."""


class GuardError(LeaveoutError):
    """A guard that cannot be set up, or an input it does not answer."""


class SpecError(LeaveoutError):
    """A specification that does not parse, does not type-check or cannot be decided."""


class SolverError(LeaveoutError):
    """A solver that is unknown, not installed, or whose licence is too small."""


class TrainingError(LeaveoutError):
    """Training data or a recipe that cannot be used."""


class ExtraError(LeaveoutError, ModuleNotFoundError):
    """A library is missing that an extra brings; also a ``ModuleNotFoundError``."""


class CheckpointError(LeaveoutError):
    """A checkpoint that is damaged, another user's, or for another specification."""


class StateError(LeaveoutError):
    """The user's state folder or key is unavailable or not this user's."""


def cause(error: BaseException) -> str:
    """Return another library's error in one line: its class and first line."""
    return f"{type(error).__name__}: {error}".split("\n")[0]


class CertificateError(LeaveoutError):
    """A certificate, or a file it names, is missing, damaged or in another format."""


class RejectedError(Rejected, LeaveoutError):
    """A certificate does not prove its claim; the message names the first part that fails."""

    exit_code = ExitCode.REFUTED

"""What a `SolverProcess` and its child say to each other: pickles with their length in front."""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from leaveout.solvers.problem import Problem
    from leaveout.solvers.protocol import Outcome, Settings

__all__ = ["Reply", "Request", "read_frame", "write_frame"]

LENGTH = struct.Struct("<Q")

Message = TypeVar("Message")


@dataclass(frozen=True, eq=False)
class Request:
    """A problem to solve."""

    problem: Problem
    settings: Settings


@dataclass(frozen=True, eq=False)
class Reply:
    """What came of it; all fields ``None`` says that the child is ready.

    Attributes
    ----------
    outcome : Outcome or None
    error : str or None
        Message of a `LeaveoutError`, which the parent raises again.
    failure : str or None
        Any other exception, which the parent reports as a failed outcome.
    """

    outcome: Outcome | None = None
    error: str | None = None
    failure: str | None = None


def write_frame(stream: IO[bytes], message: object) -> None:
    """Write one message and flush it."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes], kind: type[Message]) -> Message:
    """Read one message of class ``kind``.

    Raises
    ------
    EOFError
        If the other side closed the pipe, or died in the middle of a message.
    """
    (length,) = LENGTH.unpack(_exactly(stream, LENGTH.size))
    message = pickle.loads(_exactly(stream, length))
    if not isinstance(message, kind):
        raise EOFError(f"unexpected message {type(message).__name__}")
    return message


def _exactly(stream: IO[bytes], length: int) -> bytes:
    body = stream.read(length)
    if len(body) < length:
        raise EOFError("the pipe is closed")
    return body

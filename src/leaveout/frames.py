"""Messages between a process and its child over two pipes, and the child's ends.

Messages are pickles prefixed by their length; both ends are this program.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
from collections.abc import Callable
from typing import IO, Any, TypeVar

_LENGTH = struct.Struct("<Q")

Message = TypeVar("Message")


def pack_message(message: object) -> bytes:
    """Return a message packed for `write_packed`, so that it can be sent to several processes."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def write_packed(stream: IO[bytes], body: bytes) -> None:
    """Write one packed message and flush it."""
    stream.write(_LENGTH.pack(len(body)))
    stream.write(body)
    stream.flush()


def write_frame(stream: IO[bytes], message: object) -> None:
    """Write one message and flush it."""
    write_packed(stream, pack_message(message))


def read_frame(stream: IO[bytes], kind: type[Message]) -> Message:
    """Read one message of class ``kind``."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    message = pickle.loads(_exactly(stream, length))
    if not isinstance(message, kind):
        raise EOFError(f"unexpected message {type(message).__name__}")
    return message


def _exactly(stream: IO[bytes], length: int) -> bytes:
    body = stream.read(length)
    if len(body) < length:
        raise EOFError("the pipe is closed")
    return body


def own_channel() -> tuple[IO[bytes], IO[bytes]]:
    """Return a child's pipes: for the parent's requests, and for its replies.

    Moved off descriptors 0 and 1, where libraries print and read. Interrupts are left to the
    parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, replies


def follow(requests: IO[bytes], kind: type[Message], take: Callable[[Message], Any]) -> None:
    """Read the parent's messages on a separate thread.

    When the parent dies, its pipe ends, and this process and its children are ended.
    """
    threading.Thread(target=_follow, args=(requests, kind, take), daemon=True).start()


def _follow(requests: IO[bytes], kind: type[Message], take: Callable[[Message], Any]) -> None:
    try:
        while True:
            take(read_frame(requests, kind))
    except EOFError:
        pass
    finally:
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

"""One message for several children, with large arrays in shared memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from leaveout.frames import pack_message

_LEAST = 2**20
"""Fewest bytes of an array that are shared: what is smaller is sent to each."""


@contextmanager
def share_message(message: object) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """Pack a message for children started with the yielded descriptors.

    Arrays are copy-on-write, page-aligned and in memory once; without shared memory they travel in
    the message.
    """
    buffers: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LEAST:
            return True
        buffers.append(raw)
        return False

    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=is_small)
    with contextlib.ExitStack() as stack:
        descriptor = _write_buffers(buffers, stack) if buffers and os.name == "posix" else None
        if descriptor is None:
            yield (pack_message(message) if buffers else body), ()
        else:
            sizes = tuple(each.nbytes for each in buffers)
            yield pack_message(_Mapped(descriptor, sizes, body)), (descriptor,)


def _write_buffers(buffers: Sequence[memoryview], stack: contextlib.ExitStack) -> int | None:
    """Write buffers to an unnamed file in sequence; None if there is no room."""
    with contextlib.suppress(OSError):
        stream: Any = (
            os.fdopen(os.memfd_create("leaveout"), "wb", buffering=0)
            if hasattr(os, "memfd_create")
            else tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        )
        stack.enter_context(stream)
        for start, buffer in zip(_starts([each.nbytes for each in buffers]), buffers, strict=True):
            stream.seek(start)
            left = buffer
            while left:
                left = left[stream.write(left) :]
        return int(stream.fileno())
    return None


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where each buffer begins, each on its own page."""
    starts, reached = [], 0
    for size in sizes:
        starts.append(reached)
        reached += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    return starts


@dataclass(frozen=True)
class _Mapped:
    """The placeholder that becomes the message when unpacked."""

    descriptor: int
    sizes: tuple[int, ...]
    body: bytes

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _open_mapped, (self.descriptor, self.sizes, self.body)


def _open_mapped(descriptor: int, sizes: tuple[int, ...], body: bytes) -> Any:
    """Map the arrays copy-on-write and unpack the message."""
    whole = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    os.close(descriptor)
    views = [whole[start : start + size] for start, size in zip(_starts(sizes), sizes, strict=True)]
    return pickle.loads(body, buffers=views)

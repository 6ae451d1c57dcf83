"""Child processes, which run modules of this package and may crash or be killed."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from leaveout.frames import pack_message, read_frame, write_packed

_LEAST = 2**20  # arrays of at least this many bytes are shared; smaller ones are sent to each child


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
    """Write buffers to an unnamed file one after another; None if there is no room."""
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
    """A placeholder that unpacks to the message."""

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


Message = TypeVar("Message")
Order = TypeVar("Order")

_WAKE = 0.5  # seconds between a wait's checks for Ctrl-C
_DYING = 5.0  # seconds in which a process must end after closing its pipe


class Child:
    """A child process with two pipes and its standard error.

    Started as a program, so user scripts need no ``__main__`` guard; in its own group, so Ctrl-C is
    ours; with `follow` it ends with this process.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        self._one_write = threading.Lock()
        self._has_ended = False
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            # -P: a user's numpy.py in the working directory must not shadow the library.
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, **(settings or {})},
            process_group=0 if os.name == "posix" else None,
            pass_fds=descriptors,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def send(self, message: object) -> None:
        """Write a message atomically, even among threads."""
        self.send_packed(pack_message(message))

    def send_packed(self, body: bytes) -> None:
        """Write a message packed by `leaveout.frames`; raises like `send`."""
        requests = self._process.stdin
        assert requests is not None
        with self._one_write:
            write_packed(requests, body)

    def read(self, kind: type[Message]) -> Message:
        """Wait for the next message, of class ``kind``."""
        replies = self._process.stdout
        assert replies is not None
        return read_frame(replies, kind)

    def wait(self) -> None:
        """Wait for input without blocking Ctrl-C, which Gurobi can make a blocking read ignore."""
        replies = self._process.stdout
        assert replies is not None
        if os.name == "posix":
            while not select.select([replies], [], [], _WAKE)[0]:
                pass

    def kill(self) -> None:
        """Kill the process and those it started; see `end`."""
        # The pid of an ended process may have been reused.
        if os.name == "posix" and not self._has_ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def end(self) -> None:
        """Kill the process and those it started; readers then see the pipe's end."""
        self.kill()
        self._process.wait()
        self._has_ended = True

    def close(self) -> None:
        """Close an ended child's pipes, once no thread reads them."""
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                # Unwritten data for a dead child does not matter.
                with contextlib.suppress(OSError):
                    stream.close()

    def exit_status(self) -> int | None:
        """Return the exit status of a child whose pipe closed, -N for signal N.

        None if it is still running after some seconds.
        """
        try:
            return self._process.wait(_DYING)
        except subprocess.TimeoutExpired:
            return None

    def last_words(self) -> str:
        """Return the last line of the child's standard error; empty if there is none."""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


class ChildLostError(Exception):
    """A child of a pool died; the message briefly says why."""


class ChildPool:
    """Child processes that each do one order at a time; a context manager that ends them."""

    def __init__(
        self, module: str, size: int, task: object, settings: Mapping[str, str] | None = None
    ) -> None:
        self._messages: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._children: list[Child] = []
        self._readers: list[threading.Thread] = []
        try:
            with share_message(task) as (body, descriptors):
                for index in range(size):
                    self._start(index, Child(module, settings=settings, descriptors=descriptors))
                # Only after all have been started, so that they start in parallel.
                for child in self._children:
                    self._send(child, body)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def work(
        self, orders: Iterable[Order], is_last: Callable[[Any], bool] = lambda message: True
    ) -> Iterator[tuple[Order, Any]]:
        """Yield the messages on each order as they come."""
        waiting = iter(orders)
        busy: dict[int, Order] = {}
        for index in range(len(self._children)):
            self._give(index, waiting, busy)
        while busy:
            index, message = self._messages.get()
            if message is _LOST:
                raise self._lost_error(self._children[index])
            order, last = busy[index], is_last(message)
            yield order, message
            if last:
                del busy[index]
                self._give(index, waiting, busy)

    def close(self) -> None:
        """End all children, whatever they are doing."""
        for child in self._children:
            child.kill()
        for child, reader in zip(self._children, self._readers, strict=True):
            child.end()
            reader.join(_DYING)
            if not reader.is_alive():
                child.close()

    def _start(self, index: int, child: Child) -> None:
        self._children.append(child)
        reader = threading.Thread(target=self._listen, args=(index, child), daemon=True)
        self._readers.append(reader)
        reader.start()

    def _listen(self, index: int, child: Child) -> None:
        # Whatever the error, a child whose output cannot be read is of no further use.
        with contextlib.suppress(Exception):
            while True:
                self._messages.put((index, child.read(object)))
        self._messages.put((index, _LOST))

    def _give(self, index: int, waiting: Iterator[Order], busy: dict[int, Order]) -> None:
        for order in waiting:
            self._send(self._children[index], pack_message(order))
            busy[index] = order
            return

    def _send(self, child: Child, body: bytes) -> None:
        try:
            child.send_packed(body)
        except OSError:
            raise self._lost_error(child) from None

    @staticmethod
    def _lost_error(child: Child) -> ChildLostError:
        """Return the error for a child that died or sent nonsense."""
        code = child.exit_status()
        if code is None:
            return ChildLostError("its output cannot be read")
        return ChildLostError(
            f"signal {-code}" if code < 0 else child.last_words() or f"exit code {code}"
        )


_LOST = object()  # takes the place of a message when no more will come


def import_environment() -> dict[str, str]:
    """Return an environment in which a child can import whatever this process can."""
    # An empty path, as in a prompt or notebook, means the current folder.
    return {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}

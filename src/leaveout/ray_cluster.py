"""Ray as a place of work, through a separate process that Ray may end."""

from __future__ import annotations

import importlib.util
import math
import os
import queue
import socket
import sys
import threading
import time
from typing import Any, Self

from leaveout.children import Child, import_environment
from leaveout.cores import cores
from leaveout.errors import LeaveoutError
from leaveout.ray_driver import Alive, Broken, Close, Connect, Connected, Over, Role

_PROGRAM = "leaveout.ray_driver"

_QUIET = {"RAY_DISABLE_IMPORT_WARNING": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

_CONNECTING = 300.0
"""Seconds that it may take to start a cluster, or to be let into one, on a busy machine."""

_SILENT = 60.0
"""Seconds without a sign of life after which a cluster is taken to be lost."""

_ENDING = 20.0
"""Seconds that a cluster of one's own has to end."""

_WAKE = 0.5
"""Seconds after which a wait looks for Ctrl-C."""

_KNOCK = 10.0
"""Seconds that a head has to take a connection."""

_STORE = 256 * 2**20
"""Bytes of the object store of a cluster of one's own, beside what is shared."""


class RayLostError(Exception):
    """The cluster ended or stopped answering; the message is one line."""


def need_ray(missing: LeaveoutError) -> None:
    """Raise ``missing`` if the library is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise missing


def refuse_unreachable(kind: type[LeaveoutError]) -> None:
    """Raise if the host and port in ``RAY_ADDRESS`` cannot be reached."""
    given = os.environ.get("RAY_ADDRESS", "")
    host, _, port = given.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK).close()
    except OSError as error:
        raise kind(
            f"RAY_ADDRESS={given}: no cluster answers there ({error.strerror or error}); start "
            "one with 'ray start --head', or unset RAY_ADDRESS to use this machine's cores"
        ) from None


class RayDriver:
    """The process that talks to a cluster; a context that connects and ends it.

    The cluster is the one connected to, or in ``RAY_ADDRESS``; else one is started for the driver's
    lifetime.
    """

    def __init__(self, size: int | None, *, shared: int = 0) -> None:
        self.address = _address()
        self.cpus = self.gpus = 0
        self._heard = time.monotonic()
        self._until = self._heard + _CONNECTING
        self._is_connected = False
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._ended: str | None = None
        self._child = Child(_PROGRAM, settings={**_QUIET, **import_environment()})
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self.send(
            Connect(
                address=self.address,
                cpus=max(cores(), size or 0),
                store=_STORE + 3 * shared,
                variables=import_environment(),
            )
        )

    def __enter__(self) -> Self:
        try:
            self.connect(math.inf)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name of the cluster in messages."""
        return f"the Ray cluster at {self.address}" if self.address else "Ray on this machine"

    def connect(self, seconds: float) -> bool:
        """Wait until the cluster answers; return whether it does, else call again."""
        until = time.monotonic() + seconds
        while not self._is_connected:
            # Nothing is heard before it is connected.
            self._heard = now = time.monotonic()
            left = min(until, self._until) - now
            if isinstance(self.receive(max(0.0, min(left, _WAKE))), Connected):
                self._is_connected = True
            elif now >= self._until:
                raise RayLostError(f"{self.name} did not answer within {_CONNECTING:.0f} s")
            elif left <= 0:
                return False
        return True

    def serve(self, role: Role) -> None:
        """Give the process a role, replacing its current one."""
        self.dismiss()
        self.send(role)

    def dismiss(self) -> None:
        """End the process's role; it stays connected."""
        self.send(Over())

    def send(self, message: object) -> None:
        """Send the process a message; if lost, `receive` reports it."""
        try:
            self._child.send(message)
        except (OSError, ValueError):
            # Its last words may be on their way.
            self._reader.join(_WAKE)

    def receive(self, seconds: float) -> object | None:
        """Return the process's next message; None if there is none in time."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                message = self._inbox.get(timeout=max(0.0, min(left, _WAKE)))
            except queue.Empty:
                silent = time.monotonic() - self._heard
                if silent > _SILENT:
                    self._ended = f"{self.name} has not answered for {silent:.0f} s"
                    self._inbox.put(_LOST)
                elif left <= 0:
                    return None
                continue
            if message is _LOST:
                # Whoever asks again hears the same.
                self._inbox.put(_LOST)
                raise RayLostError(self._ended or f"{self.name} was lost")
            if isinstance(message, Broken):
                raise RayLostError(f"{self.name}: {message.why}")
            return message

    def close(self) -> None:
        """Disconnect from the cluster, and end it if it is our own."""
        if self._is_connected and self._ended is None:
            self.dismiss()
            self.send(Close())
            self._reader.join(_ENDING)
        self._end()

    def _end(self) -> None:
        self._child.end()
        self._reader.join(_WAKE)
        if not self._reader.is_alive():
            self._child.close()

    def _listen(self) -> None:
        try:
            while True:
                message = self._child.read(object)
                self._heard = time.monotonic()
                if isinstance(message, Alive):
                    self.cpus, self.gpus = message.cpus, message.gpus
                if type(message) is not Alive:
                    self._inbox.put(message)
        except Exception:
            # Whatever it is that cannot be read: nothing more will come.
            if self._ended is None:
                self._ended = f"{self.name} ended (its head, or its process on this machine)"
            self._inbox.put(_LOST)


_LOST = object()


def _address() -> str:
    """Return the address of the cluster; empty to start one."""
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    return os.environ.get("RAY_ADDRESS", "")

"""Connection to a Ray cluster, through a separate process that Ray may end."""

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

_CONNECTING = 300.0  # seconds allowed for starting or joining a cluster on a busy machine
_SILENT = 60.0  # seconds of silence after which a cluster counts as lost
_ENDING = 20.0  # seconds allowed for ending a cluster started here
_WAKE = 0.5  # seconds between a wait's checks for Ctrl-C
_KNOCK = 10.0  # seconds allowed for connecting to a head node
_STORE = 256 * 2**20  # bytes of the object store of a cluster started here, besides shared data


class RayLostError(Exception):
    """The cluster ended or stopped answering; the message is one line."""


def need_ray(missing: LeaveoutError) -> None:
    """Raise ``missing`` if the library is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise missing


def refuse_unreachable(kind: type[LeaveoutError]) -> None:
    """Raise if the address in ``RAY_ADDRESS`` cannot be reached."""
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
    """The process that talks to a cluster; a context manager that connects and ends it.

    It joins the running cluster or the one in ``RAY_ADDRESS``; if there is none, it starts one for
    its lifetime.
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
        """Wait for the cluster to answer; return False if it has not yet, to be called again."""
        until = time.monotonic() + seconds
        while not self._is_connected:
            # There is no sign of life before the connection.
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
            # It may have sent a reason just before it ended.
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
                # Later calls fail in the same way.
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
            # Whatever the error, no more messages will come.
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

"""Serving of a guard over HTTP, from one or several processes, until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging.config
import os
import re
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from leaveout.errors import GuardError
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.padding import Effort, Pace
from leaveout.verifier.guard.server_app import PATHS, measure, process_application, start_line
from leaveout.verifier.guard.server_gate import counter_count
from leaveout.verifier.guard.server_keys import Keys
from leaveout.verifier.guard.server_processes import Children, Shared, in_child
from leaveout.verifier.guard.server_settings import ServeSettings

_HEAD = 10.0
"""Seconds in which the head of a request must have come, once there is a part of it; and in which
the rest of a body must have come that was refused."""

MOST_CONNECTIONS = 4096  # of one process; further ones are closed

_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"\r?\n")


def ambiguity(received: bytes) -> str | None:
    """Return why servers could disagree on a request's end (RFC 9112, 5.2, 6.3, 11.2), or None."""
    received = received.lstrip(b"\r\n")
    end = _END.search(received)
    if end is None:
        return None
    _, *fields = _LINE.split(received[: end.start()])
    if any(field[:1] in (b" ", b"\t") for field in fields):
        return "a header is folded over several lines"
    times = Counter(field.partition(b":")[0].strip().lower() for field in fields)
    if times[b"content-length"] and times[b"transfer-encoding"]:
        return "both Content-Length and Transfer-Encoding are given"
    for name in ("Content-Length", "Transfer-Encoding", "Host"):
        if times[name.lower().encode()] > 1:
            return f"{name} is given more than once"
    return None


class StrictProtocol(H11Protocol):
    """uvicorn's protocol, made strict on ambiguous requests, waiting and connections."""

    _limit: asyncio.TimerHandle | None = None
    _begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            # A first request may be as long in coming as a next one.
            self._wait(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait(None)
        elif not self._begun:
            self._begun = True
            self._wait(_HEAD)

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        self._begun = False
        super().on_response_complete()
        if not self.cycle.response_complete:
            return
        self._begun = self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])
        self._wait(_HEAD if self._begun else None)

    def _wait(self, seconds: float | None) -> None:
        """Limit the wait for a head or the rest of a body."""
        if self._limit is not None:
            self._limit.cancel()
        self._limit = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._limit = None
        self.transport.close()

    def handle_events(self) -> None:
        """Handle events but of an ambiguous request; each begins after the last answer."""
        if self.conn.their_state is h11.IDLE:
            why = ambiguity(self.conn.trailing_data[0])
            if why is not None:
                # It ends the connection: where the next request begins is what is not known.
                self.send_400_response(f"Invalid HTTP request received: {why}.")
                return
        super().handle_events()


_EXPOSED = (
    "--host %s: anyone who can reach this machine may query it, over plain HTTP and without a "
    "password; put an authenticating proxy in front, pass --keys, or listen on 127.0.0.1"
)
_PLAIN = (
    "--host %s: keys and inputs are sent over plain HTTP, readable by anyone on the network "
    "path; put a TLS proxy in front"
)

_KEPT = 75  # seconds that a connection is kept for a next request: longer than proxies keep theirs
_BACKLOG = 2048  # connections that wait to be taken

_DESCRIPTORS = MOST_CONNECTIONS + 256

_log = logging.getLogger("leaveout.guard")


def serve(
    guard: Guard,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServeSettings | None = None,
) -> None:
    """Answer over HTTP until Ctrl-C or SIGTERM, finishing requests under way.

    The log on standard error has a line at the start and one per request, without questions,
    answers or keys.
    """
    settings = settings or ServeSettings()
    if settings.keys is not None:
        Keys(settings.keys)
    _allow_descriptors()
    with _open_socket(host, port) as listening:
        shared = Shared(settings.processes, counter_count())
        if settings.processes > 1:
            _serve_side_by_side(guard, settings, shared, host, listening)
            return
        pace = Pace(settings.pad, measure(guard)) if settings.pad else None
        app = process_application(guard, settings, pace, shared, host=host)
        _begin_log(host, listening, settings)
        address = _address(host, listening)
        line = start_line(guard, guard.account(), address, pace, settings.most_rows)
        _Server(app, settings, lambda: _log.info(line)).run(sockets=[listening])


def _serve_side_by_side(
    guard: Guard,
    settings: ServeSettings,
    shared: Shared,
    host: str,
    listening: socket.socket,
) -> None:
    account = guard.account()
    # SQLite's locks do not survive a fork, so that no connection may.
    guard.close()

    def measure_effort() -> bytes:
        """Return the worst-case effort as JSON."""
        with guard.reopen() as own:
            return msgspec.json.encode(measure(own))

    pace = None
    if settings.pad:
        effort = msgspec.json.decode(in_child(measure_effort), type=Effort)
        pace = Pace(settings.pad, effort, settings.processes)
    _begin_log(host, listening, settings)
    line = start_line(guard, account, _address(host, listening), pace, settings.most_rows)

    def work(index: int, ready: Callable[[], None], orphaned: int) -> None:
        with guard.reopen(shared.writing) as own:
            app = process_application(own, settings, pace, shared, index, host)
            own_socket = _OneAtATimeSocket(fileno=listening.detach())
            _Server(app, settings, ready, orphaned).run(sockets=[own_socket])

    Children(
        settings.processes,
        work,
        on_ready=lambda: _log.info(line),
        # Else connections would be taken for which nobody is there.
        on_end=listening.close,
        on_restart=shared.count_restart,
        patience=settings.drain + settings.grace,
    ).run()


class _OneAtATimeSocket(socket.socket):
    """Gives one connection at a time: asyncio would leave no backlog to other processes."""

    def listen(self, backlog: int = _BACKLOG, /) -> None:
        """Do nothing."""


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it answers and exits normally on signals."""

    def __init__(
        self,
        app: Starlette,
        settings: ServeSettings,
        on_ready: Callable[[], None],
        orphaned: int | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=StrictProtocol,
            ws="none",
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            log_config=None,
            timeout_keep_alive=_KEPT,
            backlog=_BACKLOG if orphaned is None else 1,
        )
        super().__init__(config)
        # Not rounded to whole seconds: it is given to asyncio as it is.
        config.timeout_graceful_shutdown = settings.grace  # type: ignore[assignment]
        self._app, self._drain = app, settings.drain
        self._on_ready, self._orphaned = on_ready, orphaned
        self._stop_at: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._orphaned is not None:
            asyncio.get_running_loop().add_reader(self._orphaned, self._end_orphan)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves the threads of the application to themselves
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Exit after requests under way; at once on a second Ctrl-C, which a parent passes on."""
        if sig == signal.SIGINT and (self._stop_at is not None or self._orphaned is not None):
            self.should_exit = self.force_exit = True
        elif self._stop_at is None:
            self._app.state.ending = True
            self._stop_at = time.monotonic() + self._drain
            self.should_exit = self._drain == 0

    def _end_orphan(self) -> None:
        """End because the parent is gone and nobody would restart this."""
        assert self._orphaned is not None
        asyncio.get_running_loop().remove_reader(self._orphaned)
        _log.error("the parent process has exited; exiting")
        # Whoever starts a server anew needs the port: new requests are not taken for ``drain``.
        self._app.state.ending = True
        self._stop_at, self.should_exit = time.monotonic(), True


def _begin_log(host: str, listening: socket.socket, settings: ServeSettings) -> None:
    """Log to standard error from now on, first of all who else can reach the server."""
    logging.config.dictConfig(_LOGGING)
    if not _is_loopback(listening):
        text = _EXPOSED if settings.keys is None else _PLAIN
        _log.warning(text, host or listening.getsockname()[0])


def _allow_descriptors() -> None:
    """Raise the limit of open descriptors as far as the system allows."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Where the protocol is not named, asyncio leaves Nagle's algorithm on: 40 ms an answer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise GuardError(
            f"cannot listen on {host}:{port}: {_reason(error)}; choose another --host or --port"
        ) from None
    return listening


def _is_loopback(listening: socket.socket) -> bool:
    """Return whether only this machine can reach the socket."""
    address = ipaddress.ip_address(listening.getsockname()[0].partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


class _KnownPaths(logging.Filter):
    """Keeps foreign paths and queries out of the log, since they may hold a key."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact uvicorn's record: client, method, path, version and status."""
        client, method, path, *others = record.args  # type: ignore[misc]
        own = str(path).partition("?")[0]
        record.args = (client, method, own if own in PATHS else "(another path)", *others)
        return True


_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "leaveout: %(message)s"},
        "access": {
            "()": "uvicorn.logging.AccessFormatter",
            "fmt": '%(asctime)s %(client_addr)s "%(request_line)s" %(status_code)s',
            "use_colors": False,
        },
    },
    "filters": {"paths": {"()": _KnownPaths}},
    "handlers": {
        "plain": {"class": "logging.StreamHandler", "formatter": "plain"},
        "access": {
            "class": "logging.StreamHandler",
            "formatter": "access",
            "filters": ["paths"],
        },
    },
    "loggers": {
        "leaveout.guard": {"handlers": ["plain"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["plain"], "level": "WARNING", "propagate": False},
        "uvicorn.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
    },
}

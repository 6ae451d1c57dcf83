"""HTTP/1.1 for a served guard, refusing requests with an ambiguous end."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEAD = 10.0
"""Seconds in which the head of a request must have come, once there is a part of it; and in which
the rest of a body must have come that was refused."""

MOST_CONNECTIONS = 4096
"""Of one process; further ones are closed."""

_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"\r?\n")


def ambiguity(received: bytes) -> str | None:
    """Return why two servers could disagree on a request's end, or None.

    Otherwise a body's rest could smuggle in an unchecked request (RFC 9112, 5.2, 6.3 and 11.2).
    """
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
        """Handle received events unless they begin an ambiguous request.

        A request is read after the previous answer, so each one is seen here first.
        """
        if self.conn.their_state is h11.IDLE:
            why = ambiguity(self.conn.trailing_data[0])
            if why is not None:
                # It ends the connection: where the next request begins is what is not known.
                self.send_400_response(f"Invalid HTTP request received: {why}.")
                return
        super().handle_events()

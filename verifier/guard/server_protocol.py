"""HTTP/1.1 for a served guard: requests whose end could be read in two ways are refused."""

from __future__ import annotations

import re
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["StrictProtocol", "ambiguity"]

_END = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"\r?\n")


def ambiguity(received: bytes) -> str | None:
    """Return why two servers could disagree on where a request ends, or None.

    What one of them takes for the rest of a body another takes for the next request, which then
    passes whatever the first one checks (RFC 9112, sections 5.2, 6.3 and 11.2).

    Parameters
    ----------
    received : bytes
        From the first byte of a request on. One whose head is not whole yet is not judged.
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
    """uvicorn's protocol, which by itself picks one of two readings as the standard lets it."""

    def handle_events(self) -> None:
        """Handle what was received, unless it begins with a request that is refused.

        A request is read after the answer to the one before, so that each is seen here first.
        """
        if self.conn.their_state is h11.IDLE:
            why = ambiguity(self.conn.trailing_data[0])
            if why is not None:
                # It ends the connection: where the next request begins is what is not known.
                self.send_400_response(f"Invalid HTTP request received: {why}.")
                return
        super().handle_events()

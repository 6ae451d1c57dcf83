"""Limits on request bodies: size, time and number at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from leaveout.verifier.guard.padding import BusyError
from leaveout.verifier.guard.server_questions import BadRequestError

_ARRIVAL = 30.0
"""Seconds in which a body must arrive."""

_MOST_HELD = 1 << 28
"""Bytes that a process holds at once; of one request always as many as it may have."""


class Bodies:
    """The request bodies held by a process."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body of a request, held until the context ends."""
        parts: list[bytes] = []
        try:
            await self._receive(request, parts)
            yield b"".join(parts)
        finally:
            self._held -= sum(map(len, parts))

    async def _receive(self, request: Request, parts: list[bytes]) -> None:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise BadRequestError(
                f"the content type is {kind or 'missing'}, expected application/json", 415
            )
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._most_bytes:
            raise self._too_large()
        size = 0
        try:
            async with asyncio.timeout(_ARRIVAL):
                async for part in request.stream():
                    size += len(part)
                    if size > self._most_bytes:
                        raise self._too_large()
                    parts.append(part)
                    self._held += len(part)
                    if self._held > max(_MOST_HELD, size):
                        raise BusyError("too much is being asked at once; try again later")
        except TimeoutError:
            raise BadRequestError(
                f"the body did not arrive within {_ARRIVAL:g} seconds", 408
            ) from None

    def _too_large(self) -> BadRequestError:
        return BadRequestError(
            f"the body is larger than {self._most_bytes:,} bytes; ask in parts", 413
        )

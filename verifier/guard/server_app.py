"""What a served guard answers to each HTTP request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from leaveout.errors import GuardError
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.memory import FullError, SpentError, UnusableError
from leaveout.verifier.guard.openapi import document
from leaveout.verifier.guard.padding import BusyError, Pace, Padding
from leaveout.verifier.guard.server_about import about
from leaveout.verifier.guard.server_effort import measure, warm_up
from leaveout.verifier.guard.server_messages import Answer, Answers, Failure, Health
from leaveout.verifier.guard.server_questions import BadRequestError, Inputs, read_question

__all__ = ["MOST_BYTES", "MOST_ROWS", "application"]

MOST_ROWS = 1000
MOST_BYTES = 1 << 20

_ARRIVAL = 30.0
"""Seconds in which a body must arrive."""

_LONGEST_ERROR = 500

_CLOSED = "the guard is closed and answers nothing"

_log = logging.getLogger("leaveout.guard")


def application(
    guard: Guard,
    *,
    pad: float | None,
    most_rows: int = MOST_ROWS,
    most_bytes: int = MOST_BYTES,
) -> Starlette:
    """Return an ASGI application that answers with labels: no scores, no tiers, no account.

    Parameters
    ----------
    guard : Guard
        Closed by the caller, once it serves no more.
    pad : float or None
        Seconds: label requests are answered, or refused, at a multiple after they were received;
        how many follows from their rows alone (see `Padding`). None or 0 answers at once.
    most_rows : int
        Inputs a request may have.
    most_bytes : int
        Its body may have.

    Returns
    -------
    Starlette
        Its ``state.pace`` is the `Pace` of its answers, or None.

    Raises
    ------
    GuardError
        If the pad or the memory cannot be used.

    Notes
    -----
    With a pad, how long answering takes at worst is measured first, on all cores; it takes up to
    some seconds. What padding can not hide is told in `Padding`.
    """
    pace = Pace(pad, measure(guard)) if pad else None
    if pace is None:
        warm_up(guard)
    padding = Padding(pace)
    service = _Service(guard, padding, most_rows, most_bytes)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        padding.start()
        yield
        padding.close()

    served = Starlette(
        routes=[
            Route("/label", service.label, methods=["POST"]),
            Route("/health", service.health, methods=["GET"]),
            Route("/about", service.about, methods=["GET"]),
            Route("/", service.about, methods=["GET"]),
            Route("/openapi.json", service.openapi, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    served.state.pace = pace
    return served


class _Service:
    """What each path answers."""

    def __init__(self, guard: Guard, padding: Padding, most_rows: int, most_bytes: int) -> None:
        self._guard, self._padding = guard, padding
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._document = msgspec.json.encode(document())
        self._told = False

    async def label(self, request: Request) -> Response:
        start = time.monotonic()
        try:
            body = await self._body(request)
            start = time.monotonic()
            if self._guard.closed:
                raise BadRequestError(_CLOSED, 503)
            inputs = read_question(body, self._most_rows)
            return await self._padding.run(start, len(inputs), lambda: self._answer(inputs))
        except ClientDisconnect:
            return Response(status_code=400)
        except BadRequestError as error:
            failure = _failure(str(error), error.status)
        except BusyError as error:
            failure = _failure(str(error), 503)
        except asyncio.CancelledError:  # the server is made to end at once
            return _failure("the server ends", 503)
        except Exception:
            failure = _fault()
        await self._padding.rest(start)
        return failure

    async def health(self, _: Request) -> Response:
        if self._guard.closed:
            return _json(msgspec.json.encode(Health("closed")), 503)
        return _json(msgspec.json.encode(Health("ok")))

    async def about(self, _: Request) -> Response:
        return _json(msgspec.json.encode(about(self._guard)))

    async def openapi(self, _: Request) -> Response:
        return _json(self._document)

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise BadRequestError(
                f"the content type is {kind or 'missing'}, expected application/json", 415
            )
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._most_bytes:
            raise self._too_large()
        parts, size = [], 0
        try:
            async with asyncio.timeout(_ARRIVAL):
                async for part in request.stream():
                    size += len(part)
                    if size > self._most_bytes:
                        raise self._too_large()
                    parts.append(part)
        except TimeoutError:
            raise BadRequestError(
                f"the body did not arrive within {_ARRIVAL:g} seconds", 408
            ) from None
        return b"".join(parts)

    def _too_large(self) -> BadRequestError:
        return BadRequestError(
            f"the body is larger than {self._most_bytes:,} bytes; ask in parts", 413
        )

    def _answer(self, inputs: Inputs) -> Response:
        """Answer in a thread; whatever happens, the response is ready when this returns."""
        try:
            points = inputs.encoded(self._guard)
            if inputs.single:
                return _json(self._one(self._guard.label(points[0])))
            return _json(self._several(self._guard.labels(points).tolist()))
        except (SpentError, FullError, UnusableError) as error:
            self._tell(error)
            return _failure(_CLOSED, 503)
        except GuardError as error:
            return _failure(str(error), 422)
        except Exception:
            return _fault()

    def _one(self, label: int) -> bytes:
        names = self._guard.names
        return msgspec.json.encode(Answer(label, names[label]) if names else Answer(label))

    def _several(self, labels: list[int]) -> bytes:
        names = self._guard.names
        if not names:
            return msgspec.json.encode(Answers(labels))
        return msgspec.json.encode(Answers(labels, [names[label] for label in labels]))

    def _tell(self, why: GuardError) -> None:
        if not self._told:
            self._told = True
            _log.error("closed: every label request is refused from now on: %s", why)


async def _refused(_: Request, error: Exception) -> Response:
    """Say what Starlette refuses, such as an unknown path, as all other failures are said."""
    assert isinstance(error, HTTPException)
    response = _failure(f"{error.detail.lower()}; see /openapi.json", error.status_code)
    response.headers.update(error.headers or {})
    return response


def _fault() -> Response:
    _log.exception("a label request failed")
    return _failure("the server failed; its log says why", 500)


def _failure(message: str, status: int) -> Response:
    line = " ".join(message.split())
    if len(line) > _LONGEST_ERROR:
        line = f"{line[: _LONGEST_ERROR - 4]} ..."
    response = _json(msgspec.json.encode(Failure(line)), status)
    if status == 503:
        response.headers["retry-after"] = "1"
    return response


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")

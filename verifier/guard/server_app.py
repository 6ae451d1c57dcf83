"""The answers of a served guard to HTTP requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from leaveout.errors import GuardError
from leaveout.verifier.guard.account import FullError, SpentError, UnusableError
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.openapi import document
from leaveout.verifier.guard.padding import BusyError, Pace, Padding
from leaveout.verifier.guard.server_about import about
from leaveout.verifier.guard.server_bodies import Bodies
from leaveout.verifier.guard.server_effort import measure, warm_up
from leaveout.verifier.guard.server_gate import Gate, Hosts, allowance_of, too_many
from leaveout.verifier.guard.server_keys import Keys
from leaveout.verifier.guard.server_messages import Answer, Answers, Failure, Health
from leaveout.verifier.guard.server_metrics import CONTENT_TYPE, Counts, counter_count
from leaveout.verifier.guard.server_page import HEADERS, page
from leaveout.verifier.guard.server_questions import BadRequestError, Inputs, read_question
from leaveout.verifier.guard.server_rates import Rates
from leaveout.verifier.guard.server_settings import MOST_BYTES, MOST_ROWS, ServeSettings
from leaveout.verifier.guard.server_shared import Shared

PATHS = ("/label", "/health", "/about", "/", "/metrics", "/openapi.json", "/docs")

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
    """Return an ASGI application that answers with labels only."""
    settings = ServeSettings(pad=pad or 0.0, most_rows=most_rows, most_bytes=most_bytes)
    pace = Pace(pad, measure(guard)) if pad else None
    return process_application(guard, settings, pace, Shared(1, counter_count()))


def process_application(
    guard: Guard,
    settings: ServeSettings,
    pace: Pace | None,
    shared: Shared,
    index: int = 0,
    host: str | None = None,
) -> Starlette:
    """Return the application of one process; see `application`."""
    warm_up(guard)
    counts = Counts(shared, index, pace)
    waiting = max(1, settings.most_waiting // settings.processes)
    padding = Padding(pace, waiting=waiting, on_waiting=counts.set_waiting)
    service = _Service(guard, padding, settings, shared, counts)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        padding.start()
        yield
        padding.close()

    keys = None if settings.keys is None else Keys(settings.keys)
    rate = settings.rate
    rates = None if rate is None else Rates(rate, settings.allowance, shared)
    hosts = None if host is None else Hosts(host, settings.hosts)
    asked = (
        service.label,
        service.health,
        service.about,
        service.about,
        service.metrics,
        service.openapi,
        service.docs,
    )
    app = Starlette(
        routes=[
            Route(path, answer, methods=["POST" if path == "/label" else "GET"])
            for path, answer in zip(PATHS, asked, strict=True)
        ],
        middleware=[Middleware(Gate, counts=counts, keys=keys, rates=rates, hosts=hosts)],
        exception_handlers={HTTPException: _http_failure},
        lifespan=lifespan,
    )
    app.state.pace, app.state.ending = pace, False
    return app


class _Service:
    """The handlers of all paths."""

    def __init__(
        self,
        guard: Guard,
        padding: Padding,
        settings: ServeSettings,
        shared: Shared,
        counts: Counts,
    ) -> None:
        self._guard, self._padding, self._shared, self._counts = guard, padding, shared, counts
        self._most_rows, self._bodies = settings.most_rows, Bodies(settings.most_bytes)
        described = document()
        self._document, self._page = msgspec.json.encode(described), page(described)
        self._told = False
        if guard.closed:
            shared.close()

    @property
    def _is_closed(self) -> bool:
        """Whether this guard or another process's is closed."""
        return self._guard.closed or self._shared.any_closed

    async def label(self, request: Request) -> Response:
        start = time.monotonic()
        try:
            async with self._bodies.read(request) as body:
                start = time.monotonic()
                return await self._label(request, body, start)
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

    async def _label(self, request: Request, body: bytes, start: float) -> Response:
        if self._is_closed:
            raise BadRequestError(_CLOSED, 503)
        inputs = read_question(body, self._most_rows)
        # One was taken off when it came.
        wait = allowance_of(request.state).spend(len(inputs) - 1) if len(inputs) > 1 else 0.0
        if wait:
            await self._padding.rest(start)
            return too_many(wait)
        response = await self._padding.run(start, len(inputs), lambda: self._answer(inputs))
        if response.status_code == 200:
            self._counts.rows(len(inputs))
        return response

    async def health(self, request: Request) -> Response:
        if self._is_closed:
            return _json(msgspec.json.encode(Health("closed")), 503)
        if request.app.state.ending:
            return _json(msgspec.json.encode(Health("ending")), 503)
        return _json(msgspec.json.encode(Health("ok")))

    async def about(self, _: Request) -> Response:
        return _json(msgspec.json.encode(about(self._guard)))

    async def openapi(self, _: Request) -> Response:
        return _json(self._document)

    async def docs(self, _: Request) -> Response:
        return HTMLResponse(self._page, headers=HEADERS)

    async def metrics(self, _: Request) -> Response:
        return Response(self._counts.text(), media_type=CONTENT_TYPE)

    def _answer(self, inputs: Inputs) -> Response:
        """Answer in a thread; return only when a response is ready."""
        try:
            points = inputs.encode(self._guard)
            if inputs.single:
                return _json(self._one(self._guard.label(points[0])))
            return _json(self._several(self._guard.labels(points).tolist()))
        except (SpentError, FullError, UnusableError) as error:
            self._shared.close()
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


async def _http_failure(_: Request, error: Exception) -> Response:
    """Return Starlette's refusals, such as unknown paths, in our format."""
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

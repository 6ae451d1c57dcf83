"""The answers of a served guard to HTTP requests."""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import UnsetType
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from leaveout.cores import cores
from leaveout.deadline import Deadline
from leaveout.errors import GuardError
from leaveout.models.train.encoding import CategoryColumn
from leaveout.names import hint
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.memory import Account, FullError, SpentError, UnusableError
from leaveout.verifier.guard.padding import BusyError, Effort, Pace, Padding
from leaveout.verifier.guard.server_api import (
    About,
    Answer,
    Answers,
    BoxFacts,
    Cell,
    Column,
    Failure,
    Health,
    ListedValues,
    Question,
    document,
)
from leaveout.verifier.guard.server_gate import (
    CONTENT_TYPE,
    Counts,
    Gate,
    Hosts,
    Rates,
    allowance_of,
    counter_count,
    too_many,
)
from leaveout.verifier.guard.server_keys import Keys
from leaveout.verifier.guard.server_processes import Shared
from leaveout.verifier.guard.server_settings import MOST_BYTES, MOST_ROWS, ServeSettings

_FORMS = 'send exactly one of "x" or "row" for one input, "X" or "rows" for several'


class BadRequestError(GuardError):
    """A request that no subject could answer."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a request."""

    single: bool  # whether one answer is expected rather than a list of them
    points: Sequence[Sequence[float]] | None  # as the model reads them
    rows: Sequence[Mapping[str, Cell]] | None  # in the table's own units

    def __len__(self) -> int:
        return len(self.rows if self.points is None else self.points)  # type: ignore[arg-type]

    def encode(self, guard: Guard) -> NDArray[np.floating]:
        """Return the inputs as the model reads them, shape (n, inputs)."""
        if self.points is not None:
            for at, point in enumerate(self.points):
                if len(point) != guard.inputs:
                    what = "x" if self.single else f"input {at} of X"
                    raise GuardError(
                        f"{what} has {len(point)} numbers, expected {guard.inputs}, one per feature"
                    )
            return np.asarray(self.points, np.float64)
        assert self.rows is not None
        known = _columns(guard)
        for at, row in enumerate(self.rows):
            for name in row:
                if name not in known:
                    raise GuardError(f"row {at}: no column {name!r}{hint(name[:100], known)}")
        return guard.encode(self.rows)


def read_question(body: bytes, most_rows: int) -> Inputs:
    """Read the body of a request."""
    try:
        question = msgspec.json.decode(body, type=Question)
        _refuse_repeated_keys(body)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{error}; {_FORMS}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body is not valid JSON: {error}", 400) from None
    forms = {name: getattr(question, name) for name in ("x", "row", "X", "rows")}
    given = [name for name, form in forms.items() if not isinstance(form, UnsetType)]
    if len(given) != 1:
        raise BadRequestError(f"{len(given)} of the four forms were sent; {_FORMS}")
    single = given[0] in ("x", "row")
    several = [forms[given[0]]] if single else forms[given[0]]
    inputs = Inputs(single, *((several, None) if given[0] in ("x", "X") else (None, several)))
    if not len(inputs):
        raise BadRequestError("no inputs were sent; send at least one")
    if len(inputs) > most_rows:
        raise BadRequestError(
            f"{len(inputs):,} inputs were sent, but at most {most_rows:,} are answered at once; "
            "split the request",
            413,
        )
    return inputs


def _refuse_repeated_keys(body: bytes) -> None:
    """Raise on JSON with repeated keys, which readers resolve differently."""

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise BadRequestError("an object has a duplicate key")
        return found

    # Numbers stay as they are written: no more than the keys is read.
    json.loads(body, object_pairs_hook=distinct, parse_int=str, parse_float=str)


def _columns(guard: Guard) -> frozenset[str]:
    encoding = guard.encoding
    if encoding is None:
        return frozenset(guard.features)
    return frozenset(encoding.needed_columns)


_ARRIVAL = 30.0  # seconds in which a body must arrive

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
                        raise BusyError("too many requests at once; try again later")
        except TimeoutError:
            raise BadRequestError(
                f"the body did not arrive within {_ARRIVAL:g} seconds", 408
            ) from None

    def _too_large(self) -> BadRequestError:
        return BadRequestError(
            f"the body is larger than {self._most_bytes:,} bytes; split the request", 413
        )


_MOST_LISTED = 1000  # numbers that a description lists of the values of some features


def about(guard: Guard) -> About:
    """Return the public description, without ranges of numbers, which are private."""
    box, encoding = guard.box, guard.encoding
    return About(
        features=list(guard.features),
        columns=[] if encoding is None else [
            Column(each.name, "category", list(each.categories))
            if isinstance(each, CategoryColumn)
            else Column(each.name, "number")
            for each in encoding.columns
            if each.name in encoding.needed_columns
        ],
        labels=guard.subject.labels,
        names=list(guard.names),
        box=None if box is None else BoxFacts(
            lower=box.lower.tolist(),
            upper=box.upper.tolist(),
            listed=[
                ListedValues(
                    each.columns.tolist(),
                    each.values[: max(1, _MOST_LISTED // len(each.columns))].tolist(),
                    len(each.values),
                )
                for each in box.choices
            ],
        ),
        outside=guard.settings.outside,
        members=guard.members,
        epsilon=guard.settings.epsilon,
        promise=_promise(guard),
    )  # fmt: skip


def start_line(
    guard: Guard, account: Account, address: str, pace: Pace | None, most_rows: int
) -> str:
    """Return the line for the owner at the start, who alone may see what was spent."""
    settings = guard.settings
    cap = "no cap" if settings.cap is None else f"cap {settings.cap:g}"
    timing = "answers are sent immediately, so their timing reveals how they were found"
    if pace is not None:
        timing = (
            f"1 input is answered after {pace.seconds(1):g} s, {most_rows:,} after "
            f"{pace.seconds(most_rows):g} s, {pace.places * pace.processes} at once"
        )
        if pace.processes > 1:
            timing += f" in {pace.processes} processes"
    closed = "; it is closed and answers nothing" if guard.is_closed else ""
    return (
        f"{address} answers for {guard.members:,} members over {guard.subject.domain.words}; "
        f"epsilon = {settings.epsilon:g} per noised answer; {account.answers:,} noised so far at "
        f"a cost of {account.epsilon:g}, {cap}; {timing}{closed}"
    )


def _which(guard: Guard) -> str:
    """Return what a training point is, if it is all rows of a group."""
    return f" (each is {guard.subject.group})" if guard.subject.group else ""


def _promise(guard: Guard) -> str:
    noised = (
        f"drawn so that none of them changes the chance of any label by more than a factor of "
        f"exp({guard.settings.epsilon:g})"
    )
    which, outside = "For every input of finite numbers", ""
    if guard.box is not None:
        which = "For every input in the box"
        outside = (
            "; inputs outside the box are answered with such a draw"
            if guard.settings.outside == "noise"
            else "; inputs outside the box are refused"
        )
    return (
        f"{which}, the answer is the same if any one of {guard.members:,} training points"
        f"{_which(guard)} is left out, or it is {noised}; drawn answers are stored and "
        f"repeated, and the epsilons of different ones add up{outside}."
    )


_INPUTS = 16  # tried; the one that takes longest counts
_REPEATS = 3  # of each input; the quickest counts, since a slow one may be another program's doing

_COMMITS = 9

_LONGEST = 2.0  # seconds of trying, once each core has tried one input


def warm_up(guard: Guard) -> None:
    """Compile and load everything, so no first answer is slow; answer nothing."""
    guard.rehearse(_sample_inputs(guard, 2))


def measure(guard: Guard) -> Effort:
    """Measure the most work of an answer, on all cores at once; answer nothing."""
    warm_up(guard)
    threads = cores()
    inputs = _sample_inputs(guard, _INPUTS)
    nothing = inputs[:0]
    commit = statistics.median(_seconds(guard, nothing) for _ in range(_COMMITS))
    with ThreadPoolExecutor(threads) as pool:
        slowest = pool.map(lambda _: _slowest(guard, inputs), range(threads))
        row = max(slowest) - commit
    return Effort(max(row, 0.0), commit, threads)


def _slowest(guard: Guard, inputs: NDArray[Any]) -> float:
    slowest, deadline = 0.0, Deadline.after(_LONGEST)
    for x in inputs:
        slowest = max(slowest, min(_seconds(guard, x[None]) for _ in range(_REPEATS)))
        if deadline.over:
            break
    return slowest


def _seconds(guard: Guard, X: NDArray[Any]) -> float:
    start = time.perf_counter()
    guard.rehearse(X)
    return time.perf_counter() - start


def _sample_inputs(guard: Guard, count: int) -> NDArray[Any]:
    return guard.subject.sample(np.random.default_rng(0), count)


PATHS = ("/label", "/health", "/about", "/", "/metrics", "/openapi.json")

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
        self._document = msgspec.json.encode(document())
        self._told = False
        if guard.is_closed:
            shared.close()

    @property
    def _is_closed(self) -> bool:
        """Whether this guard or another process's is closed."""
        return self._guard.is_closed or self._shared.any_closed

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
            return _failure("the server is shutting down", 503)
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
    return _failure("internal error; see the server's log", 500)


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

"""Checks before any request is read: counting, key and rate."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.datastructures import State
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaveout.verifier.guard.padding import Pace
from leaveout.verifier.guard.server_api import Failure
from leaveout.verifier.guard.server_keys import Keys
from leaveout.verifier.guard.server_processes import SLOTS, Shared

_CALLS = 10.0
"""Requests a second, at least, that an asker may send to other paths than that of labels."""

_TRIES = 32  # slots that are looked at for one asker


class Rates:
    """Shared allowances of askers: admitted while anything is left, then charged in full."""

    def __init__(self, rate: float, allowance: float, shared: Shared) -> None:
        self._rate, self._allowance, self._shared = rate, allowance, shared

    def call(self, who: str) -> float:
        """Charge another request than for labels, a row or less, to its own; see `spend`."""
        return self.spend(f"{who} elsewhere", min(1.0, self._rate / _CALLS))

    def spend(self, who: str, rows: float) -> float:
        """Subtract rows from an allowance."""
        digest = hashlib.blake2b(who.encode(), key=self._shared.salt, digest_size=8).digest()
        known = int.from_bytes(digest, "big") or 1
        now = time.monotonic()
        with self._shared.rating:
            slot = self._slot(known, now)
            bucket = self._shared.buckets[slot]
            if int(bucket["who"]) != known:
                bucket["who"], bucket["left"], bucket["at"] = known, self._allowance, now
            left = self._rows_left(slot, now)
            taken = left > 0
            bucket["left"] = left - rows if taken else left
            bucket["at"] = now
        return 0.0 if taken else max(-left / self._rate, 1e-3)

    def _rows_left(self, slot: int, now: float) -> float:
        """Return what is left in a slot's bucket."""
        bucket = self._shared.buckets[slot]
        gained = (now - float(bucket["at"])) * self._rate
        return min(self._allowance, float(bucket["left"]) + gained)

    def _slot(self, known: int, now: float) -> int:
        """Return an asker's slot, else a free one, else a shared one."""
        free = None
        for step in range(_TRIES):
            slot = (known + step) % SLOTS
            who = int(self._shared.buckets["who"][slot])
            if who == known:
                return slot
            if free is None and (not who or self._rows_left(slot, now) >= self._allowance):
                free = slot
        if free is not None:
            return free
        slot = known % SLOTS
        self._shared.buckets["who"][slot] = known
        return slot


def neighbourhood(address: str) -> str:
    """Return the identity of an asker without a key: for IPv6, its /64 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATUSES = (200, 400, 401, 404, 405, 408, 413, 415, 422, 429, 500, 503, 0)
_PATHS = ("/label", "other")
_REQUESTS = len(_STATUSES) * len(_PATHS)
_ROWS, _BYTES, _IN_FLIGHT, _WAITING = range(_REQUESTS, _REQUESTS + 4)


def counter_count() -> int:
    """Return how many numbers a process counts."""
    return _REQUESTS + 4


class Counts:
    """The counters of one process in shared memory, and the sums over all.

    Safe to publish: requests by status, rows and bytes in. Never tiers, noise, epsilon, seconds,
    bytes out (label names vary) or askers.
    """

    def __init__(self, shared: Shared, index: int, pace: Pace | None) -> None:
        self._shared, self._pace = shared, pace
        self._own = shared.counts[index]
        # What the process before had under way died with it.
        self._own[[_IN_FLIGHT, _WAITING]] = 0

    def begin(self) -> None:
        """Count a new request."""
        self._own[_IN_FLIGHT] += 1

    def end(self, path: str, status: int) -> None:
        """Count an answered request, or status 0 if its asker is gone."""
        self._own[_IN_FLIGHT] -= 1
        kind = _STATUSES.index(status if status in _STATUSES else 0)
        self._own[kind + len(_STATUSES) * (path != "/label")] += 1

    def rows(self, count: int) -> None:
        """Count answered rows."""
        self._own[_ROWS] += count

    def bytes(self, count: int) -> None:
        """Count received body bytes."""
        self._own[_BYTES] += count

    def set_waiting(self, count: int) -> None:
        """Store how many requests wait for their turn."""
        self._own[_WAITING] = count

    def text(self) -> str:
        """Return all counters in the Prometheus text format."""
        sums = self._shared.counts.sum(axis=0).tolist()
        requests = [
            (f'{{path="{path}",status="{status or "none"}"}}', sums[at * len(_STATUSES) + kind])
            for at, path in enumerate(_PATHS)
            for kind, status in enumerate(_STATUSES)
        ]
        seconds, places = (
            (self._pace.pad, self._pace.places * self._pace.processes) if self._pace else (0, 0)
        )
        shared = self._shared
        return "".join(
            [
                _metric("requests_total", "counter", "Requests, by status.", *requests),
                _one("rows_answered_total", "counter", "Rows answered.", sums[_ROWS]),
                _one("request_bytes_total", "counter", "Bytes of bodies received.", sums[_BYTES]),
                _one("requests_in_flight", "gauge", "Requests in progress.", sums[_IN_FLIGHT]),
                _one("requests_waiting", "gauge", "Requests waiting for a slot.", sums[_WAITING]),
                _one("processes", "gauge", "Processes that answer.", len(shared.counts)),
                _one("process_restarts_total", "counter", "Processes restarted.", shared.restarts),
                _one(
                    "closed",
                    "gauge",
                    "1 once the guard refuses everything.",
                    int(shared.any_closed),
                ),
                _one("places", "gauge", "Requests answered concurrently; 0 if unpadded.", places),
                _one("pad_seconds", "gauge", "Answers are sent at multiples of it.", seconds),
                _one("start_time_seconds", "gauge", "Start time.", round(shared.started)),
            ]
        )


def _one(name: str, kind: str, words: str, value: float) -> str:
    return _metric(name, kind, words, ("", value))


def _metric(name: str, kind: str, words: str, *samples: tuple[str, float]) -> str:
    full = f"leaveout_guard_{name}"
    lines = [f"{full}{labels} {value!r}\n" for labels, value in samples]
    return f"# HELP {full} {words}\n# TYPE {full} {kind}\n{''.join(lines)}"


FREE = frozenset(("/health", "/openapi.json"))
"""What needs no key: it is the same whatever is served."""

_LEAVING = 30.0
"""Seconds in which a response must have left: who reads none of it holds no memory for ever."""


class Allowance:
    """What the asker of a request may still ask for."""

    def __init__(self, rates: Rates | None, who: str) -> None:
        self._rates, self._who = rates, who

    def spend(self, rows: int) -> float:
        """Subtract rows; see `Rates.spend`."""
        return 0.0 if self._rates is None else self._rates.spend(self._who, rows)


class Hosts:
    """The host names under which a server may be asked, against DNS rebinding by a web page."""

    def __init__(self, bound: str, names: Sequence[str] = ()) -> None:
        self._names = {name.lower().rstrip(".") for name in ("localhost", bound, *names)}
        address = _address(bound)
        self._any_address = not bound or (address is not None and address.is_unspecified)

    def knows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request names one of the hosts."""
        if "*" in self._names:
            return True
        given = [value for name, value in headers if name == b"host"]
        if len(given) != 1:
            return False
        host = given[0].decode("latin-1").strip().lower()
        if host.startswith("["):
            host = host[1:].partition("]")[0]
        elif host.count(":") == 1:
            host = host.partition(":")[0]
        address = _address(host)
        if address is not None:
            return self._any_address or address.is_loopback or host in self._names
        return host.rstrip(".") in self._names


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


class Gate:
    """Refuses hosts, keys and excess rates before a body is read; counts requests."""

    def __init__(
        self,
        app: ASGIApp,
        counts: Counts,
        keys: Keys | None = None,
        rates: Rates | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        self._app, self._counts, self._keys, self._rates = app, counts, keys, rates
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def receive_counted() -> Message:
            """Receive a message and count its bytes."""
            message = await receive()
            self._counts.bytes(len(message.get("body", b"")))
            return message

        async def send_in_time(message: Message) -> None:
            """Send a message within the time limit."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            async with asyncio.timeout(_LEAVING):
                await send(message)

        self._counts.begin()
        try:
            answer = self._refusal(scope) or self._app
            await answer(scope, receive_counted, send_in_time)
        except TimeoutError:
            status = 0
        finally:
            self._counts.end(scope["path"], status)

    def _refusal(self, scope: Scope) -> Response | None:
        if self._hosts is not None and not self._hosts.knows(scope["headers"]):
            return _refuse(
                "this host name is not allowed; the operator can add it with --allow-host",
                421,
                {},
            )
        who = neighbourhood((scope.get("client") or ("",))[0])
        path = scope["path"]
        if self._keys is not None and path not in FREE:
            holder = self._keys.holder(scope["headers"])
            if holder is None:
                return _refuse(
                    "a key is missing or unknown; send Authorization: Bearer KEY",
                    401,
                    {"www-authenticate": "Bearer"},
                )
            who = f"key {holder}"
        if path == "/label":
            allowance = Allowance(self._rates, who)
            scope.setdefault("state", {})["allowance"] = allowance
            seconds = allowance.spend(1)
        else:
            seconds = 0.0 if self._rates is None else self._rates.call(who)
        return too_many(seconds) if seconds else None


def allowance_of(state: State) -> Allowance:
    """Return the remaining allowance of a request's asker."""
    found: Any = state.allowance
    assert isinstance(found, Allowance)
    return found


def too_many(seconds: float) -> Response:
    """Return the response that asks to wait ``seconds``."""
    wait = math.ceil(seconds)
    return _refuse(f"rate limit exceeded; try again in {wait} s", 429, {"retry-after": str(wait)})


def _refuse(error: str, status: int, headers: dict[str, str]) -> Response:
    content = msgspec.json.encode(Failure(error))
    return Response(content, status, headers, media_type="application/json")

"""Checks before any request is read: counting, key and rate."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.datastructures import State
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leaveout.verifier.guard.server_keys import Keys
from leaveout.verifier.guard.server_messages import Failure
from leaveout.verifier.guard.server_metrics import Counts
from leaveout.verifier.guard.server_rates import Rates, neighbourhood

FREE = frozenset(("/health", "/docs", "/openapi.json"))
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
    """The host names under which a server may be asked.

    Guards against DNS rebinding: a web page whose name points here could otherwise read answers.
    """

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
    """Refuses unknown hosts, missing keys and excess rates; counts all requests.

    It acts before a body is read and never depends on the question, so its refusals need no
    padding.
    """

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
                "this server is not known under that name; whoever runs it adds it with "
                "--allow-host",
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
    return _refuse(
        f"too many rows were asked for; ask again in {wait} s", 429, {"retry-after": str(wait)}
    )


def _refuse(error: str, status: int, headers: dict[str, str]) -> Response:
    """Return a refusal."""
    content = msgspec.json.encode(Failure(error))
    return Response(content, status, headers, media_type="application/json")

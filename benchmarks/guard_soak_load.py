"""What clients of a served guard ask, over and over, and what they were told."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leaveout.deadline import Deadline
from leaveout.verifier.guard import Guard

__all__ = ["Inputs", "Request", "Tally", "client", "find_inputs", "requests"]

INVALID = (
    (b'{"x": [NaN]}', 400),
    (b'{"x": [', 400),
    (b'{"x": "0"}', 422),
    (b'{"x": []}', 422),
    (b"{}", 422),
    (b'{"x": [true]}', 422),
    (b'{"scores": [0]}', 422),
    (b'{"X": [[0], [0, 0, 0, 0, 0]]}', 422),
)

JSON = {"content-type": "application/json"}
BREAKS = (OSError, http.client.HTTPException)
TRIED = 1000
"""Inputs that are looked at together in the search for leaks."""

BARREN = 20
"""Rounds of them in which no leak is found, after which there are taken to be none to find."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Distinct inputs in the box, and what the owner knows of them."""

    points: NDArray[np.float32]
    labels: NDArray[np.int64]
    tiers: NDArray[np.int64]


@dataclass(frozen=True)
class Request:
    """One request: a body, what status it must have, and which inputs it asks about."""

    body: bytes
    status: int
    inputs: tuple[int, ...]
    path: str = "/label"


@dataclass
class Tally:
    """What all clients saw; each method may be called from any thread."""

    answers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    asked: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    seconds: list[tuple[int, float]] = field(default_factory=list)
    done: int = 0
    retries: int = 0
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, request: Request) -> None:
        """Note that inputs were asked for, whether or not an answer comes."""
        with self.lock:
            self.asked.update(request.inputs)

    def received(self, request: Request, status: int, body: bytes, took: float, tier: int) -> None:
        """Note a whole response, and what is wrong with it."""
        fault, found = judge(request, status, body)
        with self.lock:
            self.done += 1
            if fault:
                self.wrong.append(f"{request.path} {request.body[:60]!r}: {fault}")
            for index, label in zip(request.inputs, found, strict=False):
                self.answers[index].add(label)
            if tier:
                self.seconds.append((tier, took))

    def turned_away(self) -> None:
        """Note an answer that says to ask again later; it is asked again."""
        with self.lock:
            self.busy += 1

    def broken(self) -> None:
        """Note a connection that broke; its request is sent again."""
        with self.lock:
            self.retries += 1


def judge(request: Request, status: int, body: bytes) -> tuple[str, list[int]]:
    """Return what is wrong with a response, and the labels in it."""
    if status != request.status:
        return f"status {status}, expected {request.status}: {body[:200]!r}", []
    said = json.loads(body)
    if request.path != "/label":
        return ("" if said == {"status": "ok"} else f"it said {said}"), []
    if status != 200:
        return ("" if set(said) == {"error"} else f"keys {sorted(said)}"), []
    several = b'"X"' in request.body
    key, name = ("labels", "names") if several else ("label", "name")
    if not {key} <= set(said) <= {key, name}:
        return f"keys {sorted(said)}", []
    labels = said[key] if several else [said[key]]
    if len(labels) != len(request.inputs) or not all(type(each) is int for each in labels):
        return f"labels {labels}", []
    return "", labels


def find_inputs(
    guard: Guard,
    rows: NDArray[np.float32],
    leaks: int,
    seed: int,
    *,
    seconds: float = 60.0,
    say: Callable[[str], object] = lambda _: None,
) -> Inputs:
    """Return rows that lie in the box, and leaks: found at random, then near those found.

    A family may leak nowhere, or so seldom that no search at random finds a leak. So it ends
    once enough are found, `BARREN` rounds went by without one, or the time is over, and says
    which; a soak goes on with those there are.

    Parameters
    ----------
    guard : Guard
    rows : ndarray of float32, shape (n, d)
    leaks : int
        How many to look for.
    seed : int
    seconds : float
        After which to look no further.
    say : callable
        Told what is found.
    """
    rng = np.random.default_rng(seed)
    inside = rows[guard.box.contains(rows.astype(np.float64))]
    found = list(inside[guard.inspect(inside).leaks]) if len(inside) else []
    deadline, tried, barren = Deadline.after(seconds), 0, 0
    while len(found) < leaks and barren < BARREN and not deadline.over:
        sample = guard.box.sample(rng, TRIED)
        if found:
            near = np.asarray(found)[rng.integers(len(found), size=TRIED // 2)]
            # Near a leak at several distances: where members disagree may be a thin sheet.
            width = 10.0 ** rng.uniform(-4, -1.5, size=(len(near), 1))
            moved = near + width * (guard.box.upper - guard.box.lower) * rng.normal(size=near.shape)
            sample[: len(near)] = guard.box.nearest(moved)
        points = sample.astype(np.float32)
        points = points[guard.box.contains(points.astype(np.float64))]
        new = points[guard.inspect(points).leaks]
        found.extend(new)
        tried += len(points)
        barren = 0 if len(new) else barren + 1
    if len(found) < leaks:
        why = "time is over" if deadline.over else f"none among the last {BARREN * TRIED:,}"
        say(f"{len(found):,} leaks found of {leaks:,}: {tried:,} inputs tried, {why}; going on")
    points = np.concatenate([inside, np.asarray(found[:leaks]).reshape(-1, guard.inputs)])
    # -0.0 is the same input as 0.0.
    points = np.unique((points + np.float32(0)).astype(np.float32), axis=0)
    known = guard.inspect(points)
    return Inputs(points, known.labels, known.tiers)


def requests(inputs: Inputs, count: int, seed: int) -> list[Request]:
    """Return requests in the order they are sent: inputs are drawn again and again."""
    rng = np.random.default_rng(seed)
    leaks, others = np.flatnonzero(inputs.tiers == 3), np.flatnonzero(inputs.tiers != 3)
    made = []
    for kind in rng.random(count):
        if kind < 0.02:
            made.append(Request(b"", 200, (), "/health"))
        elif kind < 0.08:
            body, status = INVALID[rng.integers(len(INVALID))]
            made.append(Request(body, status, ()))
        elif kind < 0.1:
            outside = np.full(inputs.points.shape[1], 1e6)
            made.append(Request(_json("x", outside.tolist()), 422, ()))
        else:
            several = kind < 0.2
            pool = [
                _one_of(rng, leaks, others) for _ in range(rng.integers(1, 7) if several else 1)
            ]
            points = inputs.points[pool].tolist()
            body = _json("X", points) if several else _json("x", points[0])
            made.append(Request(body, 200, tuple(pool)))
    return made


def _one_of(rng: np.random.Generator, leaks: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """Draw an input, a leak as often as not; a few of each are drawn most of the time."""
    pool = leaks if len(leaks) and (rng.random() < 0.5 or not len(others)) else others
    return int(pool[int(len(pool) * rng.random() ** 3)])


def _json(key: str, value: object) -> bytes:
    return json.dumps({key: value}).encode()


def client(
    work: Callable[[], Request | None], port: int, inputs: Inputs, tally: Tally, patience: float
) -> None:
    """Send requests until none is left, each again and again until it is answered.

    Parameters
    ----------
    work : callable
        Gives the next request.
    port : int
    inputs : Inputs
    tally : Tally
    patience : float
        Seconds to try one request.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    while (request := work()) is not None:
        tier = _tier(inputs, request.inputs, request.body)
        until = Deadline.after(patience)
        while True:
            try:
                if connection.sock is None:
                    connection.connect()
                    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                tally.sent(request)
                start = time.perf_counter()
                if request.path == "/label":
                    connection.request("POST", request.path, request.body, JSON)
                else:
                    connection.request("GET", request.path)
                response = connection.getresponse()
                body = response.read()
                if response.status == 503 and b"closed" not in body and not until.over:
                    tally.turned_away()
                    time.sleep(0.1)
                    continue
                tally.received(request, response.status, body, time.perf_counter() - start, tier)
                break
            except BREAKS as error:
                connection.close()
                tally.broken()
                if until.over:
                    with tally.lock:
                        tally.wrong.append(f"no answer in {patience:g} s: {error!r}")
                    return
                time.sleep(0.1)
    with contextlib.suppress(OSError):
        connection.close()


def _tier(inputs: Inputs, asked: Sequence[int], body: bytes) -> int:
    """Return the tier of a request for one input; 0 for others."""
    return int(inputs.tiers[asked[0]]) if asked and b'"X"' not in body else 0

"""Prometheus counters of a server, with nothing that the guard hides."""

from __future__ import annotations

from leaveout.verifier.guard.padding import Pace
from leaveout.verifier.guard.server_shared import Shared

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
                _one("requests_in_flight", "gauge", "Requests under way.", sums[_IN_FLIGHT]),
                _one("requests_waiting", "gauge", "Those that wait for a place.", sums[_WAITING]),
                _one("processes", "gauge", "Processes that answer.", len(shared.counts)),
                _one("process_restarts_total", "counter", "Processes restarted.", shared.restarts),
                _one("closed", "gauge", "1 once everything is refused.", int(shared.any_closed)),
                _one("places", "gauge", "Requests worked on at once; 0: unpadded.", places),
                _one("pad_seconds", "gauge", "Answers leave at multiples of it.", seconds),
                _one("start_time_seconds", "gauge", "When it started.", round(shared.started)),
            ]
        )


def _one(name: str, kind: str, words: str, value: float) -> str:
    return _metric(name, kind, words, ("", value))


def _metric(name: str, kind: str, words: str, *samples: tuple[str, float]) -> str:
    full = f"leaveout_guard_{name}"
    lines = [f"{full}{labels} {value!r}\n" for labels, value in samples]
    return f"# HELP {full} {words}\n# TYPE {full} {kind}\n{''.join(lines)}"

"""Rate limits per asker: a bucket of rows that fills at a steady rate."""

from __future__ import annotations

import hashlib
import ipaddress
import time

from leaveout.verifier.guard.server_shared import SLOTS, Shared

_CALLS = 10.0
"""Requests a second, at least, that an asker may send to other paths than that of labels."""

_TRIES = 32
"""Slots that are looked at for one asker."""


class Rates:
    """Allowances of askers, shared by all processes of a server.

    A request is admitted while anything is left and then charged in full, so the long-run rate
    holds. When slots run out, askers share one.
    """

    def __init__(self, rate: float, allowance: float, shared: Shared) -> None:
        self._rate, self._allowance, self._shared = rate, allowance, shared

    def call(self, who: str) -> float:
        """Charge a request other than for labels to its own allowance; see `spend`.

        It costs a row, or less at low rates, so a balancer can still check health.
        """
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

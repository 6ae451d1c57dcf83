"""How many rows each asker may ask for: a bucket that fills at a steady rate."""

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
    """Allowances of askers, the same in all processes of a server.

    A request is taken while there is something left, and then all its rows are taken off: however
    many rows a request has it is answered in the end, and in the long run nobody has more than the
    rate. Where more are asking than there is room for, some share an allowance.
    """

    def __init__(self, rate: float, allowance: float, shared: Shared) -> None:
        self._rate, self._allowance, self._shared = rate, allowance, shared

    def call(self, who: str) -> float:
        """Take a request for something else than labels off an allowance of its own; see `spend`.

        It costs a row or, where the rate is low, so little that a balancer may still ask for
        health.
        """
        return self.spend(f"{who} elsewhere", min(1.0, self._rate / _CALLS))

    def spend(self, who: str, rows: float) -> float:
        """Take rows off an allowance."""
        digest = hashlib.blake2b(who.encode(), key=self._shared.salt, digest_size=8).digest()
        known = int.from_bytes(digest, "big") or 1
        now = time.monotonic()
        with self._shared.rating:
            slot = self._slot(known, now)
            bucket = self._shared.buckets[slot]
            if int(bucket["who"]) != known:
                bucket["who"], bucket["left"], bucket["at"] = known, self._allowance, now
            left = self._left(slot, now)
            taken = left > 0
            bucket["left"] = left - rows if taken else left
            bucket["at"] = now
        return 0.0 if taken else max(-left / self._rate, 1e-3)

    def _left(self, slot: int, now: float) -> float:
        bucket = self._shared.buckets[slot]
        gained = (now - float(bucket["at"])) * self._rate
        return min(self._allowance, float(bucket["left"]) + gained)

    def _slot(self, known: int, now: float) -> int:
        """Return where an asker's allowance is, or a place that is free; else a shared one."""
        free = None
        for step in range(_TRIES):
            slot = (known + step) % SLOTS
            who = int(self._shared.buckets["who"][slot])
            if who == known:
                return slot
            if free is None and (not who or self._left(slot, now) >= self._allowance):
                free = slot
        if free is not None:
            return free
        slot = known % SLOTS
        self._shared.buckets["who"][slot] = known
        return slot


def neighbourhood(address: str) -> str:
    """Return what counts as one asker where there are no keys: of IPv6, the network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)

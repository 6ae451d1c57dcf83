"""Kinds of cases for the campaign that go wrong in known ways."""

from __future__ import annotations

import os
import time

from leaveout.errors import SpecError

from attacks.kind import Outcome


class Sized:
    """A case is a number; it is wrong from 7 on."""

    name = "sized"

    def make(self, rng):
        return {"size": int(rng.integers(100))}

    def check(self, case):
        wrong = f"too large: {case['size']}" if case["size"] >= 7 else None
        return Outcome("small" if wrong is None else "large", "proved", wrong)

    def shrink(self, case):
        for size in (case["size"] // 2, case["size"] - 1):
            yield {"size": size}


class Dying(Sized):
    """Large cases end the process."""

    def check(self, case):
        if case["size"] >= 7:
            os._exit(9)
        return Outcome("small", "proved")


class Hanging(Sized):
    """Large cases never return."""

    def check(self, case):
        while case["size"] >= 7:
            time.sleep(0.01)
        return Outcome("small", "proved")


class Raising(Sized):
    """Large cases raise what they must not, small ones refuse."""

    def check(self, case):
        if case["size"] >= 7:
            raise ValueError("no\nnumber")
        raise SpecError("too small; give more")

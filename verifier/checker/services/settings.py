"""Settings of a service, read for the accounting alone."""

from __future__ import annotations

import hashlib
import math
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from leaveout.files import SETTINGS, read_whole, why_unread
from leaveout.verifier.checker.errors import CertificateError, RejectedError
from leaveout.verifier.checker.rationals import Enclosure

_MOST = 2**53
_MOST_SHARDS = 100_000
_SHARPEST = 4096
"""The most of epsilon times shards with which answers are drawn as accurately as is charged."""
_MECHANISMS = ("exponential", "noisy_max", "majority")
_KEYS = frozenset(
    ("shards", "mechanism", "rows", "inclusion", "epsilon", "predictions", "labels", "on_exhausted")
)
_INACCURATE = Fraction(1, 2**100)
"""Far more than what drawing with 40 digits adds to an epsilon."""


@dataclass(frozen=True)
class Service:
    """Known settings of a service."""

    shards: int  # models, and points that it holds at most
    rows: int  # models, and points that it holds at most
    mechanism: str
    inclusion: Enclosure  # between which the probability lies that a shard holds a point
    epsilon: Fraction
    predictions: int  # answers drawn between two full retrainings at most; 0 with "majority"
    labels: int | None  # how many there are at most

    @property
    def private(self) -> bool:
        """Whether answers are drawn with noise."""
        return self.mechanism != "majority"

    @property
    def span(self) -> Fraction:
        """The most that one seed moves ln(Pr[a] / Pr[b]) of two answers."""
        return self.epsilon if self.mechanism == "exponential" else 2 * self.epsilon


def read_service(path: Path, sha256: str) -> Service:
    """Read a file of settings."""
    try:
        content = read_whole(path, SETTINGS)
    except OSError as error:
        raise CertificateError(f"{path}: {why_unread(error)}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RejectedError(f"{path}: is not the file that the certificate is about")
    try:
        given = tomllib.loads(content.decode("utf-8").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"{path}: is no TOML: {' '.join(str(error).split())}") from None
    return _Reader(path, given).service()


@dataclass(frozen=True)
class _Reader:
    path: Path
    given: dict[str, object]

    def service(self) -> Service:
        for key in self.given:
            if key not in _KEYS:
                raise self._wrong(key, f"expected only {', '.join(sorted(_KEYS))}")
        mechanism = self.given.get("mechanism")
        if mechanism not in _MECHANISMS or not isinstance(mechanism, str):
            raise self._wrong("mechanism", f"expected one of {', '.join(_MECHANISMS)}")
        if self.given.get("on_exhausted", "refuse") not in ("retrain", "refuse"):
            raise self._wrong("on_exhausted", "expected retrain or refuse")
        shards = self._whole("shards", 1, _MOST_SHARDS)
        rows = self._whole("rows", 1, _MOST)
        labels = self._whole("labels", 2, _MOST) if "labels" in self.given else None
        epsilon, predictions = Fraction(0), 0
        if mechanism == "majority":
            for key in ("epsilon", "predictions"):
                if self.given.get(key, 0):
                    raise self._wrong(key, "a majority vote has none")
        else:
            epsilon = self._number("epsilon", _MOST)[1] + _INACCURATE
            if not _INACCURATE < epsilon <= Fraction(_SHARPEST + 1, shards):
                raise self._wrong("epsilon", f"expected above 0 and at most {_SHARPEST} / shards")
            predictions = self._whole("predictions", 1, _MOST)
        return Service(
            shards, rows, mechanism, self._inclusion(shards), epsilon, predictions, labels
        )

    def _inclusion(self, shards: int) -> Enclosure:
        if "inclusion" not in self.given:
            # The service computes with the nearest float.
            exactly, least = Fraction(1, shards), Fraction(1, 2**52)
            return exactly * (1 - least), min(Fraction(1), exactly * (1 + least))
        low, high = self._number("inclusion", 1)
        return low, min(Fraction(1), high)

    def _whole(self, key: str, least: int, most: int) -> int:
        value = self.given.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(key, f"expected a whole number from {least} to {most}")
        return value

    def _number(self, key: str, most: int) -> Enclosure:
        """Return what holds the number written down, and the float that the service reads."""
        value = self.given.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(key, "expected a number")
        if not 0 < value <= most:
            raise self._wrong(key, f"expected above 0 and at most {most}")
        near = float(value)
        return (
            Fraction(math.nextafter(near, 0)),
            Fraction(math.nextafter(near, math.inf)),
        )

    def _wrong(self, key: str, expected: str) -> RejectedError:
        return RejectedError(f"{self.path}: {key} = {self.given.get(key)!r}: {expected}")

"""The settings of a service, and their file."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from leaveout.errors import ShardedError
from leaveout.files import SETTINGS, read_whole
from leaveout.names import hint

Mechanism: TypeAlias = Literal["exponential", "noisy_max", "majority"]
_MOST_SHARDS = 100_000
SHARPEST = 4096.0
"""Largest epsilon times shards; above it, answers are practically the majority's."""
_MOST = 2**53


class ServiceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a service of models on shards.

    Attributes
    ----------
    shards : int
        Number of models, each trained on separate points.
    mechanism : {"exponential", "noisy_max", "majority"}
        How votes become an answer; "majority" adds no noise, so answers reveal seeds.
    rows : int
        Most points of the service, for the bound on retrained shards.
    inclusion : float or None
        Probability that a shard contains a point; None for 1 / shards.
    epsilon : float
        Differential privacy, in nats, of one prediction when one shard's seed is replaced; 0 with
        "majority".
    predictions : int or None
        Most answers between two full retrainings; None with "majority".
    labels : int or None
        Most labels; if given, more predictions can be proved safe.
    on_exhausted : {"retrain", "refuse"}
        What happens when the predictions are used up.

    Raises
    ------
    ShardedError
        If a value is out of range; the message names the key and its allowed values.
    """

    shards: int
    mechanism: Mechanism
    rows: int
    inclusion: float | None = None
    epsilon: float = 0.0
    predictions: int | None = None
    labels: int | None = None
    on_exhausted: Literal["retrain", "refuse"] = "refuse"

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= _MOST_SHARDS:
            _refuse("shards", self.shards, f"a whole number from 1 to {_MOST_SHARDS:,}")
        if not 1 <= self.rows <= _MOST:
            _refuse("rows", self.rows, f"a whole number from 1 to {_MOST:,}")
        if self.inclusion is not None and not 0 < self.inclusion <= 1:
            _refuse("inclusion", self.inclusion, "a probability above 0 and at most 1")
        if self.labels is not None and not 2 <= self.labels <= _MOST:
            _refuse("labels", self.labels, f"a whole number from 2 to {_MOST:,}")
        if self.mechanism == "majority":
            self._refuse_budget()
            return
        if not 0 < self.epsilon < math.inf:
            _refuse(
                "epsilon",
                self.epsilon,
                f"a number above 0, since {self.mechanism} answers are drawn with it; 'majority' "
                "needs none",
            )
        if self.epsilon * self.shards > SHARPEST:
            _refuse(
                "epsilon",
                self.epsilon,
                f"at most {SHARPEST / self.shards:g} with {self.shards:,} shards; above that, "
                "answers are a majority's in all but name",
            )
        if self.predictions is None or not 1 <= self.predictions <= _MOST:
            _refuse(
                "predictions",
                self.predictions,
                f"a whole number from 1 to {_MOST:,}: answers between two full retrainings",
            )

    def _refuse_budget(self) -> None:
        cure = "drop it: a majority vote has no noise and no budget"
        if self.epsilon:
            raise ShardedError(f"epsilon = {self.epsilon!r}: {cure}")
        if self.predictions is not None:
            raise ShardedError(f"predictions = {self.predictions!r}: {cure}")

    @property
    def private(self) -> bool:
        """Whether answers are noisy."""
        return self.mechanism != "majority"

    @property
    def probability(self) -> float:
        """The probability that a shard contains a point."""
        return 1 / self.shards if self.inclusion is None else self.inclusion


def _refuse(key: str, value: object, expected: str) -> None:
    got = "is missing" if value is None else f"= {value!r}"
    raise ShardedError(f"{key} {got}: expected {expected}")


def read_settings(path: Path) -> ServiceSettings:
    """Read ``service.toml``.

    Raises
    ------
    ShardedError
        If the file cannot be read, a key is unknown or missing, or a value is out of range; the
        message names file, key and remedy.
    """
    try:
        given = tomllib.loads(read_whole(path, SETTINGS).decode("utf-8").replace("\r\n", "\n"))
    except OSError as error:
        raise ShardedError(f"{path}: {error.strerror or error}; expected a settings file") from None
    except UnicodeDecodeError:
        raise ShardedError(f"{path}: not UTF-8 text; expected a TOML settings file") from None
    except (ValueError, RecursionError) as error:
        raise ShardedError(f"{path}: {error}; expected lines such as shards = 100") from None
    _check_keys(path, given)
    try:
        return msgspec.convert(given, ServiceSettings)
    except msgspec.ValidationError as error:
        raise ShardedError(f"{path}: {_error_text(error)}") from None
    except ShardedError as error:
        raise ShardedError(f"{path}: {error}") from None


def _check_keys(path: Path, given: dict[str, Any]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(ServiceSettings)}
    for key in given:
        if key not in fields:
            raise ShardedError(
                f"{path}: no setting {key!r}{hint(key, list(fields))}; settings are "
                f"{', '.join(fields)}"
            )
    for key, field in fields.items():
        if field.required and key not in given:
            raise ShardedError(f"{path}: {key} is missing; add a line such as {_EXAMPLES[key]}")


_EXAMPLES = {
    "shards": "shards = 100",
    "mechanism": 'mechanism = "exponential"',
    "rows": "rows = 5000",
}


def _error_text(error: msgspec.ValidationError) -> str:
    """Return msgspec's message, starting with the key."""
    text, _, place = str(error).partition(" - at `$.")
    key = place.rstrip("`")
    text = text.replace("`", "").replace("Expected", "expected").replace("Invalid", "invalid")
    if key == "mechanism":
        text += "; mechanisms are exponential, noisy_max and majority"
    elif key == "on_exhausted":
        text += "; use retrain or refuse"
    return f"{key}: {text}"

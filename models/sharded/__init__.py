"""Adaptive unlearning services: models on shards, private answers and guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.models.sharded.accounting import (
    Guarantee,
    Unlearning,
    guarantee,
    largest_epsilon,
    safe_predictions,
)
from leaveout.models.sharded.ledger import ExhaustedError, Ledger
from leaveout.models.sharded.planning import published_retrained, retrained_at_most
from leaveout.models.sharded.settings import Mechanism, ServiceSettings, read_settings
from leaveout.models.sharded.shards import Shards

if TYPE_CHECKING:
    from leaveout.models.sharded.classifier import ShardedClassifier

__all__ = [
    "ExhaustedError",
    "Guarantee",
    "Ledger",
    "Mechanism",
    "ServiceSettings",
    "ShardedClassifier",
    "Shards",
    "Unlearning",
    "guarantee",
    "largest_epsilon",
    "published_retrained",
    "read_settings",
    "retrained_at_most",
    "safe_predictions",
]


# Imported on first use, so that checking what a service claims does not import scikit-learn.
def __getattr__(name: str) -> object:
    if name == "ShardedClassifier":
        from leaveout.models.sharded.classifier import ShardedClassifier

        return ShardedClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

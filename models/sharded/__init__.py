"""Adaptive unlearning services: models on shards, private answers and guarantees."""

from __future__ import annotations

from leaveout.models.sharded.accounting import (
    Guarantee,
    Unlearning,
    guarantee,
    largest_epsilon,
    safe_predictions,
)
from leaveout.models.sharded.classifier import ShardedClassifier
from leaveout.models.sharded.ledger import ExhaustedError, Ledger
from leaveout.models.sharded.planning import published_retrained, retrained_at_most
from leaveout.models.sharded.settings import Mechanism, ServiceSettings, read_settings
from leaveout.models.sharded.shards import Shards

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

"""Conversion of the estimator's parameters into a forest's settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from leaveout.cores import cores
from leaveout.errors import ForestError
from leaveout.models.forest.plain import Settings

_WEIGHTS = frozenset(("class_weight", "sample_weight"))


def settings_of(parameters: Mapping[str, Any], attributes: int) -> Settings:
    """Return a forest's settings; a seed is drawn if none is given."""
    criterion, depth = parameters["criterion"], parameters["max_depth"]
    if criterion not in ("gini", "entropy"):
        raise ForestError(f"criterion must be 'gini' or 'entropy', not {criterion!r}")
    return Settings(
        trees=_whole("n_estimators", parameters["n_estimators"], 1),
        depth=None if depth is None else _whole("max_depth", depth, 1),
        thresholds=_whole("k", parameters["k"], 1),
        attributes=_attributes(parameters["max_features"], attributes),
        random_depth=_whole("d_rmax", parameters["d_rmax"], 0),
        least=_whole("min_samples_split", parameters["min_samples_split"], 2),
        criterion=criterion,
        seed=_seed(parameters["random_state"]),
        share=_share(parameters["q"]),
    )


def refuse_weights(given: Iterable[str]) -> None:
    """Refuse sample or class weights, with the reason."""
    weights = sorted(_WEIGHTS.intersection(given))
    if weights:
        raise ForestError(
            f"{', '.join(weights)}: not supported; the counts a forest caches are whole numbers of "
            "rows, so a row cannot weigh more or less than one"
        )


def threads(jobs: object) -> int:
    """Return the thread count for ``n_jobs``: -1 all cores, -2 all but one, and so on."""
    if jobs is None:
        return 1
    if isinstance(jobs, Integral) and jobs < 0:
        return max(1, cores() + 1 + int(jobs))
    return _whole("n_jobs", jobs, 1)


def _share(value: object) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) <= 1.0:
        return float(value)
    raise ForestError(f"q must be a share of the trees in (0, 1], not {value!r}")


def _seed(state: Any) -> int:
    if not isinstance(state, Integral):
        return int(check_random_state(state).randint(2**63, dtype=np.int64))
    seed = int(state)
    if not 0 <= seed < 2**63:
        raise ForestError(f"random_state must be in 0 to 2^63 - 1, not {seed}")
    return seed


def _attributes(chosen: object, attributes: int) -> int:
    """Return how many attributes a greedy node considers."""
    if chosen is None:
        return attributes
    if chosen == "sqrt":
        return max(1, math.isqrt(attributes))
    if chosen == "log2":
        return max(1, attributes.bit_length() - 1)
    if isinstance(chosen, Integral) and not isinstance(chosen, bool):
        return min(_whole("max_features", chosen, 1), attributes)
    if isinstance(chosen, float) and 0.0 < chosen <= 1.0:
        return max(1, int(chosen * attributes))
    raise ForestError(
        "max_features must be 'sqrt', 'log2', None, a whole number from 1 on, or a fraction "
        f"in (0, 1], not {chosen!r}"
    )


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < 2**31:
        return int(value)
    raise ForestError(f"{name} must be a whole number from {least} on, not {value!r}")

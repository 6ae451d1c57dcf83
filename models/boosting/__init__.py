"""Models of a user's training function: a network, or the trees of a library."""

from __future__ import annotations

import functools
import inspect
from contextlib import suppress
from typing import Any

import numpy as np

from leaveout.errors import TrainingError, TreesError
from leaveout.models.boosting import training
from leaveout.models.boosting.training import TreesReport
from leaveout.models.train.own.family import ReturnsTreesError
from leaveout.models.train.own.family import leave_one_out as networks
from leaveout.models.train.report import TrainingReport


@functools.wraps(networks)
def leave_one_out(fit: Any, X: Any, y: Any, **options: Any) -> TrainingReport | TreesReport:
    """Train what a function returns, and again without each row; see `networks`, `training`.

    Trees of XGBoost, LightGBM, CatBoost and scikit-learn are members by themselves; of the options
    they take ``out``, ``members``, ``sample``, ``seed``, ``features``, ``ids``, ``group`` and
    ``workers``.
    """
    try:
        return networks(fit, X, y, **options)
    except ReturnsTreesError:
        return _trees(fit, X, y, options)
    except TrainingError:
        # What no network reads, trees may.
        if "missing" in options or not _lacks_values(X):
            raise
        with suppress(TrainingError):
            return _trees(fit, X, y, options)
        raise


def _trees(fit: Any, X: Any, y: Any, options: dict[str, Any]) -> TreesReport:
    known = inspect.signature(training.leave_one_out).parameters
    other = [name for name in options if name not in known]
    if other:
        raise TrainingError(
            f"{other[0]}=: does not apply to trees; drop it, and pass numbers, with words "
            "encoded and NaN where a value is missing, or train with leaveout trees train"
        )
    try:
        return training.leave_one_out(fit, X, y, **options)
    except TreesError as error:
        raise TrainingError(str(error)) from None


def _lacks_values(X: Any) -> bool:
    """Return whether numbers are missing, of rows that consist of numbers."""
    try:
        return bool(np.isnan(np.asarray(X, np.float64)).any())
    except (TypeError, ValueError):
        return False


leave_one_out.__doc__ = f"""{networks.__doc__}
    Notes
    -----
    A function that returns trees of XGBoost, LightGBM, CatBoost or scikit-learn is called again in
    float64; see `leaveout.models.boosting.training.leave_one_out`.
    """

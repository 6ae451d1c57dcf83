"""What estimators here take of scikit-learn, which the extra ``forests`` brings."""

from __future__ import annotations

from leaveout.extras import name_extra

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.utils import check_array, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    raise name_extra(error) from None

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "check_array",
    "check_classification_targets",
    "check_is_fitted",
    "check_random_state",
    "clone",
    "validate_data",
]

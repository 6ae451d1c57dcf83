"""A guard as a classifier of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from leaveout.models.scikit import BaseEstimator, ClassifierMixin
from leaveout.models.train.rows import label_values
from leaveout.verifier.guard.guard import Guard


class GuardedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The labels that a guard answers; it is fitted, and clones share the guard.

    Parameters
    ----------
    guard : Guard

    Attributes
    ----------
    classes_ : ndarray, shape (labels,)
        Names of the labels, as whole numbers if all are.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    @property
    def classes_(self) -> NDArray[Any]:
        """See the class."""
        return label_values(self.guard.names or [*map(str, range(self.guard.subject.labels))])

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Return the classifier unchanged: the guarded model is trained."""
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a label per row of an array, or of a data frame in the training table's units.

        Raises
        ------
        GuardError
            As `Guard.labels`: if the guard refuses a row, there is no label of any.
        """
        labels: NDArray[Any] = self.classes_[self.guard.labels(X)]
        return labels

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

"""The attacker's view of both arms: rows, and each model's posteriors on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError
from leaveout.kernel.audits import Seen

_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Views:
    """Posteriors of unlearned and retrained models, per trial.

    In each trial, one model unlearns the drawn rows and one is trained without them; both are
    evaluated on these and on unseen rows.
    """

    trial: NDArray[np.int64]  # shape (rows,): the row's trial; any numbers
    forgotten: NDArray[np.bool_]  # shape (rows,)
    label: NDArray[np.int64]  # shape (rows,): true label, 0 to ``labels - 1``
    unlearned: NDArray[np.float64]  # shape (rows, labels): posteriors of the unlearned arm
    retrained: NDArray[np.float64]  # shape (rows, labels): posteriors of the retrained arm
    original: NDArray[np.float64] | None = None  # shape (rows, labels)
    source: str = "audit"  # file name in messages

    def __post_init__(self) -> None:
        rows = len(self.trial)
        if not rows:
            raise AuditError(f"{self.source}: no rows; record at least one trial")
        for name in ("forgotten", "label"):
            found = getattr(self, name).shape
            if found != (rows,):
                raise AuditError(
                    f"{self.source}: {name!r} has shape {found}, expected {(rows,)} as for 'trial'"
                )
        for name, array in self.arms.items():
            self._check_posteriors(name, array)
        self._check_labels()
        self._check_kinds()

    @property
    def arms(self) -> dict[str, NDArray[np.float64]]:
        """Posteriors by arm; ``original`` only if it was recorded."""
        arms = {"unlearned": self.unlearned, "retrained": self.retrained}
        return arms if self.original is None else {**arms, "original": self.original}

    @cached_property
    def trials(self) -> NDArray[np.int64]:
        """The trials, ascending."""
        return np.unique(self.trial)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """The index in `trials` of each row's trial."""
        return np.searchsorted(self.trials, self.trial).astype(np.int64)

    @cached_property
    def kernel_view(self) -> Seen:
        """The same, as the kernel knows it."""
        return Seen(self.trial, self.forgotten, self.label, self.arms)

    @property
    def has_unseen_rows(self) -> bool:
        """Whether there are rows that no model saw."""
        return not bool(self.forgotten.all())

    def _check_posteriors(self, name: str, array: NDArray[np.float64]) -> None:
        expected = (len(self.trial), self.unlearned.shape[1] if self.unlearned.ndim == 2 else 0)
        if array.ndim != 2 or array.shape != expected or array.shape[1] < 2:
            raise AuditError(
                f"{self.source}: {name!r} has shape {array.shape}; expected (rows, labels) with "
                f"{len(self.trial)} rows and the same labels, at least 2, in every arm"
            )
        finite = np.isfinite(array).all(axis=1)
        wrong = ~finite | (array < 0).any(axis=1)
        wrong |= np.abs(np.where(finite, array.sum(axis=1), 0) - 1) > _TOLERANCE
        if wrong.any():
            row = int(np.argmax(wrong))
            raise AuditError(
                f"{self.source}: {name!r} of row {row} is {np.round(array[row], 4).tolist()}; "
                "expected probabilities that add up to 1; apply a softmax to scores"
            )

    def _check_labels(self) -> None:
        labels = self.unlearned.shape[1]
        wrong = (self.label < 0) | (self.label >= labels)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise AuditError(
                f"{self.source}: 'label' of row {row} is {self.label[row]}; expected 0 to "
                f"{labels - 1}, the columns of the posteriors"
            )

    def _check_kinds(self) -> None:
        count = len(self.trials)
        gone = np.bincount(self.place[self.forgotten], minlength=count)
        if not gone.all():
            trial = int(self.trials[np.argmin(gone)])
            raise AuditError(
                f"{self.source}: trial {trial} has no forgotten row; every trial needs one"
            )
        never = np.bincount(self.place[~self.forgotten], minlength=count)
        if never.any() and not never.all():
            trial = int(self.trials[np.argmin(never)])
            raise AuditError(
                f"{self.source}: trial {trial} has no row that was never trained on, but others "
                "do; include such rows in all trials or in none"
            )

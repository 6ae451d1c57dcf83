"""Event counts in both arms, for attacks carried out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError


@dataclass(frozen=True, eq=False)
class Events:
    """Counts of each event among independent trials, in either arm.

    An event is fixed before the trials, such as "the attack says member". Trials count as
    independent only where each has a model of its own.

    Attributes
    ----------
    names : tuple of str
    unlearned_hits, unlearned_trials : ndarray of int64, shape (events,)
    retrained_hits, retrained_trials : ndarray of int64, shape (events,)
    source : str
        File, for messages.

    Raises
    ------
    AuditError
        If the counts cannot be counts.
    """

    names: tuple[str, ...]
    unlearned_hits: NDArray[np.int64]
    unlearned_trials: NDArray[np.int64]
    retrained_hits: NDArray[np.int64]
    retrained_trials: NDArray[np.int64]
    source: str = "audit"

    def __post_init__(self) -> None:
        if not self.names:
            raise AuditError(f"{self.source}: there is no event; name at least one in 'event'")
        if len(set(self.names)) != len(self.names):
            raise AuditError(f"{self.source}: two events have one name; rename one")
        for arm in ("unlearned", "retrained"):
            hits, trials = getattr(self, f"{arm}_hits"), getattr(self, f"{arm}_trials")
            for name, array in ((f"{arm}_hits", hits), (f"{arm}_trials", trials)):
                if array.shape != (len(self.names),):
                    raise AuditError(
                        f"{self.source}: {name!r} has shape {array.shape}, expected "
                        f"{(len(self.names),)}, a number an event"
                    )
            wrong = (trials < 1) | (hits < 0) | (hits > trials)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise AuditError(
                    f"{self.source}: event {self.names[at]!r} happened {hits[at]} times in "
                    f"{trials[at]} trials of the {arm} arm; expected 0 to as many as trials, and "
                    "at least 1 trial"
                )

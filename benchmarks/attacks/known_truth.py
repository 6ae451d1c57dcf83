"""What members with thresholds survive, by trying every way to spread changes over parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import product

import numpy as np

from attacks.kind import Case

__all__ = ["Known"]

Spent = tuple[int, ...]


class Known:
    """What holds of ballots with thresholds, against one kind of change.

    A change is done to one part or two, as its kind has it, and each part then has had so many of
    what thresholds count; its member votes what that allows, at each point anew.

    Parameters
    ----------
    case : dict
        With "votes", "truth", "labels", "thresholds"; "threat", "against", "exact_to" and
        "hash_reads_label" where they are not edits, edits, None and None.
    from_above : bool
        Whether votes count that changes are known to bring about, rather than not known not to.
    """

    def __init__(self, case: Case, *, from_above: bool = False) -> None:
        self.votes = np.array(case["votes"])
        self.truth = np.array(case["truth"])
        self.labels = int(case["labels"])
        self.thresholds = np.array(case["thresholds"])
        self._threat = str(case.get("threat", "edits"))
        self._against = str(case.get("against") or "edits")
        self._stays = case["hash_reads_label"] is False or self.votes.shape[1] == 1
        if from_above:
            most = case.get("exact_to")
            unknown = self.thresholds > (math.inf if most is None else most)
            if self._threat != self._against:
                unknown = self.thresholds > 0
            self.thresholds = np.where(unknown, -1, self.thresholds)

    @property
    def is_bounded(self) -> bool:
        """Whether thresholds say anything of such changes."""
        if self._threat == self._against:
            return self._threat != "relabels" or self._stays
        return self._against == "edits"

    @cached_property
    def right(self) -> list[bool]:
        """Whether the true label is answered, of each point."""
        return [self._answer(row) == t for row, t in zip(self.votes, self.truth, strict=True)]

    @cached_property
    def radii(self) -> list[float]:
        """How many changes each answer survives; infinite where any number."""
        radii = [math.inf] * len(self.votes)
        for count, spends in enumerate(self._every()):
            for point, radius in enumerate(radii):
                before = self._answer(self.votes[point])
                if radius == math.inf and any(self._turns(point, s, before) for s in spends):
                    radii[point] = count - 1
        return radii

    def right_under(self, changes: int) -> int:
        """How many points are answered right under the worst attack of so many changes."""
        for count, spends in enumerate(self._every()):
            last = spends
            if count == changes:
                break
        return min(
            sum(
                right and not self._turns(point, spent, int(self.truth[point]))
                for point, right in enumerate(self.right)
            )
            for spent in last
        )

    def accuracy(self, changes: int) -> int:
        """How many points are answered right whatever so many changes do to each."""
        return sum(r and d >= changes for r, d in zip(self.right, self.radii, strict=True))

    def median(self) -> float:
        """Greatest number of changes that half of all points survive, answered right; or -1."""
        radii = sorted((d for r, d in zip(self.right, self.radii, strict=True) if r), reverse=True)
        half = (len(self.votes) + 1) // 2
        return radii[half - 1] if len(radii) >= half else -1.0

    def _every(self) -> Iterator[set[Spent]]:
        """Yield what 0, 1, ... changes may come to in each part, until more make no difference."""
        caps = np.maximum(self.thresholds, 0).max(axis=(0, 2)).tolist()
        parts = range(len(caps))
        moved = self._threat == "modifications" or (self._threat == "relabels" and not self._stays)
        if self._threat == self._against or self._threat in ("insertions", "removals", "edits"):
            kinds = [((part, 1),) for part in parts]
        elif moved:
            kinds = [((a, 1), (b, 1)) for a in parts for b in parts]
        else:
            kinds = [((part, 2),) for part in parts]
        spends = {tuple(0 for _ in caps)}
        while True:
            yield spends
            more = set(spends)
            for spent in spends:
                for kind in kinds:
                    after = list(spent)
                    for part, count in kind:
                        after[part] = min(caps[part], after[part] + count)
                    more.add(tuple(after))
            if more == spends:
                return
            spends = more

    def _turns(self, point: int, spent: Spent, answer: int) -> bool:
        """Whether members that have had so many changes may vote another answer."""
        allowed = [
            [u for u, needed in enumerate(each) if 0 <= needed <= had]
            for each, had in zip(self.thresholds[point].tolist(), spent, strict=True)
        ]
        return any(self._answer(cast) != answer for cast in product(*allowed))

    def _answer(self, cast: object) -> int:
        return int(np.bincount(np.array(cast), minlength=self.labels).argmax())

"""Parts: the members that each training row reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.votes.hashing import hash_samples, spread_offsets
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.samples import NO_LABEL, Samples

ABSENT = -1
"""The part of a row that no member is trained on."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The members' shares of the training rows."""

    base: NDArray[np.int64]  # shape (rows,)
    offsets: tuple[int, ...]
    members: int
    further: NDArray[np.int64]  # shape (rows, families - 1)
    ranks: NDArray[np.int64]  # shape (rows,)
    repeated: int  # rows that are a sample which another row is too

    def reached_members(self, row: int) -> tuple[int, ...]:
        """Return the members a row reaches, in ascending order."""
        if self.base[row] == ABSENT:
            return ()
        spread = [(int(self.base[row]) + o) % self.members for o in self.offsets]
        return tuple(sorted([*spread, *self.further[row].tolist()]))

    def order(self, y: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of all members, sorted by values, then by label."""
        order = np.lexsort((y, self.ranks))
        kept: NDArray[np.int64] = order[self.base[order] != ABSENT]
        return kept

    def rows(self, y: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
        """Return each member's rows, sorted by values, then by label."""
        order = self.order(y)
        shares: list[NDArray[np.int64]] = []
        chosen = np.zeros(self.members, dtype=bool)
        for member in range(self.members):
            chosen[:] = False
            chosen[[(member - offset) % self.members for offset in self.offsets]] = True
            among = chosen[self.base[order]] | (self.further[order] == member).any(axis=1)
            shares.append(order[among])
        return tuple(shares)


def divide(samples: Samples, recipe: PartRecipe) -> Partition:
    """Assign rows to members by the recipe's scheme.

    DPA: a hash of the sample modulo the number of parts (Levine and Feizi, equation 1). Finite
    Aggregation: the same over more members, each row reaching several of them. Hash bagging: the
    same several times over, each by a hash function of its own (Chen et al. 2022). SS-DPA: the rank
    of the sample among the distinct samples, modulo the number of parts (equation 7); there a row
    whose label is none of the labels still counts as a sample, or a relabel would shift the ranks
    of others.

    Raises
    ------
    TrainingError
        With SS-DPA, if two rows are one sample and these are not to be merged.
    """
    ranks = samples.ranks()
    times = np.bincount(ranks)
    further = np.zeros((samples.rows, recipe.families - 1), np.int64)
    repeated = int((times[ranks] > 1).sum())
    if recipe.method == "ss_dpa":
        if repeated and not recipe.merge_duplicates:
            sample = int(np.argmax(times > 1))
            first, second = (int(row) for row in np.flatnonzero(ranks == sample)[:2])
            raise TrainingError(
                f"{samples.source}: training rows {first} and {second} (counting from 0) are one "
                f"sample, {repeated:,} rows share theirs; SS-DPA rests on distinct samples: give "
                "--duplicates merge, which counts all labels of one sample as one relabel"
            )
        base = ranks % recipe.parts
    else:
        words = samples.words if recipe.hash_reads_label else None
        hashes = hash_samples(samples.keys, recipe.hash_key, words)
        width = recipe.parts if recipe.method == "hash_bagging" else recipe.members
        base = (hashes % np.uint64(width)).astype(np.int64)
        for family in range(1, recipe.families):
            hashes = hash_samples(samples.keys, recipe.hash_key, words, family)
            own = (hashes % np.uint64(width)).astype(np.int64)
            further[:, family - 1] = family * width + own
    base = np.where(samples.y == NO_LABEL, ABSENT, base)
    offsets: tuple[int, ...] = (0,)
    if recipe.method == "finite_aggregation":
        offsets = spread_offsets(recipe.members, recipe.spread, recipe.seed)
    return Partition(base, offsets, recipe.members, further, ranks, repeated)

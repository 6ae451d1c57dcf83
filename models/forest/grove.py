"""A forest that is trained, forgets rows and learns rows, and is always a function of its rows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.forest import engine
from leaveout.models.forest.extending import extended
from leaveout.models.forest.handles import Trees
from leaveout.models.forest.layout import Scratch, Tree, scratch_for
from leaveout.models.forest.plain import Ensemble, Settings, plain_tree, tree_from
from leaveout.models.forest.rolling import recode, vote
from leaveout.models.forest.table import Table, decoded, encoded, erase, live_slots

__all__ = ["Grove"]

Floats = NDArray[np.float64]


class Grove:
    """The trees of a forest and the rows they hold.

    Not safe to be changed by two threads at once.

    Parameters
    ----------
    ensemble : Ensemble
        If it has no trees they are grown.
    jobs : int
        Threads over trees; no result depends on it.
    """

    def __init__(self, ensemble: Ensemble, jobs: int = 1) -> None:
        self.settings: Settings = ensemble.settings
        self.rules = ensemble.settings.rules
        self.jobs = jobs
        self._take(ensemble)

    def _take(self, ensemble: Ensemble) -> None:
        """Hold the rows of an ensemble, and its trees or new ones."""
        self.classes = ensemble.classes
        self.names = ensemble.names.copy()
        self.next_name = ensemble.next_name
        self.table: Table = encoded(ensemble.X, ensemble.y)
        self._local = threading.local()
        if ensemble.trees:
            self.trees = Trees(
                tree_from(self.table, self.rules, tree, engine.slack(len(tree.feature)))
                for tree in ensemble.trees
            )
        else:
            self._grow()

    @property
    def labels(self) -> int:
        """How many labels there are."""
        return len(self.classes)

    def _scratch(self) -> Scratch:
        """Return this thread's working memory for the table as it is."""
        if getattr(self._local, "scratch", None) is None:
            self._local.scratch = scratch_for(self.table, self.rules, self.labels)
        scratch: Scratch = self._local.scratch
        return scratch

    def _grow(self) -> None:
        def grow(i: int) -> Tree:
            return engine.grown(
                self.table, self.rules, self.labels, self._scratch(), self.settings.seed, i
            )

        every = range(self.settings.trees)
        if self.jobs == 1:
            self.trees = Trees([grow(i) for i in every])
            return
        with ThreadPoolExecutor(self.jobs) as pool:
            self.trees = Trees(pool.map(grow, every))

    def _revise(self, slots: NDArray[np.int32], by: int) -> None:
        def revise(begin: int, end: int) -> None:
            engine.revise(
                self.table, self.rules, self.trees, self._scratch(), slots, by,
                self.settings.seed, begin, end,
            )  # fmt: skip

        trees = len(self.trees)
        if self.jobs == 1:
            revise(0, trees)
            return
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(revise, range(trees), range(1, trees + 1)))

    def rows(self) -> NDArray[np.int64]:
        """Return the names of the rows held, ascending."""
        return self.names[live_slots(self.table)]

    def slots_of(self, names: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where some rows are.

        Raises
        ------
        ForestError
            If one was never there, was deleted, or is named twice.
        """
        wanted = np.asarray(names)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise ForestError(f"rows are named by a list of whole numbers, not by {names!r}")
        wanted = wanted.astype(np.int64)
        if len(wanted) > 1:
            values, times = np.unique(wanted, return_counts=True)
            if np.any(times > 1):
                raise ForestError(f"row {values[times > 1][0]} is named twice")
        places = np.minimum(np.searchsorted(self.names, wanted), len(self.names) - 1)
        there = self.names[places] == wanted
        if not there.all():
            name = int(wanted[~there][0])
            if 0 <= name < self.next_name:
                raise ForestError(f"row {name} was deleted before")
            raise ForestError(f"there is no row {name}; rows are 0 to {self.next_name - 1}")
        dead = self.table.labels[places] < 0
        if dead.any():
            raise ForestError(f"row {wanted[dead][0]} was deleted before")
        return places

    def without(self, slots: NDArray[np.int64]) -> Ensemble:
        """Return the rows held but some, without trees, labels that no row has left out.

        Raises
        ------
        ForestError
            If none is left.
        """
        keep = np.setdiff1d(live_slots(self.table), slots)
        if not len(keep):
            raise ForestError("the last row cannot be deleted: no forest is trained on none")
        return _of_rows(
            self.settings, self.classes, self.names[keep], decoded(self.table, keep),
            self.table.labels[keep], self.next_name,
        )  # fmt: skip

    def forget(self, names: Sequence[int] | NDArray[np.int64]) -> None:
        """Delete rows; afterwards everything is as if they had never been there.

        Raises
        ------
        ForestError
            If a row is not there, or none would be left; then nothing has changed.
        """
        slots = self.slots_of(names)
        if not len(slots):
            return
        root = self.trees[0].counts[0]
        rows = int(root.sum())
        left = root - np.bincount(self.table.labels[slots], minlength=self.labels)
        # The forest is a function of the rows left, so both ways lead to the same one.
        if not left.all() or len(slots) > _few(rows):
            self._take(self.without(slots))
            return
        try:
            self._revise(slots.astype(np.int32), -1)
        except BaseException:
            self._grow()
            raise
        erase(self.table, slots)
        if 2 * (rows - len(slots)) < len(self.names):
            self._take(self.plain())

    def learn(self, X: Floats, labels: NDArray[np.generic]) -> NDArray[np.int64]:
        """Add rows, finite ``X`` of shape (rows, attributes); return their names."""
        names = np.arange(self.next_name, self.next_name + len(X), dtype=np.int64)
        live = self.table.labels[live_slots(self.table)]
        every = np.concatenate((self.classes[live], labels))
        classes, y = np.unique(every, return_inverse=True)
        more = None
        if np.array_equal(classes, self.classes) and len(X) <= _few(len(live)):
            more = extended(self.table, X, y[len(live) :].astype(np.int32))
        if more is None:
            here = self.plain_rows()
            joined = Ensemble(
                self.settings, classes, np.concatenate((here.names, names)),
                np.concatenate((here.X, X)), y.astype(np.int32), (), self.next_name + len(X),
            )  # fmt: skip
            self._take(joined)
            return names
        trees = [engine.packed(self.table, self.rules, tree) for tree in self.trees]
        slots = np.arange(len(self.names), len(self.names) + len(X))
        depth = np.empty(max(int(tree.used[0]) for tree in trees), np.int32)
        for tree in trees:
            recode(self.table, tree, self.rules.random_depth, depth, more[1])
        room = np.full(len(X), -1, np.int32)
        self.trees = Trees(
            tree._replace(
                rows=np.concatenate((tree.rows, room)), where=np.concatenate((tree.where, room))
            )
            for tree in trees
        )
        self.table = more[0]
        self.names = np.concatenate((self.names, names))
        self.next_name += len(X)
        self._local = threading.local()
        try:
            self._revise(slots.astype(np.int32), 1)
        except BaseException:
            self.next_name -= len(X)
            self._take(self.without(slots))
            raise
        return names

    def cost(self, name: int) -> int:
        """Return how many rows would be regrown, over all trees, if one were deleted.

        The measure of the paper's worst-of-1000 adversary (section 4.1). Nothing changes.
        """
        slot = int(self.slots_of([name])[0])
        return engine.cost_of(
            self.table, self.rules, self.trees, self._scratch(), slot, self.settings.seed
        )

    def shares(self, X: Floats) -> Floats:
        """Return the mean over trees of the labels' shares in the leaf each row falls into."""
        out = np.zeros((len(X), self.labels))
        for tree in self.trees:
            vote(tree.nodes, tree.counts, X, out)
        return out / len(self.trees)

    def plain_rows(self) -> Ensemble:
        """Return the rows held, without trees."""
        return self.without(np.empty(0, np.int64))

    def plain(self) -> Ensemble:
        """Return everything in plain form."""
        rows = self.plain_rows()
        number = np.full(len(self.names), -1, np.int32)
        live = live_slots(self.table)
        number[live] = np.arange(len(live))
        trees = tuple(
            plain_tree(self.table, self.rules, engine.packed(self.table, self.rules, tree), number)
            for tree in self.trees
        )
        return Ensemble(
            rows.settings, rows.classes, rows.names, rows.X, rows.y, trees, rows.next_name
        )

    def sizes(self) -> dict[str, int]:
        """Return bytes in use by part, as the paper's Table 3 divides them."""
        parts = {"structure": 0, "decision statistics": 0, "leaf lists": 0}
        for tree in self.trees:
            parts["structure"] += tree.nodes.nbytes
            parts["decision statistics"] += tree.counts.nbytes + tree.arena.nbytes
            parts["leaf lists"] += tree.rows.nbytes + tree.where.nbytes
        parts["data"] = self.names.nbytes + sum(part.nbytes for part in self.table)
        parts["data"] -= self.table.level_bits.nbytes
        return parts


def _few(rows: int) -> int:
    """Return how many rows are revised one by one; for more, a new forest is grown sooner."""
    return 16 + rows // 128


def _of_rows(
    settings: Settings, classes: NDArray[np.generic], names: NDArray[np.int64], X: Floats,
    y: NDArray[np.int32], next_name: int,
) -> Ensemble:  # fmt: skip
    """Return rows as an ensemble without trees, labels numbered among those present."""
    present, codes = np.unique(y, return_inverse=True)
    classes = classes[present]
    if classes.dtype.kind == "U":
        # The longest label sets the width; one that is gone must not.
        classes = np.array(classes.tolist())
    return Ensemble(settings, classes, names, X, codes.astype(np.int32), (), next_name)

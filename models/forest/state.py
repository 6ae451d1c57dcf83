"""A forest that is trained, forgets rows and learns rows, and is always a function of its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.forest import trees
from leaveout.models.forest.layout import Tree, Work, scratch_for
from leaveout.models.forest.plain import Ensemble, Settings, plain_tree, tree_from
from leaveout.models.forest.records import recode, vote
from leaveout.models.forest.table import Table, decode, encode, erase, extend, live_slots
from leaveout.models.forest.trees import Trees
from leaveout.models.forest.turns import Turns

__all__ = ["ForestState"]

Floats = NDArray[np.float64]
Names = Sequence[int] | NDArray[np.int64]
T = TypeVar("T")

_NO_SLOTS = np.empty(0, np.int64)


class _Held(NamedTuple):
    """The rows of a forest, and its trees.

    Attributes
    ----------
    classes : ndarray, shape (labels,)
    names : ndarray of int64, shape (slots,)
        Of the rows, deleted ones too.
    next_name : int
    table : Table
    trees : Trees
    local : threading.local
        What each thread that changes trees on this table works on.
    """

    classes: NDArray[np.generic]
    names: NDArray[np.int64]
    next_name: int
    table: Table
    trees: Trees
    local: threading.local


class ForestState:
    """The trees of a forest and the rows they hold.

    Any number of threads may use it: changes take turns, and everything else sees the forest
    before a change or after it. A change that ends early, by an error or Ctrl-C at whatever
    moment, has happened or not.

    Parameters
    ----------
    ensemble : Ensemble
        If it has no trees they are grown.
    jobs : int
        Threads over trees; no result depends on it.

    Notes
    -----
    What is held is exchanged whole, by one assignment. Only deletions of a few rows change arrays
    in place; where one of them ended early, whoever comes next grows the trees again from the rows.
    """

    def __init__(self, ensemble: Ensemble, jobs: int = 1) -> None:
        self.settings: Settings = ensemble.settings
        self.rules = ensemble.settings.rules
        self.jobs = jobs
        self._turns = Turns()
        self._is_broken = False
        self._held = self._take(ensemble)

    def _take(self, ensemble: Ensemble) -> _Held:
        """Return the rows of an ensemble, and its trees or new ones."""
        table = encode(ensemble.X, ensemble.y)
        held = _Held(
            ensemble.classes, ensemble.names.copy(), ensemble.next_name, table, Trees(()),
            threading.local(),
        )  # fmt: skip
        if not ensemble.trees:
            return held._replace(trees=self._grow(held))
        return held._replace(
            trees=Trees(
                tree_from(table, self.rules, tree, trees.slack(len(tree.feature)))
                for tree in ensemble.trees
            )
        )

    def _work(self, held: _Held) -> Work:
        """Return what kernels work on in this thread."""
        found: Work | None = getattr(held.local, "work", None)
        if found is None:
            scratch = scratch_for(held.table, self.rules, len(held.classes))
            found = Work(held.table, self.rules, scratch, self.settings.seed)
            held.local.work = found
        return found

    def _grow(self, held: _Held) -> Trees:
        def grow(i: int) -> Tree:
            return trees.grow(self._work(held), labels=len(held.classes), index=i)

        every = range(self.settings.trees)
        if self.jobs == 1:
            return Trees([grow(i) for i in every])
        with ThreadPoolExecutor(self.jobs) as pool:
            return Trees(pool.map(grow, every))

    def _revise(self, held: _Held, slots: NDArray[np.int32], by: int) -> None:
        def revise(begin: int, end: int) -> None:
            trees.revise(self._work(held), held.trees, slots, by=by, begin=begin, end=end)

        count = len(held.trees)
        if self.jobs == 1:
            revise(0, count)
            return
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(revise, range(count), range(1, count + 1)))

    def _look(self, at: Callable[[_Held], T]) -> T:
        """Return what a function makes of what is held, which meanwhile does not change."""
        while True:
            found = self._turns.look(lambda: None if self._is_broken else (at(self._held),))
            if found is not None:
                return found[0]
            with self._turns.changes:
                self._mend()

    def _mend(self) -> None:
        """Where a deletion ended early, grow the trees again from the rows that are there."""
        if not self._is_broken:
            return
        # In other arrays: threads of the deletion may still be at work on the old ones.
        held = self._take(self._remaining(self._held, _NO_SLOTS))

        def mend() -> None:
            self._held = held
            self._is_broken = False

        self._turns.change(mend)

    @property
    def classes(self) -> NDArray[np.generic]:
        """The labels of the rows held, ascending."""
        return self._look(lambda held: held.classes)

    @property
    def trees(self) -> Trees:
        """The trees in working form."""
        return self._look(lambda held: held.trees)

    def rows(self) -> NDArray[np.int64]:
        """Return the names of the rows held, ascending."""
        return self._look(lambda held: held.names[live_slots(held.table)])

    def without(self, names: Names = ()) -> Ensemble:
        """Return the rows held but some, without trees, labels that no row has left out.

        Raises
        ------
        ForestError
            If a row is not there, or none is left.
        """
        return self._look(lambda held: self._remaining(held, _slots(held, names)))

    def _remaining(self, held: _Held, slots: NDArray[np.int64]) -> Ensemble:
        keep = np.setdiff1d(live_slots(held.table), slots)
        if not len(keep):
            raise ForestError("the last row cannot be deleted: no forest is trained on none")
        return _of_rows(
            self.settings, held.classes, held.names[keep], decode(held.table, keep),
            held.table.labels[keep], held.next_name,
        )  # fmt: skip

    def forget(self, names: Names) -> None:
        """Delete rows; afterwards everything is as if they had never been there.

        Raises
        ------
        ForestError
            If a row is not there, or none would be left; then nothing has changed.
        """
        with self._turns.changes:
            self._mend()
            held = self._held
            slots = _slots(held, names)
            if not len(slots):
                return
            root = held.trees[0].counts[0]
            rows = int(root.sum())
            left = root - np.bincount(held.table.labels[slots], minlength=len(held.classes))
            # The forest is a function of the rows left, so both ways lead to the same one.
            if not left.all() or len(slots) > _few(rows):
                self._held = self._take(self._remaining(held, slots))
                return

            def forget() -> None:
                self._is_broken = True
                self._revise(held, slots.astype(np.int32), -1)
                erase(held.table, slots)
                self._is_broken = False

            self._turns.change(forget)
            if 2 * (rows - len(slots)) < len(held.names):
                self._held = self._take(self._plain(held))

    def learn(self, X: Floats, labels: NDArray[np.generic]) -> NDArray[np.int64]:
        """Add rows, finite ``X`` of shape (rows, attributes); return their names."""
        with self._turns.changes:
            self._mend()
            held = self._held
            if X.shape[1] != len(held.table.kind):
                raise _other_width(X, held)
            names = np.arange(held.next_name, held.next_name + len(X), dtype=np.int64)
            live = held.table.labels[live_slots(held.table)]
            every = np.concatenate((held.classes[live], labels))
            classes, y = np.unique(every, return_inverse=True)
            more = None
            if np.array_equal(classes, held.classes) and len(X) <= _few(len(live)):
                more = extend(held.table, X, y[len(live) :].astype(np.int32))
            if more is not None:
                self._held = self._join(held, names, *more)
                return names
            here = self._remaining(held, _NO_SLOTS)
            self._held = self._take(
                Ensemble(
                    self.settings, classes, np.concatenate((here.names, names)),
                    np.concatenate((here.X, X)), y.astype(np.int32), (), int(names[-1]) + 1,
                )
            )  # fmt: skip
            return names

    def _join(
        self, held: _Held, names: NDArray[np.int64], table: Table, moved: NDArray[np.int32]
    ) -> _Held:
        """Return a forest with the last rows of a table, in arrays of its own."""
        packed = [trees.pack(held.table, self.rules, tree) for tree in held.trees]
        for tree in packed:
            recode(held.table, tree, self.rules.random_depth, moved)
        room = np.full(len(names), -1, np.int32)
        joined = _Held(
            held.classes, np.concatenate((held.names, names)), held.next_name + len(names), table,
            Trees(
                tree._replace(
                    rows=np.concatenate((tree.rows, room)), where=np.concatenate((tree.where, room))
                )
                for tree in packed
            ),
            threading.local(),
        )  # fmt: skip
        slots = np.arange(len(held.names), len(joined.names), dtype=np.int32)
        self._revise(joined, slots, 1)
        return joined

    def cost(self, name: int) -> int:
        """Return how many rows would be regrown, over all trees, if one were deleted.

        The measure of the paper's worst-of-1000 adversary (section 4.1). Nothing changes in the
        end; meanwhile trees do.
        """
        with self._turns.changes:
            self._mend()
            held = self._held
            slot = int(_slots(held, [name])[0])

            def cost() -> int:
                self._is_broken = True
                found = trees.cost_of(self._work(held), held.trees, slot)
                self._is_broken = False
                return found

            return self._turns.change(cost)

    def shares(self, X: Floats) -> tuple[Floats, NDArray[np.generic]]:
        """Return the mean over trees of the labels' shares in the leaf of each row, and the labels.

        Raises
        ------
        ForestError
            If rows have another number of values than those held.
        """

        def shares(held: _Held) -> tuple[Floats, NDArray[np.generic]]:
            if X.shape[1] != len(held.table.kind):
                raise _other_width(X, held)
            out = np.zeros((len(X), len(held.classes)))
            for tree in held.trees:
                vote(tree, X, out)
            return out / len(held.trees), held.classes

        return self._look(shares)

    def plain(self) -> Ensemble:
        """Return everything in plain form."""
        return self._look(self._plain)

    def _plain(self, held: _Held) -> Ensemble:
        rows = self._remaining(held, _NO_SLOTS)
        number = np.full(len(held.names), -1, np.int32)
        live = live_slots(held.table)
        number[live] = np.arange(len(live))
        plain = tuple(
            plain_tree(held.table, self.rules, trees.pack(held.table, self.rules, tree), number)
            for tree in held.trees
        )
        return replace(rows, trees=plain)

    def sizes(self) -> dict[str, int]:
        """Return bytes in use by part, as the paper's Table 3 divides them."""
        return self._look(_sizes)


def _sizes(held: _Held) -> dict[str, int]:
    parts = {"structure": 0, "decision statistics": 0, "leaf lists": 0}
    for tree in held.trees:
        parts["structure"] += tree.nodes.nbytes
        parts["decision statistics"] += tree.counts.nbytes + tree.arena.nbytes
        parts["leaf lists"] += tree.rows.nbytes + tree.where.nbytes
    parts["data"] = held.names.nbytes + sum(part.nbytes for part in held.table)
    parts["data"] -= held.table.level_bits.nbytes
    return parts


def _slots(held: _Held, names: Names) -> NDArray[np.int64]:
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
    places = np.minimum(np.searchsorted(held.names, wanted), len(held.names) - 1)
    there = held.names[places] == wanted
    if not there.all():
        name = int(wanted[~there][0])
        if 0 <= name < held.next_name:
            raise ForestError(f"row {name} was deleted before")
        raise ForestError(f"there is no row {name}; rows are 0 to {held.next_name - 1}")
    dead = held.table.labels[places] < 0
    if dead.any():
        raise ForestError(f"row {wanted[dead][0]} was deleted before")
    return places


def _other_width(X: Floats, held: _Held) -> ForestError:
    return ForestError(
        f"X has {X.shape[1]} features, and the forest was fitted with {len(held.table.kind)}"
    )


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

"""A trained forest that adds and deletes rows and is always a function of its rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import ForestError
from leaveout.models.forest import trees
from leaveout.models.forest.chance import Bits, emptied_slots, in_tree
from leaveout.models.forest.files import load_ensemble
from leaveout.models.forest.kernels import UNLIMITED, vote
from leaveout.models.forest.plain import Ensemble, Groups, Settings, tree_from
from leaveout.models.forest.table import Table, encode, extend
from leaveout.models.forest.tree_arrays import Tree, Work, scratch_for, work_on
from leaveout.models.forest.trees import (
    Held,
    Names,
    Trees,
    extend_table,
    index_of,
    plain_form,
    refuse_part,
    release,
    sizes_of,
    slots_of,
    without_places,
)

T = TypeVar("T")


class ReadWriteLock:
    """Readers-writer lock: a reader takes one of eight locks, a writer all; not reentrant."""

    # ``with`` on interpreter locks is safe against Ctrl-C; a waiting writer lets a reader in once.

    def __init__(self) -> None:
        self.changes = threading.Lock()
        self._gate = threading.Lock()
        self._places = tuple(threading.Lock() for _ in range(8))

    def read(self, at: Callable[[], T]) -> T:
        """Return a function's result, under the readers' lock."""
        with self._gate:
            # Native numbers of threads follow one another; addresses are multiples of a page.
            mine = self._places[threading.get_native_id() % len(self._places)]
        with mine:
            return at()

    def write(self, what: Callable[[], T]) -> T:
        """Return the result of a function that changes the state, under the writers' lock."""
        a, b, c, d, e, f, g, h = self._places
        with self._gate, a, b, c, d, e, f, g, h:
            return what()


_MANY = 128  # inputs beyond which all that is pending is grown at once: node by node takes longer

_NO_SLOTS = np.empty(0, np.int64)
_BRIEF = 16  # fewer rows are taken out of all trees in less time than threads take to start
_SLICE = 2**16
"""About how many rows are looked at, once a level, while nobody else looks at the forest."""
_PAUSE = 0.0005  # seconds in which others may take their turns


class ForestState:
    """The trees of a forest and their rows; to any thread a change is done or not begun."""

    def __init__(self, ensemble: Ensemble, jobs: int = 1, lazy: bool = False) -> None:
        self.settings: Settings = ensemble.settings
        self.rules = ensemble.settings.rules
        self.jobs = jobs
        self.lazy = lazy
        self._turns = ReadWriteLock()
        self._is_broken = False
        self._held = self._take(ensemble)

    def _take(self, ensemble: Ensemble, lazy: bool = False) -> Held:
        """Return the rows of an ensemble with its trees, or with new ones."""
        table = encode(ensemble.X, ensemble.y)
        index, chosen = index_of(
            self.settings, ensemble.classes, table, np.arange(len(ensemble.names))
        )
        groups = ensemble.groups and Groups(ensemble.groups.column, ensemble.groups.cells.copy())
        held = Held(
            ensemble.classes, ensemble.names.copy(), ensemble.next_name, table, index, Trees(()),
            threading.local(), groups,
        )  # fmt: skip
        if not ensemble.trees:
            return held._replace(trees=self._grow(held, chosen, lazy))
        return held._replace(
            trees=Trees(
                tree_from(table, self.rules, tree, trees.slack(len(tree.feature)))
                for tree in ensemble.trees
            )
        )

    def _work(self, held: Held) -> Work:
        """Return the kernels' working data for this thread."""
        found: Work | None = getattr(held.local, "work", None)
        if found is None:
            scratch = scratch_for(held.table, self.rules, len(held.classes))
            found = work_on(held.table, self.rules, scratch, self.settings.seed)
            held.local.work = found
        return found

    def _grow(self, held: Held, chosen: Bits | None, lazy: bool) -> Trees:
        def grow(i: int) -> Tree:
            live = in_tree(chosen, len(held.table.labels), i)
            work, labels = self._work(held), len(held.classes)
            return trees.root(work, labels, live) if lazy else trees.grow(work, labels, i, live)

        return Trees(self._each(grow, range(self.settings.trees), lazy))

    def _each(self, what: Callable[[int], T], of: Iterable[int], briefly: bool = False) -> list[T]:
        """Return a function's results for some trees, in threads unless brief."""
        if self.jobs == 1 or briefly:
            return [what(i) for i in of]
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(what, of))

    def _forget(self, held: Held, slots: NDArray[np.int32]) -> None:
        """Remove rows from all trees."""
        lazy, count = self.lazy, len(held.trees)

        def forget(begin: int, end: int) -> None:
            trees.forget(self._work(held), held.trees, slots, begin, end, lazy=lazy)

        if self.jobs == 1 or (lazy and len(slots) < _BRIEF):
            forget(0, count)
        else:
            self._each(lambda i: forget(i, i + 1), range(count))

    def settle(self) -> None:
        """Grow everything pending, in slices between which others get their turn."""
        while True:
            with self._turns.changes:
                self._mend()
                if not self._settle_some(_SLICE):
                    return
            # Whoever waits for a lock gets it only if this thread does not.
            time.sleep(_PAUSE)

    def _settle_some(self, budget: int) -> bool:
        """Grow some pending nodes as a writer; return whether any are left."""
        held = self._held
        found = trees.pending_trees(held.trees)[: self.jobs]

        def settle(i: int) -> tuple[bool, Tree | None]:
            return trees.settle(self._work(held), held.trees, i, budget)

        if not found:
            return False
        made = self._turns.write(lambda: self._each(settle, found))
        self._replace(held, {i: tree for i, (_, tree) in zip(found, made, strict=True) if tree})
        return True

    def _replace(self, held: Held, new: dict[int, Tree]) -> Held:
        """Replace some trees by equal ones in larger arrays."""
        if new:
            # By one assignment, so that an interruption comes before it or after it.
            self._held = held._replace(trees=held.trees.with_trees(new))
        return self._held

    def _look(self, at: Callable[[Held], T]) -> T:
        """Return a function's result on the state, as a reader."""
        while True:
            found = self._turns.read(lambda: None if self._is_broken else (at(self._held),))
            if found is not None:
                return found[0]
            with self._turns.changes:
                self._mend()

    def _mend(self) -> None:
        """Regrow the trees from the present rows after an interrupted deletion."""
        if not self._is_broken:
            return
        # In other arrays: threads of the deletion may still be at work on the old ones.
        held = self._take(self._without_places(self._held, _NO_SLOTS), self.lazy)

        def mend() -> None:
            self._held = held
            self._is_broken = False

        self._turns.write(mend)

    @property
    def classes(self) -> NDArray[np.generic]:
        """The labels of the rows held, in ascending order."""
        return self._look(lambda held: held.classes)

    @property
    def trees(self) -> Trees:
        """The trees in working form."""
        return self._look(lambda held: held.trees)

    def rows(self) -> NDArray[np.int64]:
        """Return the names of the rows held, in ascending order."""
        return self._look(lambda held: held.names[held.by_name.slots >= 0])

    def without(self, names: Names = ()) -> Ensemble:
        """Return the rows without some, with neither trees nor unused labels."""
        return self._look(lambda held: self._without_places(held, slots_of(held, names)[0]))

    def _without_places(self, held: Held, places: NDArray[np.int64]) -> Ensemble:
        """Return the rows without those at some places."""
        return without_places(self.settings, held, places)

    def rows_of(self, cell: str) -> NDArray[np.int64] | None:
        """Return the names of a group's rows, ascending; None where rows leave alone."""

        def rows_of(held: Held) -> tuple[NDArray[np.int64] | None]:
            if held.groups is None:
                return (None,)
            return (held.names[(held.groups.cells == cell) & (held.by_name.slots >= 0)],)

        return self._look(rows_of)[0]

    def refuse_part(self, names: Names) -> None:
        """Refuse rows that are only some of a group."""
        self._look(lambda held: refuse_part(held, slots_of(held, names)[0]))

    def forget(self, names: Names, part: bool = True) -> None:
        """Delete rows, as if they had never been there; maybe only ``part`` of a group."""
        with self._turns.changes:
            self._mend()
            held = self._held
            places, slots = slots_of(held, names)
            if not len(slots):
                return
            if not part:
                refuse_part(held, places)
            totals = held.by_name.totals
            rows = int(totals.sum())
            left = totals - np.bincount(held.table.labels[slots], minlength=len(held.classes))
            # The forest is a function of the rows left, so both ways lead to the same one.
            if not left.all() or len(slots) > _part(rows, self.lazy):
                self._held = self._take(self._without_places(held, places), self.lazy)
                return
            slots = emptied_slots(held.by_name.copies, slots)

            def forget() -> None:
                self._is_broken = True
                self._forget(held, slots.astype(np.int32))
                release(held.table, held.by_name, places, slots)
                if held.groups is not None:
                    held.groups.cells[places] = ""
                self._is_broken = False

            self._turns.write(forget)
            if 2 * (rows - len(slots)) < len(held.names):
                self._held = self._take(self._whole())

    def learn(
        self, X: Floats, labels: NDArray[np.generic], cells: NDArray[np.str_]
    ) -> NDArray[np.int64]:
        """Add rows, finite ``X`` of shape (rows, attributes); return their names."""
        with self._turns.changes:
            self._mend()
            held = self._held
            if X.shape[1] != len(held.table.kind):
                raise _other_width(X, held)
            names = np.arange(held.next_name, held.next_name + len(X), dtype=np.int64)
            live = held.table.labels[held.by_name.slots[held.by_name.slots >= 0]]
            every = np.concatenate((held.classes[live], labels))
            classes, y = np.unique(every, return_inverse=True)
            more = None
            if np.array_equal(classes, held.classes) and len(X) <= _few(len(live)):
                more = extend(held.table, X, y[len(live) :].astype(np.int32))
            if more is not None:
                groups = held.groups and held.groups.extend(cells)
                self._held = self._join(held, names, *more, groups)
                return names
            here = self._without_places(held, _NO_SLOTS)
            self._held = self._take(
                Ensemble(
                    self.settings, classes, np.concatenate((here.names, names)),
                    np.concatenate((here.X, X)), y.astype(np.int32), (), int(names[-1]) + 1,
                    here.groups and here.groups.extend(cells),
                ),
                self.lazy,
            )  # fmt: skip
            return names

    def _join(
        self,
        held: Held,
        names: NDArray[np.int64],
        table: Table,
        moved: NDArray[np.int32],
        groups: Groups | None,
    ) -> Held:
        """Return a forest with the last rows of a table added, in new arrays."""
        joined, new = extend_table(self.settings, held, names, table, moved, groups)
        lazy = self.lazy

        def learn(i: int) -> None:
            trees.learn(self._work(joined), joined.trees, new[i], i, lazy=lazy)

        self._each(learn, range(len(new)))
        return joined

    def cost(self, name: int) -> int:
        """Return how many rows, over all trees, one deletion would regrow."""
        with self._turns.changes:
            self._mend()
            while self._settle_some(UNLIMITED):
                pass
            held = self._held
            slot = int(emptied_slots(held.by_name.copies, slots_of(held, [name])[1])[0])

            def cost() -> int:
                self._is_broken = True
                found = trees.cost_of(self._work(held), held.trees, slot)
                self._is_broken = False
                return found

            return self._turns.write(cost)

    def shares(self, X: Floats) -> tuple[Floats, NDArray[np.generic]]:
        """Return the mean label shares in each row's leaves, and the labels."""

        def shares(held: Held) -> tuple[Floats, NDArray[np.generic]] | None:
            if X.shape[1] != len(held.table.kind):
                raise _other_width(X, held)
            out = np.zeros((len(X), len(held.classes)))
            if not vote(held.trees.addresses, X, out):
                return None
            return out / len(held.trees), held.classes

        found = self._look(shares)
        if found is not None:
            return found
        if len(X) > _MANY:
            self.settle()
        with self._turns.changes:
            self._mend()
            while found is None:
                found = shares(self._ask(self._held, X))
            return found

    def _ask(self, held: Held, X: Floats) -> Held:
        """Grow the nodes inputs reach, or make room for them, as a writer."""
        work = self._work(held)
        return self._replace(held, self._turns.write(lambda: trees.ask(work, held.trees, X)))

    def plain(self) -> Ensemble:
        """Return the forest in plain form."""
        self.settle()
        with self._turns.changes:
            self._mend()
            return self._whole()

    def _whole(self) -> Ensemble:
        """Return the forest in plain form, as a writer."""
        while self._settle_some(UNLIMITED):
            pass
        return self._turns.read(lambda: plain_form(self.settings, self._held))

    def sizes(self) -> dict[str, int]:
        """Return the bytes in use by part, as in the paper's Table 3."""
        return self._look(sizes_of)


def load_plain(path: Path) -> Ensemble:
    """Read a forest file, with statistics that follow from its rows."""
    return ForestState(load_ensemble(path)).plain()


def _other_width(X: Floats, held: Held) -> ForestError:
    return ForestError(
        f"X has {X.shape[1]} features, but the forest was fitted with {len(held.table.kind)}"
    )


def _few(rows: int) -> int:
    """Return up to how many rows are added one by one; beyond, retraining is faster."""
    return 16 + rows // 128


def _part(rows: int, lazy: bool) -> int:
    """Return up to how many rows are removed in one pass; beyond, retraining is faster."""
    return 16 + rows // (8 if lazy else 16)

"""One explorer with everything it needs, as run by a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.explorer import Explorer, Group, Stand, cap_bounds, grow, root_bounds
from leaveout.bab.native.files.records import BLOCK, Record, Table, pack, row_type, unpack
from leaveout.bab.native.kernels import make_kernel
from leaveout.bab.native.kernels.interface import Kernel
from leaveout.bab.native.kernels.registry import CpuKernel
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Hint, Question
from leaveout.bab.native.space import Space
from leaveout.deadline import Deadline
from leaveout.errors import SolverError


def _scores(brancher: Brancher) -> list[tuple[str, Any]]:
    """Return what is known of all members; what is known of one is learnt again."""
    return [*vars(brancher).items(), *vars(brancher.common).items()]


def pack_scores(brancher: Brancher) -> dict[str, Any]:
    """Return gains, averages and generator state as JSON; no proof depends on them."""
    packed: dict[str, Any] = {}
    for name, value in _scores(brancher):
        if isinstance(value, np.ndarray):
            packed[name] = value.tolist()
        elif isinstance(value, np.random.Generator):
            packed[name] = value.bit_generator.state
        elif isinstance(value, (int, float)):
            packed[name] = value
    return packed


def load_scores(brancher: Brancher, known: dict[str, Any]) -> None:
    """Restore the scores of a brancher, ignoring what does not fit."""
    for name, value in _scores(brancher):
        if name not in known:
            continue
        if isinstance(value, np.ndarray):
            array = np.array(known[name], value.dtype)
            if array.shape == value.shape:
                value[...] = array
        elif isinstance(value, np.random.Generator):
            value.bit_generator.state = known[name]
        elif isinstance(value, int):
            setattr(brancher, name, type(value)(known[name]))


_HINTS = 6

_ROOTS = 64  # roots bounded at once
_SLICE = 0.25  # seconds between checks for targets found elsewhere


class FailedError(Exception):
    """A worker was called after it had failed halfway."""


@dataclass(frozen=True, eq=False)
class Report:
    """The result of a worker's step."""

    stand: Stand
    hints: list[Hint]  # the most urgent nodes, in order
    records: list[Record]  # nodes bounded since the last report, if a certificate is requested
    number: int  # number of this report by the worker


@dataclass(frozen=True, eq=False)
class WorkerState:
    """A worker's state, except its nodes."""

    blocks: int  # number of tables for its open nodes
    closed: Floats  # shape (members,)
    unresolved: float
    bounded: int
    names: int  # all nodes have lower numbers
    learnt: dict[str, Any]  # scores of the brancher, see `pack_scores`


def _kernel_for(space: Space, spec: str, threads: int | None) -> Kernel:
    kernel = make_kernel(spec, threads)
    if space.layout.kinds.any() and not isinstance(kernel, CpuKernel):
        raise SolverError(f"kernel {spec!r} bounds ReLUs, and no smooth activations; use cpu")
    return kernel


class Worker:
    """A worker's part of a search."""

    def __init__(
        self,
        question: Question[Any],
        options: NativeOptions,
        first: int = 0,
        stride: int = 1,
        threads: int | None = None,
    ) -> None:
        self.prepared = prepared = question.prepare(options)
        self._least = question.least
        self.space = prepared.space
        self.explorer = Explorer(
            prepared.space,
            prepared.clusters,
            _kernel_for(prepared.space, options.kernel, threads),
            prepared.forms,
            steps=options.steps,
            reach=options.reach,
            seed=options.seed,
            first=first,
            stride=stride,
            bound_rounding=prepared.bound_rounding,
            boundary=prepared.boundary,
        )
        self.explorer.records = [] if options.certificate else None
        self.explorer.brancher.ties = prepared.may_tie
        self._first, self._stride = first, stride
        self.listen: Callable[[], float] | None = None
        self._told = -np.inf
        self._halted = self._failed = False
        self._last: Report | None = None
        self._lent: list[Node] = []
        self._kept: list[Node] = []

    def start(self, target: float) -> Report:
        """Bound the roots: all members, one root per case."""
        everyone = np.arange(self.space.count, dtype=np.int64)
        roots = self.prepared.roots(everyone, self.explorer.name)
        with self._whole():
            for i in range(0, len(roots), _ROOTS):
                if self._halted:
                    # The coordinator waits no longer.
                    self.explorer.add(roots[i:])
                    break
                self.explorer.start(roots[i : i + _ROOTS], target)
            return self._report(target)

    def step(self, target: float, seconds: float) -> Report:
        """Explore for some seconds."""
        deadline = Deadline.after(seconds)
        with self._whole():
            while True:
                target = max(target, self._told)
                if self.listen is not None:
                    target = max(target, self.listen())
                left = deadline.seconds_left
                stand = self.explorer.step(target, min(left, _SLICE))
                if left <= _SLICE or self._halted or not stand.worth_going_on:
                    return self._report(target)

    def tell(self, target: float) -> None:
        """Give a running step a better target; may be called from another thread."""
        self._told = max(self._told, target)

    def halt(self) -> None:
        """Make a running step end soon; may be called from another thread."""
        self._halted = True

    def add(self, table: Table) -> None:
        """Add nodes."""
        nodes = unpack(table, self._example())
        with self._whole():
            self.explorer.add(nodes)

    def give(self, count: int) -> Table:
        """Lend nodes; they count as this worker's until `forget` is called."""
        with self._whole():
            self._lent = self.explorer.give(count)
        return pack(self._lent, self._row_type())

    def forget(self) -> None:
        """Drop lent nodes, which another worker now has."""
        self._lent = []

    def nodes(self) -> list[Node]:
        """Return all open nodes."""
        with self._whole():
            return self.explorer.nodes() + self._lent

    def last(self) -> Report | None:
        """Return the last report again."""
        return self._last

    def settled_values(self) -> Floats:
        """Return each member's largest settled value; minus infinity if none."""
        with self._whole():
            return self.explorer.closed.copy()

    def member_values(self) -> Floats:
        """Return each member's known upper bound; minus infinity for none."""
        values = self.settled_values()
        for node in self.nodes():
            values[node.members] = np.maximum(values[node.members], node.bound)
        return values

    def groups(self, known: Floats, enough: float, late: bool) -> list[Group]:
        """Group members by similarity, to show which ones determine the bound."""
        explorer, clusters = self.explorer, self.explorer.clusters
        assert clusters is not None

        def bound(parts: list[NDArray[np.int64]]) -> list[float]:
            if late:
                return [float(known[part].max()) for part in parts]
            return root_bounds(explorer, self.prepared, parts)

        size = (self.space.layout.weights + self.space.layout.hidden) * self.prepared.forms.cases
        return cap_bounds(grow(clusters, self.space.count, bound, enough, size), known, self._least)

    def save(self) -> WorkerState:
        """Return this worker's state; its nodes are read by `block` afterwards."""
        self._kept = self.nodes()
        return WorkerState(
            -(-len(self._kept) // BLOCK),
            self.explorer.closed.copy(),
            self.explorer.unresolved,
            self.explorer.bounded,
            self.explorer.name(),
            pack_scores(self.explorer.brancher),
        )

    def block(self, number: int) -> Table:
        """Return some of the open nodes, the most urgent first."""
        return pack(self._kept[number * BLOCK : (number + 1) * BLOCK], self._row_type())

    def end_save(self) -> None:
        """Release what was kept for saving."""
        self._kept = []

    def rename(self, names: int) -> None:
        """Give new nodes numbers from ``names`` on; lower ones may be in use elsewhere."""
        self.explorer.rename(names + (self._first - names) % self._stride, self._stride)

    def load(self, state: WorkerState) -> None:
        """Restore a worker's state."""
        explorer = self.explorer
        explorer.closed = np.maximum(explorer.closed, state.closed)
        explorer.unresolved = max(explorer.unresolved, state.unresolved)
        explorer.bounded += state.bounded
        load_scores(explorer.brancher, state.learnt)

    def _example(self) -> Node:
        return self.prepared.root(np.zeros(0, np.int64), 0, 0)

    def _row_type(self) -> np.dtype[np.void]:
        return row_type(self._example())

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Mark the worker as failed on any error, since nodes may be lost."""
        if self._failed:
            raise FailedError("the explorer failed earlier")
        self._failed = True
        yield
        self._failed = False

    def _report(self, target: float) -> Report:
        records = self.explorer.records or []
        if self.explorer.records is not None:
            self.explorer.records = []
        hints = list(self.explorer.met)
        for node in [*self.explorer.unresolved_nodes, *self.explorer.urgent(_HINTS)]:
            point = (node.lower + node.upper) / 2 + self.space.origin
            hints.append(Hint(point, int(node.members[0]), node.case, node.value))
        number = self._last.number + 1 if self._last else 0
        self._last = Report(self.explorer.stand(target), hints, records, number)
        return self._last


@dataclass(frozen=True, eq=False)
class Saved:
    """Saved state of a search."""

    point: NDArray[np.floating] | None  # shape (d,)
    member: int  # the member of the witness; -1 for none
    before: Floats  # shape (members,): no leak of a member is above this
    proved: float  # no leak is above this
    cut: float  # highest target so far: nodes no longer open have no leak above it
    seconds: float  # seconds spent so far
    states: list[WorkerState]
    records: list[Record]


Tables = Callable[[int, int], Table]
"""Returns a table of a search's nodes, by worker and number."""

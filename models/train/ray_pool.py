"""Workers on Ray, on one or several machines: one block per task."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from leaveout.children import import_environment
from leaveout.errors import TrainingError
from leaveout.models.train.pool import ENVIRONMENT, Pool, processes
from leaveout.models.train.ray_tasks import (
    Came,
    Given,
    Lost,
    TrainBlocks,
    Unlike,
    bits_of_this_machine,
)
from leaveout.models.train.task import (
    Block,
    Check,
    Checked,
    Event,
    Noted,
    Order,
    Step,
    Task,
    name_of,
)
from leaveout.ray_cluster import RayDriver, RayLostError

_DEATHS = 3
"""Workers that a block may cost."""

_AHEAD = 2
"""Orders given for each that is worked at, so that no machine waits for the next."""

_WAIT = 1.0
"""Seconds after which it is asked whether machines have joined."""


@contextmanager
def ray_workers(workers: int | None, shared: int) -> Iterator[RayWorkers]:
    """Connect to a cluster, or start one here until closed."""
    try:
        with RayDriver(workers, shared=shared) as driver:
            yield RayWorkers(driver, workers)
    except RayLostError as error:
        raise TrainingError(
            f"{error}; finished blocks are kept: run the same again once the cluster is up, or "
            "without Ray"
        ) from None


class RayWorkers:
    """A cluster, and how much of it is used."""

    def __init__(self, driver: RayDriver, workers: int | None) -> None:
        self._driver, self._workers = driver, workers

    def size(self, gpus: bool) -> int:
        """Return how many orders are worked on at once now."""
        there = self._driver.gpus if gpus else self._driver.cpus
        return self._workers or max(1, there)

    @contextmanager
    def pool(self, task: Task, size: int) -> Iterator[Pool]:
        """Open a pool whose results are sent back.

        Workers whose trial training gives other bits than this machine are not used, so no family
        is a mixture.
        """
        reference = task.reference or _reference(task)
        yield _Orders(
            self,
            self._driver,
            TrainBlocks(
                task=_with_reference(task, reference),
                run=uuid.uuid4().hex,
                limit=self._workers,
                variables={**ENVIRONMENT, **import_environment()},
            ),
        )


def _reference(task: Task) -> str:
    """Return the result of a check on this machine."""
    with processes(task, 1) as pool:
        for _, said in pool.work([Check()]):
            if isinstance(said, Checked):
                return said.digest
            if not isinstance(said, Step):
                raise TrainingError(f"training was tried out on this machine: {said}")
    raise TrainingError("training could not be tried out on this machine")


def _with_reference(task: Task, reference: str) -> Task:
    assert dataclasses.is_dataclass(task)
    return dataclasses.replace(task, reference=reference)


class _Orders:
    def __init__(self, workers: RayWorkers, driver: RayDriver, role: TrainBlocks) -> None:
        self._workers, self._driver, self._role = workers, driver, role
        self._given: dict[int, Order] = {}
        self._deaths: Counter[int] = Counter()
        self._unlike: list[str] = []

    def work(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Event]]:
        """See `Pool.work`."""
        waiting, numbers = iter(orders), itertools.count()
        self._driver.serve(self._role)
        self._give(waiting, numbers)
        while self._given:
            match self._driver.receive(_WAIT):
                case Came(number, event):
                    # Of an order that is done, a step may come late.
                    if number in self._given:
                        order = self._given[number]
                        if not isinstance(event, Step):
                            del self._given[number]
                            self._give(waiting, numbers)
                        yield order, event
                case Lost() as lost:
                    yield self._given[lost.number], Noted(self._again(lost))
                case Unlike() as unlike:
                    yield next(iter(self._given.values())), Noted(self._without(unlike))
                case None:
                    self._give(waiting, numbers)

    def _give(self, waiting: Iterator[Order], numbers: Iterator[int]) -> None:
        most = _AHEAD * self._workers.size(bool(self._role.task.gpus))
        for order in itertools.islice(waiting, max(0, most - len(self._given))):
            number = next(numbers)
            self._given[number] = order
            self._driver.send(Given(number, order))

    def _again(self, lost: Lost) -> str:
        """Give a lost order to another worker and report it, a limited number of times."""
        order = self._given[lost.number]
        name = _name(order, self._role.task)
        if lost.fault:
            raise TrainingError(f"{name}: a worker of Ray failed: {lost.why}")
        self._deaths[lost.number] += 1
        deaths = self._deaths[lost.number]
        if deaths == _DEATHS:
            raise TrainingError(
                f"{name}: {_DEATHS} workers of Ray died at it ({lost.why}); finished blocks are "
                "kept: run the same again, with a smaller block if memory ran out"
            )
        self._driver.send(Given(lost.number, order))
        return f"{name}: its worker died; another one trains it ({deaths} of {_DEATHS - 1} times)"

    def _without(self, unlike: Unlike) -> str:
        here = bits_of_this_machine()
        others = [
            f"{name} {there}, here {here.get(name, 'none')}"
            for name, there in unlike.facts.items()
            if here.get(name) != there
        ]
        said = f"{unlike.machine} ({'; '.join(others) or 'what is known of it is the same'})"
        self._unlike.append(said)
        if not unlike.left:
            raise TrainingError(
                "no machine of the Ray cluster trains the bits that this one does: "
                f"{', '.join(self._unlike)}; start the run on a machine like those"
            )
        return f"{said} trains other bits than this machine, and is not used"


def _name(order: Order, task: Task) -> str:
    """Return the name of an order for messages, by its left-out rows."""
    if not isinstance(order, Block):
        return str(order)
    networks = order.networks
    if len(networks) == 1:
        return name_of(networks.start, task.removed)
    rows = task.removed[max(0, networks.start - 1) : networks.stop - 1]
    whole = "" if networks.start else "the network on all rows and "
    return f"{whole}the members without rows {rows[0]}-{rows[-1]}"

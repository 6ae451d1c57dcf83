"""Ray workers on one or more machines, with one Ray task per block."""

from __future__ import annotations

import dataclasses
import itertools
import platform
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaveout.children import import_environment
from leaveout.errors import TrainingError
from leaveout.models.train.pool import (
    ENVIRONMENT,
    Block,
    Check,
    Checked,
    Event,
    Noted,
    Order,
    Pool,
    Step,
    Task,
    name_of,
    processes,
)
from leaveout.ray_cluster import RayDriver, RayLostError
from leaveout.ray_driver import Over, Role, Say, first_line, this_machine
from leaveout.version import VERSION

_LOOK = 0.2  # seconds between checks for messages of the parent
_TELL = 2.0  # seconds between a worker's progress reports, and between checks for them


@dataclass(frozen=True)
class Given:
    """An order to do."""

    number: int
    order: Order


@dataclass(frozen=True, eq=False)
class Came:
    """An event of an order."""

    number: int
    event: Event


@dataclass(frozen=True)
class Lost:
    """The worker of an order died; ``fault`` if another would fail as well."""

    number: int
    why: str
    fault: bool = False


@dataclass(frozen=True)
class Unlike:
    """A machine excluded because it trains other bits than this one."""

    machine: str
    facts: dict[str, str]  # of the machine
    left: bool = True  # whether any machine is left


@dataclass(frozen=True, eq=False)
class TrainBlocks(Role):
    """Have the orders done by all machines of the cluster."""

    task: Task  # including its reference
    run: str  # identifies this run
    limit: int | None  # most orders at once
    variables: dict[str, str]  # environment of the workers

    def serve(self, ray: Any, inbox: queue.SimpleQueue[object], say: Say) -> None:
        _Driver(ray, self, say).run(inbox)


class _Driver:
    def __init__(self, ray: Any, role: TrainBlocks, say: Say) -> None:
        self._ray, self._role, self._say = ray, role, say
        self._shared = ray.put(role.task)
        self._board = ray.remote(num_cpus=0, max_restarts=-1)(_Board).remote()
        # No retries: the parent counts which blocks kill their workers.
        self._train = ray.remote(max_retries=0)(_train)
        self._running: dict[Any, Given] = {}
        self._waiting: list[Given] = []
        self._unlike: dict[str, str] = {}
        self._looked = time.monotonic()
        self._steps: Any = None

    def run(self, inbox: queue.SimpleQueue[object]) -> None:
        while True:
            while not (self._running and inbox.empty()):
                message = inbox.get()
                if isinstance(message, Over):
                    return
                assert isinstance(message, Given)
                self._waiting.append(message)
                self._start()
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK)
            for each in ready:
                self._finish(each, self._running.pop(each))
            self._start()
            self._look()

    def _start(self) -> None:
        limit = self._role.limit
        while self._waiting and (limit is None or len(self._running) < limit):
            given = self._waiting.pop(0)
            gpus = self._role.task.gpus
            options: dict[str, Any] = {
                "num_cpus": 0 if gpus else 1,
                "num_gpus": gpus,
                "runtime_env": {"env_vars": self._role.variables},
            }
            if self._unlike:
                options["label_selector"] = {"ray.io/node-id": f"!in({','.join(self._unlike)})"}
            started = self._train.options(**options).remote(
                self._shared, self._role.run, VERSION, given, self._board
            )
            self._running[started] = given

    def _finish(self, done: Any, given: Given) -> None:
        errors = self._ray.exceptions
        try:
            node, said = self._ray.get(done)
        except errors.RayTaskError as error:
            cause = error.cause or error
            why = f"{type(cause).__name__}: {first_line(cause)}"
            self._say(Lost(given.number, why, fault=True))
        except errors.RayError as error:
            # Without a head node, all workers are lost: then this call raises, and that is
            # reported.
            self._ray.nodes()
            self._say(Lost(given.number, first_line(error)))
        else:
            if isinstance(said, Unlike):
                self._exclude(node, said)
                self._waiting.insert(0, given)
            else:
                self._say(Came(given.number, said))

    def _exclude(self, node: str, said: Unlike) -> None:
        if node in self._unlike:
            return
        self._unlike[node] = said.machine
        kind = "GPU" if self._role.task.gpus else "CPU"
        left = any(
            each["Alive"] and each["Resources"].get(kind) and each["NodeID"] not in self._unlike
            for each in self._ray.nodes()
        )
        self._say(Unlike(said.machine, said.facts, left))

    def _look(self) -> None:
        """Forward the progress of workers."""
        now = time.monotonic()
        if now - self._looked < _TELL:
            return
        self._looked = now
        if self._steps is not None:
            ready, _ = self._ray.wait([self._steps], timeout=0)
            if not ready:
                return
            known: dict[int, float] = {}
            try:
                known = self._ray.get(self._steps)
            except self._ray.exceptions.RayError:
                # Ray restarts it; steps are only for display.
                known = {}
            for given in self._running.values():
                if given.number in known:
                    self._say(Came(given.number, Step(known[given.number])))
        self._steps = self._board.steps.remote()


class _Board:
    """The progress of each order."""

    def __init__(self) -> None:
        self._steps: dict[int, float] = {}

    def tell(self, number: int, share: float) -> None:
        self._steps[number] = share

    def steps(self) -> dict[int, float]:
        return self._steps


_CHECKED: dict[str, str] = {}
"""Results of this worker's check, by run: a worker checks once, then executes many tasks."""


def _train(
    task: Task, run: str, version: str, given: Given, board: Any
) -> tuple[str, Event | Unlike]:
    """Execute an order in a Ray worker; also return its node."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    machine = this_machine(ray)
    if version != VERSION:
        return node, Unlike(machine, {"leaveout": VERSION})
    task.prepare()
    if run not in _CHECKED:
        checked = task.do(Check(), lambda step: None)
        _CHECKED[run] = checked.digest if isinstance(checked, Checked) else str(checked)
    if _CHECKED[run] != task.reference:
        return node, Unlike(machine, bits_of_this_machine())
    return node, task.do(given.order, _teller(board, given.number))


def _teller(board: Any, number: int) -> Callable[[Step | Noted], None]:
    told = time.monotonic()

    def tell(step: Step | Noted) -> None:
        nonlocal told
        if isinstance(step, Step) and time.monotonic() - told >= _TELL:
            told = time.monotonic()
            board.tell.remote(number, step.share)

    return tell


def bits_of_this_machine() -> dict[str, str]:
    """Return the facts that the bits of training depend on, as far as known."""
    import numpy as np

    facts = {"leaveout": VERSION, "CPU": _processor(), "numpy": np.__version__}
    try:
        import torch
    except ImportError:
        return facts
    unit = torch.backends.cpu.get_cpu_capability()
    return {**facts, "torch": str(torch.__version__), "instructions": unit}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


_DEATHS = 3  # deaths of workers after which a block is given up
_AHEAD = 2  # orders sent per running one, so that no machine has to wait
_WAIT = 1.0  # seconds between checks for new machines


@contextmanager
def ray_workers(workers: int | None, shared: int) -> Iterator[RayWorkers]:
    """Connect to a cluster, or start one here until the context ends."""
    try:
        with RayDriver(workers, shared=shared) as driver:
            yield RayWorkers(driver, workers)
    except RayLostError as error:
        raise TrainingError(
            f"{error}; finished blocks are kept: run the same command again once the cluster is "
            "up, or without Ray"
        ) from None


class RayWorkers:
    """A cluster, and how much of it is used."""

    def __init__(self, driver: RayDriver, workers: int | None) -> None:
        self._driver, self._workers = driver, workers

    def size(self, gpus: bool) -> int:
        """Return how many orders can run at once now."""
        there = self._driver.gpus if gpus else self._driver.cpus
        return self._workers or max(1, there)

    @contextmanager
    def pool(self, task: Task, size: int) -> Iterator[Pool]:
        """Open a pool without workers whose trial training differs in a bit from this machine's."""
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
    """Return the result of this machine's check."""
    with processes(task, 1) as pool:
        for _, said in pool.work([Check()]):
            if isinstance(said, Checked):
                return said.digest
            if not isinstance(said, Step):
                raise TrainingError(f"trial training on this machine: {said}")
    raise TrainingError("trial training failed on this machine")


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
        waiting, numbers = iter(orders), itertools.count()
        self._driver.serve(self._role)
        self._give(waiting, numbers)
        while self._given:
            match self._driver.receive(_WAIT):
                case Came(number, event):
                    # A step may arrive after its order is done.
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
            raise TrainingError(f"{name}: a Ray worker failed: {lost.why}")
        self._deaths[lost.number] += 1
        deaths = self._deaths[lost.number]
        if deaths == _DEATHS:
            raise TrainingError(
                f"{name}: {_DEATHS} Ray workers died on it ({lost.why}); finished blocks are "
                "kept: run the same command again, with a smaller block if memory ran out"
            )
        self._driver.send(Given(lost.number, order))
        return (
            f"{name}: its worker died; another one is training it ({deaths} of {_DEATHS - 1} times)"
        )

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
                "no machine of the Ray cluster trains bit for bit as this one does: "
                f"{', '.join(self._unlike)}; start the run on a machine like those"
            )
        return f"{said} does not train bit for bit as this machine does, and is not used"


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

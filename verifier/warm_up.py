"""Compilation before a question's clock starts, and for ``leaveout warm``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forms import leak_forms
from leaveout.bab.native.kernels.interface import Work
from leaveout.bab.native.nodes import batch_of, root_node
from leaveout.bab.native.space import make_space
from leaveout.children import import_environment
from leaveout.cores import cores
from leaveout.encoders.box import Box
from leaveout.errors import LeaveoutError
from leaveout.models.graph import Layer, Stack
from leaveout.specs.table import votes

if TYPE_CHECKING:
    from leaveout.models.forest.state import ForestState


class _One:
    """A single other network."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def __len__(self) -> int:
        return 1

    def chunks(self, indices: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        yield indices, self._stack


def rehearse() -> None:
    """Bound one node of two one-neuron networks."""
    from leaveout.bab.native.kernels.registry import CpuKernel

    first, second = (
        Stack(
            1,
            (
                Layer({0: np.full((1, 1, 1), weight)}, np.zeros((1, 1))),
                Layer({1: np.array([[[1.0], [-1.0]]])}, np.zeros((1, 2))),
            ),
        )
        for weight in (1.0, 1.5)
    )
    space = make_space(first, _One(second), Box(np.full(1, -1.0), np.ones(1)))
    member = np.zeros(1, np.int64)
    asked = leak_forms(0, 2, 1, 0.0, 0.0)
    forms = space.read(asked)
    batch = batch_of([root_node(space, forms, member, 0, 0)], -1.0, -1.0)[0]
    CpuKernel(threads=1).bound(space.numbers, forms, space.sets([member]), batch, Work(1))


Say = Callable[[str], None]
"""Shows a line to whoever waits."""

_FIRST = (
    "compiling, once: this takes about {:.0f} s and does not count as search ('leaveout warm' "
    "compiles everything in advance)"
)
_LOST = (
    "compiled code is not kept, so every run compiles again: {}; set NUMBA_CACHE_DIR to a folder "
    "that only you can write"
)


def warm(kernels: Iterable[str], say: Say | None = None) -> float:
    """Compile whatever is not compiled yet."""
    wanted = list(dict.fromkeys(kernels))
    if not wanted:
        return 0.0
    from leaveout.compiling import watch_compiling
    from leaveout.kept_code import why_not_kept

    tell = say or (lambda _: None)
    with watch_compiling(lambda: tell(_FIRST.format(seconds_for(wanted)))) as found:
        for name in wanted:
            KERNELS[name]()
    if found.functions and (why := why_not_kept()):
        tell(_LOST.format(why))
    return found.seconds


def _guard() -> None:
    """Compile the guard: answer one input with bounded margins and two members."""
    from leaveout.encoders import Box
    from leaveout.verifier.guard.coarse import CoarseCopy
    from leaveout.verifier.guard.margins import MarginBounds
    from leaveout.verifier.guard.packing import STRAIGHT, Packed, find_leak, screen

    x, bounds, members = np.zeros(1, np.float32), np.zeros(1), np.arange(2)
    screen(x, bounds, bounds)
    # One layer, from an input to two scores.
    plan = np.array([[0, 0, 1, 1, 2, 0, 1, 0]], np.int64)
    for kind in (np.float32, np.float64):
        numbers, own = np.zeros((2, 2), kind), np.zeros(2)
        packed = Packed(numbers, numbers, own, own, plan, 3, STRAIGHT, np.array([[1.0, 0.0]]))
        margins = MarginBounds(packed, Box(bounds, bounds + 1), np.zeros((2, 2)), 0.0)
        margins.open(x, 0, 0.0, everyone=True)
        CoarseCopy.of(packed, members).at(x, 0, 2, 0.0).open(members)
        room, close = np.zeros(3), members.copy()
        find_leak(numbers, numbers, plan, STRAIGHT, 2, room, x, 0, members, 0.0, close)


def _forest_guard() -> None:
    """Compile the forest guard: make all deletions and inspect one input."""
    from leaveout.models.forest.leave_one_out import leave_one_out
    from leaveout.verifier.guard.forests.leaks import ForestLeakTest

    test, x = ForestLeakTest(leave_one_out(_growth().plain())), np.zeros(2)
    test.leaks(x, test.glance(x))
    test.ask_all(x)


def _shared_members() -> None:
    """Compile weights of members that several choices of an attack reach."""
    from leaveout.bab.votes.member_weights import best_weights

    one, fit = np.ones(2, np.int64), np.ones(2, np.bool_)
    best_weights(one, np.arange(2), 0, 1, fit, 1, one.copy())


def _survival() -> None:
    """Compile both certified learners, on four rows."""
    from leaveout.models.votes.survival.learner import Part
    from leaveout.models.votes.survival.nearest import Nearest
    from leaveout.models.votes.survival.tree import Tree

    X = np.arange(8.0).reshape(4, 2)
    part = Part(X, np.array([0, 1, 1, 0], np.int32), X[:2], 2)
    for learner in (Nearest(1), Tree(1, 1)):
        learner.scores(part)
        learner.thresholds(part, "removals", 1)


def _tree_claims() -> None:
    """Compile the search over tree ensembles: bound the score of a tree with one split."""
    from leaveout.bab.forests.ensemble_search import Search, Target
    from leaveout.deadline import NEVER
    from leaveout.encoders.forests.ensembles import Applied, encode
    from leaveout.encoders.query import Form
    from leaveout.kernel.trees import Ensemble, Nodes

    none, one = np.zeros((0, 1), np.bool_), np.zeros(3)
    nodes = Nodes(
        np.array([0, 3]), np.array([0, -1, -1], np.int32), one, np.zeros(3, np.bool_),
        np.full(3, -1, np.int32), np.array([1, 0, 1]), np.array([2, -1, -1]), none,
        np.array([[0.0], [1.0]]),
    )  # fmt: skip
    ensemble, box = Ensemble(nodes, np.zeros(1), (), 1), Box(np.full(1, -1.0), np.ones(1))
    form = Form((), ((0, 0, 1.0),), 0.0)
    sums = encode([Applied(ensemble, 0)], [box], [form], (), (), [np.zeros(1, np.bool_)])
    Search(Target(sums, np.zeros(1, np.bool_), 1), lambda points: None, deadline=NEVER).run()


_ROWS = np.arange(24.0).reshape(12, 2)


def _growth() -> ForestState:
    """Compile training and evaluation of forests."""
    from leaveout.models.forest.plain import Ensemble, Settings
    from leaveout.models.forest.state import ForestState

    settings = Settings(2, 3, 2, 1, 0, 2, "gini", 0, 1.0)
    names, y = np.arange(12), np.arange(12, dtype=np.int32) % 2
    forest = ForestState(Ensemble(settings, np.arange(2), names, _ROWS, y, (), 12))
    forest.shares(_ROWS)
    forest.plain()
    return forest


def _trees() -> ForestState:
    """Compile forests: train one, evaluate it and delete a row."""
    from leaveout.models.forest.state import ForestState

    forest = _growth()
    smaller = ForestState(forest.plain())
    smaller.forget(np.array([1]), True)
    smaller.shares(_ROWS)
    return forest


def _additions() -> ForestState:
    forest = _trees()
    forest.learn(np.zeros((1, 2)), np.zeros(1, int), np.empty(0, np.str_))
    return forest


def _forest() -> None:
    if find_spec("sklearn") is None:
        return  # no claim about forests can be asked without it
    from leaveout.models.forest.files import save_ensemble

    forest = _additions()
    with TemporaryDirectory(prefix="leaveout-") as name:
        save_ensemble(forest.plain(), Path(name) / "t.npz")
        (Path(name) / "z.csv").write_text("row\n1\n")
        claims = (
            'forall z in points("z.csv"): unlearn(T, z) == retrain(T, z)',
            "caches_sound(T)",
            "same_function(T, T, box(0, 1))",
        )
        for claim in claims:
            _decide(f'let T = forest("t.npz") guarantee g: {claim}', Path(name))


def _forest_leaks() -> None:
    """Compile the search for leaks of forests, on a few rows."""
    from leaveout.bab.forests.box_trees import record_boxes
    from leaveout.bab.forests.search import Question, search_forests
    from leaveout.encoders import Box
    from leaveout.models.forest.leave_one_out import leave_one_out

    family = leave_one_out(_growth().plain(), threads=1)
    box = Box(_ROWS.min(axis=0), _ROWS.max(axis=0))
    for others in (family, family.member(0)):
        search_forests(family.whole, others, box, 0, tries=_ROWS)
        record_boxes(Question.of(family.whole, others, box), 0, 1.0, most=64)


def _decide(text: str, folder: Path) -> None:
    from leaveout.specs import parse
    from leaveout.verifier.options import VerifyOptions
    from leaveout.verifier.resolve_names import read_spec
    from leaveout.verifier.tasks import Context
    from leaveout.verifier.time_sharing import Clock
    from leaveout.verifier.values.decider import Values

    reading = read_spec(parse(text), folder, None)
    values = Values(Context(reading.checked, reading.resolver(), folder, VerifyOptions()))
    for statement in reading.checked.statements:
        values.decide(values.load(statement), Clock(None, 0.0, 1))


_VOTES = (name for function in votes.FUNCTIONS for name in function.kernels)

KERNELS: Mapping[str, Callable[[], object]] = {
    "points": rehearse,
    "guard": _guard,
    "forest_guard": _forest_guard,
    **dict.fromkeys(_VOTES, _shared_members),
    "survival": _survival,
    "growth": _growth,
    "trees": _trees,
    "additions": _additions,
    "forest": _forest,
    "forest_leaks": _forest_leaks,
    "tree_claims": _tree_claims,
}
"""What uses each group of compiled functions, on the smallest question there is."""

_SECONDS = {
    "points": 20, "guard": 8, "forest_guard": 11, "survival": 8, "growth": 10, "trees": 13,
    "additions": 13, "forest": 5, "forest_leaks": 16, "tree_claims": 8,
}  # fmt: skip
"""What compiling takes beyond what comes before it, on a processor of 2023
(`benchmarks/compile_times.py`)."""

_AFTER = {
    "forest_guard": "growth", "trees": "growth", "additions": "trees", "forest": "additions",
    "forest_leaks": "growth",
}  # fmt: skip
"""What each group also compiles, so that it should not begin beside it."""


def _groups(kernels: Iterable[str]) -> list[str]:
    """Return groups and those they begin with, each function once, the longest first."""
    todo = list(kernels)
    for name in todo:
        todo.extend([_AFTER[name]] if name in _AFTER else [])
    once = {KERNELS[name]: name for name in reversed(todo)}
    return sorted(once.values(), key=lambda name: -_SECONDS.get(name, 3))


def seconds_for(kernels: Iterable[str]) -> int:
    """Return about how long compiling takes on one core."""
    return sum(_SECONDS.get(name, 3) for name in _groups(kernels))


def warm_beside(kernels: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Compile each group in a process of its own, as many at once as there are cores.

    Yields what each says, and about how many seconds of work are done by then.
    """
    waiting, done = _groups(kernels), 0
    with ThreadPoolExecutor(cores()) as pool:
        running: dict[Future[str], str] = {}
        while waiting or running:
            busy = {*waiting, *running.values()}
            for name in [each for each in waiting if _AFTER.get(each) not in busy]:
                waiting.remove(name)
                running[pool.submit(_warm_in_child, name)] = name
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                done += _SECONDS.get(running.pop(each), 1)
                yield each.result(), done


def _warm_in_child(name: str) -> str:
    command = [sys.executable, "-P", "-m", "leaveout", "warm", name]
    environment = {**os.environ, **import_environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LeaveoutError(f"cannot compile {name}: {done.stderr.strip()}")
    return done.stdout.strip()

"""Threads may share a forest: each answer is of one there was, and changes follow one another."""

from __future__ import annotations

import copy
import linecache
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from leaveout.models.forest import DareForestClassifier, caches_sound, state, trees
from leaveout.models.forest import state as turns

from support.depth import STRIDE, enough

ROWS = 300


def fitted(trees=6, rows=ROWS, seed=3, **more) -> DareForestClassifier:
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(rows, 3)), rng.integers(0, 2, (rows, 2))], axis=1)
    y = (X[:, 0] + 0.7 * rng.normal(size=rows) > 0).astype(int)
    return DareForestClassifier(trees, random_state=seed, **more).fit(X, y)


def at_once(*works: Callable[[], object]) -> list[object]:
    """Do works in threads that begin together; return what each returned."""
    begin = threading.Barrier(len(works))

    def work(each: Callable[[], object]) -> object:
        begin.wait()
        return each()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(work, works))


@pytest.mark.parametrize("more", [{}, {"d_rmax": 2}, {"n_jobs": 2}, {"lazy": True, "q": 0.6}])
def test_each_answer_is_of_a_forest_there_was_between_call_and_return(more):
    forest = fitted(**more)
    asked = np.random.default_rng(8).normal(size=(40, 5))
    rng = np.random.default_rng(5)
    added = rng.normal(size=(30, 5)), rng.integers(0, 2, 30)
    order = rng.permutation(ROWS)[:120]
    steps = [("delete", order[i : i + 1 + i % 3]) for i in range(0, 118, 3)]
    steps[10:10] = [("add", slice(0, 1)), ("add", slice(1, 30))]  # revised, and grown anew
    steps.append(("delete", np.setdiff1d(np.arange(ROWS), order)[:120]))

    def step(one, kind, rows):
        if kind == "delete":
            one.delete(rows)
        else:
            one.add(added[0][rows], added[1][rows])

    alone, expected = copy.deepcopy(forest), []
    expected.append(alone.predict_proba(asked))
    for each in steps:
        step(alone, *each)
        expected.append(alone.predict_proba(asked))
    assert len({answer.tobytes() for answer in expected}) > len(steps) / 2
    begun, ended, done = [0], [0], threading.Event()

    def change():
        for each in steps:
            begun[0] += 1
            step(forest, *each)
            ended[0] += 1
        done.set()

    def ask():
        seen = 0
        while seen < 20 or not done.is_set():
            least = ended[0]
            answer = forest.predict_proba(asked)
            assert any(np.array_equal(answer, each) for each in expected[least : begun[0] + 1])
            seen += 1
        return seen

    at_once(change, ask, ask, ask)
    assert forest == alone
    assert caches_sound(forest) is None


def test_changes_of_several_threads_follow_one_another():
    forest = fitted()
    rng = np.random.default_rng(0)
    order = rng.permutation(ROWS)
    X, y = rng.normal(size=(20, 5)), rng.integers(0, 2, 20)

    def delete(rows):
        return lambda: [forest.delete([row]) for row in rows]

    def add():
        return [int(forest.add(X[i : i + 1], y[i : i + 1])[0]) for i in range(20)]

    def ask_what_it_costs():
        return [forest.deletion_cost(int(row)) for row in order[90:110]]

    *_, names, costs = at_once(
        delete(order[:30]), delete(order[30:60]), delete(order[60:90]), add, ask_what_it_costs
    )
    assert names == list(range(ROWS, ROWS + 20))
    assert len(costs) == 20
    assert np.array_equal(forest.rows_, np.sort(np.concatenate([order[90:], names])))
    assert forest == forest.retrain()
    assert caches_sound(forest) is None


def test_a_row_is_deleted_once_whoever_deletes_it():
    forest = fitted()

    def delete():
        done = 0
        for row in range(40):
            try:
                forest.delete(row)
                done += 1
            except ValueError as error:
                assert f"row {row} is already deleted" in str(error)
        return done

    assert sum(at_once(delete, delete, delete)) == 40
    assert forest == forest.retrain()


def test_copies_are_made_while_another_thread_changes_it():
    forest, done = fitted(), threading.Event()

    def change():
        for row in range(60):
            forest.delete(row)
        done.set()

    def copied():
        made = []
        while not made or not done.is_set():
            made.append(copy.deepcopy(forest))
            made.append(pickle.loads(pickle.dumps(forest)))
            made.append(forest.unlearn([100]))
            assert not hasattr(clone(forest), "state_")
        return made

    _, made = at_once(change, copied)
    # Of few copies the first are the last ones too.
    for each in {id(each): each for each in made[:3] + made[-3:]}.values():
        held = set(each.rows_.tolist()) | {100}
        assert held == set(range(ROWS - len(held), ROWS))
        assert each == each.retrain()
        each.delete(200)


def test_looks_are_at_the_same_time_and_never_during_a_change(monkeypatch):
    order, number = turns.ReadWriteLock(), iter(range(100))
    mine = threading.local()

    def native_id():
        if not hasattr(mine, "id"):
            mine.id = next(number)
        return mine.id

    monkeypatch.setattr(turns.threading, "get_native_id", native_id)
    # All are inside together, or the barrier is never passed.
    meet = threading.Barrier(8)
    assert len(at_once(*[lambda: order.read(meet.wait)] * 8)) == 8
    inside = [0]

    def change():
        def alone():
            inside[0] += 1
            assert inside[0] == 1
            inside[0] -= 1

        for _ in range(300):
            with order.changes:
                order.write(alone)

    def look():
        return [order.read(lambda: inside[0]) for _ in range(300)]

    *_, first, second = at_once(change, change, look, look)
    assert not any(first) and not any(second)


class Interrupter:
    """Raises KeyboardInterrupt at the n-th line of what changes forests, as Ctrl-C may.

    Not at ``with``: it is met once more before what it holds is let go, where no signal comes.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self.files = {module.__file__ for module in (state, turns, trees)}

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in self.files:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event in ("call", "line") and not line.strip().startswith("with "):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


CHANGES = {
    "a row": lambda forest: forest.delete([17]),
    "rows that leave room": lambda forest: forest.delete(np.arange(12)),
    "many rows": lambda forest: forest.delete(np.arange(20)),
    "a row more": lambda forest: forest.add([[0.1, 0.2, 0.3, 0.0, 1.0]], [1]),
    "a label more": lambda forest: forest.add([[0.1, 0.2, 0.3, 0.0, 1.0]], [2]),
    "a probed row": lambda forest: forest.deletion_cost(17),
    "settling": lambda forest: forest.settle(),
    "a lazy row": lambda forest: forest.set_params(lazy=True).delete([17]).predict([[0.0] * 5]),
    "a mended forest": lambda forest: forest.predict([[0.0] * 5]),
}


@pytest.mark.parametrize("jobs", [None, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_ctrl_c_at_any_line_leaves_a_forest_from_before_or_after(change, jobs):
    before = fitted(trees=3, rows=22, n_jobs=jobs)
    after = copy.deepcopy(before)
    CHANGES[change](after)
    interrupted, at = 0, 0
    while True:
        at += STRIDE
        forest = copy.deepcopy(before)
        if change == "a mended forest":
            forest.state_._is_broken = True
        tracing = sys.gettrace()
        try:
            sys.settrace(Interrupter(at))
            CHANGES[change](forest)
            break
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(tracing)
        # Another thread may go on: no lock is left held.
        with ThreadPoolExecutor(1) as pool:
            left = pool.submit(forest.ensemble).result(60)
        assert len(left.names) in (len(before.rows_), len(after.rows_))
        assert forest in (before, after)
        assert forest.delete([21]) == forest.retrain()
    assert interrupted > enough(5)
    assert forest == after


@pytest.mark.parametrize("place", ["first", "second"])
def test_an_interrupted_mend_is_mended_by_whoever_comes_next(monkeypatch, place):
    forest = fitted(trees=3)
    before, work, grow = copy.deepcopy(forest), trees.forget, trees.grow
    calls = [0]

    def interrupted(*arguments, lazy):
        *others, end = arguments
        work(*others, end - 1, lazy=lazy)
        raise KeyboardInterrupt

    def stopped(*arguments, **more):
        calls[0] += 1
        if calls[0] == {"first": 1, "second": 2}[place]:
            raise KeyboardInterrupt
        return grow(*arguments, **more)

    monkeypatch.setattr(trees, "forget", interrupted)
    monkeypatch.setattr(trees, "grow", stopped)
    with pytest.raises(KeyboardInterrupt):
        forest.delete([1, 2])
    with pytest.raises(KeyboardInterrupt):
        forest.predict([[0.0] * 5])
    monkeypatch.undo()
    assert forest == before
    assert forest.delete([1, 2]) == forest.retrain()

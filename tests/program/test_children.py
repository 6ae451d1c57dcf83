"""Children that die, hang, print and start others: the parent always learns of it and ends all."""

from __future__ import annotations

import os
import signal
import sys
from itertools import takewhile

import numpy as np
import pytest

from leaveout.children import Child, ChildLostError, ChildPool, import_environment

from support import children

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")

PROGRAM = """
import os, queue, signal, subprocess, sys, time
from leaveout.frames import follow, own_channel, read_frame, write_frame

requests, answers = own_channel()
task = read_frame(requests, object)
orders = queue.SimpleQueue()
follow(requests, object, orders.put)
print("printed into the void", flush=True)
while True:
    match order := orders.get():
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail":
            raise ValueError("first line\\nlast line")
        case "leave":
            os._exit(7)
        case "garbage":
            answers.write(b"\\1" + bytes(7) + b"?")
            answers.flush()
        case "sleep":
            write_frame(answers, subprocess.Popen(["sleep", "600"]).pid)
            time.sleep(600)
        case "steps":
            for i in range(3):
                write_frame(answers, ("step", i))
            write_frame(answers, ("done", os.getpid()))
        case _:
            write_frame(answers, (task, order, os.getpid()))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "obedient.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    return "obedient"


def _pool(program: str, size: int, task: object = "task") -> ChildPool:
    return ChildPool(program, size, task, import_environment())


@pytest.mark.parametrize(("size", "count"), [(1, 3), (2, 5), (3, 2), (2, 0)])
def test_every_order_is_done_once(program, size, count):
    with _pool(program, size, {"a": 1}) as pool:
        said = list(pool.work(range(count)))
    assert sorted(order for order, _ in said) == list(range(count))
    assert all(answer[:2] == ({"a": 1}, order) for order, answer in said)
    assert len({answer[2] for _, answer in said}) <= size
    children.wait_until_gone([answer[2] for _, answer in said])


def test_an_order_may_have_several_answers(program):
    with _pool(program, 1) as pool:
        said = list(pool.work(["steps", "steps"], lambda message: message[0] == "done"))
    steps = [("step", 0), ("step", 1), ("step", 2)]
    assert [message for _, message in said if message[0] == "step"] == 2 * steps


def test_no_order_is_taken_before_the_answer_to_the_last_is_seen(program):
    seen = []
    with _pool(program, 1) as pool:
        for order, _ in pool.work(takewhile(lambda _: len(seen) < 3, range(100))):
            seen.append(order)
    assert seen == [0, 1, 2]


def test_messages_may_be_large(program):
    with _pool(program, 2, bytes(10_000_000)) as pool:
        for order, answer in pool.work([bytes([i]) * 3_000_000 for i in range(4)]):
            assert answer[:2] == (bytes(10_000_000), order)


@pytest.mark.parametrize(
    "order",
    [
        "die",
        "fail",
        "leave",
        "garbage",
    ],
)
def test_a_child_that_dies_ends_the_pool_and_says_of_what(program, order, snapshot):
    with pytest.raises(ChildLostError) as told, _pool(program, 2) as pool:
        list(pool.work(["fine", order, "fine"]))
    assert str(told.value) == snapshot


def test_a_program_that_does_not_start_is_a_lost_child(tmp_path):
    lost = pytest.raises(ChildLostError, match="no_such_module")
    with lost, _pool("no_such_module", 2) as pool:
        list(pool.work([1, 2]))


def test_whatever_children_are_at_ends_with_the_pool(program):
    with _pool(program, 2) as pool:
        started = [next(iter(pool.work(["sleep"])))[1]]
        processes = [child.pid for child in pool._children]
    children.wait_until_gone([*started, *processes])


def test_a_child_ends_with_what_it_started(program):
    child = Child(program, settings=import_environment())
    child.send("task")
    child.send("sleep")
    child.wait()
    started = child.read(int)
    assert child.is_running
    child.end()
    assert not child.is_running
    assert child.exit_status() == -signal.SIGKILL
    children.wait_until_gone([started])
    with pytest.raises(EOFError):
        child.read(object)
    child.close()
    with pytest.raises((OSError, ValueError)):
        child.send("anything")
    child.end()


def test_a_message_of_another_kind_ends_the_conversation(program, snapshot):
    child = Child(program, settings=import_environment())
    child.send("task")
    child.send("anything")
    with pytest.raises(EOFError) as told:
        child.read(int)
    assert str(told.value) == snapshot
    child.end()
    child.close()


def test_the_last_words_are_the_last_line_of_standard_error(program):
    child = Child(program, settings=import_environment())
    child.send("task")
    child.send("fail")
    with pytest.raises(EOFError):
        child.read(object)
    assert child.exit_status() == 1
    assert child.last_words() == "last line"
    child.end()
    child.close()


def test_a_child_is_no_copy_and_imports_no_neighbours(program, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "pickle.py").write_text("raise SystemExit('a neighbour')")
    monkeypatch.chdir(tmp_path / "here")
    assert str(tmp_path / "here") not in sys.path
    with _pool(program, 1) as pool:
        assert [order for order, _ in pool.work([1])] == [1]


MIRROR = """
import mmap
import numpy as np
from leaveout.frames import own_channel, read_frame, write_frame

def is_mapped(value):
    while isinstance(value, np.ndarray):
        value = value.base
    return isinstance(value, memoryview) and isinstance(value.obj, mmap.mmap)

requests, answers = own_channel()
task = read_frame(requests, object)
while True:
    order = read_frame(requests, object)
    for each in task.values():
        each.flat[0] += order
    write_frame(answers, (task, [is_mapped(each) for each in task.values()]))
"""


@pytest.mark.parametrize("room", [True, False])
def test_large_arrays_are_mapped_and_what_one_child_writes_no_other_sees(
    tmp_path, monkeypatch, room
):
    (tmp_path / "mirror.py").write_text(MIRROR)
    monkeypatch.syspath_prepend(tmp_path)
    if not room:
        monkeypatch.setattr(os, "memfd_create", _no_room, raising=False)
    task = {
        "large": np.arange(300_001, dtype=np.float32),
        "wide": np.asfortranarray(np.arange(600_000.0).reshape(2, -1)),
        "small": np.arange(3),
    }
    kept = {name: each.copy("K") for name, each in task.items()}
    with _pool("mirror", 3, task) as pool:
        said = dict(pool.work([10, 20, 30]))
    assert {name: each.tolist() for name, each in task.items()} == {
        name: each.tolist() for name, each in kept.items()
    }
    for order, (seen, mapped) in said.items():
        assert mapped == [room, room, False]
        for name, each in seen.items():
            expected = kept[name].copy("K")
            expected.flat[0] += order
            assert np.array_equal(each, expected)
            assert (each.dtype, each.strides) == (expected.dtype, expected.strides)


def _no_room(name):
    raise OSError(28, "No space left on device")

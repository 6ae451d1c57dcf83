"""Noised answers outlive threads, processes and crashes, and are charged once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaveout.errors import GuardError
from leaveout.verifier.guard.memory import FullError, Memory, SpentError

from support import children
from support.depth import IS_DEEP, rounds

LIMITS = {"epsilon": 0.2, "cap": None, "uniform": False, "remember": 10**6}


def opened(tmp_path, name="answers.sqlite"):
    return Memory(tmp_path / name, "network", "family", "box", 0.2, 10**6)


def ask(memory, inputs, draw=lambda at, epsilon: at, **limits):
    return memory.answer(inputs, draw, **(LIMITS | limits))


def test_an_answer_is_given_again_and_charged_once(tmp_path):
    memory = opened(tmp_path)
    drawn = []

    def draw(at, epsilon):
        drawn.append(at)
        return at + 5

    assert ask(memory, [b"a", b"b", b"a"], draw) == [5, 6, 5]
    assert ask(memory, [b"b", b"a"], draw) == [6, 5]
    assert drawn == [0, 1]
    assert memory.recall([b"b", b"c"]) == [6, None]
    assert memory.account().answers == 2
    assert memory.account().epsilon == pytest.approx(0.4)
    memory.close()
    assert opened(tmp_path).recall([b"a"]) == [5]


def test_nothing_is_kept_where_drawing_fails(tmp_path):
    memory = opened(tmp_path)

    def draw(at, epsilon):
        if at:
            raise RuntimeError
        return 1

    with pytest.raises(RuntimeError):
        ask(memory, [b"a", b"b"], draw)
    assert memory.account().answers == 0
    assert memory.recall([b"a"]) == [None]


def test_a_cap_is_kept_to_the_last_answer(tmp_path, snapshot):
    memory = opened(tmp_path)
    ask(memory, [bytes([i]) for i in range(9)], cap=2.0)
    assert ask(memory, [b"tenth"], cap=2.0) == [0]
    assert memory.account().epsilon == 2.0
    with pytest.raises(SpentError) as told:
        ask(memory, [b"more"], cap=2.0)
    assert str(told.value) == snapshot
    assert ask(memory, [b"tenth"], cap=2.0) == [0]
    seen = []
    ask(memory, [b"more"], lambda at, epsilon: seen.append(epsilon) or 1, cap=2.0, uniform=True)
    assert seen == [0.0]
    assert (memory.account().epsilon, memory.account().answers) == (2.0, 11)


def test_memory_has_an_end(tmp_path, snapshot):
    memory = opened(tmp_path)
    ask(memory, [b"a", b"b"], remember=2)
    with pytest.raises(FullError) as told:
        ask(memory, [b"c"], remember=2)
    assert str(told.value) == snapshot
    assert ask(memory, [b"b"], remember=2) == [1]


def test_another_epsilon_has_another_memory(tmp_path, snapshot):
    opened(tmp_path).close()
    with pytest.raises(GuardError) as told:
        Memory(tmp_path / "answers.sqlite", "network", "family", "box", 0.1, 10**6)
    assert str(told.value) == snapshot


def test_an_account_is_read_without_answering(tmp_path, snapshot):
    ask(opened(tmp_path), [b"a", b"b"])
    assert Memory.read(tmp_path / "answers.sqlite").answers == 2
    assert Memory.read(tmp_path / "none.sqlite").answers == 0
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "text").write_text("no database")
    with pytest.raises(GuardError) as told:
        Memory.read(tmp_path / "text")
    assert str(told.value) == snapshot


def test_another_network_has_another_memory(tmp_path, snapshot):
    opened(tmp_path).close()
    with pytest.raises(GuardError) as told:
        Memory(tmp_path / "answers.sqlite", "other", "family", "box", 0.2, 10**6)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(200)])
def test_damaged_files_are_refused(tmp_path, content, snapshot):
    (tmp_path / "answers.sqlite").write_bytes(content)
    with pytest.raises(GuardError) as told:
        opened(tmp_path)
    assert str(told.value) == snapshot


def test_another_programs_database_is_refused_and_left_alone(tmp_path, snapshot):
    path = tmp_path / "answers.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (x)")
    with pytest.raises(GuardError) as told:
        opened(tmp_path)
    assert str(told.value) == snapshot
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


def test_no_folder_to_write_to(tmp_path, snapshot):
    with pytest.raises(GuardError) as told:
        opened(tmp_path / "none")
    assert str(told.value) == snapshot


def test_only_the_owner_may_read_it_and_inputs_are_not_in_it(tmp_path):
    memory = opened(tmp_path)
    ask(memory, [b"a patient's numbers"])
    memory.close()
    path = tmp_path / "answers.sqlite"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"a patient's numbers" not in path.read_bytes()


def test_threads_and_connections_agree(tmp_path):
    memories = [opened(tmp_path) for _ in range(3)]
    inputs = [bytes([i]) for i in range(30)]

    def work(seed):
        chance = random.Random(seed)
        mine = chance.sample(inputs, len(inputs))
        memory = memories[seed % 3]
        found = {}
        for start in range(0, 30, 5):
            part = mine[start : start + 5]
            answers = ask(memory, part, lambda at, epsilon: chance.randrange(10**6))
            found |= dict(zip(part, answers))
        return found

    with ThreadPoolExecutor(8) as pool:
        first, *rest = pool.map(work, range(12))
    assert all(each == first for each in rest)
    assert memories[0].account().answers == 30


_VICTIM = """
    import os, random, sys
    from pathlib import Path
    from leaveout.verifier.guard.memory import Memory
    memory = Memory(Path(sys.argv[1]), "network", "family", "box", 0.2, 10**6)
    chance = random.Random(os.urandom(8))
    while True:
        given = chance.randrange(3000)
        (answer,) = memory.answer(
            [given.to_bytes(4, "big")], lambda at, e: chance.randrange(10**6),
            epsilon=0.2, cap=None, uniform=False, remember=10**6)
        print(given, answer, flush=True)
"""


def test_no_kill_makes_it_forget_what_was_given(tmp_path):
    path = tmp_path / "answers.sqlite"
    given: dict[int, int] = {}
    for _ in range(5 if IS_DEEP else 2):
        victim = children.start(
            [sys.executable, "-c", textwrap.dedent(_VICTIM), path], stdout=subprocess.PIPE
        )
        assert victim.stdout is not None
        for _ in range(40):
            question, answer = map(int, victim.stdout.readline().split())
            assert given.setdefault(question, answer) == answer
        os.kill(victim.pid, signal.SIGKILL)
        for line in victim.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                question, answer = map(int, line.split())
                assert given.setdefault(question, answer) == answer
        victim.wait()
    memory = Memory(path, "network", "family", "box", 0.2, 10**6)
    keys = [question.to_bytes(4, "big") for question in given]
    assert memory.recall(keys) == list(given.values())
    with sqlite3.connect(path) as database:
        (stored,) = database.execute("SELECT COUNT(*) FROM answers").fetchone()
    # What was drawn but not given before a kill may be there too.
    assert len(given) <= stored <= len(given) + 5
    assert memory.account().answers == stored


def test_a_forked_process_opens_its_own(tmp_path):
    memory = opened(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            ask(memory, [b"a"])
        except GuardError as error:
            os._exit(7 if "load the guard in each process" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert ask(memory, [b"a"]) == [0]


@pytest.mark.parametrize("harm", ["deleted", "exchanged", "cut"])
def test_a_file_that_is_gone_closes_the_memory(tmp_path, harm, snapshot):
    memory = opened(tmp_path)
    ask(memory, [b"a"])
    path = tmp_path / "answers.sqlite"
    if harm == "cut":
        os.truncate(path, 0)
    else:
        path.unlink()
        if harm == "exchanged":
            path.write_bytes(b"")
    with pytest.raises(GuardError) as told:
        ask(memory, [b"b"])
    assert str(told.value) == snapshot


def test_a_box_that_changed_once_is_remembered(tmp_path):
    path = tmp_path / "answers.sqlite"
    boxes = [
        Memory(path, "network", "family", box, 0.2, 9).inputs for box in ("A", "A", "B", "A", "B")
    ]
    assert boxes == ["A", "A", "", "", ""]


TAMPERINGS = [
    "UPDATE answers SET answer = 99",
    "UPDATE answers SET answer = -1",
    "UPDATE answers SET answer = 'ill'",
    "UPDATE answers SET answer = 0.5",
    "DELETE FROM answers",
    "UPDATE spent SET answers = -2",
    "UPDATE spent SET answers = 'two'",
    "UPDATE spent SET answers = 1",
    "UPDATE spent SET answers = 9223372036854775807",
    "UPDATE spent SET epsilon = -0.2",
    "UPDATE spent SET epsilon = 'NaN'",
    "UPDATE spent SET epsilon = 9e999",
    "DELETE FROM spent",
    "UPDATE guard SET epsilon = 'NaN'",
    "UPDATE guard SET epsilon = 9e999",
    "UPDATE guard SET format = 'one'",
    "UPDATE guard SET secret = x'00'",
    "UPDATE guard SET secret = 7",
    "UPDATE guard SET network = x'ff'",
    "DELETE FROM guard",
    "DROP TABLE guard",
    "DROP TABLE answers",
    "DROP TABLE spent",
    "CREATE TABLE more (x)",
    "CREATE TRIGGER free AFTER INSERT ON spent BEGIN DELETE FROM spent; END",
    "ALTER TABLE answers RENAME COLUMN answer TO label",
]


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_memory_that_was_tampered_with_is_refused_in_one_line(tmp_path, tampering):
    path = tmp_path / "answers.sqlite"

    def used():
        memory = Memory(path, "network", "family", "box", 0.2, 3)
        try:
            return ask(memory, [b"a", b"b"], lambda at, epsilon: 2)
        finally:
            memory.close()

    assert used() == used() == [2, 2]
    with sqlite3.connect(path) as database:
        database.execute(tampering)
    with pytest.raises(GuardError, match=r"answers\.sqlite: ") as caught:
        used()
    assert "\n" not in str(caught.value)


@settings(max_examples=rounds(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=9))
def test_whatever_bytes_are_written_over_it_no_label_is_made_up(tmp_path, place, content):
    path = tmp_path / "answers.sqlite"
    for name in ("answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with contextlib.closing(Memory(path, "network", "family", "box", 0.2, 3)) as memory:
        ask(memory, [b"a", b"b"], lambda at, epsilon: 2)
    with path.open("r+b") as stream:
        stream.seek(int(place * path.stat().st_size))
        stream.write(content)
    try:
        Memory.read(path)
        with contextlib.closing(Memory(path, "network", "family", "box", 0.2, 3)) as memory:
            account, answers = memory.account(), memory.recall([b"a", b"b"])
    except GuardError as error:
        assert "\n" not in str(error)
    else:
        assert account.answers == 2
        assert set(answers) <= {0, 1, 2, None}

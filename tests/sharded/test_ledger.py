"""The ledger loses no charge and serves nothing twice: not after a crash, nor to two processes."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from leaveout.errors import ShardedError
from leaveout.models.sharded import ExhaustedError, Ledger, ShardedClassifier
from leaveout.models.sharded.ledger import MovedError

from support import children

_START = """
import os, signal, sys
from pathlib import Path
import numpy as np
from sklearn.tree import DecisionTreeClassifier
from leaveout.models.sharded import ExhaustedError, ShardedClassifier

folder = Path(sys.argv[1])
X = np.random.default_rng(9).normal(size=(400, 3))
"""


def process(folder, body, *arguments):
    """Start another process that uses the service in a folder."""
    return children.start(
        [sys.executable, "-c", _START + textwrap.dedent(body), folder, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def questions():
    return np.random.default_rng(9).normal(size=(400, 3))


def lines(folder):
    with sqlite3.connect(folder / "ledger.sqlite") as database:
        return database.execute("SELECT epoch, line, answer FROM lines ORDER BY 1, 2").fetchall()


def test_killed_between_charge_and_answer_it_keeps_the_charge_and_answers_nothing_twice(service):
    made = service()
    made.predict(questions()[:2])
    killed = process(
        made.folder,
        """
        die = lambda: os.kill(os.getpid(), signal.SIGKILL)
        made = ShardedClassifier.load(folder, DecisionTreeClassifier(), on_charge=die)
        print(made.predict(X[:5]))
        """,
    )
    out, _ = killed.communicate(timeout=children.HANGS)
    assert killed.returncode == -signal.SIGKILL
    assert out == ""
    # Two were answered before; three are charged, and their lines have no answer and never will.
    assert made.predictions_left() == 15
    before = lines(made.folder)
    assert [answer is None for _, _, answer in before] == [False] * 2 + [True] * 3
    again = ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    again.predict(questions()[:5])
    after = lines(made.folder)
    assert again.predictions_left() == 12
    assert after[:5] == before
    assert [line for _, line, _ in after] == list(range(1, 9))
    assert all(answer is not None for _, _, answer in after[5:])


def test_killed_again_and_again_it_never_answers_beyond_the_budget(service, snapshot):
    made = service(predictions=3)
    body = """
        die = lambda: os.kill(os.getpid(), signal.SIGKILL)
        made = ShardedClassifier.load(folder, DecisionTreeClassifier(), on_charge=die)
        made.predict(X[:1])
        """
    for _ in range(3):
        killed = process(made.folder, body)
        killed.communicate(timeout=children.HANGS)
        assert killed.returncode == -signal.SIGKILL
    assert made.predictions_left() == 0
    with pytest.raises(ExhaustedError) as told:
        made.predict(questions()[:1])
    assert str(told.value) == snapshot


def test_two_processes_never_exceed_the_budget(service):
    made = service(predictions=50)
    body = """
        made = ShardedClassifier.load(folder, DecisionTreeClassifier())
        given = 0
        for place in range(int(sys.argv[2]), int(sys.argv[2]) + 100):
            try:
                made.predict(X[place : place + 1])
                given += 1
            except ExhaustedError:
                pass
        print(given)
        """
    both = [process(made.folder, body, start) for start in (0, 200)]
    given = [int(one.communicate(timeout=children.HANGS)[0]) for one in both]
    assert sum(given) == 50
    assert made.predictions_left() == 0
    found = lines(made.folder)
    assert [line for _, line, _ in found] == list(range(1, 51))
    assert all(answer is not None for _, _, answer in found)


def test_two_processes_that_retrain_give_each_epoch_its_budget_and_no_more(service):
    made = service(predictions=7, on_exhausted="retrain")
    body = """
        made = ShardedClassifier.load(folder, DecisionTreeClassifier())
        start = int(sys.argv[2])
        for place in range(start, start + 40, 4):
            made.predict(X[place : place + 4])
            if (place - start) % 16 == 0:
                made.delete([place // 4])
        """
    both = [process(made.folder, body, start) for start in (0, 200)]
    for one in both:
        _, wrong = one.communicate(timeout=children.HANGS)
        assert one.returncode == 0, wrong
    with sqlite3.connect(made.folder / "ledger.sqlite") as database:
        epochs = database.execute("SELECT epoch, charged FROM epochs ORDER BY epoch").fetchall()
    assert len(epochs) > 5
    deleted = {place // 4 for start in (0, 200) for place in range(start, start + 40, 16)}
    assert all(count <= 7 for _, count in epochs)
    made.predict(questions()[300:301])
    assert made.ids_.tolist() == [each for each in range(120) if each not in deleted]
    assert made._at.epoch >= epochs[-1][0]
    again = ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    assert again._shards.digest() == made._shards.digest()


def test_what_was_answered_before_is_free_until_the_models_change(service):
    made = service()
    first = made.predict(questions()[:6])
    assert made.predictions_left() == 14
    assert np.array_equal(made.predict(questions()[:6][::-1]), first[::-1])
    assert made.predictions_left() == 14
    made.predict(np.repeat(questions()[7:8], 9, axis=0))
    assert made.predictions_left() == 13
    made.delete([1])
    made.predict(questions()[:6])
    assert made.predictions_left() == 7


def test_a_repeated_question_in_one_request_has_one_answer(service):
    made = service(epsilon=0.01)
    answers = made.predict(np.repeat(questions()[:10], 4, axis=0)).reshape(10, 4)
    assert (answers == answers[:, :1]).all()
    assert len(np.unique(answers)) == 2


def test_what_is_not_covered_is_refused_whole_and_charges_nothing(service, snapshot):
    made = service()
    made.predict(questions()[:15])
    with pytest.raises(ExhaustedError) as told:
        made.predict(questions()[10:21])
    assert str(told.value) == snapshot
    assert made.predictions_left() == 5
    made.retrain()
    assert made.predictions_left() == 20


def test_when_the_budget_is_spent_everything_is_retrained_with_new_seeds(service):
    made = service(on_exhausted="retrain")
    key, held = made._shards.key, made._shards.held
    made.predict(questions()[:20])
    assert made._shards.key == key
    made.predict(questions()[20:21])
    assert made._shards.key != key
    assert not np.array_equal(made._shards.held, held)
    assert made.retrained_shards == 8
    assert made.predictions_left() == 19
    made.predict(questions()[:70])
    assert made.predictions_left() == (19 - 69) % 20  # one was answered before
    with sqlite3.connect(made.folder / "ledger.sqlite") as database:
        secrets = database.execute("SELECT length(secret) FROM epochs ORDER BY epoch").fetchall()
    assert [length for (length,) in secrets] == [0] * (len(secrets) - 1) + [32]


def test_memory_is_bounded_and_what_is_forgotten_is_charged_anew(tmp_path, table, settings):
    made = ShardedClassifier(
        DecisionTreeClassifier(),
        settings(predictions=100),
        tmp_path,
        chance=random.Random(0),
        remembered=4,
    ).fit(*table)
    made.predict(questions()[:10])
    assert [line for _, line, _ in lines(tmp_path)] == [7, 8, 9, 10]
    made.predict(questions()[9:10])
    assert made.predictions_left() == 90
    made.predict(questions()[0:1])
    assert made.predictions_left() == 89


def test_a_line_is_written_once(tmp_path, settings, snapshot):
    ledger = Ledger.create(tmp_path / "one.sqlite", settings(), b"k" * 32)
    at = ledger.position()
    opened = ledger.open(at, [b"a", b"b"], 20, labels=2)
    assert opened.lines == {b"a": 1, b"b": 2}
    ledger.record(0, {1: 0}, 100)
    with pytest.raises(ShardedError) as told:
        ledger.record(0, {2: 1, 1: 1}, 100)
    assert str(told.value) == snapshot
    assert ledger.open(at, [b"a", b"b"], 20, labels=2).known == {b"a": 0}
    assert ledger.charged_predictions() == 3
    with pytest.raises(ShardedError) as told:
        Ledger.create(tmp_path / "one.sqlite", settings(), b"k" * 32)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_who_charged_before_others_retrained_is_answered_all_the_same(service, epochs):
    made = service(predictions=7)
    other = ShardedClassifier.load(made.folder, DecisionTreeClassifier())
    retrained = iter(range(epochs))

    def meanwhile():
        if next(retrained, None) == 0:
            for _ in range(epochs):
                other.retrain()

    made.on_charge = meanwhile
    assert len(made.predict(questions()[:4])) == 4
    with sqlite3.connect(made.folder / "ledger.sqlite") as database:
        charged = database.execute("SELECT charged FROM epochs ORDER BY epoch").fetchall()
    # The charge of an epoch that was forgotten before the answer stays; the new one pays again.
    again = 4 if epochs > 1 else 0
    assert [count for (count,) in charged][1:] == [4] + [0] * (epochs - 1) + [again]


def test_models_that_were_moved_on_from_are_charged_nothing(tmp_path, settings):
    ledger = Ledger.create(tmp_path / "one.sqlite", settings(), b"k" * 32)
    at = ledger.position()
    with ledger.move_on(at):
        pass
    with pytest.raises(MovedError, match="version 1"):
        ledger.open(at, [b"a"], 20, labels=2)
    with pytest.raises(MovedError), ledger.move_on(at):
        pass
    with pytest.raises(RuntimeError), ledger.move_on(ledger.position(), b"n" * 32):
        raise RuntimeError("in between")
    assert (ledger.position().epoch, ledger.position().version) == (0, 1)
    assert ledger.charged_predictions() == 0


def test_writes_wait_for_the_disk(tmp_path, settings):
    ledger = Ledger.create(tmp_path / "one.sqlite", settings(), b"k" * 32)
    with ledger._connection() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)

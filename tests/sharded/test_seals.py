"""An older copy of the ledger or the points is told from the other; no crash is taken for one."""

from __future__ import annotations

import linecache
import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from leaveout.errors import ShardedError
from leaveout.models.sharded import ServiceSettings, ShardedClassifier, classifier, ledger
from leaveout.models.sharded import ledger as seal

from support.depth import rounds

FILES = ("ledger.sqlite", "state.npz")
LIMIT = 20
SEALS = 96
"""Bytes at the end of the points."""
SETTINGS = ServiceSettings(
    shards=3, inclusion=0.5, mechanism="exponential", rows=200, epsilon=0.5, predictions=LIMIT
)
ASKED = np.random.default_rng(9).normal(size=(200, 2))


@pytest.fixture
def tmp_path(tmp_path):
    """A folder in memory where there is one: to wait for a disk hundreds of times takes minutes."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def rows(count=30):
    X = np.random.default_rng(3).normal(size=(count, 2))
    return X, np.where(X[:, 0] > 0, "ill", "well")


def fitted(folder):
    made = ShardedClassifier(
        DecisionTreeClassifier(), SETTINGS, folder, seed=b"test", chance=random.Random(0)
    )
    return made.fit(*rows())


def loaded(folder):
    return ShardedClassifier.load(folder, DecisionTreeClassifier(), seed=b"test")


def refused(action):
    with pytest.raises(ShardedError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


STEPS = [
    lambda made: made.predict(ASKED[:1]),
    lambda made: made.predict(ASKED[1:2]),
    lambda made: made.delete([3]),
    lambda made: made.predict(ASKED[2:7]),
    lambda made: made.add(*(part[:2] for part in rows())),
    lambda made: made.retrain(),
    lambda made: made.predict(ASKED[:3]),
    lambda made: made.fit(*rows(20)),
]


def test_an_older_copy_of_one_of_the_two_files_is_refused_whenever_it_was_made(tmp_path, snapshot):
    made = fitted(tmp_path / "service")
    account, points = (made.folder / name for name in FILES)
    copies, told = [(account.read_bytes(), points.read_bytes())], set()
    for step in STEPS:
        step(made)
        assert not (made.folder / "ledger.sqlite-wal").exists()
        now = account.read_bytes(), points.read_bytes()
        for old, _ in copies:
            account.write_bytes(old)
            for action in (
                lambda: loaded(made.folder),
                lambda: made.predict(ASKED[50:51]),
                lambda: made.predict(ASKED[:1]),
                made.predictions_left,
                made.retrain,
                lambda: fitted(made.folder),
            ):
                said = refused(action)
                assert "ledger.sqlite" in said
                told.add(said)
        account.write_bytes(now[0])
        for place, (_, old) in enumerate(copies, start=1):
            points.write_bytes(old)
            if place == len(copies) and old[:-SEALS] == now[1][:-SEALS]:
                # The same points: it only lacks the last note, as after a crash, and gets it.
                loaded(made.folder)
                assert seal.read_seal(points) == read_seal_of(now[1], tmp_path)
            else:
                told.add(refused(lambda: loaded(made.folder)))
        points.write_bytes(now[1])
        copies.append(now)
    assert (
        sorted({re.sub(r"\d+ ", "SOME ", re.sub(r"\d+;", "SOME;", each)) for each in told})
        == snapshot
    )
    assert loaded(made.folder).predictions_left() == LIMIT


def read_seal_of(content, folder):
    path = folder / "copy.npz"
    path.write_bytes(content)
    return seal.read_seal(path)


def test_two_accounts_that_went_apart_are_not_taken_for_one_another(tmp_path, snapshot):
    made = fitted(tmp_path / "one")
    shutil.copytree(made.folder, tmp_path / "two")
    made.predict(ASKED[:1])
    loaded(tmp_path / "two").predict(ASKED[:1])
    shutil.copy(tmp_path / "two" / "ledger.sqlite", made.folder / "ledger.sqlite")
    assert refused(lambda: loaded(made.folder)) == snapshot


def test_points_without_seals_or_that_are_gone_are_refused(tmp_path, snapshot):
    made = fitted(tmp_path / "service")
    path = made.folder / "state.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-SEALS])
    assert refused(lambda: loaded(made.folder)) == snapshot
    path.unlink()
    for action in (lambda: made.predict(ASKED[:1]), lambda: loaded(made.folder)):
        assert refused(action) == snapshot
    path.write_bytes(whole)
    made.predict(ASKED[:1])


def test_a_seal_cut_short_leaves_the_one_before(tmp_path):
    made = fitted(tmp_path / "service")
    path = made.folder / "state.npz"
    for step in range(2):
        made.predict(ASKED[step : step + 1])
        found, content = seal.read_seal(path), path.read_bytes()
        seal.note_seal(path, seal.Seal(found.serial + 1, b"d" * 32))
        written = path.read_bytes()
        differ = [at for at in range(len(content)) if content[at] != written[at]]
        assert len(content) - SEALS <= differ[0] <= differ[-1] < differ[0] + SEALS // 2
        for end in range(differ[0], differ[-1]):
            path.write_bytes(written[:end] + content[end:])
            assert seal.read_seal(path) == found
        path.write_bytes(content)


WRITING = {"_commit_block", "_compare", "seal_after", "begin_seals", "create"} | {
    "move_on", "note_seal", "open", "record", "write_state",
}  # fmt: skip


class KilledError(BaseException):
    """Ends a process in the middle."""


class Killer:
    """Raises at the n-th line of what writes the two files.

    Not at ``with``: it is met once more before what it holds is let go, where nothing is written.
    """

    def __init__(self, at):
        self.left = at
        self.files = {each.__file__ for each in (ledger, seal, classifier)}

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in self.files:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if (
            frame.f_code.co_name in WRITING
            and event == "line"
            and not line.strip().startswith("with ")
        ):
            self.left -= 1
            if self.left == 0:
                raise KilledError
        return self


def killed_at(at, action):
    """Return whether an action was ended at a line, rather than done before."""
    tracing = sys.gettrace()
    try:
        sys.settrace(Killer(at))
        action()
        return False
    except KilledError:
        return True
    finally:
        sys.settrace(tracing)


@pytest.mark.parametrize(
    ("action", "charged"),
    [
        (lambda made: made.predict(ASKED[2:5]), (2, 5)),
        (lambda made: made.delete([4]), (2,)),
        (lambda made: made.retrain(), (2, 0)),
    ],
    ids=["predict", "delete", "retrain"],
)
def test_ended_at_any_line_it_goes_on_and_no_charge_is_lost(tmp_path, action, charged):
    original = fitted(tmp_path / "service")
    original.predict(ASKED[:2])
    at, seen = 0, set()
    while True:
        at += 1
        folder = tmp_path / str(at)
        shutil.copytree(original.folder, folder)
        made = loaded(folder)
        killed = killed_at(at, lambda made=made: action(made))
        again = loaded(folder)
        count = LIMIT - again.predictions_left()
        assert count in charged
        assert len(again.ids_) in (30, 29)
        seen.add(count)
        again.predict(ASKED[10:12])
        assert again.predictions_left() == LIMIT - count - 2
        assert (made.predict(ASKED[10:12]) == again.predict(ASKED[10:12])).all()
        shutil.rmtree(folder)
        if not killed:
            break
    assert at > 30
    assert seen == set(charged)


def test_a_first_fit_ended_at_any_line_can_be_done_again(tmp_path):
    at = 0
    while True:
        at += 1
        folder = tmp_path / str(at)
        killed = killed_at(at, lambda folder=folder: fitted(folder))
        if killed and not (folder / "state.npz").exists():
            refused(lambda folder=folder: loaded(folder))
        made = fitted(folder)
        made.predict(ASKED[:2])
        assert loaded(folder).predictions_left() == LIMIT - 2
        shutil.rmtree(folder)
        if not killed:
            break
    assert at > 30


TAMPERINGS = [
    "UPDATE epochs SET charged = -5",
    "UPDATE epochs SET charged = 1",
    "UPDATE epochs SET charged = 'few'",
    "UPDATE epochs SET charged = 1.5",
    "UPDATE epochs SET charged = 9223372036854775807",
    "UPDATE epochs SET secret = x'00'",
    "UPDATE epochs SET secret = 'text'",
    "UPDATE epochs SET epoch = epoch + 10",
    "DELETE FROM epochs",
    "UPDATE service SET epoch = 'one'",
    "UPDATE service SET version = -1",
    "UPDATE service SET version = x'ff'",
    "UPDATE service SET settings = 7",
    "UPDATE service SET settings = x'7b7d'",
    "DELETE FROM service",
    "UPDATE lines SET answer = 99",
    "UPDATE lines SET answer = -1",
    "UPDATE lines SET answer = 'ill'",
    "UPDATE lines SET answer = 0.5",
    "UPDATE seal SET serial = serial - 1",
    "UPDATE seal SET serial = 'x', salt = 3",
    "UPDATE seal SET previous = x'00'",
    "DELETE FROM seal",
    "DROP TABLE seal",
    "DROP TABLE lines",
    "DROP TABLE epochs",
    "DROP TABLE service",
    "DROP INDEX asked",
    "CREATE TABLE other (x)",
    "CREATE TRIGGER free AFTER INSERT ON lines BEGIN UPDATE epochs SET charged = 0; END",
    "ALTER TABLE epochs RENAME COLUMN charged TO spent",
]


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_ledger_that_was_tampered_with_is_refused_in_one_line(tmp_path, tampering):
    made = fitted(tmp_path / "service")
    made.predict(ASKED[:4])
    with sqlite3.connect(made.folder / "ledger.sqlite") as database:
        database.execute(tampering)
    for action in (
        lambda: made.predict(ASKED[:4]),
        lambda: loaded(made.folder).predict(ASKED[:4]),
    ):
        said = refused(action)
        assert "ledger" in said or "state.npz" in said


@pytest.fixture(scope="module")
def remembered(tmp_path_factory):
    made = fitted(tmp_path_factory.mktemp("remembered") / "service")
    return made.folder, made.predict(ASKED[:4])


@settings(max_examples=rounds(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=9))
def test_whatever_bytes_are_written_over_it_answers_the_same_or_not_at_all(
    remembered, tmp_path, name, place, content
):
    original, answers = remembered
    folder = tmp_path / "service"
    shutil.copytree(original, folder)
    with (folder / name).open("r+b") as stream:
        stream.seek(int(place * (folder / name).stat().st_size))
        stream.write(content)
    try:
        made = loaded(folder)
        left = made.predictions_left()
        found = made.predict(ASKED[:4])
    except ShardedError as error:
        assert "\n" not in str(error)
    else:
        assert left == LIMIT - 4
        assert set(found) <= {"ill", "well"}
        if made.predictions_left() == left:
            assert (found == answers).all()
    shutil.rmtree(folder)

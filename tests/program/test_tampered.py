"""What the program believes of its own earlier work: changed in any way, it is named and not used.

Each kind of file is changed at random bytes, and as one would change it who knows what it says and
writes it anew as the program does: all but the key, which is none of the files.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import stat
import sys
import zipfile
from contextlib import closing

import msgspec
import numpy as np
import onnx
import pytest

import leaveout
from leaveout.bab.native import search as searching
from leaveout.bab.native.files.checkpoint import Checkpoints
from leaveout.bab.native.leaks import Leaks, search
from leaveout.bab.native.options import NativeOptions
from leaveout.errors import CheckpointError, GuardError, LeaveoutError, SpecError, StateError
from leaveout.user_key import mark, state_folder
from leaveout.verifier.guard import Guard

from support import children, networks
from support.cases import slow_question
from support.depth import rounds
from support.files import write_question
from support.guarded_forests import forest_folder
from support.guards import make_folder
from support.samples import write_sample

TIMES = int(os.environ.get("LEAVEOUT_TAMPERINGS", rounds(24)))
"""Changes of each kind; more take longer and look further."""
KEPT = 3
"""Of so many the wordings are kept."""


def rewritten(path, change):
    """Write an archive anew with what ``change`` makes of a dictionary of its members."""
    with zipfile.ZipFile(path) as archive:
        members, comment = (
            {each: archive.read(each) for each in archive.namelist()},
            archive.comment,
        )
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = comment


def damaged(path, rng):
    """Change a byte, cut the file, or put something at its end."""
    content = bytearray(path.read_bytes())
    match rng.integers(4):
        case 0 | 1:
            at = rng.integers(len(content))
            content[at] ^= 1 << rng.integers(8)
        case 2:
            del content[rng.integers(len(content)) :]
        case _:
            content += bytes(rng.integers(0, 256, rng.integers(1, 80), dtype=np.uint8))
    path.write_bytes(content)


def array_of(content):
    return np.load(io.BytesIO(content), allow_pickle=False)


def bytes_of(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def other_numbers(members, rng):
    """Change an array: a number of it, all of them, or their order."""
    names = [name for name in members if name.endswith(".npy") and array_of(members[name]).size]
    name = names[rng.integers(len(names))]
    array = array_of(members[name])
    flat = array.reshape(-1).copy()
    if array.dtype.names:
        raw = flat.view(np.uint8)
        raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
    elif rng.integers(2):
        at = rng.integers(len(flat))
        flat[at] = flat[at] * 0.5 if flat[at] else 1
    else:
        flat = flat * 0 + (1 if (flat == 0).all() else 0)
    members[name] = bytes_of(flat.astype(array.dtype).reshape(array.shape))


def summary(report):
    return [(each.name, each.label, each.verdict, each.lower, each.upper) for each in report]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Return a folder with a finished checkpoint, and what was found."""
    folder = tmp_path_factory.mktemp("searched")
    spec = write_question(folder)
    return folder, summary(leaveout.verify(spec, resume=folder / "c.checkpoint"))


@pytest.fixture
def resumed(searched, tmp_path):
    folder, found = searched
    copy = shutil.copytree(folder, tmp_path / "copy")
    return copy / "test.spec", copy / "c.checkpoint", found


def index_edit(rng):
    """Return an edit of what a checkpoint says of a search that is over."""

    def change(members):
        index = json.loads(members["index.json"])
        key = list(index["searches"])[rng.integers(len(index["searches"]))]
        known = index["searches"][key]
        match rng.integers(7):
            case 0:  # no witness any more, and a bound far below it
                known["member"] = -1
                known["result"]["upper"] = 0.01
            case 1:
                known["result"]["upper"] *= rng.random()
            case 2:
                known["result"]["closed"] = False
            case 3:
                known["question"]["statement"] += " "
            case 4:
                del index["searches"][key]
            case 5:
                known["result"]["seconds"] += 1
            case _:
                known["member"] = 1 - known["member"]
        members["index.json"] = json.dumps(index).encode()

    return change


def test_what_a_run_went_on_from_is_said(resumed, snapshot):
    spec, file, found = resumed
    report = leaveout.verify(spec, resume=file)
    assert summary(report) == found
    said = [note for note in report.notes if str(file) in note]
    assert len(said) == 2
    assert said == snapshot
    assert not any(note in said for note in leaveout.verify(spec).notes)


@pytest.mark.parametrize("seed", range(TIMES))
def test_a_changed_checkpoint_is_refused(resumed, seed, snapshot):
    spec, file, _ = resumed
    rng = np.random.default_rng(seed)
    before = file.read_bytes()
    match seed % 3:
        case 0:
            damaged(file, rng)
        case 1:
            rewritten(file, index_edit(rng))
        case _:
            rewritten(file, lambda members: other_numbers(members, rng))
    assert file.read_bytes() != before
    with pytest.raises(CheckpointError, match=r"c\.checkpoint: ") as error:
        leaveout.verify(spec, resume=file)
    if seed < KEPT:
        assert str(error.value) == snapshot
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Return the checkpoint of a search that was interrupted."""
    file, steps = tmp_path_factory.mktemp("stopped") / "c.checkpoint", []
    instance, options = slow_question(), NativeOptions()

    def progress(step):
        steps.append(step)
        if len(steps) == 4:
            raise KeyboardInterrupt

    digests = Leaks(instance, 1).digests()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_FIRST", 0.01)
        patch.setattr(searching, "_ROUND", 0.05)
        checkpoint = Checkpoints(file, "1").of(digests, 1, options, "bound", "find")
        result = search(instance, 1, options, progress=progress, checkpoint=checkpoint)
    assert result.interrupted
    return file


@pytest.mark.parametrize("seed", range(TIMES))
def test_a_changed_checkpoint_of_a_search_under_way_is_refused(stopped, tmp_path, seed, snapshot):
    file = shutil.copy(stopped, tmp_path / "c.checkpoint")
    assert "bound/1" in Checkpoints(file, "1")._searches
    rng = np.random.default_rng(seed)

    def change(members):
        index = json.loads(members["index.json"])
        known = index["searches"]["bound/1"]
        match rng.integers(4):
            case 0:
                known["proved"] = known["cut"] = 0.0
            case 1:
                known["cut"] *= 0.5
                known["member"] = -1
            case 2:
                known["states"] = []
            case _:
                known["states"][0] = {
                    name: 0 if isinstance(value, int) else value
                    for name, value in known["states"][0].items()
                }
        members["index.json"] = json.dumps(index).encode()

    match seed % 3:
        case 0:
            damaged(file, rng)
        case 1:
            rewritten(file, change)
        case _:
            rewritten(file, lambda members: other_numbers(members, rng))
    assert file.read_bytes() != stopped.read_bytes()
    with pytest.raises(CheckpointError, match=r"c\.checkpoint: ") as told:
        Checkpoints(file, "1")
    if seed < KEPT:
        assert str(told.value) == snapshot


def test_a_checkpoint_that_is_exchanged_while_it_is_read_is_noticed(stopped, tmp_path, snapshot):
    """It has this user's mark, too, but is not the one that was looked at."""
    file = shutil.copy(stopped, tmp_path / "c.checkpoint")
    store = Checkpoints(file, "1")
    shutil.copy(stopped, tmp_path / "other").replace(file)
    with pytest.raises(CheckpointError) as told:
        store._array("bound/1", "before")
    assert str(told.value) == snapshot


def test_a_checkpoint_that_claims_less_than_a_leak_is_the_one_that_was_believed(resumed, snapshot):
    """The change that matters: `proved` at .01, and no word of the witness at .88."""
    spec, file, found = resumed
    assert max(lower for *_, lower, _ in found) > 0.8

    def change(members):
        index = json.loads(members["index.json"])
        for known in index["searches"].values():
            known["member"], known["result"]["upper"] = -1, 0.01
        members["index.json"] = json.dumps(index).encode()
        for name in [each for each in members if each.endswith("before.npy")]:
            members[name] = bytes_of(np.minimum(array_of(members[name]), 0.01))

    rewritten(file, change)
    with pytest.raises(CheckpointError) as told:
        leaveout.verify(spec, resume=file, bounds=spec.parent / "bounds.npz")
    assert str(told.value) == snapshot
    assert not (spec.parent / "bounds.npz").exists()
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b""
    with pytest.raises(CheckpointError) as told:
        leaveout.verify(spec, resume=file)
    assert str(told.value) == snapshot


def test_a_checkpoint_of_another_user_is_refused_until_the_key_is_brought(
    resumed, own_state, snapshot
):
    spec, file, _ = resumed
    with pytest.raises(CheckpointError) as told:
        leaveout.verify(spec, resume=file)
    assert str(told.value) == snapshot
    assert f"{own_state / 'key'}" in str(told.value)


def test_a_mark_of_one_kind_is_none_of_another(resumed, served):
    folder, _ = served
    shutil.copy(resumed[1], folder / "bounds.npz")
    with pytest.raises(GuardError):
        Guard.load(folder, 0.2)
    assert mark("a", [b"b"]) != mark("ab", [])
    assert mark("a", [b"b", b"c"]) == mark("a", [b"bc"])


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Return a folder with bounds and a memory of 40 answers, what was asked, and the answers."""
    model = networks.dense(np.random.default_rng(5), (2, 6, 5, 3))
    folder = tmp_path_factory.mktemp("asked") / "served"
    make_folder(folder, model, seed=5, members=8, spread=0.05)
    points = np.random.default_rng(1).random((400, 2)).astype(np.float32)
    with Guard.load(folder, 0.5) as guard:
        labels = guard.labels(points)
        assert guard.account().answers > 40
    return folder, points, labels


@pytest.fixture
def served(asked, tmp_path):
    folder, *_ = asked
    return shutil.copytree(folder, tmp_path / "served"), asked


def test_what_was_written_here_is_served_without_a_word(served):
    folder, (_, points, labels) = served
    with Guard.load(folder, 0.5) as guard:
        assert (guard.labels(points) == labels).all()
        assert not any("used unchanged" in note for note in guard.notes)


@pytest.mark.parametrize("seed", range(TIMES))
def test_changed_bounds_are_refused_and_named_where_they_are_adopted(served, seed, snapshot):
    folder, _ = served
    file, rng = folder / "bounds.npz", np.random.default_rng(seed)
    if seed % 3:
        rewritten(file, lambda members: other_numbers(members, rng))
    else:
        damaged(file, rng)
    with pytest.raises(LeaveoutError, match=r"bounds\.npz") as told:
        Guard.load(folder, 0.5)
    if seed < KEPT:
        assert str(told.value) == snapshot
    try:
        with Guard.load(folder, 0.5, adopt=True) as guard:
            assert any(str(file) in note and "used unchanged" in note for note in guard.notes)
    except LeaveoutError:
        return


MEMORY = [
    "UPDATE answers SET answer = (answer + 1) % 3",
    "UPDATE answers SET answer = (answer + 1) % 3 WHERE input = (SELECT MAX(input) FROM answers)",
    "UPDATE spent SET answers = answers - 1",
    "UPDATE spent SET epsilon = epsilon / 2",
    "DELETE FROM answers WHERE input = (SELECT MIN(input) FROM answers)",
    "DELETE FROM answers; DELETE FROM spent",
    "DELETE FROM answers WHERE input = (SELECT MIN(input) FROM answers); "
    "UPDATE spent SET answers = answers - 1",
    "INSERT INTO answers VALUES (zeroblob(32), 0, zeroblob(32)); "
    "UPDATE spent SET answers = answers + 1",
    "UPDATE guard SET secret = zeroblob(32)",
    "UPDATE guard SET box = ''",
    "UPDATE guard SET mark = zeroblob(32)",
    "UPDATE answers SET mark = (SELECT mark FROM answers LIMIT 1)",
    "UPDATE answers SET input = zeroblob(32) WHERE input = (SELECT MIN(input) FROM answers)",
]


@pytest.mark.parametrize("tampering", MEMORY)
def test_a_changed_memory_gives_no_answer(served, tampering):
    folder, (_, points, labels) = served
    with closing(sqlite3.connect(folder / "answers.sqlite")) as database:
        database.executescript(f"BEGIN; {tampering}; COMMIT")
    before = labels.copy()
    with pytest.raises(GuardError) as error, Guard.load(folder, 0.5) as guard:
        guard.labels(points)
        pytest.fail(f"{(before != guard.labels(points)).sum()} answers changed, and no word")
    assert "answers.sqlite" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", range(TIMES))
def test_bytes_of_a_memory_that_are_changed_change_no_answer(served, seed):
    """What lies in pages that nothing uses may change; no answer does without a word."""
    folder, (_, points, labels) = served
    damaged(folder / "answers.sqlite", np.random.default_rng(seed))
    try:
        with Guard.load(folder, 0.5) as guard:
            account = guard.account()
            assert (guard.labels(points) == labels).all()
            assert guard.account() == account
    except GuardError as error:
        assert "answers.sqlite" in str(error)


def test_a_memory_that_is_changed_while_it_is_open_gives_no_answer(served, snapshot):
    folder, (_, points, _) = served
    with Guard.load(folder, 0.5) as guard:
        with closing(sqlite3.connect(folder / "answers.sqlite")) as database:
            database.executescript("UPDATE answers SET answer = (answer + 1) % 3")
        with pytest.raises(GuardError) as told:
            guard.labels(points)
        assert str(told.value) == snapshot


FORMAT_1 = """
CREATE TABLE old (format INTEGER NOT NULL, network TEXT NOT NULL, family TEXT NOT NULL,
    box TEXT NOT NULL, epsilon REAL NOT NULL, secret BLOB NOT NULL);
INSERT INTO old SELECT 1, network, family, box, epsilon, secret FROM guard;
CREATE TABLE kept AS SELECT input, answer FROM answers;
DROP TABLE guard; DROP TABLE answers;
CREATE TABLE guard (format INTEGER NOT NULL, network TEXT NOT NULL, family TEXT NOT NULL,
    box TEXT NOT NULL, epsilon REAL NOT NULL, secret BLOB NOT NULL);
CREATE TABLE answers (input BLOB PRIMARY KEY, answer INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO guard SELECT * FROM old; INSERT INTO answers SELECT * FROM kept;
DROP TABLE old; DROP TABLE kept;
"""


@pytest.mark.parametrize("script", [FORMAT_1, "UPDATE guard SET mark = zeroblob(32)"])
def test_a_memory_from_elsewhere_goes_on_once_it_is_adopted(served, script, snapshot):
    """One of an earlier version too: every answer is what it was, and so is its cost."""
    folder, (_, points, labels) = served
    with closing(sqlite3.connect(folder / "answers.sqlite")) as database:
        database.executescript(script)
    with pytest.raises(GuardError) as told:
        Guard.load(folder, 0.5)
    assert str(told.value) == snapshot
    with Guard.load(folder, 0.5, adopt=True) as guard:
        account = guard.account()
        assert any("answers.sqlite: " in note and "used unchanged" in note for note in guard.notes)
        assert (guard.labels(points) == labels).all()
        assert guard.account() == account
    with Guard.load(folder, 0.5) as guard:
        assert (guard.labels(points) == labels).all()


@pytest.mark.parametrize("seed", range(max(4, TIMES // 3)))
def test_changed_deletions_of_a_forest_are_made_again(tmp_path_factory, tmp_path, seed, request):
    cache = request.session.__dict__.setdefault("_tampered_forest", {})
    if not cache:
        made = forest_folder(tmp_path_factory.mktemp("forest"))
        points = np.random.default_rng(0).random((300, 2))
        with Guard.load(made.folder, 0.5, seed=3) as guard:
            cache.update(folder=made.folder, points=points, tiers=guard.inspect(points).tiers)
    folder = shutil.copytree(cache["folder"], tmp_path / "copy")
    rng = np.random.default_rng(seed)
    rewritten(folder / "family.npz", lambda members: other_numbers(members, rng))
    try:
        with Guard.load(folder, 0.5, seed=3) as guard:
            said = guard.notes
            tiers = guard.inspect(cache["points"]).tiers
    except LeaveoutError as error:
        assert "family.npz" in str(error)
        return
    assert any("family.npz: was" in note and "recomputed" in note for note in said)
    assert (tiers == cache["tiers"]).all()


@pytest.mark.parametrize("seed", range(TIMES))
def test_a_changed_look_is_named_or_says_the_same(tmp_path, own_state, seed):
    spec = write_sample(tmp_path)
    if seed == 0:
        leaveout.verify(spec)
        (kept,) = tmp_path.glob("asked-*.json")
    else:
        # What a look leaves, without the search.
        content = _look(spec)
        found = msgspec.json.decode(content)
        kept = tmp_path / f"asked-{found['family'][:16]}.json"
        for path in (kept, own_state / "asked" / f"{found['family']}.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    rng, whole = np.random.default_rng(seed), msgspec.json.decode(kept.read_bytes())
    first = kept.read_bytes()
    if seed % 2:
        damaged(kept, rng)
    else:
        claim = whole["claims"][rng.integers(len(whole["claims"]))]
        match rng.integers(4):
            case 0:
                whole["results"] += int(rng.integers(1, 5))
            case 1:
                claim["share"] = "1/2"
            case 2:
                claim["labels"] = [0, 1]
            case _:
                claim["above"], claim["name"] = "0.5", "another"
        kept.write_bytes(msgspec.json.encode(whole))
    same = _is_same(first, kept.read_bytes())
    if same:
        assert leaveout.verify(spec).results
    else:
        with pytest.raises(SpecError, match="asked-"):
            leaveout.verify(spec)


LOOK: dict[str, bytes] = {}


def _look(spec):
    """Return what the first look at the sample of these tests leaves; it is always the same."""
    if not LOOK:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(spec.parent / "once"))
            leaveout.verify(spec)
        (kept,) = spec.parent.glob("asked-*.json")
        LOOK["content"] = kept.read_bytes()
        kept.unlink()
    return LOOK["content"]


def _is_same(one, two):
    try:
        return msgspec.json.decode(one) == msgspec.json.decode(two)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def test_the_key_is_of_this_user_alone(own_state, snapshot):
    first = mark("p", [b"x"])
    key = own_state / "key"
    assert state_folder() == own_state
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(own_state.stat().st_mode) == 0o700
    assert [each.name for each in own_state.iterdir()] == ["key"]
    assert len(key.read_bytes()) == 32
    assert mark("p", [b"x"]) == first
    key.chmod(0o640)
    with pytest.raises(StateError) as told:
        mark("p", [])
    assert str(told.value) == snapshot
    key.chmod(0o600)
    for content in (b"", b"x" * 31, b"x" * 33):
        key.write_bytes(content)
        with pytest.raises(StateError) as told:
            mark("p", [])
        assert str(told.value) == snapshot
    key.unlink()
    assert mark("p", [b"x"]) != first


def test_of_many_processes_at_once_one_makes_the_key(own_state):
    code = (
        "import sys; from leaveout.user_key import mark; sys.stdin.readline(); print(mark('p', []))"
    )
    running = [children.start([sys.executable, "-c", code], stdin=-1, stdout=-1) for _ in range(4)]
    for each in running:
        each.stdin.write("\n")
        each.stdin.flush()
    assert len({each.communicate(timeout=children.HANGS)[0] for each in running}) == 1


def test_where_no_key_can_be_kept_nothing_is_begun(searched, tmp_path, monkeypatch):
    folder, _ = searched
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    for option in ("resume", "bounds"):
        with pytest.raises(StateError, match="set XDG_STATE_HOME to a writable folder"):
            leaveout.verify(folder / "test.spec", **{option: tmp_path / "new.npz"})
        assert not (tmp_path / "new.npz").exists()
    assert leaveout.verify(folder / "test.spec").results


def test_a_relative_folder_of_state_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "state", "../state"):
        monkeypatch.setenv("XDG_STATE_HOME", given)
        assert state_folder() == tmp_path / ".local" / "state" / "leaveout"


def test_a_network_of_another_opset_is_another_one(served, snapshot):
    """What its operators mean is another thing; nothing else of the file differs."""
    folder, _ = served
    model = onnx.load(folder / "full.onnx")
    for item in model.opset_import:
        item.version -= 1
    onnx.save(model, folder / "full.onnx")
    with pytest.raises(GuardError) as told:
        Guard.load(folder, 0.5)
    assert str(told.value) == snapshot

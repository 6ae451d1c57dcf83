"""A search that ends, however it ends, goes on from its checkpoint to the same answer."""

from __future__ import annotations

import itertools
import os
import signal
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from leaveout.bab import make_instance
from leaveout.bab.native import search as searching
from leaveout.bab.native.files import checkpoint as checkpoints
from leaveout.bab.native.files.checkpoint import Checkpoints, Pause
from leaveout.bab.native.files.records import pack, row_type, unpack
from leaveout.bab.native.leaks import Leaks, search
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.search import NativeSearch
from leaveout.bab.native.workers import processes
from leaveout.bab.native.workers.pool import InlineExecutor
from leaveout.bab.native.workers.worker import Worker
from leaveout.encoders import Box
from leaveout.errors import CheckpointError
from leaveout.models.onnx.file import network_from

from support import children, networks
from support.cases import slow_question

OPTIONS = NativeOptions(seconds=children.HANGS)


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch):
    """Let small questions take some rounds too."""
    monkeypatch.setattr(searching, "_FIRST", 0.01)
    monkeypatch.setattr(searching, "_ROUND", 0.05)


def opened(path, instance, options=OPTIONS, label=1, statement="find", version="1"):
    digests = Leaks(instance, label).digests()
    return Checkpoints(path, version).of(digests, label, options, "bound", statement)


def stop_after(count: int):
    """Return a progress callback that raises as Ctrl-C does."""
    calls = []

    def progress(step) -> None:
        calls.append(step)
        if len(calls) == count:
            raise KeyboardInterrupt

    return progress


def same(one, two) -> None:
    assert two.closed == one.closed
    room = 0.01 * max(one.upper, two.upper) + 1e-9
    assert abs(one.lower - two.lower) <= room
    assert abs(one.upper - two.upper) <= room


@pytest.mark.parametrize("workers", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_an_interrupted_search_goes_on(tmp_path, workers):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    truth = search(instance, 1, OPTIONS)
    before, after = (replace(OPTIONS, workers=count) for count in workers)
    first = search(
        instance, 1, before, progress=stop_after(4), checkpoint=opened(file, instance, before)
    )
    assert first.interrupted
    assert first.upper >= truth.lower
    second = search(instance, 1, after, checkpoint=opened(file, instance, after))
    same(truth, second)
    assert second.upper <= first.upper
    assert second.lower >= first.lower
    assert second.solved >= first.solved
    assert second.seconds > first.seconds


def test_many_stops_lose_nothing(tmp_path):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    truth = search(instance, 1, OPTIONS)
    upper, solved = np.inf, -1
    for _ in range(200):
        result = search(
            instance, 1, OPTIONS, progress=stop_after(3), checkpoint=opened(file, instance)
        )
        assert truth.lower <= result.upper <= upper
        upper = result.upper
        if not result.interrupted:
            break
        assert result.solved > solved
        solved = result.solved
    same(truth, result)


def test_a_finished_search_answers_without_searching(tmp_path, monkeypatch):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    first = search(instance, 1, OPTIONS, checkpoint=opened(file, instance))
    size = file.stat().st_size
    monkeypatch.setattr(NativeSearch, "_search", None)
    second = search(instance, 1, OPTIONS, checkpoint=opened(file, instance))
    assert (second.lower, second.upper) == (first.lower, first.upper)
    assert (second.closed, second.reason, second.solved) == (True, None, first.solved)
    assert np.array_equal(second.member_upper, first.member_upper)
    assert np.array_equal(second.witness.x, first.witness.x)
    assert size < 20_000


def test_time_that_ran_out_goes_on_with_more(tmp_path):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    truth = search(instance, 1, OPTIONS)
    # More each time: however busy the machine is, some get on.
    for times in itertools.count():
        little = replace(OPTIONS, seconds=0.3 * 1.2**times)
        result = search(instance, 1, little, checkpoint=opened(file, instance))
        assert result.upper >= truth.lower
        if result.closed:
            break
        assert result.reason == "time"
    same(truth, result)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_goes_on_from_memory(workers):
    instance, pause = slow_question(), Pause()
    truth, solved = search(instance, 1, OPTIONS), 0
    for times in itertools.count():
        little = replace(OPTIONS, seconds=0.3 * 1.2**times, workers=workers)
        result = search(instance, 1, little, checkpoint=pause)
        assert result.upper >= truth.lower
        assert result.solved >= solved
        assert not (result.closed and pause.has_state)
        if result.closed:
            break
        assert result.reason == "time"
        solved = result.solved
    same(truth, result)


def test_a_state_that_is_too_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(checkpoints, "_LARGEST", 100)
    instance, pause = slow_question(), Pause()
    truth = search(instance, 1, OPTIONS)
    result = search(instance, 1, replace(OPTIONS, seconds=0.3), checkpoint=pause)
    assert truth.lower <= result.upper
    assert result.reason == (None if result.closed else "time")
    assert not pause.has_state


def test_other_searches_of_the_file_stay(tmp_path, snapshot):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    store = Checkpoints(file, "1")
    digests = Leaks(instance, 0).digests()
    both = [store.of(digests, label, OPTIONS, "bound", "find") for label in (0, 1)]
    results = [
        search(instance, label, OPTIONS, progress=stop_after(4), checkpoint=both[label])
        for label in (0, 1)
    ]
    again = Checkpoints(file, "1")
    both = [again.of(digests, label, OPTIONS, "bound", "find") for label in (0, 1)]
    again.only(both)
    for label in (1, 0):
        result = search(instance, label, OPTIONS, checkpoint=both[label])
        assert result.upper <= results[label].upper
        same(search(instance, label, OPTIONS), result)
    with pytest.raises(CheckpointError) as told:
        Checkpoints(file, "1").only(both[1:])
    assert str(told.value) == snapshot


def test_records_of_a_certificate_are_kept(tmp_path):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    options = replace(OPTIONS, certificate=True)

    def run(progress):
        checkpoint = opened(file, instance, options)
        one = NativeSearch(
            Leaks(instance, 1), options, InlineExecutor(), progress=progress, checkpoint=checkpoint
        )
        return one.run(), one.records

    first, before = run(stop_after(4))
    second, after = run(None)
    _, stored = run(None)
    assert first.interrupted
    assert second.closed
    assert 0 < len(before) < len(after) == len(stored)
    idents = [record.ident for record in after]
    assert len(set(idents)) == len(idents)
    known = {record.ident: record for record in after}
    for record in after:
        assert record.parent == -1 or record.parent in known
    for one, two in zip(after, stored):
        assert (one.ident, one.parent, one.split) == (two.ident, two.parent, two.split)
        assert (one.target, one.value, one.status) == (two.target, two.value, two.status)
        assert np.array_equal(one.errors, two.errors)
        assert (one.members is None) == (two.members is None)
        assert one.members is None or np.array_equal(one.members, two.members)
        assert (one.proof is None) == (two.proof is None)
        if one.proof is not None:
            for name in ("cz", "cd", "share"):
                assert np.array_equal(getattr(one.proof, name), getattr(two.proof, name))


def test_no_two_nodes_have_one_name_when_more_workers_go_on(tmp_path):
    instance, file = slow_question(), tmp_path / "state"
    options = replace(OPTIONS, certificate=True)
    search(instance, 1, options, progress=stop_after(6), checkpoint=opened(file, instance, options))
    records: list = []
    search(
        instance,
        1,
        replace(options, workers=3),
        checkpoint=opened(file, instance, replace(options, workers=3)),
        proofs=records.extend,
    )
    names = [record.ident for record in records]
    assert len(names) == len(set(names))


def test_nodes_survive_packing_and_bounds_only_widen():
    instance = slow_question()
    own_worker = Worker(Leaks(instance, 1), OPTIONS)
    own_worker.start(0.0)
    own_worker.step(0.0, 0.5)
    nodes = own_worker.nodes()
    example = own_worker.prepared.root(np.zeros(0, np.int64), 0, 0)
    back = unpack(pack(nodes, row_type(example)), example)
    assert len(back) == len(nodes) > 0
    assert unpack(pack([], row_type(example)), example) == []
    for one, two in zip(nodes, back):
        for name in (
            "ident",
            "parent",
            "split",
            "case",
            "value",
            "rounding_width",
            "plain",
            "cap",
            "warm",
            "spread",
        ):
            assert getattr(one, name) == getattr(two, name)
            assert type(getattr(one, name)) is type(getattr(two, name))
        for name in ("members", "lower", "upper", "phase", "lines", "known", "share", "errors"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
            assert getattr(one, name).dtype == getattr(two, name).dtype
        for row in range(6):
            change = two.state[row] - one.state[row]
            assert (change <= 0).all() if row in (0, 4) else (change >= 0).all()
            assert np.allclose(two.state[row], one.state[row], rtol=1e-6)
        assert np.array_equal(one.neuron_score > 0, two.neuron_score > 0)


def test_an_explorer_goes_on_as_it_would_have(monkeypatch):
    """What steers the search is restored: the same nodes are split in the same order."""
    instance = slow_question()
    own_worker = Worker(Leaks(instance, 1), OPTIONS)
    own_worker.start(0.0)
    own_worker.step(0.0, 0.3)
    state = own_worker.save()
    blocks = [own_worker.block(i) for i in range(state.blocks)]
    others = []
    for _ in range(2):
        other = Worker(Leaks(instance, 1), OPTIONS)
        other.rename(state.names)
        other.load(state)
        for each in blocks:
            other.add(each)
        others.append(other)
    for other in others:
        for _ in range(10):
            if other.explorer.value > 0.0:
                other.explorer._round(0.0)
    one, two = ([(n.ident, n.value) for n in other.nodes()] for other in others)
    assert one == two
    assert min(ident for ident, _ in one) >= 0
    assert others[0].explorer.bounded > state.bounded


def _saved(tmp_path):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    search(instance, 1, OPTIONS, progress=stop_after(4), checkpoint=opened(file, instance))
    return instance, file


@pytest.mark.parametrize("part", ["network", "family", "box", "gap", "statement", "version"])
def test_a_checkpoint_of_another_question_is_refused(tmp_path, part, snapshot):
    instance, file = _saved(tmp_path)
    options, statement, version = OPTIONS, "find", "1"
    if part == "network":
        other = network_from(networks.dense(np.random.default_rng(9), (3, 12, 12, 2)), "random")
        instance = make_instance(other, instance.family, instance.box)
    elif part == "family":
        instance = make_instance(instance.network, instance.family.first(5), instance.box)
    elif part == "box":
        box = Box(instance.box.lower, instance.box.upper * 0.5)
        instance = make_instance(instance.network, instance.family, box)
    elif part == "gap":
        options = replace(OPTIONS, gap=0.01)
    elif part == "statement":
        statement = "guarantee, 0.5"
    else:
        version = "2"
    with pytest.raises(CheckpointError) as error:
        opened(file, instance, options, statement=statement, version=version)
    assert str(error.value) == snapshot
    assert part in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_what_does_not_matter_may_differ(tmp_path):
    instance, file = _saved(tmp_path)
    other = replace(OPTIONS, seconds=5.0, seed=4, steps=30, workers=2)
    assert opened(file, instance, other).load() is not None


def test_a_damaged_file_is_refused(tmp_path):
    _, file = _saved(tmp_path)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [whole[:n] for n in (0, 1, 100, len(whole) // 2, len(whole) - 1)]
    for at in rng.integers(0, len(whole), 60):
        cuts.append(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    refused = 0
    for content in cuts:
        file.write_bytes(content)
        try:
            checkpoint = opened(file, slow_question())
            saved = checkpoint.load()
            # What no checksum covers (dates, attributes) does not matter either.
            assert saved is not None
            for i in range(saved.states[0].blocks):
                checkpoint.table(0, i)
        except CheckpointError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 50


def test_a_text_file_or_a_folder_is_no_checkpoint(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a checkpoint")
    for path in (file, tmp_path, tmp_path / "nowhere" / "file"):
        with pytest.raises(CheckpointError):
            Checkpoints(path, "1")


def test_an_archive_of_something_else_is_no_checkpoint(tmp_path):
    file = tmp_path / "other.npz"
    np.savez(file, x=np.zeros(3))
    with pytest.raises(CheckpointError):
        Checkpoints(file, "1")
    with zipfile.ZipFile(tmp_path / "list", "w") as archive:
        archive.writestr("index.json", "[1]")
    with pytest.raises(CheckpointError):
        Checkpoints(tmp_path / "list", "1")


def test_a_write_that_fails_leaves_the_last_checkpoint(tmp_path, monkeypatch, snapshot):
    instance, file = _saved(tmp_path)
    before = file.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr("leaveout.bab.native.files.checkpoint.npy.write_array", full)
    with pytest.raises(CheckpointError) as told:
        search(instance, 1, OPTIONS, checkpoint=opened(file, instance))
    assert str(told.value) == snapshot
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_dead_worker_is_given_what_the_file_holds(tmp_path, monkeypatch):
    instance, file = slow_question(), tmp_path / "run.checkpoint"
    truth = search(instance, 1, OPTIONS)
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    workers, calls = [], []
    start = processes._Worker.__init__

    def note(self, *args):
        workers.append(self)
        start(self, *args)

    monkeypatch.setattr(processes._Worker, "__init__", note)

    def kill(step):
        calls.append(step)
        if len(calls) in {5, 7}:
            os.kill(workers[len(calls) == 7].pid, signal.SIGKILL)

    result = search(
        instance,
        1,
        replace(OPTIONS, workers=2),
        progress=kill,
        checkpoint=opened(file, instance, replace(OPTIONS, workers=2)),
    )
    same(truth, result)
    assert len(workers) > 2 or len(calls) < 5

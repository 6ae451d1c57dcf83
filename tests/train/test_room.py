"""Networks that do not fit are trained fewer at a time, to the same bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models.train import stacked
from leaveout.models.train.pool import Block, Failed, Noted, Step, Trained
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.training import StackedTask, claim_device

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def task_of(rows=20):
    rng = np.random.default_rng(0)
    task = StackedTask(
        recipe=Recipe(layers=(5,), epochs=2, batch=6),
        folder="",
        device="cpu",
        X=rng.random((rows, 4)).astype(np.float32),
        y=np.arange(rows) % 2,
        labels=2,
        removed=np.arange(rows),
    )
    task.prepare()
    return task


def short_of_memory(monkeypatch, most):
    """Let a stack of more networks than ``most`` fail as a GPU does."""

    class Short(stacked.Stack):
        def train(self, on_epoch=None):
            if len(self._removed) > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
            super().train(on_epoch)

    monkeypatch.setattr(stacked, "Stack", Short)


def test_what_does_not_fit_is_halved_with_a_line_and_gives_the_same_bytes(monkeypatch, snapshot):
    whole = task_of().do(Block(range(3, 20)), lambda step: None)
    short_of_memory(monkeypatch, 5)
    said, task = [], task_of()
    found = task.do(Block(range(3, 20)), said.append)
    assert isinstance(found, Trained)
    assert np.array_equal(found.parameters, whole.parameters)
    notes = [each.words for each in said if isinstance(each, Noted)]
    assert notes == snapshot
    shares = [each.share for each in said if isinstance(each, Step)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    # It is learnt once.
    task.do(Block(range(3, 20)), said.append)
    assert len([each for each in said if isinstance(each, Noted)]) == 2


def test_where_not_even_one_fits_the_cure_is_said(monkeypatch, snapshot):
    short_of_memory(monkeypatch, 0)
    found = task_of().do(Block(range(1)), lambda step: None)
    assert isinstance(found, Failed)
    assert found.message == snapshot
    assert "--batch" in found.message


def test_more_memory_holds_more_networks_and_larger_batches_fewer():
    task = task_of(rows=2000)
    few, many = task.networks_at_once(10**7), task.networks_at_once(10**8)
    assert 1 < few < many
    large = dataclasses.replace(task, recipe=Recipe(layers=(5,), epochs=2, batch=60))
    assert large.networks_at_once(10**8) < many
    assert task.networks_at_once(1) == 1


def test_on_a_gpu_networks_are_counted_in_groups():
    task = dataclasses.replace(task_of(rows=2000), device="cuda")
    assert task.networks_at_once(10**8) % 128 == 0
    assert task.networks_at_once(1) == 128


def test_each_process_of_a_run_takes_a_device_of_its_own(tmp_path, snapshot):
    held = [claim_device(tmp_path, 2) for _ in range(2)]
    assert [index for index, _ in held] == [0, 1]
    with pytest.raises(TrainingError) as told:
        claim_device(tmp_path, 2)
    assert str(told.value) == snapshot
    held.pop(0)[1].close()
    held.append(claim_device(tmp_path, 2))
    assert held[-1][0] == 0
    for _, stream in held:
        stream.close()

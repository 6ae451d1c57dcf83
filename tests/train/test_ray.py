"""Training on Ray: the bytes of processes, whatever dies; a lost head is one line."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import leaveout
from leaveout.errors import TrainingError
from leaveout.models.train import Recipe, run
from leaveout.models.train.pool import Block, Check, Done, Noted
from leaveout.models.train.ray_pool import (
    Came,
    Given,
    Lost,
    RayWorkers,
    Unlike,
    bits_of_this_machine,
)
from leaveout.models.train.training import StackedTask
from leaveout.ray_cluster import RayLostError

from support import children
from support.ray_clusters import command, ray_cluster, start_search, start_training

torch = pytest.importorskip("torch")

RECIPE = Recipe(layers=(20, 20), epochs=20, batch=4)


class Scripted:
    """In place of the driver: what comes of an order is what a function says."""

    cpus, gpus = 2, 0

    def __init__(self, answer) -> None:
        self.answer, self.said, self.given = answer, [], []

    def serve(self, role) -> None:
        self.role = role

    def send(self, given) -> None:
        self.given.append(given.number)
        self.said += self.answer(given, self.given.count(given.number))

    def receive(self, seconds):
        if not self.said:
            raise RayLostError("the Ray cluster at here ended")
        return self.said.pop(0)


def task() -> StackedTask:
    rows = np.arange(40)
    return StackedTask(RECIPE, "", "cpu", np.zeros((40, 2), np.float32), rows % 2, 2, rows, "r")


def worked(answer, orders: int = 9):
    driver = Scripted(answer)
    blocks = [Block(range(4 * i, 4 * i + 4)) for i in range(orders)]
    with RayWorkers(driver, None).pool(task(), 2) as pool:
        return driver, list(pool.work(blocks)), blocks


def test_orders_are_given_ahead_and_each_is_answered_once():
    driver, said, blocks = worked(lambda given, turn: [Came(given.number, Done())])
    assert [order for order, _ in said] == blocks
    assert driver.given == list(range(9))


def test_a_block_whose_worker_died_is_given_again_and_it_is_said(snapshot):
    def answer(given: Given, turn: int):
        dies = given.number == 3 and turn < 3
        return [Lost(3, "killed") if dies else Came(given.number, Done())]

    driver, said, blocks = worked(answer)
    notes = [(order, event.words) for order, event in said if isinstance(event, Noted)]
    assert [order for order, _ in notes] == [blocks[3]] * 2
    assert notes[0][1] == snapshot
    assert {order.networks for order, event in said if event == Done()} == {
        block.networks for block in blocks
    }
    assert driver.given.count(3) == 3


def test_a_block_that_kills_its_worker_three_times_is_named(snapshot):
    with pytest.raises(TrainingError) as at:
        worked(lambda given, turn: [Lost(given.number, "killed")], orders=1)
    assert str(at.value) == snapshot
    assert "\n" not in str(at.value)


def test_a_program_that_fails_is_not_tried_again(snapshot):
    with pytest.raises(TrainingError) as told:
        worked(lambda given, turn: [Lost(given.number, "KeyError: 1", fault=True)], orders=1)
    assert str(told.value) == snapshot


def test_a_machine_of_other_bits_is_named_and_one_is_needed(snapshot):
    facts = {**bits_of_this_machine(), "torch": "9.9"}

    def answer(given: Given, turn: int):
        return [Unlike("far (10.0.0.7)", facts, left), Came(given.number, Done())]

    left = True
    _, said, _ = worked(answer, orders=1)
    (note,) = [event.words for _, event in said if isinstance(event, Noted)]
    assert note == snapshot
    left = False
    with pytest.raises(TrainingError) as told:
        worked(answer, orders=1)
    assert str(told.value) == snapshot


def test_a_check_tells_other_bits_from_the_same():
    def digest(**changed):
        rng = np.random.default_rng(1)
        X = rng.random((40, 2)).astype(np.float32)
        one = dataclasses.replace(task(), X=X, **changed)
        one.prepare()
        return one.do(Check(), lambda step: None).digest

    assert digest() == digest()
    assert digest() != digest(recipe=Recipe(layers=(20, 20), batch=4, learning_rate=0.1000001))


def test_an_executor_is_refused_in_a_line(blobs, tmp_path, monkeypatch, snapshot):
    with pytest.raises(TrainingError) as told:
        run(blobs, tmp_path / "out", executor="dask")
    assert str(told.value) == snapshot
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(TrainingError) as told:
        run(blobs, tmp_path / "out", executor="ray")
    assert str(told.value) == snapshot


def test_an_address_where_nobody_is_is_refused_at_once(blobs, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(
        TrainingError, match=r"RAY_ADDRESS=127\.0\.0\.1:9: no cluster answers"
    ) as at:
        run(blobs, tmp_path / "out", executor="ray")
    assert "\n" not in str(at.value)
    assert not (tmp_path / "out").exists()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_killed_worker_costs_neither_bytes_nor_the_run(blobs, tmp_path, cluster):
    process = start_training(blobs, tmp_path / "ray", 30)
    victims: list[int] = []
    children.wait_until(lambda: victims.extend(cluster.workers("_train")) or victims, "a worker")
    os.kill(victims[0], signal.SIGKILL)
    said = process.communicate(timeout=children.HANGS)[1]
    assert process.returncode == 0, said
    assert "its worker died; another one trains it (1 of 2 times)" in said
    assert len(said.splitlines()) == 1, said
    recipe = Recipe(layers=(20, 20), epochs=30, batch=4)
    run(blobs, tmp_path / "here", recipe=recipe, device="cpu", workers=1)
    assert contents(tmp_path / "ray") == contents(tmp_path / "here")


def test_a_machine_of_other_bits_is_not_used(blobs, tmp_path, cluster, capfd):
    # Its processor's vector instructions are not used: sums come in another order.
    cluster.add(ATEN_CPU_CAPABILITY="default", MKL_ENABLE_INSTRUCTIONS="SSE4_2")
    notes = []
    try:
        run(
            blobs, tmp_path / "ray", recipe=RECIPE, device="cpu", executor="ray", block=4,
            on_progress=lambda progress: notes.append(progress.note),
        )  # fmt: skip
    finally:
        cluster.remove()
    assert any("does not train the same bits as this machine" in each for each in notes)
    run(blobs, tmp_path / "here", recipe=RECIPE, device="cpu", workers=1)
    assert contents(tmp_path / "ray") == contents(tmp_path / "here")
    assert capfd.readouterr().err == ""


def test_own_training_on_ray_gives_the_bytes_of_processes(tmp_path, cluster):
    rng = np.random.default_rng(1)
    X = rng.random((14, 3)).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(int)

    def fit(X, y, seed):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().fit(X, y)

    for name, given in (("processes", {}), ("ray", {"backend": "ray"})):
        leaveout.leave_one_out(fit, X, y, out=tmp_path / name, workers=2, members=7, **given)
    assert contents(tmp_path / "ray") == contents(tmp_path / "processes")


def test_the_heads_loss_is_a_line_and_the_best_bounds(blobs, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed")
    recipe = Recipe(layers=(20, 20), epochs=30, batch=4)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    # Ray waits a minute for a head to come back.
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    with ray_cluster(cpus=4) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        search = start_search()
        training = start_training(blobs, tmp_path / "out", 30)
        cluster.kill_head()
        said = training.communicate(timeout=children.HANGS)[1]
        found, complaints = search.communicate(timeout=children.HANGS)
    assert training.returncode == 2
    assert len(said.splitlines()) == 1, said
    assert f"the Ray cluster at {cluster.address} " in said
    assert "finished blocks are kept" in said
    kept = {path.name for path in (tmp_path / "out" / ".partial").glob("*.npy")}
    assert kept
    assert search.returncode == 0
    assert complaints == ""
    reason, sound = found.splitlines()
    assert reason.startswith(f"solver | the Ray cluster at {cluster.address} ")
    assert sound == "True"
    run(blobs, tmp_path / "out", recipe=recipe, device="cpu", workers=1)
    run(blobs, tmp_path / "here", recipe=recipe, device="cpu", workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "here")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_ctrl_c_keeps_what_is_finished_and_ends_the_cluster_of_ones_own(
    blobs, tmp_path, monkeypatch
):
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    process = start_training(blobs, tmp_path / "out", 30)
    started = children.marked(process)
    assert any("raylet" in command(pid) for pid in started)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=children.HANGS)[1]
    assert process.returncode == 130
    assert "the same command resumes from there" in said
    assert len(said.splitlines()) == 1, said
    children.wait_until_gone(started)

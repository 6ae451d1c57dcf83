"""Searching on Ray: the bounds of one explorer, whatever dies; a lost head leaves sound ones."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from leaveout.bab import make_instance
from leaveout.bab.native import leaks
from leaveout.bab.native import search as searching
from leaveout.bab.native.leaks import search
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.search import search_question
from leaveout.bab.native.workers import ray_executor
from leaveout.bab.native.workers.worker import Worker
from leaveout.encoders import Box
from leaveout.errors import FamilyError, SolverError
from leaveout.models import load_family_file, save_family_file
from leaveout.models.onnx_file import network_from
from leaveout.ray_cluster import RayLostError
from leaveout.verifier.run import verify

from support import children, networks
from support.cases import family_of
from support.files import write_question

ONE = NativeOptions(seconds=children.HANGS)
TWO = replace(ONE, workers=2, executor="ray")


def many(seed: int = 3, members: int = 12, widths=(3, 12, 12, 2), spread: float = 0.05):
    """Return a question that takes some rounds: several members, two hidden layers."""
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, widths, 0.8), "random")
    family = family_of(rng, network, members, spread)
    return make_instance(network, family, Box(np.zeros(widths[0]), np.ones(widths[0])))


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch):
    monkeypatch.setattr(searching, "_FIRST", 0.01)
    monkeypatch.setattr(searching, "_ROUND", 0.05)


def agree(one, two) -> None:
    """Both are done, and their bounds are the same but for the gap."""
    assert one.closed
    assert two.closed
    room = 0.01 * max(one.upper, two.upper) + 1e-9
    assert abs(one.lower - two.lower) <= room
    assert abs(one.upper - two.upper) <= room
    assert two.lower <= one.upper
    assert one.lower <= two.upper


def test_an_address_where_nobody_is_is_refused_before_anything_is_searched(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    spec = write_question(tmp_path)
    with pytest.raises(SolverError, match=r"RAY_ADDRESS=127\.0\.0\.1:9: no cluster answers there"):
        verify(spec, workers=2, executor="ray")


class Lost:
    """In place of the driver: its cluster is lost at some call, if there ever was one."""

    address, cpus, gpus = "there", 2, 0
    after = 0

    def __init__(self, size: int, patience: float) -> None:
        if not self.after:
            raise RayLostError("the Ray cluster at there did not answer")
        self.workers, self.calls, self.said = {}, 0, []

    def serve(self, role) -> None:
        self.setups = role.setups

    def send(self, message) -> None:
        if not isinstance(message, ray_executor.Asked):
            return
        self.calls += 1
        if self.calls > self.after:
            return
        call = message.call
        setup = self.setups[message.worker]
        if message.worker not in self.workers:
            parts = setup.payload.open(), setup.options, setup.first, setup.stride, 1
            self.workers[message.worker] = Worker(*parts)
        value = getattr(self.workers[message.worker], call.method)(*call.arguments)
        self.said.append(ray_executor.Answered(message.number, ray_executor.Answer(value)))

    def receive(self, seconds):
        if self.said:
            return self.said.pop(0)
        if self.calls > self.after:
            raise RayLostError("the Ray cluster at there ended")
        return None

    def close(self) -> None:
        pass


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 13, 21, 34])
def test_a_lost_cluster_leaves_the_last_sound_bounds(monkeypatch, after):
    instance = many(members=6)
    truth = _KNOWN.setdefault(0, search(instance, 1, ONE))
    monkeypatch.setattr(ray_executor, "RayDriver", type("Lost", (Lost,), {"after": after}))
    monkeypatch.setattr(ray_executor, "need_ray", lambda missing: None)
    result = search(instance, 1, TWO)
    assert np.isfinite(result.upper)
    assert result.upper >= truth.lower
    assert result.lower <= truth.upper
    assert result.member_upper[truth.witness.member] >= truth.lower
    assert result.closed or result.reason == "solver"
    assert result.closed or result.detail.startswith("the Ray cluster at there ")


_KNOWN: dict[int, object] = {}


def test_two_actors_agree_with_one_explorer_though_one_is_killed(cluster):
    instance = many()
    one = search(instance, 1, ONE)
    killed: list[int] = []

    def kill(progress):
        if progress.solved and not killed:
            killed.extend(cluster.workers("_Actor"))
            os.kill(killed[0], signal.SIGKILL)

    two = search(instance, 1, TWO, progress=kill)
    assert killed
    agree(one, two)


def test_a_machine_that_does_not_see_the_family_is_named(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(leaks, "_BY_PATH", 1)
    path = tmp_path / "family.npz"
    given = many()
    save_family_file(path, given.family)
    instance = make_instance(given.network, load_family_file(path), given.box)
    question = leaks.Leaks(instance, 1)
    save_family_file(path, many(4).family)
    for change, said in (
        (lambda: None, r"does not read the family there that was asked about"),
        (path.unlink, "does not see this file"),
    ):
        change()
        with pytest.raises(FamilyError, match=rf"family.npz: a worker on .* {said}") as error:
            search_question(question, TWO, floor=0.0)
        assert "\n" not in str(error.value)

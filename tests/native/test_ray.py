"""Searching on Ray: the bounds of one explorer, whatever dies; a lost head leaves sound ones."""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
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
from leaveout.models.onnx.file import network_from
from leaveout.ray_cluster import RayLostError
from leaveout.verifier.run import verify

from support import children, networks
from support.cases import family_of
from support.files import BOUND, write_question
from support.ray_clusters import command, start_verify

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


def test_an_address_where_nobody_is_is_refused_before_anything_is_searched(
    tmp_path, monkeypatch, snapshot
):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    spec = write_question(tmp_path)
    with pytest.raises(SolverError) as told:
        verify(spec, workers=2, executor="ray")
    assert str(told.value) == snapshot


class Scripted:
    """In place of the driver: its cluster is lost at one of its calls."""

    address, cpus, gpus = "there", 2, 0

    name = "the Ray cluster at there"

    def __init__(self, lost_at: float, refusal: FamilyError | None, late: int) -> None:
        self.lost_at, self.refusal, self.late = lost_at, refusal, late
        self.calls, self.said = 0, []
        self.roles, self.serving, self.closed = 0, False, False

    def connect(self, seconds: float) -> bool:
        if not self.lost_at:
            raise RayLostError("the Ray cluster at there ended")
        self.late -= 1
        return self.late < 0

    def serve(self, role) -> None:
        assert not self.closed
        self.roles, self.serving = self.roles + 1, True
        self.setups, self.workers = role.setups, {}

    def dismiss(self) -> None:
        self.serving = False

    def send(self, message) -> None:
        if not isinstance(message, ray_executor.Asked):
            return
        assert self.serving
        self.calls += 1
        if self.calls > self.lost_at:
            return
        answer = ray_executor.Answer(error=self.refusal)
        if self.refusal is None:
            answer = ray_executor.Answer(self.called(message.worker, message.call))
        self.said.append(ray_executor.Answered(message.number, answer))

    def called(self, worker, call):
        if worker not in self.workers:
            setup = self.setups[worker]
            parts = setup.payload.open(), setup.options, setup.first, setup.stride, 1
            self.workers[worker] = Worker(*parts)
        return getattr(self.workers[worker], call.method)(*call.arguments)

    def receive(self, seconds):
        if self.said:
            return self.said.pop(0)
        if self.calls > self.lost_at:
            raise RayLostError("the Ray cluster at there ended")
        time.sleep(0.001)
        return None

    def close(self) -> None:
        self.closed = True


def scripted(
    monkeypatch, *lost_at: float, refusal: FamilyError | None = None, late: int = 0
) -> list[Scripted]:
    """Have such drivers started, each lost at that of its calls; those that were are returned.

    So many times they are waited for in vain.
    """
    started, left = [], list(lost_at)

    def start(size):
        started.append(Scripted(left.pop(0), refusal, late))
        return started[-1]

    monkeypatch.setattr(ray_executor, "RayDriver", start)
    monkeypatch.setattr(ray_executor, "need_ray", lambda missing: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return started


@pytest.mark.parametrize("lost_at", [0, 1, 2, 3, 5, 8, 13, 21, 34])
def test_a_lost_cluster_leaves_the_last_sound_bounds(monkeypatch, lost_at):
    instance = many(members=6)
    truth = _KNOWN.setdefault(0, search(instance, 1, ONE))
    started = scripted(monkeypatch, lost_at)
    result = search(instance, 1, TWO)
    assert np.isfinite(result.upper)
    assert result.upper >= truth.lower
    assert result.lower <= truth.upper
    assert result.member_upper[truth.witness.member] >= truth.lower
    assert result.closed or result.reason == "solver"
    assert result.closed or result.detail.startswith("the Ray cluster at there ")
    assert all(each.closed for each in started)


_KNOWN: dict[int, object] = {}


QUESTIONS = f"""{BOUND}
find second: least d such that forall x in X, M in F: difference(N, M, x) <= d
guarantee third: forall x in X, M in F: difference(N, M, x) <= 1.6
"""
"""Leaks of two labels, then two questions in forms."""

NOTHING = """
guarantee g: forall x in X, M in F: confidence(N, x) > 1e6 => label(M, x) == label(N, x)
"""


def test_all_questions_of_a_run_are_given_to_one_driver(tmp_path, monkeypatch):
    spec = write_question(tmp_path, text=QUESTIONS)
    alone = verify(spec)
    started = scripted(monkeypatch, math.inf)
    report = verify(spec, workers=2, executor="ray")
    (driver,) = started
    assert driver.roles == 4
    assert driver.closed
    assert [each.verdict for each in report.results] == ["proved"] * 4
    for one, two in zip(alone.results[:3], report.results[:3]):
        assert two.lower <= one.upper
        assert one.lower <= two.upper


def test_a_run_that_searches_nothing_starts_no_driver(tmp_path, monkeypatch):
    spec = write_question(tmp_path, text=BOUND[: BOUND.index("find")] + NOTHING)
    started = scripted(monkeypatch, math.inf)
    assert verify(spec, workers=2, executor="ray").results[0].verdict == "proved"
    assert not started


def test_after_a_loss_the_next_question_starts_another_driver(tmp_path, monkeypatch, snapshot):
    spec = write_question(tmp_path, text=QUESTIONS)
    started = scripted(monkeypatch, 3, math.inf)
    first, *others = verify(spec, workers=2, executor="ray").results
    assert first.verdict == "unknown"
    assert first.reason == snapshot
    assert 0 <= first.lower <= first.upper < math.inf
    assert [each.verdict for each in others] == ["proved"] * 3
    assert [each.roles for each in started] == [1, 3]
    assert all(each.closed for each in started)


def test_while_no_cluster_is_to_be_had_each_question_says_so(tmp_path, monkeypatch, snapshot):
    spec = write_question(tmp_path, text=QUESTIONS)
    started = scripted(monkeypatch, 0, 0, 0, 0)
    for each in verify(spec, workers=2, executor="ray").results:
        assert each.reason == snapshot
    assert [each.closed for each in started] == [True] * 4


def test_a_cluster_that_is_late_serves_the_questions_after(tmp_path, monkeypatch):
    spec = write_question(tmp_path, text=QUESTIONS)
    started = scripted(monkeypatch, math.inf, late=2)
    first, second, *others = verify(spec, workers=2, executor="ray", time=children.HANGS).results
    for each in (first, second):
        assert each.verdict == "unknown"
        assert each.reason.startswith("solver: the Ray cluster at there did not answer within ")
        assert 0 <= each.lower <= each.upper < math.inf
    assert [each.verdict for each in others] == ["proved"] * 2
    assert [each.roles for each in started] == [2]


def test_a_run_that_ends_early_ends_its_driver(tmp_path, monkeypatch, snapshot):
    spec = write_question(tmp_path, text=QUESTIONS)
    started = scripted(monkeypatch, math.inf, math.inf)

    def interrupt(name, progress):
        if started and progress.solved:
            raise KeyboardInterrupt

    report = verify(spec, workers=2, executor="ray", progress=interrupt)
    assert all("interrupted" in each.reason for each in report.results)
    assert [each.closed for each in started] == [True]
    started = scripted(monkeypatch, math.inf, refusal=FamilyError("not there"))
    with pytest.raises(FamilyError) as told:
        verify(spec, workers=2, executor="ray")
    assert str(told.value) == snapshot
    assert [each.closed for each in started] == [True]


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
        (lambda: None, r"reads there is not the one in the query"),
        (path.unlink, "cannot find this file"),
    ):
        change()
        with pytest.raises(FamilyError, match=rf"family.npz: a worker on .* {said}") as error:
            search_question(question, TWO, floor=0.0)
        assert "\n" not in str(error.value)


BOTH = """\
let X = box(0, 1)
let N = network("short.onnx")
let F = family("short.npz")
let L = network("long.onnx")
let G = family("long.npz")

find short: least d such that forall x in X, M in F: difference(N, M, x) <= d
find long: least b such that
    forall x in X, M in G: confidence(L, x) > b => label(M, x) == label(L, x)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_run_has_one_cluster_of_its_own_and_ctrl_c_ends_it(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    long = many(5, members=60, widths=(8, 40, 40, 2))
    for name, given in (("short", many()), ("long", long)):
        onnx.save(given.network.model, tmp_path / f"{name}.onnx")
        save_family_file(tmp_path / f"{name}.npz", given.family)
    spec = tmp_path / "both.spec"
    spec.write_text(BOTH)
    process = start_verify(spec)

    def heads():
        started = children.marked(process)
        return [pid for pid in started if command(pid).partition(" ")[0].endswith("gcs_server")]

    assert process.stdout.readline() == "short\n"
    (first,) = heads()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "long\n"
    assert heads() == [first]
    started = children.marked(process)
    process.send_signal(signal.SIGINT)
    found, complaints = process.communicate(timeout=children.HANGS)
    assert process.returncode == 0, complaints
    assert complaints == ""
    assert [line.split("|")[0] for line in found.splitlines()] == ["short proved ", "long unknown "]
    children.wait_until_gone(started)

"""Compiling is done before the clock starts, said once, kept, and can be done beforehand."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import onnx
import pytest
from numba import njit
from numba.core.registry import CPUDispatcher

import leaveout.verifier.run as run
import leaveout.verifier.warm_up as warming
from leaveout.bab.votes import member_weights
from leaveout.bab.votes.search import search
from leaveout.compiling import cached_njit, watch_compiling
from leaveout.models.votes import Ballots, write_ballots
from leaveout.verifier.guard import Guard
from leaveout.verifier.warm_up import KERNELS, warm

from support import networks
from support.counted import passing_stake
from support.files import BOUND, write_question
from support.guards import make_folder
from support.votes import random_ballots

CLAIMS = """\
let Q = network("other.onnx")
guarantee same: forall x in X: label(N, x) == label(Q, x)
find drift: least d such that forall x in X, M in F: difference(N, M, x) <= d
let V = ballots("v.npz")
guarantee few: certified_accuracy(dpa(V), edits = 2) >= 0.5
"""


def fresh():
    """A kernel that no run has compiled."""
    function = njit(lambda x: x + 1)
    return lambda: function(1)


def compiled():
    """What is compiled of each function, by its argument types."""
    gc.unfreeze()  # what was imported while tests were collected is among them
    found = {
        id(each): tuple(each.signatures)
        for each in gc.get_objects()
        if type(each) is CPUDispatcher and each.signatures
    }
    gc.freeze()
    return found


def test_compiling_is_said_once_and_its_seconds_are_told(monkeypatch):
    monkeypatch.setattr(warming, "KERNELS", {"one": fresh(), "two": fresh()})
    said: list[str] = []
    assert warm(["one", "two", "one"], said.append) > 0
    assert [line.split(",")[0] for line in said] == ["compiling"]
    assert warm(["one", "two"], said.append) == 0
    assert len(said) == 1
    assert warm([], said.append) == 0


def test_where_nothing_can_be_kept_that_is_said_and_all_works(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "leaveout").mkdir()
    (tmp_path / "leaveout").chmod(0o777)
    monkeypatch.setattr(warming, "KERNELS", {"one": fresh()})
    assert cached_njit(nogil=True)(lambda x: x + 1)(1) == 2
    said: list[str] = []
    warm(["one"], said.append)
    assert "others can write" in said[-1]
    assert "NUMBA_CACHE_DIR" in said[-1]
    assert not list((tmp_path / "leaveout").iterdir())


def test_what_only_long_searches_use_is_compiled_too():
    warm(["collective_accuracy", "finite_aggregation"])
    known = member_weights.best_weights.signatures
    assert known
    votes, _ = random_ballots(np.random.default_rng(3), 40, 8, 2)
    for ballot in votes[:20]:
        for budget in (1, 2, 3):
            target = 1 - int(np.bincount(ballot, minlength=2).argmax())
            search(passing_stake(ballot, 2, target, budget, (0, 2)))
    assert member_weights.best_weights.signatures == known


@pytest.mark.parametrize("spent", [0.0, 1000.0])
def test_the_clock_starts_when_all_is_compiled(tmp_path, monkeypatch, spent):
    spec = write_question(tmp_path)
    shares: list[float | None] = []

    class Watch(run.Clock):
        def next(self):
            shares.append(super().next())
            return 0.0

    monkeypatch.setattr(run, "Clock", Watch)
    monkeypatch.setattr(run, "warm", lambda kernels, say: spent)
    run.verify(spec, time=500)
    # Two labels: the first may use half of the time, however long compiling took.
    assert (spent + 500) / 2 - 200 < shares[0] <= (spent + 500) / 2


def test_what_is_warmed_is_all_that_a_run_uses(tmp_path):
    spec = write_question(tmp_path, text=BOUND + CLAIMS)
    rng = np.random.default_rng(1)
    onnx.save(networks.dense(rng, (3, 5, 2), 1.0), tmp_path / "other.onnx")
    votes, truth = random_ballots(rng, 20, 9, 3)
    write_ballots(Ballots(votes, truth, 3), tmp_path / "v.npz")
    for name in ("points", "dpa"):
        KERNELS[name]()
    before = compiled()
    with watch_compiling() as found:
        report = run.verify(spec, time=20)
    assert found.functions == 0
    assert compiled() == before
    assert {result.verdict for result in report.results} <= {"proved", "refuted", "unknown"}


def test_what_is_warmed_is_all_that_a_guard_of_networks_uses(tmp_path):
    KERNELS["guard"]()
    model = networks.dense(np.random.default_rng(2), (3, 5, 3), 1.0)
    served = make_folder(tmp_path / "served", model, spread=0.3)
    points = np.random.default_rng(3).random((50, 3), np.float32)
    before = compiled()
    with watch_compiling() as found, Guard.load(served.folder, 1.0, seed=0) as guard:
        guard.rehearse(points[:1])
        labels = guard.labels(points)
        assert [guard.label(x) for x in points] == labels.tolist()
        assert guard.inspect(points).leaks.any()
    assert found.functions == 0
    assert compiled() == before


def test_only_what_a_specification_uses_is_warmed(tmp_path, monkeypatch):
    asked: list[list[str]] = []
    monkeypatch.setattr(run, "warm", lambda kernels, say: asked.append(kernels) or 0.0)
    claim = "forall x in X, M in F: confidence(N, x) > {} => label(M, x) == label(N, x)"
    text = BOUND[: BOUND.index("find")] + "guarantee g: "
    texts = {
        BOUND: ["points"],
        text + claim.format("1e6"): [],
        text + "forall x in X: score(N, x, 0) <= 1e6": ["points"],
    }
    for written, expected in texts.items():
        run.verify(write_question(tmp_path, text=written), time=20)
        assert asked.pop() == expected
    run.verify(write_question(tmp_path), time=20, engine="lucid", workers=1)
    assert asked.pop() == []


def test_the_command_compiles_every_group_once(monkeypatch, capsys):
    from leaveout.verifier.cli.app import run as program

    asked: list[str] = []
    monkeypatch.setattr(warming, "_warm_in_child", lambda name: asked.append(name) or name)
    assert program(["warm"]) == 0
    shown = capsys.readouterr().out.split()
    assert sorted(shown) == sorted(asked)
    assert {KERNELS[name] for name in asked} == set(KERNELS.values())
    assert len(asked) == len(set(KERNELS.values()))
    assert asked.index("growth") < asked.index("trees") < asked.index("additions")


def test_the_command_compiles_what_a_group_begins_with_before_it(monkeypatch, capsys):
    from leaveout.verifier.cli.app import run as program

    monkeypatch.setattr(warming, "_warm_in_child", lambda name: name)
    assert program(["warm", "forest_guard", "dpa"]) == 0
    shown = capsys.readouterr().out.split()
    assert sorted(shown) == ["dpa", "forest_guard", "growth"]
    assert shown.index("growth") < shown.index("forest_guard")


def test_the_command_compiles_one_group_itself(monkeypatch, capsys):
    from leaveout.verifier.cli.app import run as program

    monkeypatch.setattr(warming, "KERNELS", {"one": fresh()})
    assert program(["warm", "one"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["one", "1"]


LIGHT = {
    "--help": ({"numpy", "numba", "onnx", "onnxruntime", "scipy", "sklearn", "torch"}, ()),
    "verify": (
        {"numba", "networkx", "pandas", "scipy", "sklearn", "torch", "highspy", "lark_cython"},
        ("test.spec",),
    ),
}


@pytest.mark.parametrize("command", LIGHT)
def test_starting_imports_nothing_heavy_that_it_does_not_use(tmp_path, command):
    heavy, rest = LIGHT[command]
    claim = "forall x in X, M in F: confidence(N, x) > 1e6 => label(M, x) == label(N, x)"
    write_question(tmp_path, text=BOUND[: BOUND.index("find")] + f"guarantee g: {claim}\n")
    code = (
        "import atexit, sys\nfrom leaveout.__main__ import main\n"
        f"sys.argv = {['leaveout', command, *rest]!r}\n"
        "told = lambda: print('loaded', *("
        f"{heavy!r} & set(sys.modules)), file=sys.stderr)\n"
        "atexit.register(told)\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "loaded\n")

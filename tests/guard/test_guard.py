"""What a guard takes, refuses and promises."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from leaveout.encoders import Box, Choices
from leaveout.errors import FamilyError, GuardError, ModelError
from leaveout.models import DataFacts, Manifest
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.access import load_bounds, save_bounds

from support import networks
from support.guards import make_folder


@pytest.fixture
def copied(leaky, tmp_path):
    folder = tmp_path / "copied"
    shutil.copytree(leaky.folder, folder, ignore=lambda *_: ["answers.sqlite"])
    return folder


@pytest.fixture
def guard(copied):
    with Guard.load(copied, 0.2, seed=1) as opened:
        yield opened


def leak_of(leaky, grid):
    return grid[leaky.truth(grid)[1]][0]


def test_one_by_one_and_together_are_alike(guard, grid):
    together = guard.labels(grid)
    assert [guard.label(point) for point in grid] == together.tolist()
    assert (guard.answers(grid) == together).all()


def test_plain_inputs_are_answered_as_the_network_does(guard, leaky, grid):
    labels, leaks = leaky.truth(grid)
    assert (guard.labels(grid)[~leaks] == labels[~leaks]).all()
    assert guard.account().answers == leaks.sum()


def test_the_same_number_is_the_same_input(guard, leaky, grid):
    x = leak_of(leaky, grid)
    first = guard.label(x)
    nearly = x.astype(np.float64) * (1 + 1e-12)
    assert {guard.label(x.tolist()), guard.label(nearly), guard.label(x)} == {first}
    assert guard.account().answers == 1


def test_minus_zero_is_zero(tmp_path):
    model = networks.dense(np.random.default_rng(0), (2, 3, 2), scale=0.0)
    make_folder(tmp_path, model, spread=0.0, seconds=0.1)
    with Guard.load(tmp_path, 0.0) as guard:
        assert guard.label([0.0, 0.5]) == guard.label([-0.0, 0.5])
        assert guard.account().answers == 1


@pytest.mark.parametrize(
    "x",
    [
        [0.1, np.nan],
        [np.inf, 0.1],
        [1e39, 0.1],
        [0.1],
        [[0.1, 0.2]],
        0.5,
        ["0.1", "0.2"],
        [True, False],
        [0.1, None],
        [0.1, 0.2j],
        [0.1, [0.2]],
        np.ma.masked_array([0.1, 0.2], [False, True]),
        [0.1, 1.5],
        [-1e-9, 0.5],
    ],
)  # fmt: skip
def test_what_is_no_input_is_refused_in_one_line(guard, x, snapshot):
    with pytest.raises(GuardError) as caught:
        guard.label(x)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)
    assert guard.account().answers == 0


@pytest.mark.parametrize("X", [[0.1, 0.2], np.zeros((2, 3)), np.zeros((1, 1, 2)), "ab"])
def test_what_are_no_inputs_are_refused(guard, X):
    with pytest.raises(GuardError, match="inputs"):
        guard.labels(X)


def test_no_inputs_have_no_answers(guard):
    assert guard.labels(np.zeros((0, 2))).shape == (0,)


def test_where_one_is_refused_none_is_charged(copied, leaky, grid):
    points = np.stack([leak_of(leaky, grid), np.array([0.5, 1.5], np.float32)])
    with Guard.load(copied, 0.2) as guard:
        with pytest.raises(GuardError, match="input 1"):
            guard.labels(points)
        assert guard.account().answers == 0


def test_outside_the_box_nothing_is_answered_plainly(copied, snapshot):
    points = np.array([[0.5, 0.5], [0.5, 1.001], [2.0, 0.1]], np.float32)
    with Guard.load(copied, 0.0) as refusing:
        with pytest.raises(GuardError) as told:
            refusing.labels(points)
        assert str(told.value) == snapshot
        assert (refusing.answers(points)[1:] == -1).all()
        assert (refusing.inspect(points).tiers[1:] == 0).all()
    with Guard.load(copied, 0.0, outside="noise", seed=0) as noising:
        far = 1 + np.random.default_rng(0).random((300, 2))
        drawn = np.bincount(noising.labels(far), minlength=3)
        assert drawn.min() > 60  # uniform: epsilon is 0
        assert noising.account().answers == 300


def test_listed_values_are_part_of_the_box(tmp_path, snapshot):
    box = Box(np.zeros(3), np.ones(3), (Choices(np.array([1]), np.array([0.0, 1.0])),))
    model = networks.dense(np.random.default_rng(1))
    make_folder(tmp_path, model, box=box, seconds=0.3)
    with Guard.load(tmp_path, 0.2) as guard:
        guard.label([0.2, 1.0, 0.3])
        with pytest.raises(GuardError) as told:
            guard.label([0.2, 0.999, 0.3])
        assert str(told.value) == snapshot


def test_a_description_has_a_bounded_number_of_listed_values(tmp_path):
    from leaveout.verifier.guard.server_app import about

    values = np.linspace(0, 1, 2**14, dtype=np.float32)
    box = Box(np.zeros(3), np.ones(3), (Choices(np.array([1]), values),))
    make_folder(tmp_path, networks.dense(np.random.default_rng(1)), box=box, seconds=0.3)
    with Guard.load(tmp_path, 0.2) as guard:
        described = about(guard).box
        (listed,) = described.listed
        assert (listed.features, listed.count) == ([1], len(values))
        assert listed.values == [[value] for value in values[:1000].tolist()]


def test_once_the_budget_is_spent_everything_is_refused(copied, leaky, grid, snapshot):
    _, leaks = leaky.truth(grid)
    plain, leaking = grid[~leaks], grid[leaks]
    with Guard.load(copied, 0.5, cap=1.0) as guard:
        guard.labels(leaking[:2])
        guard.labels(plain)
        with pytest.raises(GuardError) as told:
            guard.label(leaking[2])
        assert str(told.value) == snapshot
        for x in (plain[0], leaking[0], leaking[3]):
            with pytest.raises(GuardError) as told:
                guard.label(x)
            assert str(told.value) == snapshot
    with Guard.load(copied, 0.5, cap=1.0) as again, pytest.raises(GuardError) as told:
        again.label(plain[0])
    assert str(told.value) == snapshot
    with Guard.load(copied, 0.5, cap=2.0) as raised:
        raised.label(plain[0])


def test_or_further_answers_are_uniform(copied, leaky, grid):
    leaking = grid[leaky.truth(grid)[1]]
    with Guard.load(copied, 50.0, cap=100.0, when_spent="uniform", seed=0) as guard:
        labels = guard.inspect(leaking).labels
        found = guard.labels(leaking)
        assert (found[:2] == labels[:2]).all()
        assert (found[2:] != labels[2:]).mean() > 0.4
        assert guard.account().epsilon == 100.0


def test_numpy_numbers_are_settings_too(copied, leaky, grid):
    given = {"cap": np.float64(1.0), "seed": np.int64(3), "remember": np.int32(9)}
    with Guard.load(copied, np.float32(0.5), **given) as guard:
        guard.label(leak_of(leaky, grid))
        assert guard.account().epsilon == 0.5


def test_what_was_noised_outside_stays_so_once_it_is_inside(copied):
    """The same input has the same answer, whatever else is proved meanwhile."""
    path = copied / "bounds.npz"
    bounds = load_bounds(path)
    half = Box(np.zeros(2), np.full(2, 0.5))
    save_bounds(path, replace(bounds, box=half))
    points = 0.6 + 0.4 * np.random.default_rng(1).random((200, 2)).astype(np.float32)
    with Guard.load(copied, 0.0, outside="noise", seed=0) as before:
        given = before.labels(points)
    save_bounds(path, bounds)
    for _ in range(2):
        with Guard.load(copied, 0.0) as after:
            assert (after.labels(points) == given).all()
    with Guard.load(copied, 0.0) as after:
        assert (after.inspect(points).labels != given).any()


@pytest.mark.parametrize("rows", [None, 5, [5], [None], {"0": 1}, "ab"])
def test_what_are_no_rows_are_refused(guard, rows):
    with pytest.raises(GuardError):
        guard.encode(rows)


def test_threads_share_a_guard(guard, grid):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: guard.labels(grid).tolist(), range(8)))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": -0.1},
        {"epsilon": float("nan")},
        {"epsilon": 0.2, "cap": -1.0},
        {"epsilon": 0.2, "outside": "answer"},
        {"epsilon": 0.2, "when_spent": "go on"},
        {"epsilon": 0.2, "remember": 0},
        {"epsilon": 0.2, "seed": 2**70},
        {"epsilon": "a"},
        {"epsilon": None},
        {"epsilon": True},
        {"epsilon": 0.2, "cap": "b"},
        {"epsilon": 0.2, "seed": 1.5},
        {"epsilon": 0.2, "remember": 1.5},
    ],
)
def test_settings_are_checked(copied, given, snapshot):
    with pytest.raises(GuardError) as told:
        Guard.load(copied, **given)
    assert str(told.value) == snapshot


class TestFolders:
    """Folders that cannot be served, and why."""

    def test_nothing_there(self, tmp_path, snapshot):
        with pytest.raises(GuardError) as told:
            Guard.load(tmp_path / "none", 0.2)
        assert str(told.value) == snapshot

    def test_without_bounds(self, copied, snapshot):
        (copied / "bounds.npz").unlink()
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    @pytest.mark.parametrize("file", ["full.onnx", "family.npz"])
    def test_without_networks(self, copied, file, snapshot):
        (copied / file).unlink()
        with pytest.raises((ModelError, FamilyError, GuardError)) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    def test_bounds_of_another_network(self, copied, tmp_path, snapshot):
        make_folder(tmp_path / "other", networks.dense(np.random.default_rng(6), (2, 6, 5, 3)))
        shutil.copy(tmp_path / "other" / "full.onnx", copied)
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    def test_bounds_of_another_family(self, copied, tmp_path, snapshot):
        make_folder(tmp_path / "other", networks.dense(np.random.default_rng(5), (2, 6, 5, 3)))
        shutil.copy(tmp_path / "other" / "family.npz", copied)
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    @pytest.mark.parametrize("wrong", [np.nan, -1.0])
    def test_bounds_that_are_none(self, copied, wrong, snapshot):
        bounds = load_bounds(copied / "bounds.npz")
        bounds.upper[0, 0] = wrong
        save_bounds(copied / "bounds.npz", bounds)
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    def test_bounds_of_another_shape(self, copied, snapshot):
        bounds = load_bounds(copied / "bounds.npz")
        save_bounds(copied / "bounds.npz", replace(bounds, upper=bounds.upper[:, 1:].copy()))
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"\x00" * 100])
    def test_bounds_that_are_damaged(self, copied, content):
        (copied / "bounds.npz").write_bytes(content)
        with pytest.raises(GuardError, match="damaged"):
            Guard.load(copied, 0.2)

    def test_another_archive(self, copied, snapshot):
        np.savez(copied / "bounds.npz", a=np.zeros(3))
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2)
        assert str(told.value) == snapshot

    def test_memory_of_another_network(self, copied, tmp_path, snapshot):
        with sqlite3.connect(tmp_path / "m.sqlite"):
            pass
        make_folder(tmp_path / "other", networks.dense(np.random.default_rng(6), (2, 6, 5, 3)))
        Guard.load(tmp_path / "other", 0.2, memory=tmp_path / "m.sqlite").close()
        with pytest.raises(GuardError) as told:
            Guard.load(copied, 0.2, memory=tmp_path / "m.sqlite")
        assert str(told.value) == snapshot


def test_names_come_from_the_family(tmp_path, snapshot):
    facts = DataFacts(
        sha256="", rows=3, minimum=(0, 0), maximum=(1, 1), features=("age", "dose"),
        labels=("well", "ill"),
    )  # fmt: skip
    model = networks.dense(np.random.default_rng(2), (2, 3, 2))
    make_folder(tmp_path, model, manifest=Manifest(data=facts), seconds=0.1)
    with Guard.load(tmp_path, 0.2) as guard:
        assert (guard.features, guard.names) == (("age", "dose"), ("well", "ill"))
        x = guard.encode([{"dose": "0.5", "age": 0.25, "other": "x"}])
        assert x.tolist() == [[0.25, 0.5]]
        with pytest.raises(GuardError) as told:
            guard.encode([{"age": 1, "dos": 2}])
        assert str(told.value) == snapshot
        for odd in ("inf", None, [1], 10**400, "1_0"):
            with pytest.raises(GuardError) as told:
                guard.encode([{"age": odd, "dose": 2}])
            assert str(told.value) == snapshot
        with pytest.raises(GuardError) as told:
            guard.label([2, 0])
        assert str(told.value) == snapshot

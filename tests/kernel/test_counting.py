"""The kernel's counting of votes against every attack there is, with any hints."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import leaveout.bab.votes.search as search
import leaveout.kernel.counting as counting
import leaveout.verifier.certify.votes as certify
from leaveout.kernel.numbers import Rejected

from support.kernel_trees import no_more_lost, rejects
from support.stakes import every_attack, forged, lost_to, random_stake, worst

KINDS = ("units", "families", "spread", "costs")


@pytest.fixture(params=["trees", "trying"])
def few(request):
    """Trees of prices whatever their size, or all attacks tried where that is less work."""
    if request.param == "trees":
        request.getfixturevalue("trees")
    return request.param


@pytest.fixture
def trees(monkeypatch):
    """Trees of prices whatever their size."""
    monkeypatch.setattr(counting, "FEW", 0.0)
    monkeypatch.setattr(search, "FEW", 0.0)
    monkeypatch.setattr(search, "_PATIENCE", np.inf)


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_finds_the_worst_attack(kind, few):
    rng = np.random.default_rng(7)
    for _ in range(150):
        stake = random_stake(rng, kind)
        found = search.search(stake)
        assert found.lost == found.upper == worst(stake)
        assert lost_to(stake, np.array(found.choices, np.int64)) == found.lost


def test_all_attacks_are_tried_where_a_log_says_so(monkeypatch):
    monkeypatch.setattr(counting, "FEW", 0.0)
    log, tried = {"counts": np.array([counting.TRY_ALL])}, 0
    rng = np.random.default_rng(8)
    for _ in range(800):
        stake = random_stake(rng)
        for upper in range(stake.count):
            if not rejects(stake, upper, log):
                assert upper >= worst(stake)
                tried += 1
    assert tried > 30


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_true_is_shown_and_nothing_else(kind, few):
    rng, less, nodes = np.random.default_rng(0), 0, 0
    for _ in range(150):
        stake = random_stake(rng, kind)
        most = worst(stake)
        assert most <= stake.count
        for upper in range(stake.count + 1):
            assert no_more_lost(stake, upper) == (most <= upper)
        less += most < stake.count
        log = search.write_tree(stake, most)
        nodes += len(log.get("counts", ()))
    assert less > 20
    assert nodes > 10 or few == "trying"


def test_an_attack_is_recounted():
    rng = np.random.default_rng(1)
    for _ in range(60):
        stake = random_stake(rng)
        for chosen in every_attack(stake):
            assert len(stake.lost_points(chosen)) == lost_to(stake, chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_no_log_shows_what_is_false(kind, trees):
    rng, tried = np.random.default_rng(2), 0
    while tried < 600:
        stake = random_stake(rng, kind)
        most = worst(stake)
        log = search.write_tree(stake, most)
        if not most or not log:
            continue
        for false in forged(rng, log):
            assert rejects(stake, most - 1, false)
            tried += 1


def test_a_log_is_followed_to_its_end(trees):
    rng, tried = np.random.default_rng(3), 0
    while tried < 300:
        stake = random_stake(rng)
        most = worst(stake)
        log = search.write_tree(stake, most)
        if not log:
            continue
        for name, own in log.items():
            assert rejects(stake, most, {**log, name: np.concatenate([own, own[-1:]])}) or not len(
                own
            )
            if len(own):
                assert rejects(stake, most, {**log, name: own[:-1]})
            assert rejects(stake, most, {**log, name: own.astype(np.float64)})
            rest = {other: array for other, array in log.items() if other != name}
            assert rejects(stake, most, rest)
            tried += 1


def test_a_sum_bounds_every_attack_whatever_its_weights():
    rng, summed = np.random.default_rng(4), 0
    for _ in range(400):
        stake = random_stake(rng)
        points = np.unique(stake.points)
        if stake.count < 2:
            continue
        batches = rng.integers(-1, 2, len(points))
        uppers = np.array(
            [
                worst(stake.of_pairs(np.isin(stake.points, points[batches == k])))
                if (batches == k).any()
                else 0
                for k in range(2)
            ]
        )
        proof = {
            "batches": batches,
            "uppers": uppers - (rng.random(2) < 0.1) * (uppers > 0),
            "taken": rng.integers(0, 300, 2),
            "counted": rng.integers(0, 257, len(points)),
        }
        try:
            shown = counting.show_sum(stake, proof, certify.answer)
        except Rejected:
            continue
        summed += 1
        assert worst(stake) <= shown
    assert summed > 100


FAULTS = {
    "a quota is one less": ("(own >= k, axis=0), some)", "(own >= k, axis=0), some - 1)"),
    "a lost point is dropped": ("lost=self.lost + lost)", "lost=self.lost)"),
    "prices are free": ("sum(price * some for price", "sum(0 * some for price"),
    "prices below 0": ("(prices >= 0) & (prices <= highest)", "prices <= highest"),
    "weights above one": ("(hint.weights >= 0) & (hint.weights <= WEIGHT)", "hint.weights >= 0"),
    "what weights lack is left out": ("_PART * int((WEIGHT - hint.weights).sum())", "0"),
    "shares of twice the need": ("np.maximum(lack, 1), needs)", "np.maximum(lack, 1), 2 * needs)"),
    "a share of the least pair": ("np.maximum.reduceat(shares", "np.minimum.reduceat(shares"),
    "a count of too many": ("choices * (forms - 1)", "(choices - 1) * (forms - 1)"),
    "the rest is not looked at": ("        children.append(rest)", "        pass"),
    "a choice takes gains away": ("node.needs - gains[at]", "node.needs + gains[at]"),
    "the other choices are not free": ("[others]\n", "[others][:0]\n"),
    "a choice that fits is not free": ("more > most - total", "more > most - total + _ONE"),
    "two units share no member": ("(own - kept).sum()", "0"),
    "gains of two are dear": ("paid[:, :-2] + two", "paid[:, :-2] + 2 * two"),
    "a cost of twice the least": ("np.maximum(least, 1)), wholes)", "(2 * least)), wholes)"),
    "a sum without batches": ("int(lacks.sum()) + int(taken @ uppers)", "int(lacks.sum())"),
    "batches that are not shown": ("    show_no_more_lost(inside", "    (inside"),
    "what can just be reached": ("node.left) >= node.needs", "node.left) > node.needs"),
}

FAULTS_OF_TRYING = {
    "a choice gains less": ("_words(gained >= k)", "_words(gained > k)"),
    "a demand lacks more": ("_words(lacks <= m)", "_words(lacks < m)"),
    "a quota is less": ("cost[begin:] <= left", "cost[begin:] < left"),
    "one choice too few": ("[:, family[after:]]).any", "[:, family[after:]]).all"),
    "what is found is not counted": ("count.max() > known:", "count.max() > known + 1:"),
    "what may be found is left out": ("within[:, -1]) > known", "within[:, -1]) > known + 1"),
    "any demand": ("np.bitwise_and.reduce(met, axis=-2) if", "met[..., 0, :] * 0 if"),
    "choices of a group": ('group, side="right"', 'group + 1, side="right"'),
}


@pytest.fixture
def faulty(request, monkeypatch):
    """The kernel's counting with a fault, which the writer of hints knows."""
    trying = request.param in FAULTS_OF_TRYING
    old, new = (FAULTS_OF_TRYING if trying else FAULTS)[request.param]
    source = Path(counting.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1, source.count(old)
    spec = importlib.util.spec_from_loader("leaveout.kernel.faulty_counting", None)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source.replace(old, new), "faulty_counting", "exec"), module.__dict__)
    for name in dir(search):
        if getattr(getattr(search, name), "__module__", "") == counting.__name__:
            monkeypatch.setattr(search, name, getattr(module, name))
    if not trying:
        monkeypatch.setattr(module, "FEW", 0.0)
        monkeypatch.setattr(search, "FEW", 0.0)
        monkeypatch.setattr(search, "_PATIENCE", np.inf)
    return module


def shown(module, stake, upper, log):
    try:
        module.show_no_more_lost(stake, upper, lambda what, known: log)
    except Rejected:
        return False
    return True


def guessed(module, stake, rng):
    """Return a log of one node with random weights and shares, and the best prices for these."""
    node, gains, least = module.settle(stake, module.root_of(stake))
    pair = stake.pairs[node.rows]
    pairs, points = len(np.unique(pair)), len(np.unique(stake.points[pair]))
    none, form = np.zeros(0, np.int64), int(rng.integers(-1, 3))
    kept = 256 * stake.gains[:, 0].astype(np.int64) if stake.overlaps else None
    weights = rng.choice([0, 128, 256, 1024], points)
    hint = module.Hint(weights, 0 * np.arange(pairs), np.full(pairs, form), none, kept, none)
    whole = module.shares_at(stake, node, gains, least, hint).sum(axis=1)
    prices = search._prices(stake, node, whole)
    log = {"weights": weights, "rows": hint.rows, "forms": hint.forms, "prices": prices}
    log |= {} if kept is None else {"kept": kept}
    return log | {"counts": np.zeros(1, np.int64), "branch": none}


def false_claim_shown(module, rng):
    """Return whether a false claim is accepted, or the recount or a sum is wrong."""
    stake = random_stake(rng)
    stake = module.Stake(**{name: getattr(stake, name) for name in stake.__dataclass_fields__})
    most = worst(stake)
    for upper in range(most):
        try:
            log = search.write_tree(stake, upper, 3e7)
        except (Rejected, search.TooLongError, ValueError, IndexError):
            continue
        if log is not None and shown(module, stake, upper, log):
            return True
    log = search.write_tree(stake, most, 3e7) if most else None
    for false in forged(rng, log) if log else ():
        try:
            if shown(module, stake, most - 1, false):
                return True
        except (ValueError, IndexError, TypeError, OverflowError):
            continue
    for _ in range(24 if most else 0):
        try:
            if shown(module, stake, most - 1, guessed(module, stake, rng)):
                return True
        except (Rejected, ValueError):
            continue
    points = np.unique(stake.points)
    proof = {
        "batches": rng.integers(-1, 1, len(points)), "uppers": np.zeros(1, np.int64),
        "taken": np.array([256]), "counted": np.zeros(len(points), np.int64),
    }  # fmt: skip
    if rng.random() < 0.5:
        inside = stake.of_pairs(np.isin(stake.points, points[proof["batches"] == 0]))
        proof["uppers"][:] = worst(inside) if len(inside.points) else 0
    try:
        return module.show_sum(stake, proof, certify.answer) < most
    except (Rejected, ValueError):
        return False


@pytest.mark.parametrize("faulty", [*FAULTS, *FAULTS_OF_TRYING], indirect=True)
def test_a_fault_of_the_kernel_is_seen(faulty):
    rng = np.random.default_rng(5)
    assert any(false_claim_shown(faulty, rng) for _ in range(300))


def test_no_fault_is_seen_without_one():
    rng = np.random.default_rng(5)
    assert not any(false_claim_shown(counting, rng) for _ in range(150))


def test_anything_may_be_answered_and_nothing_of_the_kernel_is_changed(trees):
    rng, asked = np.random.default_rng(6), 0
    for _ in range(200):
        stake = random_stake(rng)
        most = worst(stake)
        if not search.write_tree(stake, most):
            continue

        before = {name: array.copy() for name, array in stake.arrays.items()}

        def meddling(what, known):
            for array in known.values():
                array[...] = 0

        with pytest.raises(Rejected, match="no answer"):
            counting.show_no_more_lost(stake, most, meddling)
        for name, array in stake.arrays.items():
            np.testing.assert_array_equal(array, before[name])
        asked += 1
    assert asked > 20

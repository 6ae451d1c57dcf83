"""No answer to what the kernel asks about forests, and no record, proves what is false."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.bab.forests.box_trees import NotProvedError, margin_of, record_boxes
from leaveout.bab.forests.search import Question
from leaveout.encoders import Box
from leaveout.kernel.deletion import first_apart
from leaveout.kernel.forest_file import Settings, read_forest
from leaveout.kernel.forest_growth import grow, train
from leaveout.kernel.forest_members import Inputs
from leaveout.kernel.forest_splits import Data, Sets
from leaveout.kernel.forests import AWAY, BOUND, EXACT, MONOTONE, Block, check_boxes, cover
from leaveout.kernel.numbers import Rejected
from leaveout.models.forest import DareForestClassifier
from leaveout.verifier.certify.forests import rules_of_boxes

from support.depth import enough, rounds
from support.forest_leaks import asked, greatest_leaks
from support.kernel_forests import of_member, pairs_of, read, tried


def proved(seed):
    """Yield what is proved of a random question: forests, box, label, bound, trees, truth."""
    question = asked(np.random.default_rng(seed), ["deleted", "family", "pair"][seed % 3])
    made = Question.of(question.whole, question.others, question.box)
    pairs, columns = pairs_of(question)
    for label in range(len(question.whole.classes)):
        truth = greatest_leaks(question, label)
        upper = max(float(truth.max()) + 2 * margin_of(made), -1e-9)
        try:
            trees = record_boxes(made, label, upper, most=10**5)
        except NotProvedError:
            continue
        for member, forests in enumerate(pairs[:3]):
            best = truth[member]
            yield forests, question.box, columns[label], upper, of_member(trees, member), best


def anything(rng, boxes, labels):
    """Answer at random, within what is allowed or not."""
    rule = rng.choice([BOUND, AWAY, MONOTONE, EXACT, EXACT, -1, 4], (boxes, labels))
    over = rng.integers(-1, labels + 1, (boxes, labels))
    factor = rng.choice([0.0, 0.25, 1.0, 1.5, 64.0, -1.0, 1e9, np.nan, np.inf], (boxes, labels))
    if rng.random() < 0.7:
        rule = np.clip(rule, BOUND, EXACT)
        over = np.clip(over, 0, labels - 1)
        factor = np.where((factor >= 0) & (factor <= 64), factor, 1.0)
    return {
        "rule": rule.astype(np.int8),
        "over": over.astype(np.int32),
        "factor": factor,
    }


def test_no_answers_prove_less_than_the_truth():
    tests = accepted = 0
    for seed in range(rounds(60)):
        rng = np.random.default_rng(seed)
        for forests, box, label, upper, trees, best in proved(seed):
            for claimed in (np.nextafter(best, -1.0), best - 0.1, upper):
                if not np.isfinite(claimed):
                    continue

                def ask(what, known, rng=rng):
                    good = rules_of_boxes(what, known)
                    bad = anything(rng, *good["rule"].shape)
                    kept = rng.random(good["rule"].shape) < rng.choice([0.0, 0.5, 0.95])
                    return {name: np.where(kept, good[name], bad[name]) for name in good}

                for _ in range(4):
                    tests += 1
                    try:
                        tried(forests, box, label, claimed, trees, ask)
                    except Rejected:
                        continue
                    accepted += 1
                    assert claimed >= best, seed
    assert tests > enough(1500)
    assert accepted > enough(50)


FORGERIES = {
    "nothing": lambda good: {},
    "no mapping": lambda good: [],
    "none": lambda good: None,
    "no rule": lambda good: {k: v for k, v in good.items() if k != "rule"},
    "no label": lambda good: {k: v for k, v in good.items() if k != "over"},
    "no factor": lambda good: {k: v for k, v in good.items() if k != "factor"},
    "lists": lambda good: {k: v.tolist() for k, v in good.items()},
    "objects": lambda good: {k: v.astype(object) for k, v in good.items()},
    "wide rules": lambda good: good | {"rule": good["rule"].astype(np.int64)},
    "narrow factors": lambda good: good | {"factor": good["factor"].astype(np.float32)},
    "a box less": lambda good: {k: v[:-1] for k, v in good.items()},
    "a box more": lambda good: {k: np.concatenate((v, v[:1])) for k, v in good.items()},
    "a rival less": lambda good: {k: v[:, :-1] for k, v in good.items()},
    "flat": lambda good: {k: v.ravel() for k, v in good.items()},
    "no such rule": lambda good: good | {"rule": np.full_like(good["rule"], 4)},
    "below all rules": lambda good: good | {"rule": np.full_like(good["rule"], -1)},
    "no such label": lambda good: all_bound(good) | {"over": np.full_like(good["over"], 9)},
    "a label below 0": lambda good: all_bound(good) | {"over": np.full_like(good["over"], -1)},
    "no number": lambda good: all_bound(good) | {"factor": np.full_like(good["factor"], np.nan)},
    "a factor below 0": lambda good: all_bound(good) | {"factor": good["factor"] - 1.0},
    "a steep factor": lambda good: all_bound(good) | {"factor": good["factor"] + 1e6},
    "infinite": lambda good: all_bound(good) | {"factor": np.full_like(good["factor"], np.inf)},
}  # fmt: skip


def all_bound(good):
    return good | {"rule": np.full_like(good["rule"], BOUND)}


@pytest.mark.parametrize("name", FORGERIES)
def test_an_answer_of_another_form_is_rejected(name):
    tests = 0
    for seed in range(6):
        for forests, box, label, upper, trees, _ in proved(seed):
            if forests.shares.shape[1] < 2:
                continue
            tests += 1
            with pytest.raises(Rejected):
                tried(
                    forests, box, label, upper, trees,
                    lambda what, known: FORGERIES[name](rules_of_boxes(what, known)),
                )  # fmt: skip
    assert tests > 5


def test_what_is_asked_can_be_written_to_in_vain():
    def ask(what, known):
        answer = rules_of_boxes(what, known)
        for array in known.values():
            array[...] = 0
        return answer

    for forests, box, label, upper, trees, _ in proved(2):
        tried(forests, box, label, upper, trees, ask)


def test_answers_are_recorded_and_replayed():
    record = []

    def keep(what, known):
        record.append(rules_of_boxes(what, known))
        return record[-1]

    questions = [each[:5] for seed in range(6) for each in proved(seed)]
    for each in questions:
        tried(*each, keep)
    answers = iter(record)
    for each in questions:
        tried(*each, lambda what, known: next(answers))
    assert next(answers, None) is None
    assert len(record) > 10


@pytest.mark.parametrize("seed", range(rounds(40)))
def test_trees_of_boxes_that_are_changed_prove_nothing_false(seed):
    rng = np.random.default_rng(seed)
    tests = 0
    for forests, box, label, upper, trees, best in proved(seed):
        for _ in range(8):
            changed = {name: array.copy() for name, array in trees.items()}
            kind = int(rng.integers(6))
            if kind == 0:
                at = int(rng.integers(len(changed["feature"])))
                changed["feature"][at] = rng.integers(-2, box.dimension + 1)
            elif kind == 1 and len(changed["value"]):
                at = int(rng.integers(len(changed["value"])))
                changed["value"][at] = rng.choice([np.nan, np.inf, -9.0, 0.5, 1.0, 9.0])
            elif kind == 2:
                changed["size"] = changed["size"] + rng.choice([-1, 1]).astype(np.int32)
            elif kind == 3:
                changed["feature"] = changed["feature"][::-1].copy()
            elif kind == 4:
                drop = changed["feature"][:-1]
                changed |= {"feature": drop, "size": np.array([len(drop)], np.int32)}
                changed["value"] = changed["value"][: int((drop >= 0).sum())]
            else:
                changed["value"] = changed["value"][::-1].copy()
            claimed = float(rng.choice([upper, np.nextafter(best, -1.0), best - 0.05]))
            tests += 1
            try:
                tried(forests, box, label, claimed, changed)
            except Rejected:
                continue
            assert claimed >= best
    assert tests >= 8


def test_a_cover_is_a_partition():
    rng = np.random.default_rng(0)
    inputs = Inputs(np.zeros(2), np.ones(2))
    points = np.concatenate((rng.random((200, 2)), [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]))
    for _ in range(rounds(50)):
        feature, waits = [], 1
        while waits:
            inner = len(feature) < 30 and rng.random() < 0.6
            feature.append(int(rng.integers(2)) if inner else -1)
            waits += 1 if inner else -1
        cuts = rng.choice([0.0, 0.25, 0.5, 1.0, -1.0, 2.0], sum(f >= 0 for f in feature))
        leaf, low, high = cover(np.array(feature), cuts, inputs)
        assert (np.array(feature)[leaf] < 0).all()
        inside = ((points[:, None] > low) & (points[:, None] <= high)).all(axis=2)
        assert (inside.sum(axis=1) == 1).all()


def test_sets_without_a_row_are_grown_as_if_it_had_never_been_there():
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(rounds(150)):
        n, width = int(rng.integers(2, 14)), int(rng.integers(1, 4))
        X = rng.integers(0, rng.integers(2, 6), (n, width)).astype(float)
        X[rng.random(X.shape) < 0.1] = -np.inf
        y = rng.integers(0, 3, n).astype(np.int32)
        settings = Settings(
            1, None, int(rng.integers(1, 4)), int(rng.integers(1, width + 1)),
            int(rng.integers(0, 2)), 2, ["gini", "entropy"][int(rng.integers(2))], 5,
        )  # fmt: skip
        data, key = Data(settings, X, y, 3), np.array([rng.integers(2**62)], np.uint64)
        everyone, none = np.arange(n), np.zeros(0, np.int64)
        whole = Sets(everyone, np.zeros(n, np.int64), key)
        nodes, _ = grow(data, whole, np.array([-1]), everyone)
        for row in range(n):
            rest = np.delete(everyone, row)
            part = Sets(rest, np.zeros(n - 1, np.int64), key)
            alone, _ = grow(data, part, np.array([-1]), none)
            both = Sets(
                np.concatenate((everyone, rest)), np.repeat([0, 1], [n, n - 1]), key[[0, 0]]
            )
            linked, _ = grow(data, both, np.array([-1, 0]), none)
            expected = written(alone, 0)
            assert written(nodes, 1 + row) == expected == written(linked, 1)
            compared += len(expected)
    assert compared > enough(2000)


def by_hand(one, other, label, upper, trees, rule, over=0, factor=0.0, meets=None):
    """Check one box of cells, one a tree, by one rule for all rivals."""
    one, other = np.array(one), np.array(other)
    shape = 1, one.shape[1]
    met = np.ones((1, len(one)), bool) if meets is None else np.array([meets])
    first = np.arange(len(one))
    block = Block(label, upper, trees, 1e-14, met, first, one, other)
    answer = {
        "rule": np.full(shape, rule, np.int8),
        "over": np.full(shape, over, np.int32),
        "factor": np.full(shape, factor),
    }
    check_boxes(block, np.zeros(1, np.int64), lambda what, known: answer)


def test_no_rule_overlooks_that_the_label_loses():
    # The forest answers 0 with a confidence of 0.25, the member 1.
    one, other = [[0.5, 0.25, 0.25]], [[0.125, 0.25, 0.625]]
    by_hand(one, other, 0, 0.25, (1, 1), EXACT)
    by_hand(one, other, 0, 0.25 + 1e-9, (1, 1), BOUND, 1)
    for rule, factor in ((MONOTONE, 0.0), (AWAY, 1.0), (EXACT, 0.0), (BOUND, 0.0)):
        with pytest.raises(Rejected, match="not ruled out"):
            by_hand(one, other, 0, 0.2, (1, 1), rule, 1, factor)
    # A member that only gives the label more answers it.
    by_hand(one, [[0.75, 0.125, 0.125]], 0, -1e-9, (1, 1), MONOTONE)
    # The rival gains nothing, the label loses.
    with pytest.raises(Rejected, match="not ruled out"):
        by_hand([[0.5, 0.5]], [[0.25, 0.5]], 0, -1e-9, (1, 1), MONOTONE)


def test_division_by_another_number_of_trees_may_make_a_tie():
    low = next(x for x in 1.5 + 2.0**-52 * np.arange(99) if x / 3 == np.nextafter(x, 2.0) / 3)
    sums = [[low, float(np.nextafter(low, 2.0))], [0.0, 0.0], [0.0, 0.0]]
    # One tree answers 1; as the first of three trees, the same shares answer 0.
    with pytest.raises(Rejected, match="not ruled out"):
        by_hand(sums, sums, 1, -1e-9, (1, 3), MONOTONE)
    with pytest.raises(Rejected, match="not ruled out"):
        by_hand(sums, sums, 1, -1e-9, (1, 3), EXACT)
    by_hand(sums, sums, 1, -1e-9, (1, 1), EXACT)
    by_hand(sums, sums, 1, -1e-9, (1, 1), MONOTONE)


@pytest.mark.parametrize("rule", [BOUND, AWAY, EXACT])
def test_a_tree_that_no_input_reaches_is_none_that_adds_nothing(rule):
    one = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(Rejected, match="no input reaches"):
        by_hand(one, one, 0, 2.0, (2, 2), rule, 1, 1.0, [True, False])


def test_being_confident_over_the_label_itself_says_nothing():
    with pytest.raises(Rejected, match="confident over"):
        by_hand([[0.75, 0.25]], [[0.0, 1.0]], 0, 0.1, (1, 1), BOUND, 0)


def test_the_bound_of_a_margin_is_no_excuse_for_a_rival():
    # Without its own margin, the sum must be below 0, not below the bound.
    with pytest.raises(Rejected, match="not ruled out"):
        by_hand([[0.75, 0.25]], [[0.5, 0.5]], 0, 0.3, (1, 1), AWAY, 1, 1.0)


def test_thresholds_between_adjacent_numbers_are_those_of_the_file(tmp_path):
    rng = np.random.default_rng(0)
    steps = [1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0), 1.0 + 2**-51, -1.0, 5e-324, 0.0]
    for seed in range(rounds(20)):
        X = rng.choice(steps, (40, 2))
        forest = DareForestClassifier(4, k=3, d_rmax=seed % 2, random_state=seed)
        forest.fit(X, rng.integers(0, 3, 40)).save(tmp_path / "forest.npz")
        held = read(tmp_path / "forest.npz")
        assert first_apart(held, train(held)) is None


def test_a_file_with_another_digest_is_rejected(tmp_path):
    forest = DareForestClassifier(2, random_state=0).fit(np.eye(4), [0, 1, 0, 1])
    forest.save(tmp_path / "forest.npz")
    with pytest.raises(Rejected, match="SHA-256"):
        read_forest(tmp_path / "forest.npz", "0" * 64)


def test_inputs_of_fewer_features_are_rejected():
    for forests, box, label, upper, trees, _ in proved(4):
        if box.dimension > 1 and forests.feature.max() == box.dimension - 1:
            narrow = Box(box.lower[:-1], box.upper[:-1])
            with pytest.raises(Rejected, match="too few features"):
                tried(forests, narrow, label, upper, trees)
            return
    raise AssertionError("no such question")


def written(nodes, node):
    """Return a tree as a list, in preorder."""
    own = [int(nodes.feature[node]), float(nodes.threshold[node]), nodes.counts[node].tolist()]
    if nodes.feature[node] < 0:
        return [own]
    return [own, *written(nodes, nodes.left[node]), *written(nodes, nodes.right[node])]

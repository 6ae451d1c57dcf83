"""Claims about points and networks: what is said agrees with brute force and with the example."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leaveout
from leaveout.errors import SpecError
from leaveout.models import load_network
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters
from leaveout.verifier.points.claims import (
    Lin,
    TooManyError,
    all_of,
    any_of,
    compare,
    greatest,
    least,
    plain,
    scale_pieces,
)
from leaveout.verifier.points.decide import in_words

from support import networks
from support.children import HANGS
from support.depth import rounds

SAMPLES = 40_000


class World:
    """Networks N, Q (near N) and D (deeper), of three labels over two features, on disk."""

    def __init__(self, folder, seed=13, labels=3, hidden=(5, 4)):
        rng = np.random.default_rng(seed)
        model = networks.dense(rng, (2, *hidden, labels))
        network = network_from(model, "N")
        near = {
            name: (value + 0.03 * rng.normal(size=value.shape)).astype(np.float32)
            for name, value in network.parameters.items()
        }
        onnx.save(model, folder / "n.onnx")
        onnx.save(with_parameters(model, near), folder / "q.onnx")
        onnx.save(networks.dense(rng, (2, 3, 3, 3, labels)), folder / "d.onnx")
        self.folder, self.labels = folder, labels
        self.runners = {
            name: load_network(folder / f"{name.lower()}.onnx").runner() for name in "NQD"
        }
        self.x = rng.random((SAMPLES, 2)).astype(np.float32)
        near_y = self.x + rng.uniform(-0.1, 0.1, self.x.shape).astype(np.float32)
        far = rng.random(SAMPLES) < 0.5
        self.y = np.where(far[:, None], rng.random((SAMPLES, 2)), near_y)
        self.y = np.clip(self.y, 0, 1).astype(np.float32)
        same = rng.random(SAMPLES) < 0.5
        self.y[same, 1] = self.x[same, 1]

    def verify(self, text, **options):
        head = "".join(f'let {name} = network("{name.lower()}.onnx")\n' for name in "NQD")
        path = self.folder / "claim.spec"
        path.write_text(f"{head}let X = box(0, 1)\n{text}\n")
        return leaveout.verify(path, **{"time": 120, **options}).results

    def terms(self, x, y):
        """The functions of the language, in numpy, at some points."""

        def score(name, point, label):
            return self.runners[name].scores(point).astype(np.float64)[:, label]

        def confidence(name, point, label=None):
            scores = self.runners[name].scores(point).astype(np.float64)
            top = np.sort(scores, axis=1)
            if label is None:
                return top[:, -1] - top[:, -2]
            return scores[:, label] - np.delete(scores, label, axis=1).max(axis=1)

        def label(name, point):
            return self.runners[name].scores(point).argmax(axis=1)

        return x, y, score, confidence, label


def wide(point):
    return point.astype(np.float64)


CLAIMS = {
    "forall x in X: label(N, x) == label(Q, x) or confidence(N, x) <= 0.4": lambda x, y, s, c, n: (
        (n("N", x) == n("Q", x)) | (c("N", x) <= 0.4)
    ),
    "forall x in X: label(N, x) == label(D, x)": lambda x, y, s, c, n: n("N", x) == n("D", x),
    "forall x in X: label(N, x) != 2": lambda x, y, s, c, n: n("N", x) != 2,
    "forall x in X: abs(score(N, x, 0) - score(Q, x, 0)) <= 0.5": lambda x, y, s, c, n: (
        np.abs(s("N", x, 0) - s("Q", x, 0)) <= 0.5
    ),
    "forall x in X: difference(N, Q, x) < 0.02": lambda x, y, s, c, n: (
        np.max([np.abs(s("N", x, k) - s("Q", x, k)) for k in range(3)], axis=0) < 0.02
    ),
    "forall x in X, y in X: distance(x, y) <= 0.05 => score(N, x, 1) - score(N, y, 1) <= 2": (
        lambda x, y, s, c, n: (
            (np.abs(wide(x) - wide(y)).max(axis=1) > 0.05) | (s("N", x, 1) - s("N", y, 1) <= 2)
        )
    ),
    "forall x in X, y in X: same_except(x, y, at = 0) => label(N, x) == label(N, y)": (
        lambda x, y, s, c, n: (x[:, 1] != y[:, 1]) | (n("N", x) == n("N", y))
    ),
    "forall x in X, y in X: same_except(x, y, at = 0) and feature(x, 0) <= feature(y, 0)"
    " => score(N, x, 0) <= score(N, y, 0) + 0.01": lambda x, y, s, c, n: (
        (x[:, 1] != y[:, 1]) | (x[:, 0] > y[:, 0]) | (s("N", x, 0) <= s("N", y, 0) + 0.01)
    ),
    "forall x in around([0.5, 0.5], 0.01): confidence(N, x, 0) > -9": lambda x, y, s, c, n: (
        (np.abs(wide(x) - 0.5).max(axis=1) > 0.01) | (c("N", x, 0) > -9)
    ),
    "forall x in X: not (confidence(N, x, 1) >= 0.1 and feature(x, 0) >= 0.9)": (
        lambda x, y, s, c, n: ~((c("N", x, 1) >= 0.1) & (wide(x)[:, 0] >= 0.9))
    ),
    "forall x in X: 2 * score(N, x, 0) - score(N, x, 1) / 4 >= -20 + feature(x, 1)": (
        lambda x, y, s, c, n: 2 * s("N", x, 0) - s("N", x, 1) / 4 >= -20 + wide(x)[:, 1]
    ),
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("seed", [6, 13])
def test_verdicts_agree_with_brute_force_and_examples_are_ones(tmp_path, claim, seed):
    world = World(tmp_path, seed)
    (result,) = world.verify(f"guarantee g: {claim}")
    holds = CLAIMS[claim](*world.terms(world.x, world.y))
    if result.verdict == "proved":
        assert holds.all()
    if result.verdict == "refuted":
        points = {
            name: np.asarray([point], np.float32) for name, point in result.example.points.items()
        }
        assert not CLAIMS[claim](*world.terms(points["x"], points.get("y", points["x"]))).any()
        assert result.example.words
    assert result.verdict != "unknown"
    if not holds.all():
        assert result.verdict == "refuted"


FINDS = {
    "least d such that forall x in X: difference(N, Q, x) <= d": lambda w: np.max(
        [np.abs(w["s"]("N", w["x"], k) - w["s"]("Q", w["x"], k)) for k in range(3)], axis=0
    ).max(),
    "least d such that forall x in X, y in X: distance(x, y) <= 0.1"
    " => score(N, x, 0) - score(N, y, 0) <= d": lambda w: np.where(
        np.abs(wide(w["x"]) - wide(w["y"])).max(axis=1) <= 0.1,
        w["s"]("N", w["x"], 0) - w["s"]("N", w["y"], 0),
        -np.inf,
    ).max(),
    "least b such that forall x in X: confidence(N, x) > b => label(D, x) == label(N, x)": (
        lambda w: np.where(
            w["n"]("N", w["x"]) != w["n"]("D", w["x"]), w["c"]("N", w["x"]), -np.inf
        ).max()
    ),
}


@pytest.mark.parametrize("claim", FINDS)
def test_bounds_hold_what_brute_force_finds_and_meet(tmp_path, claim):
    world = World(tmp_path)
    (result,) = world.verify(f"find f: {claim}")
    x, y, s, c, n = world.terms(world.x, world.y)
    best = FINDS[claim]({"x": x, "y": y, "s": s, "c": c, "n": n})
    assert result.lower <= result.upper
    assert best <= result.upper
    assert result.verdict == "proved"
    assert best >= result.lower - 0.1 * abs(result.lower)


def test_the_greatest_radius_is_found(tmp_path):
    world = World(tmp_path)
    centre = np.array([[0.4, 0.6]], np.float32)
    label = int(world.runners["N"].scores(centre)[0].argmax())
    (result,) = world.verify(
        f"find r: greatest r such that forall x in X: distance(x, [0.4, 0.6]) <= r"
        f" => label(N, x) == {label}"
    )
    away = np.abs(wide(world.x) - [0.4, 0.6]).max(axis=1)
    other = world.runners["N"].scores(world.x).argmax(axis=1) != label
    nearest = away[other].min()
    assert result.verdict == "proved"
    assert result.lower <= nearest + 1e-9
    assert result.lower <= result.upper
    assert result.upper <= nearest + 0.02


def test_per_label_gives_a_bound_a_label(tmp_path):
    world = World(tmp_path)
    results = world.verify(
        "find f: least b per label such that forall x in X:"
        " confidence(N, x) > b => label(D, x) == label(N, x) or label(Q, x) == label(N, x)"
    )
    assert [result.label for result in results] == [0, 1, 2]
    own, deep, near = (world.runners[k].scores(world.x).argmax(axis=1) for k in "NDQ")
    for result in results:
        confident = world.terms(world.x, world.y)[3]("N", world.x, result.label)
        leaks = (own == result.label) & (deep != own) & (near != own)
        best = confident[leaks].max(initial=-np.inf)
        assert result.upper is None or best <= result.upper


REFUSED = [
    "guarantee g: forall x in X: score(N, x, 0) * score(N, x, 1) > 0",
    "guarantee g: forall x in X: score(N, x, 7) > 0",
    "guarantee g: forall x in X: label(N, x) == 0 and feature(x, 2) > 0",
    "find f: greatest d such that forall x in X: difference(N, Q, x) <= d",
    "guarantee g: forall x in X: feature(x, 0) > 0",
    "guarantee g: forall x in X: score(N, x, 0) <= 1e308 * 10",
    "guarantee g: forall x in X: score(N, x, 0) + 1e308 <= -1e308",
    "guarantee g: forall x in X: score(N, x, 0) * 1e200 * 1e200 <= 1",
    "guarantee g: forall x in X: score(N, x, 0) / 1e200 <= 1",
]


@pytest.mark.parametrize("claim", REFUSED)
def test_what_cannot_be_decided_is_refused_with_its_place(tmp_path, claim, snapshot):
    with pytest.raises(SpecError) as caught:
        World(tmp_path).verify(claim)
    assert str(caught.value) == snapshot
    assert "claim.spec:5:" in str(caught.value)


def test_all_members_of_a_family_are_asked(tmp_path):
    from support.files import write_question

    text = (
        'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'
        "find f: least d such that forall x in X, M in F: difference(N, M, x) <= d\n"
    )
    (result,) = leaveout.verify(write_question(tmp_path, text=text), time=HANGS).results
    assert result.members == 2
    network = load_network(tmp_path / "full.onnx")
    family = leaveout.models.load_family_file(tmp_path / "family.npz")
    points = np.random.default_rng(0).random((5000, network.inputs)).astype(np.float32)
    own = network.runner().scores(points).astype(np.float64)
    worst = max(
        np.abs(
            network.runner({k: v[i] for k, v in family.parameters.items()}).scores(points) - own
        ).max()
        for i in range(2)
    )
    assert worst <= result.upper
    assert result.example.members["M"] in (0, 1)
    assert result.example.removed["M"] == 40 + result.example.members["M"]


def test_no_time_leaves_honest_answers(tmp_path):
    (result,) = World(tmp_path, hidden=(40, 40)).verify(
        "find f: least d such that forall x in X: difference(N, D, x) <= d", time=1e-3
    )
    assert result.verdict == "unknown"
    assert result.reason.startswith("time")


def test_a_number_beside_a_much_larger_one_is_not_lost(tmp_path):
    world = World(tmp_path)
    top = float(world.runners["N"].scores(world.x)[:, 1].max())
    claim = "guarantee g: forall x in X: score(N, x, 1) {} + 1e17 <= 1e17"
    (result,) = world.verify(claim.format(f"- {top - 1}"))
    assert result.verdict == "refuted"
    (result,) = world.verify(claim.format(f"- {top + 1}"))
    assert result.verdict == "proved"


def test_a_find_that_nothing_bounds_is_still_a_find(tmp_path):
    (result,) = World(tmp_path).verify(
        "find f: least b such that forall x in X:"
        " confidence(N, x) > b and label(N, x) == 1 => score(N, x, 1) >= score(N, x, 0)"
        " or label(N, x) == 1"
    )
    assert (result.kind, result.verdict) == ("find", "proved")
    assert result.lower is None and result.upper is None


def test_bounds_of_huge_scores_are_found(tmp_path):
    world = World(tmp_path)
    model = onnx.load(tmp_path / "n.onnx")
    huge = {k: (v * 1e11).astype(np.float32) for k, v in network_from(model, "").parameters.items()}
    onnx.save(with_parameters(model, huge), tmp_path / "n.onnx")
    runner = load_network(tmp_path / "n.onnx").runner()
    found = []
    for label in range(3):
        (result,) = world.verify(
            f"find f: least b such that forall x in X: score(N, x, {label}) <= b"
        )
        best = float(runner.scores(world.x)[:, label].max())
        assert result.upper is not None and result.upper >= best
        found.append(best)
    assert min(found) < -1e31


def test_a_claim_that_holds_again_beyond_its_bound_says_so(tmp_path, snapshot):
    world = World(tmp_path)
    path = tmp_path / "claim.spec"
    world.verify("find f: least b such that forall x in X: score(N, x, 0) <= b or b <= -50")
    report = leaveout.verify(path, time=HANGS)
    assert report.notes == snapshot


def value(number, at):
    """What a number of pieces is, as it says."""
    return max(
        min(sum(c * at[p] for p, c in lin.terms.items()) + lin.constant for lin in row)
        for row in number
    )


def is_met(cases, at):
    return any(
        all(value(plain(t.lin), at) > 0 if t.strict else value(plain(t.lin), at) >= 0 for t in case)
        for case in cases
    )


def test_cases_say_what_the_claims_say():
    rng = np.random.default_rng(0)
    places = [("feature", 0, i) for i in range(2)]
    operators = {
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    }  # fmt: skip
    for _ in range(rounds(60)):
        lins = [
            Lin(
                {p: Fraction(c) for p in places if (c := int(rng.integers(-1, 2)))},
                constant=Fraction(int(rng.integers(-1, 2))),
            )
            for _ in range(4)
        ]
        upper = greatest(plain(lins[0]), least(plain(lins[1]), plain(lins[2])))
        turned = scale_pieces(upper, Fraction(int(rng.integers(-2, 3))))
        first, second = rng.choice(list(operators), 2)
        one, other = compare(upper, first, plain(lins[3])), compare(turned, second, upper)
        for x, y in itertools.product(range(-2, 3), repeat=2):
            at = dict(zip(places, (Fraction(x), Fraction(y)), strict=True))
            truth = [
                operators[first](value(upper, at), value(plain(lins[3]), at)),
                operators[second](value(turned, at), value(upper, at)),
            ]
            assert is_met(all_of([one, other]), at) == all(truth)
            assert is_met(any_of([one, other]), at) == any(truth)


def test_too_many_cases_are_noticed_at_once():
    numbers = [plain(Lin({("feature", 0, i): Fraction(1)})) for i in range(180)]
    parts = [
        any_of(compare(a, "!=", b) for a, b in itertools.pairwise(numbers[k : k + 60]))
        for k in (0, 60, 120)
    ]
    started = time.process_time()
    with pytest.raises(TooManyError):
        all_of(parts)
    assert time.process_time() - started < 20


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=5, unique=True))
def test_scores_are_told_with_the_digits_that_tell_the_winner(scores) -> None:
    row = tuple(scores)
    winner = int(np.argmax(row))
    words = in_words({"x": (0.5,)}, {"N(x)": row}, {"N(x)": winner}, {})
    shown = [float(each) for each in words.rpartition("(")[2].rstrip(")").split(", ")]
    assert [at for at, each in enumerate(shown) if each == max(shown)] == [winner]

"""What the checker shows of services is what enumeration gives, and what the prover showed."""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom

from leaveout.kernel import services
from leaveout.kernel.audits import Counts
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.services import Service, answered_right, is_refuted, sharded, unlearns
from leaveout.kernel.values import Given, HeldFile, Range
from leaveout.models.sharded import ServiceSettings, guarantee
from leaveout.verifier.audits.adaptive import Duplicated
from leaveout.verifier.certify.audits import answer
from leaveout.verifier.values.subjects.sharded import proof_of_accounting, proof_of_attack

from support.depth import enough, rounds
from support.services import enumerated, least_near_mean, moments_of, together_of

PRIVATE = """
shards = 100
mechanism = "exponential"
epsilon = 0.001
predictions = 126
labels = 2
rows = 5000
"""
PLAIN = 'shards = 3\nmechanism = "majority"\nrows = 1000\n'


def service(**more):
    """Return a service, by default of three shards and two labels."""
    found = {
        "shards": 3,
        "rows": 1000,
        "mechanism": "exponential",
        "inclusion": (Fraction(1, 3), Fraction(1, 3)),
        "epsilon": Fraction(1, 10),
        "predictions": 2,
        "labels": 2,
        **more,
    }
    return Service(**found)


def held(folder, text):
    path = folder / "service.toml"
    path.write_text(text)
    return HeldFile(path, hashlib.sha256(path.read_bytes()).hexdigest())


def claim(found, proof=None, updates="adaptive", told=None, **more):
    """Decide a claim; alpha = 1 and beta = gamma = 1e-3 unless others are given."""
    numbers = {"alpha": 1, "beta": Fraction(1, 1000), "gamma": Fraction(1, 1000), **more}
    values = {name: Range.exactly(Fraction(value)) for name, value in numbers.items()}
    values |= {"service": found, "updates": updates}
    return unlearns(Given(values, proof or {}, None, (told if told is not None else []).append))


@st.composite
def small_services(draw):
    """Draw services that can be enumerated."""
    return service(
        shards=draw(st.integers(1, 3)),
        epsilon=Fraction(draw(st.integers(1, 400)), 100),
        predictions=draw(st.integers(1, 3)),
    )


SMALL = st.builds(Fraction, st.integers(1, 300), st.just(1000))


@settings(max_examples=rounds(60))
@given(small_services(), SMALL, SMALL, st.integers(0, 5))
def test_every_route_shows_what_enumeration_confirms(found, beta, gamma, seed):
    """Exact laws of seeds and transcripts: posteriors against priors, whatever is asked."""
    laws = enumerated(found.shards, found.predictions, float(found.epsilon), seed)
    shown = [(services.group_privacy_alpha(found), 0.0, 0.0)]
    for order in (Fraction(1, 3), Fraction(2), Fraction(30)):
        shown.append((services.moments(found, beta, order), float(beta), 0.0))
    shown.append((services.together(found, beta, gamma), float(beta), float(gamma)))
    for bound in (Fraction(1, 2), Fraction(2), Fraction(9), Fraction(40)):
        near = services.near_mean(found, beta, gamma, bound, Fraction(1, 2))
        if near is not None:
            shown.append((near, float(beta), float(gamma)))
    for alpha, most, share in shown:
        beyond = laws.beyond(float(alpha))
        assert laws.chances[beyond > most + 1e-12].sum() <= share + 1e-12


def test_every_route_has_the_alpha_of_its_formula_in_floats():
    rng = np.random.default_rng(5)
    near = 0
    for _ in range(rounds(400)):
        found = service(
            shards=int(rng.integers(1, 200)),
            mechanism=str(rng.choice(["exponential", "noisy_max"])),
            epsilon=Fraction(10 ** rng.uniform(-6, 0)),
            predictions=int(rng.integers(1, 300)),
            labels=int(rng.integers(2, 9)),
        )
        beta, gamma = (Fraction(10 ** rng.uniform(-9, -0.1)) for _ in range(2))
        order, share = Fraction(10 ** rng.uniform(-1, 3)), Fraction(rng.uniform(0.1, 0.9))
        shards, epsilon, count = found.shards, float(found.epsilon), found.predictions
        span = epsilon * (1 + (found.mechanism == "noisy_max"))
        alpha = services.moments(found, beta, order)
        truth = moments_of(shards, epsilon, count, float(beta), float(order))
        assert float(alpha) == pytest.approx(truth, rel=1e-9, abs=1e-9)
        alpha = services.together(found, beta, gamma)
        tail = float(beta * gamma)
        assert float(alpha) == pytest.approx(together_of(shards, span, count, tail), rel=1e-9)
        assert services.group_privacy_alpha(found) == shards * count * found.epsilon
        least = least_near_mean(shards, epsilon, span, count, found.labels, tail, float(share))
        if least < 100:
            near += 1
            high, low = (Fraction(least * (1 + way * 1e-6)) for way in (1, -1))
            assert services.near_mean(found, beta, gamma, high, share) == high
            assert services.near_mean(found, beta, gamma, low, share) is None
    assert near > enough(50)


@pytest.mark.parametrize(("shards", "epsilon"), [(40, 0.5), (200, 0.2)])
def test_what_moments_show_is_not_far_from_the_truth(shards, epsilon):
    """Randomised response tells most of the seeds that its privacy allows."""
    found = service(shards=shards, predictions=1, epsilon=Fraction(epsilon))
    told = 1 / (1 + math.exp(-epsilon))
    agreeing = np.arange(shards + 1)
    posterior, prior = binom.pmf(agreeing, shards, told), binom.pmf(agreeing, shards, 0.5)
    beta = Fraction(1, 1000)

    def enough(alpha):
        return np.maximum(posterior - math.exp(alpha) * prior, 0).sum() <= float(beta)

    best = min(float(services.moments(found, beta, Fraction(n, 8))) for n in range(1, 200))
    assert enough(best)
    assert not enough(0.75 * best)


def test_on_1000_random_settings_the_checker_confirms_the_prover_and_no_more(tmp_path):
    rng = np.random.default_rng(20)
    routes = set()
    for _ in range(rounds(1000)):
        shards = int(rng.choice([1, 3, 6, 50, 100, 1000, 10000]))
        asked = {
            "shards": shards,
            "mechanism": str(rng.choice(["exponential", "noisy_max"])),
            "rows": 100,
            "epsilon": float(min(10 ** rng.uniform(-6, 0.5), 4096 / shards)),
            "predictions": int(10 ** rng.uniform(0, 5)),
        }
        if rng.random() < 0.8:
            asked["labels"] = int(rng.choice([2, 3, 10, 1000]))
        beta = 0.0 if rng.random() < 0.1 else float(10 ** rng.uniform(-9, -0.1))
        gamma = float(10 ** rng.uniform(-9, -0.1))
        given_settings = ServiceSettings(**asked)
        text = "".join(
            f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value!r}\n"
            for key, value in asked.items()
        )
        found = sharded(Given({"path": held(tmp_path, text)}))
        shown = guarantee(given_settings, asked["predictions"], beta, gamma)
        proof = proof_of_accounting(given_settings, beta, gamma)
        routes.add(int(proof["route"][0]))
        limits = {"beta": Fraction(beta), "gamma": Fraction(gamma)}
        assert claim(found, proof, alpha=Fraction(shown.alpha), **limits) is True
        # The prover rounds epsilon up by 2^-40, every answer anew: that is all it adds.
        least = Fraction(shown.alpha) * Fraction(999_998, 1_000_000) - Fraction(1, 10**6)
        if least > 0:
            assert claim(found, proof, alpha=least, **limits) is None
            # Of the route that names its own alpha no smaller one will do.
            smaller = {**proof, "bound": np.array([float(least)])}
            assert claim(found, smaller, alpha=least, **limits) is None
    assert routes == {0, 1, 2, 3}


@pytest.mark.parametrize("text", [PRIVATE, PLAIN])
def test_oblivious_updates_are_unlearned_exactly(tmp_path, text, snapshot):
    found, told = sharded(Given({"path": held(tmp_path, text)})), []
    assert claim(found, updates="oblivious", told=told, alpha=0, beta=0, gamma=0) is True
    assert any("Lemma 5.1" in line for line in told)
    assert told == snapshot


def test_a_claim_that_leaves_everything_out_holds(tmp_path):
    found = sharded(Given({"path": held(tmp_path, PLAIN)}))
    assert claim(found, beta=1) is True
    assert claim(found, gamma=1) is True
    almost = 1 - Fraction(1, 10**30)
    assert claim(found, beta=almost, gamma=almost) is None


def test_what_is_shown_and_what_it_rests_on_is_told(tmp_path, snapshot):
    found, told = sharded(Given({"path": held(tmp_path, PRIVATE)})), []
    proof = {"route": np.array([3]), "bound": np.array([1.0]), "share": np.array([0.5])}
    assert claim(found, proof, told=told) is True
    text = "\n".join(told)
    assert text == snapshot
    told = []
    assert claim(found, told=told) is None
    assert told[0] == snapshot


def chance_that_it_fails(found, copies, points, alpha, beta):
    """Return the exact chance of updates for which a claim fails, by enumeration."""
    held_by = 1 - (1 - found.inclusion[0]) ** copies
    half = found.shards // 2 + 1
    right = sum(
        math.comb(found.shards, k) * held_by**k * (1 - held_by) ** (found.shards - k)
        for k in range(half, found.shards + 1)
    )
    total = Fraction(0)
    for outcome in itertools.product((False, True), repeat=points):
        left = outcome.count(False)
        chance = right ** (points - left) * (1 - right) ** left
        if left and math.exp(alpha) * float((1 - right) ** left) + float(beta) < 1:
            total += chance
    return total


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize(("copies", "points"), [(1, 5), (2, 6), (3, 8)])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.3, 3.0])
def test_a_majority_vote_is_refuted_just_where_enumeration_does(shards, copies, points, alpha):
    inclusion = Fraction(1, shards + 1)
    found = service(
        shards=shards,
        mechanism="majority",
        inclusion=(inclusion, inclusion),
        epsilon=Fraction(0),
        predictions=0,
    )
    beta = Fraction(1, 50)
    truth = chance_that_it_fails(found, copies, points, alpha, beta)
    for nudge, expected in ((-Fraction(1, 10**9), True), (Fraction(1, 10**9), False)):
        gamma = truth + nudge
        if gamma >= 0:
            got = is_refuted(found, copies, points, Fraction(alpha), beta, gamma)
            assert got is (expected and truth > 0)


def test_of_an_inclusion_between_bounds_only_what_holds_for_all_is_refuted():
    rng = np.random.default_rng(6)
    seen = 0
    for _ in range(rounds(400)):
        ends = sorted(Fraction(rng.uniform(0.02, 0.9)) for _ in range(2))
        ends[1] = ends[0] + (ends[1] - ends[0]) / int(rng.choice([1, 10, 100]))
        shards, copies, points = (int(rng.integers(1, top)) for top in (9, 4, 60))
        numbers = Fraction(rng.uniform(0, 5)), Fraction(rng.uniform(0, 0.5)), Fraction(rng.random())

        inner = [ends[0] + (ends[1] - ends[0]) * Fraction(i, 4) for i in range(5)]
        plain = {"shards": shards, "mechanism": "majority", "epsilon": Fraction(0)}
        whole, *parts = (
            is_refuted(service(inclusion=inclusion, **plain), copies, points, *numbers)
            for inclusion in (tuple(ends), *((each, each) for each in inner))
        )
        if whole:
            seen += 1
            assert all(parts)
    assert seen > enough(20)


def test_an_attack_has_as_many_rows_as_the_service_and_a_majority_to_attack():
    half = Fraction(1, 2), Fraction(1, 2)
    plain = {"mechanism": "majority", "epsilon": Fraction(0), "inclusion": half}
    numbers = Fraction(1, 10), Fraction(0), Fraction(1, 1000)
    assert is_refuted(service(rows=60, **plain), 2, 30, *numbers)
    assert not is_refuted(service(rows=59, **plain), 2, 30, *numbers)
    assert not is_refuted(service(rows=60, inclusion=half), 2, 30, *numbers)
    assert not is_refuted(service(rows=60, **plain), 0, 30, *numbers)
    assert not is_refuted(
        service(rows=60, **plain), 2, 30, Fraction(1, 10), *numbers[:1], Fraction(1)
    )
    always = service(rows=60, **{**plain, "inclusion": (Fraction(1), Fraction(1))})
    assert not is_refuted(always, 2, 30, *numbers)
    never = service(rows=60, **{**plain, "inclusion": (Fraction(0), Fraction(0))})
    assert not is_refuted(never, 2, 30, *numbers)


def test_what_trials_refuted_is_refuted_by_chances_alone(tmp_path):
    for shards, rows, alpha in ((3, 1000, 3), (7, 900, 2), (100, 5000, 2), (1000, 80_000, 1)):
        text = f'shards = {shards}\nmechanism = "majority"\nrows = {rows}\n'
        found = sharded(Given({"path": held(tmp_path, text)}))
        attack = Duplicated.against(shards, 1 / shards, rows)
        assert claim(found, proof_of_attack(attack), alpha=alpha) is False
        low, high = answered_right(found, attack.copies)
        assert 0.3 < low <= high < 0.7
        assert claim(found, proof_of_attack(attack), alpha=10_000) is None
        assert claim(found, alpha=alpha) is None


def test_trials_happen_as_often_as_was_computed():
    attack = Duplicated.against(7, 1 / 7, 900)
    found = service(
        shards=7,
        mechanism="majority",
        inclusion=(Fraction(1, 7), Fraction(1, 7)),
        epsilon=Fraction(0),
    )
    right = float(answered_right(found, attack.copies)[0])
    deleted = [len(attack.replay(0, n).deleted) / attack.copies for n in range(400)]
    spread = math.sqrt(attack.points * right * (1 - right) / 400)
    assert abs(np.mean(deleted) - attack.points * right) < 5 * spread


@pytest.mark.parametrize(
    "text",
    [
        PLAIN + "epsilon = 1",
        PLAIN + "predictions = 3",
        PLAIN + "shard = 3",
        PLAIN.replace("3", "3.0"),
        PLAIN.replace("3", "true"),
        PLAIN.replace("3", "0"),
        PLAIN.replace("3", "100001"),
        PLAIN.replace("rows = 1000", ""),
        PLAIN.replace("majority", "mean"),
        PLAIN + "inclusion = 0.0",
        PLAIN + "inclusion = 1.5",
        PLAIN + "inclusion = nan",
        PLAIN + "labels = 1",
        PLAIN + 'on_exhausted = "wait"',
        PRIVATE.replace("0.001", "0"),
        PRIVATE.replace("0.001", "-1.0"),
        PRIVATE.replace("0.001", "inf"),
        PRIVATE.replace("0.001", "50.0"),
        PRIVATE.replace("0.001", "1" + "0" * 400),
        PRIVATE.replace("predictions = 126", ""),
        PRIVATE.replace("126", "0"),
        "shards = ",
        "a = [" + "[" * 5000,
    ],
)
def test_settings_of_which_nothing_is_known_are_refused(tmp_path, text, snapshot):
    with pytest.raises(Rejected) as told:
        sharded(Given({"path": held(tmp_path, text)}))
    assert str(told.value) == snapshot


def test_other_bytes_than_the_digest_says_are_refused(tmp_path, snapshot):
    found = held(tmp_path, PRIVATE)
    found.path.write_text(PRIVATE.replace("0.001", "0.0001"))
    with pytest.raises(Rejected) as told:
        sharded(Given({"path": found}))
    assert str(told.value) == snapshot


def test_an_epsilon_is_never_taken_for_less(tmp_path):
    for text in ("0.1", "1e-6", "0.30000000000000004", "0.001"):
        found = sharded(Given({"path": held(tmp_path, PRIVATE.replace("0.001", text))}))
        assert found.epsilon > max(Fraction(text), Fraction(float(text)))
        assert found.epsilon < Fraction(text) * (1 + Fraction(1, 2**50))
        assert found.span == found.epsilon


@settings(max_examples=rounds(300))
@given(
    st.sampled_from([PRIVATE, PLAIN, PRIVATE.replace("exponential", "noisy_max")]),
    st.dictionaries(
        st.sampled_from(["route", "order", "bound", "share", "copies", "points"]),
        st.sampled_from(
            [
                np.array([0]),
                np.array([3]),
                np.array([-1]),
                np.array([2**62]),
                np.array([1, 2]),
                np.array([], dtype=np.int64),
                np.array([0.5]),
                np.array([0.0]),
                np.array([-3.0]),
                np.array([1e308]),
                np.array([5e-324]),
                np.array([np.nan]),
                np.array([np.inf]),
                np.array(["x"]),
                np.array([[1.0]]),
                np.array([True]),
            ]
        ),
    ),
)
def test_no_proof_whatever_it_holds_shows_what_is_false(tmp_path_factory, text, proof):
    """Of so small an alpha nothing is proved, and of so large a one nothing is refuted."""
    folder = tmp_path_factory.mktemp("odd")
    found = sharded(Given({"path": held(folder, text)}))
    try:
        got = claim(found, proof, alpha=Fraction(1, 10**7), gamma=0)
    except Rejected as error:
        assert "\n" not in str(error)
    else:
        assert got is not True
    try:
        got = claim(found, proof, alpha=30_000, beta=Fraction(999, 1000), gamma=Fraction(9, 10))
    except Rejected:
        return
    assert got is not False


COUNTS = Counts([(60, 100), (97, 100)], [(20, 100), (52, 100)])


def counted(arms, alpha, beta, gamma, updates="adaptive", told=None, ask=answer, level="0.95"):
    """Decide a claim by counts."""
    numbers = {"alpha": alpha, "beta": beta, "gamma": gamma}
    values = {name: Range.exactly(Fraction(value)) for name, value in numbers.items()}
    values |= {"service": arms, "updates": updates}
    tell = ([] if told is None else told).append
    return unlearns(Given(values, {}, None if level is None else Fraction(level), tell, ask))


def ends(count, trials, level):
    """Return Clopper and Pearson's ends by the beta distribution."""
    low = stats.beta.ppf(level, count, trials - count + 1) if count else 0.0
    high = stats.beta.ppf(1 - level, count + 1, trials - count) if count < trials else 1.0
    return low, high


@pytest.mark.parametrize("left_out", [(0, 0), ("0.05", 0), (0, "0.05"), ("0.1", "0.1")])
@pytest.mark.parametrize("arms", [COUNTS, Counts([(60, 100)], [(20, 100)])])
def test_counts_refute_up_to_the_alpha_of_their_ends(left_out, arms):
    b, g = map(Fraction, left_out)
    level = 0.05 / (2 * len(arms.unlearned))
    most = max(
        math.log((ends(*one, level)[0] - float(b + g)) / ends(*two, level)[1])
        for one, two in zip(*arms)
    )
    assert counted(arms, Fraction(most) - Fraction(1, 10**9), b, g) is False
    assert counted(arms, Fraction(most) + Fraction(1, 10**9), b, g) is None
    assert counted(arms, 0, b, g, updates="oblivious") is None


def scaled(factor, what, known):
    """Answer as certify does, times a factor."""
    return {what: answer(what, known)[what] * factor}


def test_counts_need_a_confidence_and_hints():
    for level in (None, "0", "1", "1.5"):
        with pytest.raises(Rejected):
            counted(COUNTS, 0, 0, 0, level=level)
    with pytest.raises(Rejected):
        counted(COUNTS, 0, 0, 0, ask=lambda what, known: {})
    none = {"lower_ends": np.zeros(4)}
    assert counted(COUNTS, 0, 0, 0, ask=lambda what, known: none) is None
    for factor in (1.001, 2.0, np.nan):
        with pytest.raises(Rejected):
            counted(COUNTS, 0, 0, 0, ask=partial(scaled, factor))


@pytest.mark.parametrize("name", ["alpha", "beta", "gamma"])
def test_numbers_below_0_are_refused(tmp_path, name):
    found = sharded(Given({"path": held(tmp_path, PRIVATE)}))
    with pytest.raises(Rejected, match="at least 0"):
        claim(found, **{name: -1})
    with pytest.raises(Rejected, match="neither"):
        claim("service")
    with pytest.raises(Rejected, match="adaptive"):
        claim(found, updates=None)

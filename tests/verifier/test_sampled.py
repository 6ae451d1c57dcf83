"""Members for a sample of the rows, and what they say of all: against every sample there is."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from msgspec import structs

from leaveout.errors import SpecError
from leaveout.models import load_family_file, load_network, save_family_file
from leaveout.models.family import Family
from leaveout.specs import but, check, forall, parse
from leaveout.verifier.points.sampling import Sampling, smallest_sample, tolerated_count, worst_case
from leaveout.verifier.run import verify

from support import samples
from support.files import BOUND, write_question
from support.samples import LEVEL, write_sample

SAMPLED = BOUND.replace("M in F", "M in F but {share}").rstrip() + "\n    with confidence {level}\n"
HEAD = BOUND[: BOUND.index("find")]
QUIET = HEAD + (
    "guarantee quiet: forall x in X, M in F but {share}: "
    "confidence(N, x) > {above} => label(M, x) == label(N, x) with confidence {level}\n"
)

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.mark.parametrize("ties", [False, True])
def test_too_many_exceptions_are_as_rare_as_said(ties):
    rng = np.random.default_rng(0)
    said = 0
    for rows in range(2, 9):
        values = rng.integers(0, 3, rows) if ties else rng.permutation(rows)
        for size in range(1, rows + 1):
            samples = [values[list(each)] for each in combinations(range(rows), size)]
            for share in (Fraction(0), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)):
                for error in (Fraction(1, 20), Fraction(1, 5), Fraction(1, 2)):
                    asked = Sampling(rows, size, share, error)
                    most = tolerated_count(asked)
                    if most is None:
                        continue
                    said += 1
                    wrong = sum(
                        (values > np.sort(each)[-1 - most]).sum() > share * rows for each in samples
                    )
                    assert Fraction(wrong, len(samples)) <= error
                    if not ties and most < size - 1:
                        # One more would be wrong too often: nothing is given away.
                        wrong = sum(
                            (values > np.sort(each)[-2 - most]).sum() > share * rows
                            for each in samples
                        )
                        assert Fraction(wrong, len(samples)) >= error
    assert said > 200


def test_a_refutation_is_as_rare_where_the_claim_holds():
    for rows in range(2, 9):
        for size in range(1, rows + 1):
            for share in (Fraction(0), Fraction(1, 4), Fraction(1, 2)):
                for error in (Fraction(1, 20), Fraction(1, 3)):
                    asked = Sampling(rows, size, share, error)
                    enough = worst_case(asked)
                    above = np.arange(rows) < asked.exceptions
                    counts = [above[list(each)].sum() for each in combinations(range(rows), size)]
                    if enough is None:
                        continue
                    wrong = Fraction(sum(int(each >= enough) for each in counts), len(counts))
                    assert wrong <= error


@pytest.mark.parametrize("rows", [50, 1_000, 32_561])
def test_the_smallest_sample_is_the_smallest(rows):
    for share in (Fraction(1, 1000), Fraction(1, 50)):
        asked = Sampling(rows, 1, share, Fraction(1, 20))
        least = smallest_sample(asked)
        assert tolerated_count(Sampling(rows, least, share, asked.error)) is not None
        assert least == 1 or tolerated_count(Sampling(rows, least - 1, share, asked.error)) is None


def test_a_find_is_the_order_statistic_that_may_be_said(tmp_path):
    spec = write_question(tmp_path, text=BOUND, rows=9, sample=3)
    family = load_family_file(tmp_path / "family.npz")
    certain = verify(spec)
    spec.write_text(SAMPLED.format(share=0.7, level=0.5))
    found = verify(spec)
    asked = Sampling(9, len(family), Fraction(7, 10), Fraction(1, 2) / len(found.results))
    most = tolerated_count(asked)
    assert most is not None
    for result, every in zip(found.results, certain.results, strict=True):
        assert result.confidence == 0.5
        assert result.upper <= every.upper
        if not most:
            assert result.upper == every.upper
        assert dict(result.facts[0].facts)["above"] == most
    assert any("statistical" in note for note in found.notes)
    assert not any(result.confidence for result in certain.results)


def test_a_bound_leaves_out_the_worst_of_a_large_sample(tmp_path):
    spec = write_question(tmp_path, text=BOUND, sample=3)
    size = len(load_family_file(tmp_path / "family.npz"))
    (tmp_path / "alone").mkdir()
    worst = []
    for member in range(size):
        write_question(tmp_path / "alone", text=BOUND)
        family = load_family_file(tmp_path / "family.npz")
        one = Family(family.take([member]), family.removed[[member]])
        save_family_file(tmp_path / "alone" / "family.npz", one)
        worst.append([each.upper for each in verify(tmp_path / "alone" / "test.spec").results])
    # All rows are in the sample: all but a share of a half is the bound of the others, exactly.
    spec.write_text(SAMPLED.format(share=0.5, level=0.9))
    for label, result in enumerate(verify(spec).results):
        expected = sorted((each[label] for each in worst), reverse=True)[math.floor(size / 2)]
        assert result.upper == pytest.approx(expected, rel=1e-2, abs=1e-6)


def test_guarantees_are_proved_refuted_or_open(tmp_path, monkeypatch):
    spec = write_question(tmp_path, text=QUIET.format(share=0, above=1e6, level=0.9), sample=3)
    assert verify(spec).results[0].verdict == "proved"
    for name in ("leaking", "open"):
        (tmp_path / name).mkdir()
    # Somebody else's: who has seen what is proved may not ask this of the same sample.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    text = QUIET.format(share=0, above=0, level=0.9)
    refuted = verify(write_question(tmp_path / "leaking", text=text, sample=3)).results[0]
    assert refuted.verdict == "refuted"
    assert refuted.confidence == 0.9
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "third"))
    text = QUIET.format(share=0.5, above=0, level=0.999)
    spec = write_question(tmp_path / "open", text=text, rows=30, sample=3)
    assert verify(spec).results[0].verdict == "unknown"


@pytest.mark.parametrize("premise", ["", "confidence(N, x) > -1 => "])
def test_members_that_never_leak_refute_nothing(tmp_path, premise):
    claim = f"{premise}label(M, x) == label(N, x)"
    text = f"guarantee same: forall x in X, M in F but 0.25: {claim} with confidence {LEVEL}\n"
    spec = write_sample(tmp_path, samples.HEAD + text)
    family = load_family_file(tmp_path / "family.npz")
    network = load_network(tmp_path / "full.onnx").parameters
    same = {name: np.repeat(each[None], len(family), 0) for name, each in network.items()}
    save_family_file(tmp_path / "family.npz", Family(same, family.removed, family.manifest))
    assert verify(spec).results[0].verdict == "proved"


def test_a_sample_that_is_too_small_says_which_would_do(tmp_path, snapshot):
    spec = write_question(tmp_path, text=SAMPLED, rows=10_000, sample=3)
    spec.write_text(SAMPLED.format(share=0.001, level=0.95))
    for result in verify(spec).results:
        assert (result.verdict, result.upper) == ("unknown", None)
        assert result.reason == snapshot
        assert "--sample" in result.reason


@pytest.mark.parametrize("forged", ["rows", "seed", "size", "none", "data"])
def test_a_family_that_is_not_its_sample_is_refused(tmp_path, forged, snapshot):
    spec = write_question(tmp_path, text=SAMPLED, rows=40, sample=3)
    spec.write_text(SAMPLED.format(share=0.5, level=0.9))
    path = tmp_path / "family.npz"
    family = load_family_file(path)
    manifest, sample = family.manifest, family.manifest.sample
    if forged == "none":
        manifest = structs.replace(manifest, sample=None)
    elif forged == "data":
        manifest = structs.replace(manifest, data=structs.replace(manifest.data, rows=400))
    else:
        changed = {forged: getattr(sample, forged) + 1}
        manifest = structs.replace(manifest, sample=structs.replace(sample, **changed))
    save_family_file(path, Family(family.parameters, family.removed, manifest))
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot


LETS = 'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'


@pytest.mark.parametrize(
    "claim",
    [
        "forall x in X, M in F but 0.1: label(M, x) == 0",
        "forall x in X but 0.1: label(N, x) == 0 with confidence 0.9",
        "forall x in X, M in F but 1: label(M, x) == 0 with confidence 0.9",
        "forall x in X, M in F but 5: label(M, x) == 0 with confidence 0.9",
        "forall x in X, M in F but -1: label(M, x) == 0 with confidence 0.9",
        "not (forall x in X, M in F but 0.1: label(M, x) == 0) with confidence 0.9",
        "forall x in X: forall M in F but 0.1: label(M, x) == 0 with confidence 0.9",
    ],
)
def test_a_share_is_left_out_of_a_whole_claim_alone(claim, snapshot):
    with pytest.raises(SpecError) as told:
        check(parse(f"{LETS}guarantee g: {claim}"))
    assert str(told.value) == snapshot


def test_a_share_is_left_out_of_leaks_alone(tmp_path, snapshot):
    spec = write_question(tmp_path, sample=3)
    spec.write_text(
        HEAD + "guarantee g: forall x in X, M in F but 0.1: score(M, x, 0) <= 100 "
        "with confidence 0.9\n"
    )
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot


def test_it_is_written_as_it_is_read():
    text = "forall x in X, M in F but 0.001: label(M, x) == 0"
    claim = parse(f"{LETS}guarantee g: {text} with confidence 0.9").statements[-1].claim
    assert str(claim.claim) == text
    from leaveout.specs import label, name

    built = forall({"x": name("X"), "M": but(name("F"), 0.001)}, lambda x, M: label(M, x) == 0)
    assert str(built.node) == text

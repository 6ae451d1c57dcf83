"""Events that were counted elsewhere are read, and refute what they may refute and no more."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import leaveout
from leaveout.errors import RejectedError, SpecError
from leaveout.kernel.audits import Counts
from leaveout.kernel.services import unlearns
from leaveout.kernel.values import Given, Range
from leaveout.verifier.audits.adaptive import Audit
from leaveout.verifier.audits.membership import Events, read_audit, read_counts
from leaveout.verifier.certify.audits import answer as certified
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli import run

from support.audits import views_arrays
from support.certificates import Content
from support.snapshots import passages

HEADER = "event,unlearned_hits,unlearned_trials,retrained_hits,retrained_trials\n"
ROWS = [("less often, mean", 97, 100, 52, 100), ("each less often", 60, 100, 4, 80)]
CLAIM = "unlearns(A, updates = {}, alpha = {}, beta = 0.001, gamma = 0.001)"


def text_of(rows):
    return HEADER + "".join(f'"{name}",{",".join(map(str, rest))}\n' for name, *rest in rows)


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(text_of(ROWS))
    return path


def test_a_table_and_json_say_the_same(counts, tmp_path):
    found = read_counts(counts)
    keys = HEADER.strip().split(",")
    other = tmp_path / "counts.json"
    other.write_text(json.dumps([dict(zip(keys, row)) for row in ROWS]))
    again = read_counts(other)
    assert found.names == again.names == tuple(row[0] for row in ROWS)
    for name in keys[1:]:
        assert getattr(found, name).tolist() == getattr(again, name).tolist()
    assert found.retrained_trials.tolist() == [100, 80]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", HEADER, "no event"),
        ("a.csv", HEADER + "x,3,2,0,1\n", "happened 3 times in 2 trials"),
        ("a.csv", HEADER + "x,1,2,0,1.5\n", "line 2: 'retrained_trials' is '1.5'"),
        ("a.csv", HEADER + "x,1,2,0,1\nx,1,2,0,1\n", "two events have the same name"),
        ("a.csv", HEADER.replace(",retrained_hits", "") + "x,1,2,1\n", "no 'retrained_hits'"),
        ("a.csv", HEADER.strip() + ",more\nx,1,2,0,1,5\n", "unknown key 'more'"),
        ("a.json", "[{]", "not valid JSON"),
        ("a.json", "{}", "list of objects"),
        ("a.json", '[{"event": "x", "event": "y"}]', "duplicate key"),
        ("a.json", '[{"event": 1, "unlearned_hits": 1, "unlearned_trials": 1, '
         '"retrained_hits": 1, "retrained_trials": 1}]', "expected a string"),
        ("a.json", '[{"event": "x", "unlearned_hits": true, "unlearned_trials": 1, '
         '"retrained_hits": 1, "retrained_trials": 1}]', "whole number"),
        ("absent.json", None, "no such file"),
        ("absent.csv", None, "no such file"),
    ],
)  # fmt: skip
def test_what_is_no_counts_is_one_line(tmp_path, capsys, name, content, said):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert run(["audit", "--counts", str(path), "-o", str(tmp_path / "a.npz")]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    assert not (tmp_path / "a.npz").exists()


def test_the_command_judges_counts_and_writes_them(counts, tmp_path, capsys, snapshot):
    target = tmp_path / "audit.npz"
    claim = ["--alpha", "0.3", "--beta", "0.001", "--gamma", "0.001"]
    assert run(["audit", "--counts", str(counts), "-o", str(target), *claim]) == 0
    said = capsys.readouterr().out
    events = read_audit(target)
    assert isinstance(events, Events) and events.names == tuple(row[0] for row in ROWS)
    bounds = Audit.of_events(events).alpha_lower_bounds(1e-3, 1e-3, 0.95)
    shown = re.findall(r"([\d.]+)$", "\n".join(said.splitlines()[1:3]), re.M)
    assert [float(each) for each in shown] == pytest.approx(bounds, abs=1e-3)
    assert all(float(each) <= bound for each, bound in zip(shown, bounds))
    assert passages(said, "0.3") == snapshot
    sentence = re.search(r"^next +(.*)$", said, re.M)[1]
    (tmp_path / "next.spec").write_text(sentence)
    (result,) = leaveout.verify(tmp_path / "next.spec").results
    assert result.verdict == "refuted"


def test_without_an_alpha_the_next_claim_is_the_one_that_falls(counts, tmp_path, capsys):
    assert run(["audit", "--counts", str(counts), "-o", str(tmp_path / "a.npz")]) == 0
    said = capsys.readouterr().out
    (tmp_path / "next.spec").write_text(re.search(r"^next +(.*)$", said, re.M)[1])
    (result,) = leaveout.verify(tmp_path / "next.spec").results
    assert result.verdict == "refuted"
    assert float(re.search(r"alpha up to ([\d.]+)", said)[1]) > 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--forget", "0.1"], "drop"),
        (["--alpha", "-1"], "--alpha -1"),
        (["--gamma", "1.5"], "--gamma 1.5"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    counts, tmp_path, capsys, more, said, snapshot
):
    assert run(["audit", "--counts", str(counts), "-o", str(tmp_path / "a.npz"), *more]) == 2
    assert said in capsys.readouterr().err
    assert run(["audit", "-o", str(tmp_path / "b.npz"), "--alpha", "1"]) == 2
    assert capsys.readouterr().err == snapshot


def decided(folder, claim, confidence=" with confidence 0.95", certificate=None):
    (folder / "a.spec").write_text(f'let A = audit("a.npz")\nguarantee g: {claim}{confidence}\n')
    more = {} if certificate is None else {"certificate": certificate}
    return leaveout.verify(folder / "a.spec", **more).results[0]


@pytest.fixture
def audited(counts, tmp_path):
    run(["audit", "--counts", str(counts), "-o", str(tmp_path / "a.npz")])
    return tmp_path


def test_counts_refute_adaptive_claims_below_their_bound_alone(audited, snapshot):
    bound = max(Audit.of_events(read_audit(audited / "a.npz")).alpha_lower_bounds(1e-3, 1e-3, 0.95))
    below = decided(audited, CLAIM.format("adaptive", bound - 1e-3))
    assert below.verdict == "refuted"
    assert str(below.example) == snapshot
    assert decided(audited, CLAIM.format("adaptive", bound + 1e-3)).verdict == "unknown"
    # Whoever counted may have seen answers.
    assert decided(audited, CLAIM.format("oblivious", 0)).verdict == "unknown"
    with pytest.raises(SpecError) as told:
        decided(audited, CLAIM.format("adaptive", 0), "")
    assert str(told.value) == snapshot


def test_answers_row_by_row_are_no_counts(tmp_path, snapshot):
    np.savez(tmp_path / "a.npz", **views_arrays(np.random.default_rng(0), 6, 2))
    with pytest.raises(SpecError) as told:
        decided(tmp_path, CLAIM.format("adaptive", 1))
    assert str(told.value) == snapshot


def test_the_checker_refutes_anew_and_takes_no_larger_claim(audited, snapshot):
    decided(audited, CLAIM.format("adaptive", 1), certificate=audited / "c")
    check(audited / "c")
    for key, value in (("alpha", "3"), ("gamma", "1/2"), ("beta", "3/5")):
        content = Content.of(audited / "c")
        (statement,) = content.manifest["values"]["statements"]
        statement["claim"]["given"][key]["value"] = value
        content.save(audited / "forged")
        with pytest.raises(RejectedError) as told:
            check(audited / "forged")
        assert str(told.value) == snapshot
    content = Content.of(audited / "c")
    (statement,) = content.manifest["values"]["statements"]
    statement["confidence"] = None
    content.save(audited / "forged")
    with pytest.raises(RejectedError, match="confidence"):
        check(audited / "forged")
    content = Content.of(audited / "c")
    content.manifest["values"]["statements"][0]["verdict"] = "proved"
    content.save(audited / "forged")
    with pytest.raises(RejectedError) as told:
        check(audited / "forged")
    assert str(told.value) == snapshot


def checked(arms, alpha, beta, gamma, confidence):
    numbers = {"alpha": alpha, "beta": beta, "gamma": gamma}
    values = {name: Range(Fraction(each), Fraction(each)) for name, each in numbers.items()}
    counts = Counts(tuple(each[:2] for each in arms), tuple(each[2:] for each in arms))
    return unlearns(
        Given(
            {**values, "service": counts, "updates": "adaptive"},
            confidence=confidence,
            ask=certified,
        )
    )


def test_a_true_claim_is_refuted_no_more_often_than_allowed_by_the_checker():
    trials, base, alpha, beta, gamma = 12, 0.2, 0.5, 0.05, 0.02
    after = math.exp(alpha) * base + beta + gamma
    wrong = 0.0
    for one in range(trials + 1):
        for other in range(trials + 1):
            arms = [(one, trials, other, trials)]
            answer = checked(arms, alpha, beta, gamma, Fraction(4, 5))
            assert answer in (False, None)
            events = Events(("e",), *(np.array([n]) for n in (one, trials, other, trials)))
            found = Audit.of_events(events)
            refuted = found.alpha_lower_bounds(beta, gamma, 0.8)[0] > alpha + 1e-6
            assert (answer is False) >= refuted
            if answer is False:
                wrong += float(binom.pmf(one, trials, after) * binom.pmf(other, trials, base))
    assert 0 < wrong <= 0.2


def test_more_events_share_the_confidence_of_the_checker():
    one, blank = (12, 12, 1, 12), (6, 12, 6, 12)
    alone = checked([one], 0.8, 0.0, 0.0, Fraction(4, 5))
    shared = checked([one, blank, blank, blank], 0.8, 0.0, 0.0, Fraction(4, 5))
    assert (alone, shared) == (False, None)
    assert checked([one], 2000, 0.0, 0.0, Fraction(4, 5)) is None

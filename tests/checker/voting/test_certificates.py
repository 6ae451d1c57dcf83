"""Certificates of claims about votes: what is true is accepted, and nothing that is not.

What is true is known by trying every vote, or ranking, of every member.
"""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.certificate_content import Content
from attacks.kind import generator
from attacks.votes import _NAMES, _RELATIONS, Votes, _text, _write, truth_of
from support.depth import IS_DEEP, enough, rounds

_THREATS = {"ss_dpa": {"relabels"}, "certified": {"edits"}}
"""What the enumeration of a kind of vote knows, where it does not know all threats."""


def cases(seed, count, **wanted):
    """Yield random ballots with a claim about them that was decided, and its certificate."""
    kind = Votes()
    for number in range(count):
        rng = generator(seed, "votes", number)
        case = kind.make(rng) | {"damage": None}
        if all(case[name] == value for name, value in wanted.items()):
            yield rng, case


def certified(case, folder):
    """Return the certificate of a claim, None where it was refused, or not decided."""
    _write(case, folder / "ballots.npz")
    (folder / "a.spec").write_text(_text(case))
    path = folder / "a.cert"
    path.unlink(missing_ok=True)
    try:
        verify(folder / "a.spec", certificate=path)
    except LeaveoutError:
        return None
    return Content.of(path) if path.exists() else None


def accepts(content, folder):
    content.save(folder / "false.cert")
    try:
        return bool(check(folder / "false.cert"))
    except LeaveoutError as error:
        assert "\n" not in str(error)
        return False


def holds(case):
    claim = case["claim"]
    true = truth_of(case, claim["kind"], claim["threat"], claim["count"], claim)
    return _RELATIONS[claim["relation"]](true, Fraction(repr(claim["number"])))


def test_what_is_decided_is_accepted(tmp_path):
    accepted = {}
    for _, case in cases(1, 160):
        content = certified(case, tmp_path)
        if content is None:
            continue
        assert accepts(content, tmp_path)
        (statement,) = content.manifest["values"]["statements"]
        place = case["vote"], statement["verdict"]
        accepted[place] = accepted.get(place, 0) + 1
        if case["claim"]["kind"] != "greatest":
            assert holds(case) == (statement["verdict"] == "proved")
    assert len(accepted) == 12


def doctored(content, rng, parts):
    """Yield a certificate with the proofs that someone might write who knows the checker."""
    yield content
    names = [name for name in content.arrays if name.startswith("proof")]
    if not names:
        return
    bare = copy.deepcopy(content)
    bare.manifest["values"]["proofs"] = {}
    yield bare
    for name in rng.permutation(names)[:5].tolist():
        own = content.arrays[name]
        for turn in range(4):
            changed = copy.deepcopy(content)
            if own.ndim == 0:
                array = own + (-2, -1, 1, 2)[turn]
            elif name.endswith("units"):
                array = rng.choice(parts, (0, 1, parts, parts // 2)[turn], replace=False)
            elif turn == 0:
                array = own[:0]
            elif turn == 1:
                array = np.concatenate([own, own])
            elif turn == 2:
                array = (rng.permuted(own) if own.size else own).astype(own.dtype)
            else:
                array = (own + 1).astype(own.dtype)
            changed.arrays[name] = np.asarray(array).astype(own.dtype)
            yield changed


def changed_claims(case, rng):
    """Yield claims beside one that was decided: numbers, threats, counts, ways to count."""
    points, claim = len(case["votes"]), case["claim"]
    step = 1 / points if claim["kind"] in {"certified", "collective", "targeted"} else 1.0
    if claim["kind"] in {"certified", "collective", "median", "targeted"}:
        for label in sorted(set(case["truth"])):
            yield case | {"claim": claim | {"label": label}}
        yield case | {"claim": {key: claim[key] for key in claim if key != "label"}}
    for to in range(case["labels"] if "to" in claim else 0):
        yield case | {"claim": claim | {"to": to}}
    for number in (claim["number"] + step, claim["number"] - step, claim["number"] + 3 * step):
        if number >= 0:
            yield case | {"claim": claim | {"number": number}}
    for count in (0, 1, 2, 3, 10**6):
        yield case | {"claim": claim | {"count": count}}
    for threat in ("edits", "modifications", "relabels"):
        yield case | {"claim": claim | {"threat": threat}}
    for relation in _RELATIONS:
        if claim["kind"] not in {"radius", "right", "forced"}:
            yield case | {"claim": claim | {"relation": relation}}


def put_claim(content, case):
    """Write a claim in the place of the one that was decided."""
    changed = copy.deepcopy(content)
    (statement,) = changed.manifest["values"]["statements"]
    claim, part = case["claim"], statement["claim"]
    while part["type"] == "forall" or part["operator"] == "=>":
        part = part["body"] if part["type"] == "forall" else part["right"]
    part["operator"] = claim["relation"]
    part["right"] = {"type": "number", "value": str(Fraction(repr(claim["number"])))}
    given = part["left"]["given"]
    if "against" in given:
        given["against"] = {"type": "word", "value": claim["threat"]}
    else:
        for threat in ("edits", "insertions", "removals", "modifications", "relabels"):
            given.pop(threat, None)
        given[claim["threat"]] = {"type": "number", "value": str(claim["count"])}
    for name in ("label", "to"):
        given.pop(name, None)
        if name in claim:
            text = {"type": "text", "value": _NAMES[claim[name]]}
            number = {"type": "number", "value": str(claim[name])}
            given[name] = text if claim.get("named") else number
    return changed, statement


@pytest.mark.parametrize(
    "vote", ["dpa", "ss_dpa", "finite_aggregation", "hash_bagging", "run_off", "certified"]
)
def test_what_is_false_is_rejected_whatever_its_proof(tmp_path, vote):
    false_ones, kinds, missed = 0, set(), []
    for rng, case in cases(2, 130 if IS_DEEP else 100, vote=vote):
        if case["claim"]["kind"] == "greatest" or false_ones > 800:
            continue
        content = certified(case, tmp_path)
        if content is None:
            continue
        claims = [
            other
            for other in changed_claims(case, rng)
            if other["claim"]["threat"] in _THREATS.get(vote, {other["claim"]["threat"]})
        ]
        for at in rng.permutation(len(claims))[:6].tolist():
            other = claims[at]
            changed, _ = put_claim(content, other)
            (statement,) = changed.manifest["values"]["statements"]
            statement["verdict"] = "refuted" if holds(other) else "proved"
            parts = len(case["votes"][0])
            for false in doctored(changed, rng, parts):
                false_ones += 1
                kinds.add(other["claim"]["kind"])
                if accepts(false, tmp_path):
                    missed.append((case, other["claim"]))
    assert not missed
    assert false_ones >= enough(40)
    assert len(kinds) >= 3


def test_no_number_of_edits_is_too_large(tmp_path):
    never = np.full((2, 3, 2), -1, np.int32)
    never[:, :, 0] = 0
    votes = np.zeros((2, 3), np.int32)
    ballots = Ballots(votes, np.zeros(2, np.int32), 2, thresholds=never)
    write_ballots(ballots, tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "guarantee g: certified_accuracy(dpa(V, members = certified), edits = 3) >= 1"
    )
    verify(tmp_path / "a.spec", certificate=tmp_path / "a.cert")
    content = Content.of(tmp_path / "a.cert")
    (statement,) = content.manifest["values"]["statements"]
    for edits in (0, 1, 2**31, 2**60, 2**61, 2**63, 10**30):
        statement["claim"]["left"]["given"]["edits"]["value"] = str(edits)
        statement["verdict"] = "proved"
        assert accepts(content, tmp_path)
        statement["verdict"] = "refuted"
        assert not accepts(content, tmp_path)


@pytest.mark.parametrize("old", [False, True])
def test_what_hash_values_survive_cannot_be_made_to_say_more(tmp_path, old):
    # Any two hash values share a member, which is what makes 2 too few and 3 enough.
    rng = np.random.default_rng(0)
    votes = np.zeros((4, 19), np.int32)
    votes[1, 3] = 1
    origin = Origin(offsets=(0, 3, 4, 14, 16))
    write_ballots(Ballots(votes, np.zeros(4, np.int32), 2, origin=origin), tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "guarantee g: certified_accuracy(finite_aggregation(V), edits = 2) >= 0.75"
    )
    verify(tmp_path / "a.spec", certificate=tmp_path / "a.cert")
    content = Content.of(tmp_path / "a.cert")
    own = content.arrays.pop("proof0.survived") if old else content.arrays["proof0.survived"]
    assert (own[:, 1] == 2).all()
    if old:  # files of earlier versions hold logs, which are not read
        logs = [[point, label, 2, 0, 0] for point in own[:, 0].tolist() for label in (1,)]
        named = {"logs": np.array(logs), "rows": np.zeros(0, np.int32)}
        named |= {"weights": np.zeros((0, 19), np.uint16)}
        content.arrays |= {f"proof0.{each}": array for each, array in named.items()}
    assert accepts(content, tmp_path)
    (statement,) = content.manifest["values"]["statements"]
    edits = statement["claim"]["left"]["given"]["edits"]
    needed = copy.deepcopy(content)
    for name in ("logs",) if old else ("survived",):
        damaged = copy.deepcopy(content)
        damaged.arrays[f"proof0.{name}"] = damaged.arrays[f"proof0.{name}"][:-1]
        assert not accepts(damaged, tmp_path)
    needed.manifest["values"]["proofs"] = {}
    assert not accepts(needed, tmp_path)
    # Three hash values change every answer.
    edits["value"] = "3"
    name, column = ("proof0.logs", 2) if old else ("proof0.survived", 1)
    content.arrays[name] = content.arrays[name].copy()
    content.arrays[name][:, column] = 3
    false_ones = 0
    for _ in range(3):
        for false in doctored(content, rng, 19):
            assert not accepts(false, tmp_path)
            false_ones += 1
    # Nor do other offsets help: those of the file are meant.
    edits["value"] = "2"
    let = content.manifest["values"]["lets"]["V"]
    for offsets in ((0,), (0, 1), (0, 3, 4, 14)):
        items = [{"type": "number", "value": str(each)} for each in offsets]
        let["given"]["offsets"] = {"type": "list", "items": items}
        assert not accepts(content, tmp_path)
        false_ones += 1
    assert false_ones > 12


def test_the_greatest_number_of_changes_is_held_against_both_sides(tmp_path):
    rejected = 0
    for _, case in cases(4, 120):
        content = certified(case, tmp_path) if case["claim"]["kind"] == "greatest" else None
        if content is None:
            continue
        assert accepts(content, tmp_path)
        (statement,) = content.manifest["values"]["statements"]
        ends = statement["find"]["lower"], statement["find"]["upper"]
        exact = ends[0] is not None and ends[0] == ends[1]
        for lower, upper in ((1, 1), (2, 2), (-1, -1), (-2, -2), (1, None), (None, -1)):
            false = copy.deepcopy(content)
            (statement,) = false.manifest["values"]["statements"]
            for end, step in (("lower", lower), ("upper", upper)):
                moved = None if step is None or ends[0] is None else int(ends[0]) + step
                statement["find"][end] = None if moved is None else str(moved)
            if exact and (lower is None or int(ends[0]) + lower >= 0):
                assert not accepts(false, tmp_path)
                rejected += 1
    assert rejected >= 10


def test_other_ballots_are_rejected_by_digest_and_by_count(tmp_path):
    rejected = 0
    for _, case in cases(3, rounds(60)):
        content = certified(case, tmp_path)
        if content is None or case["claim"]["kind"] == "greatest":
            continue
        other = copy.deepcopy(case)
        others = [label for label in range(case["labels"]) if label != case["truth"][0]]
        other["truth"] = [others[0], *case["truth"][1:]]
        _write(other, tmp_path / "ballots.npz")
        assert not accepts(content, tmp_path)
        rejected += 1
        # And with the digest mended, wherever the claim is now false.
        again = certified(other, tmp_path)
        if again is None or holds(other) == holds(case):
            continue
        mended = copy.deepcopy(content)
        mended.manifest["values"]["files"] = again.manifest["values"]["files"]
        assert not accepts(mended, tmp_path)
        rejected += 1
    assert rejected >= enough(30)

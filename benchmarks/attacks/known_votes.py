"""Attacks on certificates of members with thresholds: every way to spread changes is tried."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.kind import Case, Outcome
from attacks.known_truth import Known
from attacks.warm import entry_points_kept, memory_folder
from support.votes import random_ballots

__all__ = ["KnownVotes", "ends_of", "text_of", "write_case"]

_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")
_AGAINST = (None, "edits", "insertions", "removals", "relabels")
_CLAIMS = ("certified", "collective", "collective", "median", "radius", "greatest")


class KnownVotes:
    """Random ballots with thresholds of every sort, and a claim near what is true of them."""

    name = "known"

    def __init__(self) -> None:
        entry_points_kept()

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        parts, labels = int(rng.integers(1, 5)), int(rng.integers(2, 4))
        votes, truth = random_ballots(rng, int(rng.integers(1, 7)), parts, labels)
        truth = np.where(rng.random(len(truth)) < 0.15, rng.integers(0, labels), truth)
        exact_to = None if rng.random() < 0.6 else int(rng.integers(0, 4))
        thresholds = rng.integers(
            1, (4 if exact_to is None else exact_to + 1) + 1, (*votes.shape, labels)
        )
        thresholds[rng.random(thresholds.shape) < rng.choice([0, 0.2, 0.7])] = -1
        np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
        against = _AGAINST[rng.integers(5)]
        threat = (against or "edits") if rng.random() < 0.6 else _THREATS[rng.integers(5)]
        case: Case = {
            "votes": votes.tolist(),
            "truth": truth.tolist(),
            "labels": labels,
            "thresholds": thresholds.tolist(),
            "against": against,
            "exact_to": exact_to,
            "hash_reads_label": [None, True, False, False][rng.integers(4)],
            "threat": threat,
            "kind": _CLAIMS[rng.integers(len(_CLAIMS))],
            "count": int(rng.choice([0, 1, 1, 2, 2, 3, 4, 6])),
            "relation": [">=", ">=", "<", "=="][rng.integers(4)],
        }
        return case | {"number": _near(rng, case)}

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        label = f"{case['against'] or 'edits'}, {case['threat']}, {case['kind']}"
        with tempfile.TemporaryDirectory(dir=memory_folder()) as at:
            folder = Path(at)
            write_case(case, folder)
            try:
                (result,) = verify(folder / "a.spec", certificate=folder / "a.cert").results
            except LeaveoutError as error:
                refusal = str(error)
                wrong = None
                if Known(case).is_bounded:
                    wrong = f"refused: {refusal!r}"
                elif "thresholds" not in refusal.splitlines()[0]:
                    wrong = f"message: {refusal!r}"
                return Outcome(label, "refused", wrong)
            if not Known(case).is_bounded:
                return Outcome(label, result.verdict, "accepted: thresholds do not say it")
            wrong = _mistake(case, result)
            if wrong is None and result.verdict != "unknown":
                try:
                    check(folder / "a.cert")
                except LeaveoutError as error:
                    wrong = f"certificate: {error}"
        return Outcome(label, result.verdict, wrong)

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        rows = ("votes", "truth", "thresholds")
        for at in range(len(case["votes"]) if len(case["votes"]) > 1 else 0):
            smaller = copy.deepcopy(case)
            for name in rows:
                del smaller[name][at]
            yield smaller
        for at in range(len(case["votes"][0]) if len(case["votes"][0]) > 1 else 0):
            smaller = copy.deepcopy(case)
            for name in ("votes", "thresholds"):
                for row in smaller[name]:
                    del row[at]
            yield smaller
        for name in ("exact_to", "hash_reads_label", "against"):
            if case[name] is not None:
                yield {**case, name: None}


def ends_of(case: Case) -> tuple[Fraction | float, Fraction | float]:
    """Return between what the number lies that a claim speaks of, by enumeration."""
    below, above = Known(case), Known(case, from_above=True)
    points, count = len(case["votes"]), case["count"]
    ends: list[Fraction | float] = []
    for known in (below, above):
        if case["kind"] == "collective":
            ends.append(Fraction(known.right_under(count), points))
        elif case["kind"] == "median":
            ends.append(known.median())
        elif case["kind"] == "radius":
            ends.append(min(known.radii))
        else:
            ends.append(Fraction(known.accuracy(count), points))
    return ends[0], ends[1]


def text_of(case: Case) -> str:
    """Return the specification of a case."""
    vote, threat = "dpa(V, members = certified)", case["threat"]
    number = repr(case["number"])
    formula = {
        "certified": f"certified_accuracy({vote}, {threat} = {case['count']})",
        "collective": f"collective_accuracy({vote}, {threat} = {case['count']})",
        "median": f"median_radius({vote}, against = {threat})",
        "radius": f"forall p in test_points(V): radius({vote}, p, against = {threat})",
        "greatest": f"certified_accuracy({vote}, {threat} = r)",
    }[case["kind"]]
    asked = "find g: greatest r such that" if case["kind"] == "greatest" else "guarantee g:"
    return f'let V = ballots("ballots.npz") {asked} {formula} {_relation(case)} {number}\n'


def write_case(case: Case, folder: Path) -> None:
    """Write the ballots and the specification of a case."""
    origin = Origin(
        hash_reads_label=case["hash_reads_label"],
        thresholds_against=case["against"],
        thresholds_exact_to=case["exact_to"],
    )
    arrays = (np.array(case[name], np.int32) for name in ("votes", "truth", "thresholds"))
    votes, truth, thresholds = arrays
    ballots = Ballots(votes, truth, case["labels"], thresholds=thresholds, origin=origin)
    write_ballots(ballots, folder / "ballots.npz")
    (folder / "a.spec").write_text(text_of(case))


def _relation(case: Case) -> str:
    return ">=" if case["kind"] in {"radius", "greatest"} else str(case["relation"])


def _near(rng: np.random.Generator, case: Case) -> float:
    points = len(case["votes"])
    if case["kind"] == "greatest":
        return max(0, int(rng.integers(0, points + 1))) / points
    low, high = ends_of(case)
    end = [low, high][rng.integers(2)]
    if case["kind"] in {"certified", "collective"}:
        return min(points, max(0, int(end * points) + int(rng.integers(-1, 2)))) / points
    return float(max(-1, (end if math.isfinite(end) else 3) + int(rng.integers(-1, 2))))


def _mistake(case: Case, result: Any) -> str | None:
    if case["kind"] == "greatest":
        return _mistake_in_find(case, result)
    (low, high), number = ends_of(case), Fraction(repr(case["number"]))
    relation = _relation(case)
    expected = {
        ">=": (low >= number, high < number),
        "<": (high < number, low >= number),
        "==": (low == high == number, number < low or number > high),
    }[relation]
    right = "proved" if expected[0] else "refuted" if expected[1] else "unknown"
    if result.verdict != right:
        return f"verdict: {result.verdict}, where it is from {low} to {high}"
    if case["kind"] == "radius":
        return None
    for end, true in ((result.lower, low), (result.upper, high)):
        if end is not None and math.isfinite(true) and abs(float(true) - end) > 1e-6:
            return f"bounds: {result.lower} to {result.upper}, where it is {low} to {high}"
    return None


def _mistake_in_find(case: Case, result: Any) -> str | None:
    """Compare the greatest number of changes with trying one after the other."""
    least, most = Fraction(repr(case["number"])), 40
    ends = []
    for known in (Known(case), Known(case, from_above=True)):
        holds = [Fraction(known.accuracy(r), len(case["votes"])) >= least for r in range(most)]
        ends.append(math.inf if all(holds) else holds.index(False) - 1)
    low, high = ends
    for end, true in ((result.lower, low), (result.upper, high)):
        if end is not None and math.isfinite(true) and end != true and true >= 0:
            return f"find: {result.lower} to {result.upper}, where it is {low} to {high}"
    if result.lower is not None and result.lower > low:
        return f"find: at least {result.lower}, where it is {low}"
    if result.verdict == "proved" and low != high:
        return f"find: proved, where it is {low} to {high}"
    return None

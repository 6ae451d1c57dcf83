"""Attacks on certificates against poisoning: small ballots, every attack on them enumerated."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.specs.text.expressions import quote_text
from leaveout.verifier.run import verify

from attacks.kind import Case, Outcome
from attacks.vote_truth import Truth
from attacks.warm import entry_points_kept, memory_folder
from support.votes import random_ballots

__all__ = ["Votes", "families"]

_SHAPES = {3: [(2, 7), (3, 5), (4, 3)], 6: [(2, 9), (3, 7), (4, 5), (5, 4)]}
"""Labels and most parts: with rankings to enumerate, and with votes alone."""

_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")
_NAMES = ("no", "yes", "1 or 2", 'a "b"', "c\\d", "é")
_RELATIONS = {
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    "==": lambda a, b: a == b,
}
_CLAIMS = (
    "certified",
    "collective",
    "median",
    "radius",
    "right",
    "greatest",
    "targeted",
    "forced",
)
_OF_LABEL = ("certified", "collective", "median", "greatest", "targeted")
"""Claims that may be about the test points of one true label."""

_SHARES = ("certified", "collective", "greatest", "targeted")


class Votes:
    """Random ballots with ties, counted in every way, and a claim near what is true of them."""

    name = "votes"

    def __init__(self) -> None:
        entry_points_kept()

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        votes = ["dpa", "ss_dpa", "finite_aggregation", "run_off", "certified", "hash_bagging"]
        vote = votes[int(rng.choice(6, p=[0.25, 0.1, 0.2, 0.2, 0.1, 0.15]))]
        shapes = _SHAPES[3 if vote == "run_off" else 6]
        labels, most = shapes[rng.integers(len(shapes))]
        parts = int(rng.integers(2, most + 1))
        ballots, truth = random_ballots(rng, int(rng.integers(1, 9)), parts, labels)
        truth = np.where(rng.random(len(truth)) < 0.2, rng.integers(0, labels), truth)
        offsets = sorted(rng.choice(parts, int(rng.integers(1, min(3, parts) + 1)), replace=False))
        methods = [None, None, "dpa", "ss_dpa", "finite_aggregation", "hash_bagging"]
        case: Case = {
            "vote": vote,
            "votes": ballots.tolist(),
            "truth": truth.tolist(),
            "labels": labels,
            "offsets": [int(each) for each in offsets] if _is_spread(vote, parts) else [],
            "families": families(rng, parts) if vote == "hash_bagging" else [],
            "hash_reads_label": [None, True, False, False][rng.integers(4)],
            "method": methods[rng.integers(6)] if rng.random() < 0.2 else None,
            "certificate": ["exact", "exact", "published"][rng.integers(3)],
            "damage": _damage(rng) if rng.random() < 0.12 else None,
        }
        if vote == "run_off":
            case["scores"] = _scores(rng, ballots, labels).tolist()
            case["votes"] = np.array(case["scores"]).argmax(axis=2).tolist()
        if vote == "certified":
            case["thresholds"] = _thresholds(rng, ballots, labels).tolist()
        return case | {"claim": _claim(rng, case)}

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        claim = case["claim"]
        label = f"{case['vote']}, {claim['kind']}" + (", damaged" if case["damage"] else "")
        with tempfile.TemporaryDirectory(dir=memory_folder()) as at:
            ballots, spec = Path(at) / "ballots.npz", Path(at) / "a.spec"
            try:
                _write(case, ballots)
                spec.write_text(_text(case))
                (result,) = verify(spec).results
            except LeaveoutError as error:
                refusal = str(error)
                # A specification's error shows its line below.
                broken = "\n" in refusal and "a.spec:" not in refusal.splitlines()[0]
                return Outcome(label, "refused", f"message: {refusal!r}" if broken else None)
        if case["damage"]:
            return Outcome(label, result.verdict, None if _is_whole(case) else "damaged: accepted")
        return Outcome(label, result.verdict, _mistake(case, result))

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        rows = [name for name in ("votes", "truth", "scores", "thresholds") if name in case]
        for at in range(len(case["votes"]) if len(case["votes"]) > 1 else 0):
            smaller = copy.deepcopy(case)
            for name in rows:
                del smaller[name][at]
            yield smaller
        if case["hash_reads_label"] is not None:
            yield {**case, "hash_reads_label": None}
        if case["method"] is not None:
            yield {**case, "method": None}
        for at in range(len(case["offsets"]) if len(case["offsets"]) > 1 else 0):
            yield {**case, "offsets": case["offsets"][:at] + case["offsets"][at + 1 :]}
        parts = len(case["votes"][0])
        fixed = case["families"] or max(case["offsets"], default=0) == parts - 1
        for at in range(parts if parts > 2 and not fixed else 0):
            smaller = copy.deepcopy(case)
            for name in rows:
                for row in smaller[name] if name != "truth" else ():
                    del row[at]
            yield smaller


def _is_spread(vote: str, parts: int) -> bool:
    """Whether offsets are drawn: for run-offs of an odd number of members only."""
    return vote == "finite_aggregation" or (vote == "run_off" and parts % 2 == 1)


def families(rng: np.random.Generator, parts: int) -> list[int]:
    """Draw how members are divided among families."""
    ends = np.sort(rng.choice(np.arange(1, parts), int(rng.integers(0, parts)), replace=False))
    return [int(size) for size in np.diff(np.concatenate([[0], ends, [parts]]))]


def _scores(rng: np.random.Generator, votes: Any, labels: int) -> Any:
    scores = rng.integers(0, int(rng.integers(2, 5)), (*votes.shape, labels)).astype(float)
    if rng.random() < 0.7:
        np.put_along_axis(scores, votes[:, :, None], 4.0, axis=2)
    return scores


def _thresholds(rng: np.random.Generator, votes: Any, labels: int) -> Any:
    thresholds = rng.integers(1, 5, (*votes.shape, labels))
    thresholds[rng.random(thresholds.shape) < rng.choice([0, 0.2, 0.8])] = -1
    np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
    return thresholds


def _damage(rng: np.random.Generator) -> dict[str, Any]:
    """Draw what is wrong with the file."""
    names = ["votes", "truth", "labels", "scores", "thresholds", "offsets", "bytes"]
    numbers = [-1, 7, 2**31, 2**40, -(2**63), 0, 1]
    return {
        "what": names[rng.integers(len(names))],
        "at": float(rng.random()),
        "number": numbers[rng.integers(len(numbers))],
    }


def _claim(rng: np.random.Generator, case: Case, kinds: Sequence[str] = _CLAIMS) -> dict[str, Any]:
    """Draw a claim whose number is what is true, or near it."""
    kind = kinds[rng.integers(len(kinds))]
    threat = "relabels" if case["vote"] == "ss_dpa" and rng.random() < 0.9 else ""
    # What thresholds say of other changes is another kind's.
    threat = threat or ("edits" if case["vote"] == "certified" else "")
    threat = threat or _THREATS[int(rng.choice(5, p=[0.4, 0.1, 0.1, 0.2, 0.2]))]
    count = int(rng.choice([0, 1, 1, 2, 2, 3, 4, 10**6]))
    of: dict[str, Any] = {}
    if kind in _OF_LABEL and rng.random() < 0.4:
        of["label"] = int(case["truth"][rng.integers(len(case["truth"]))])
    if kind in {"targeted", "forced"}:
        of["to"] = int(rng.integers(case["labels"]))
    of["named"] = bool(rng.random() < 0.5)
    points = sum(each == of.get("label", each) for each in case["truth"])
    near = truth_of(case, kind, threat, count, of)
    if kind in _SHARES:
        near = int(near * points) if kind != "greatest" else int(rng.integers(0, points + 1))
        number = min(points, max(0, near + int(rng.integers(-1, 2)))) / points
    else:
        number = float(max(-1, (near if math.isfinite(near) else 3) + int(rng.integers(-1, 2))))
    relation = (
        ">="
        if kind == "greatest"
        else list(_RELATIONS)[int(rng.choice(5, p=[0.5, 0.2, 0.1, 0.1, 0.1]))]
    )
    if kind in {"radius", "right", "forced"}:
        relation = ">="
    claim = {"kind": kind, "threat": threat, "count": count, "relation": relation}
    return claim | {"number": number} | of


def cost_of(case: Case, threat: str) -> int:
    """How many edits a change of a kind counts as; what is not known is refused, and never here."""
    if case["vote"] == "ss_dpa":
        return 1
    if threat == "modifications":
        return 2
    return 2 if threat == "relabels" and case["hash_reads_label"] else 1


def truth_of(
    case: Case, kind: str, threat: str, count: int, of: Mapping[str, Any] = MappingProxyType({})
) -> Fraction | float:
    """Return the number that a claim speaks of; of a find, of the number asked for.

    Parameters
    ----------
    case : dict
    kind : str
        Of claim.
    threat : str
    count : int
        How many changes.
    of : mapping of str to int
        The true "label" of the points that count, and the label "to" be forced, where given.
    """
    truth, cost, label = Truth(case), cost_of(case, threat), of.get("label")
    points = int(truth.among(label).sum())
    if kind == "collective":
        return Fraction(truth.collective(cost * count, label), points)
    if kind in {"certified", "greatest"}:
        return Fraction(truth.accuracy(cost * count, label), points)
    if kind == "median":
        return _changes(truth.median(label), cost)
    if kind in {"targeted", "forced"}:
        forced = truth.forced(of["to"])
        if kind == "forced":
            return _changes(min(forced), cost)
        own = [r for r, a in zip(forced, truth.among(label), strict=True) if a and r >= 0]
        # Where all are answered so, the share is refused.
        return Fraction(sum(r >= cost * count for r in own), len(own)) if own else Fraction(1)
    among = [r for r, ok in zip(truth.radii, truth.right, strict=True) if ok or kind == "radius"]
    return _changes(min(among, default=math.inf), cost)


def _changes(edits: float, cost: int) -> float:
    return edits if edits < 0 or math.isinf(edits) else edits // cost


def _text(case: Case) -> str:
    claim = case["claim"]
    exact = f", certificate = {case['certificate']}"
    vote = {
        "certified": "dpa(V, members = certified)",
        "finite_aggregation": f"finite_aggregation(V{exact})",
        "run_off": f"run_off(V{exact})",
    }.get(case["vote"], f"{case['vote']}(V)")
    changes, against = f"{claim['threat']} = {claim['count']}", f", against = {claim['threat']}"
    label = f", label = {_label(claim, 'label')}" if "label" in claim else ""
    to = f"to = {_label(claim, 'to')}" if "to" in claim else ""
    number = repr(claim["number"])
    formula = {
        "certified": f"certified_accuracy({vote}, {changes}{label})",
        "collective": f"collective_accuracy({vote}, {changes}{label})",
        "median": f"median_radius({vote}{against}{label})",
        "targeted": f"targeted_robustness({vote}, {to}, {changes}{label})",
        "forced": f"forall p in test_points(V): radius({vote}, p{against}, {to})",
        "radius": f"forall p in test_points(V): radius({vote}, p{against})",
        "right": f"forall p in test_points(V): answered_right({vote}, p) => "
        f"radius({vote}, p{against})",
        "greatest": f"certified_accuracy({vote}, {claim['threat']} = r{label})",
    }[claim["kind"]]
    asked = "find g: greatest r such that" if claim["kind"] == "greatest" else "guarantee g:"
    return f'let V = ballots("ballots.npz") {asked} {formula} {claim["relation"]} {number}\n'


def _label(claim: dict[str, Any], name: str) -> str:
    """Return a label as a specification has it: by number, or by the name that `_write` gives."""
    return quote_text(_NAMES[claim[name]]) if claim.get("named") else str(claim[name])


def _mistake(case: Case, result: Any) -> str | None:
    claim = case["claim"]
    kind, threat = claim["kind"], claim["threat"]
    if kind == "greatest":
        return _mistake_in_find(case, result)
    true = truth_of(case, kind, threat, claim["count"], claim)
    holds = _RELATIONS[claim["relation"]](true, Fraction(repr(claim["number"])))
    if result.verdict == ("refuted" if holds else "proved"):
        return f"verdict: {result.verdict}, where it is {true}"
    published = case["certificate"] == "published" and case["vote"] in {
        "finite_aggregation",
        "run_off",
    }
    if result.verdict == "unknown" and not published:
        return f"undecided: it is {true}: {result.reason}"
    for end, above in ((result.lower, False), (result.upper, True)):
        if kind in {"radius", "right", "forced"} or end is None or math.isinf(true):
            continue
        if (float(true) > end) if above else (float(true) < end):
            return f"bounds: {result.lower} to {result.upper}, where it is {true}"
    return None


def _mistake_in_find(case: Case, result: Any) -> str | None:
    """Compare the greatest number of changes with trying one after the other."""
    claim, truth = case["claim"], Truth(case)
    cost, least = cost_of(case, claim["threat"]), Fraction(repr(claim["number"]))
    most, label = truth.parts * 5 + 1, claim.get("label")
    points = int(truth.among(label).sum())
    holds = [Fraction(truth.accuracy(cost * r, label), points) >= least for r in range(most)]
    greatest = math.inf if all(holds) else holds.index(False) - 1
    if result.lower is not None and result.lower > greatest:
        return f"find: at least {result.lower}, where it is {greatest}"
    if result.upper is not None and result.upper < greatest:
        return f"find: at most {result.upper}, where it is {greatest}"
    if result.verdict == "proved" and result.lower != greatest:
        return f"find: proved {result.lower}, where it is {greatest}"
    return None


def _write(case: Case, path: Path) -> None:
    given = {
        name: np.array(case[name], kind)
        for name, kind in (("scores", np.float64), ("thresholds", np.int32))
        if name in case
    }
    origin = Origin(
        method=case["method"],
        hash_reads_label=case["hash_reads_label"],
        offsets=tuple(case["offsets"]),
        label_names=_NAMES[: case["labels"]] if case["claim"].get("named") else (),
        families=tuple(case["families"]),
    )
    votes, truth = np.array(case["votes"], np.int32), np.array(case["truth"], np.int32)
    write_ballots(Ballots(votes, truth, case["labels"], origin=origin, **given), path)  # type: ignore[arg-type]
    if case["damage"]:
        _spoil(case["damage"], path)


def _spoil(damage: dict[str, Any], path: Path) -> None:
    """Change one number of the file, or one byte."""
    if damage["what"] == "bytes":
        content = bytearray(path.read_bytes())
        content[int(damage["at"] * len(content))] ^= 1 + abs(damage["number"]) % 255
        path.write_bytes(content)
        return
    with np.load(path) as read:
        arrays = dict(read)
    name = {"votes": "ballots"}.get(damage["what"], damage["what"])
    if name not in arrays:
        arrays[name] = np.array([damage["number"]])
    array = arrays[name].astype(np.float64 if name == "scores" else np.int64)
    flat = array.reshape(-1)
    flat[int(damage["at"] * flat.size)] = damage["number"] if name != "scores" else math.nan
    arrays[name] = array
    np.savez(path, **arrays)


def _is_whole(case: Case) -> bool:
    """Whether a damaged file may still be ballots: the number put in is one that can be there."""
    damage = case["damage"]
    if damage["what"] == "bytes":
        return True  # some bytes of an archive say nothing
    parts = len(case["votes"][0])
    if damage["what"] == "thresholds" and "thresholds" in case:
        return damage["number"] in {-1, 0, 1, 7}
    if damage["what"] == "labels":
        return max(*map(max, case["votes"]), *case["truth"]) < damage["number"] < 2**15 + 1
    if damage["what"] in {"votes", "truth"}:
        return 0 <= damage["number"] < case["labels"]
    return damage["what"] == "offsets" and 0 <= damage["number"] < parts

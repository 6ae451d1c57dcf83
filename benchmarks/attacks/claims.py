"""Claims over points: robustness, equivalence, monotonicity, fairness, finds, and random ones."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import leaveout
from leaveout.verifier.report import Result

from attacks.formulas import (
    Node,
    Scene,
    Words,
    draw_claim,
    draw_number,
    is_leak_shape,
    margin,
    number,
    text,
    truth,
)  # fmt: skip
from attacks.inputs import Inputs, random_box
from attacks.kind import Answer, Case, Outcome
from attacks.leaks import warm_up
from attacks.listed import planted_question
from attacks.nets import model_of, random_net
from attacks.questions import network_and_members, runtimes, smaller, spec_box, write_files
from attacks.truth import Runtime, look
from attacks.warm import entry_points_kept, memory_folder

__all__ = ["Claims", "ask", "spec_of"]

Floats = NDArray[np.float64]

_SECONDS, _REPEATABLE = 0.15, 3.0


class Claims:
    """Random claims of the language, checked through `leaveout.verify` on files."""

    name = "claims"

    def __init__(self) -> None:
        warm_up()
        entry_points_kept()

    def make(self, rng: np.random.Generator) -> Case:
        """Draw networks, sets of inputs and a claim."""
        if rng.random() < 0.2:
            case = planted_question(rng)
        else:
            case = {**network_and_members(rng), "planted": [], "seed": int(rng.integers(2**31))}
            width = math.prod(case["net"]["shape"])
            case["box"] = random_box(rng, width, listed=0.2)
        net = case["net"]
        width = math.prod(net["shape"])
        other = random_net(rng, (width,), net["labels"], odd=0.2)
        if case["planted"]:
            # N itself has the bump; what it does not have is the other network.
            other = {**net}
            case["net"] = {**net, "floats": case["members"][0]}
        two = bool(rng.random() < 0.35)
        members = bool(rng.random() < 0.4)
        case = {**case, "other": other, "two": two, "family": members, "seconds": _SECONDS}
        return ask(rng, case)

    @staticmethod
    def write(case: Case, folder: Path) -> None:
        """Write the files that a claim is about."""
        write_files(case, folder)
        onnx.save(model_of(case["other"]), folder / "other.onnx")

    def check(self, case: Case) -> Outcome:
        """Ask, and look for points that show otherwise."""
        with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
            folder = Path(name)
            self.write(case, folder)
            (folder / "claim.spec").write_text(spec_of(case))
            (result,) = leaveout.verify(
                folder / "claim.spec", time=case["seconds"], workers=1
            ).results
        answer: Answer = result.verdict
        return Outcome(case["shape"], answer, _Judge(case).wrong(result))

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield smaller claims and smaller questions."""
        if case["seconds"] < _REPEATABLE:
            yield {**case, "seconds": _REPEATABLE}
        for key in ("premise", "claim"):
            for part in _parts(case[key]):
                yield {**case, key: part}
        if case["premise"] is not None:
            yield {**case, "premise": None}
        yield from smaller(case)


def _parts(node: Node | None) -> Iterator[Node]:
    """Yield what a claim is made of, and it with one part in the place of another."""
    if node is None or node[0] not in {"and", "or", "=>", "not"}:
        return
    yield from node[1:]
    for i, part in enumerate(node[1:], 1):
        for smaller_part in _parts(part):
            yield [*node[:i], smaller_part, *node[i + 1 :]]


def ask(rng: np.random.Generator, case: Case) -> Case:
    """Return a case with another claim about the same networks and inputs."""
    labels = case["net"]["labels"]
    networks = {"N": labels, "Q": labels, **({"M": labels} if case["family"] else {})}
    words = Words(networks, ("x", "y") if case["two"] else ("x",), math.prod(case["net"]["shape"]))
    return {**case, **_asked(rng, words, case)}


def _asked(rng: np.random.Generator, words: Words, case: Case) -> Case:
    """Draw what is asked: ``shape``, ``premise``, ``value`` and ``claim``."""
    shapes = ["random", "robust", "same", "fair", "rises", "least", "least above", "greatest"]
    shape = str(rng.choice(shapes, p=[0.3, 0.1, 0.1, 0.1, 0.1, 0.15, 0.08, 0.07]))
    if shape in {"fair", "rises"} and not case["two"]:
        shape = "robust"
    label, feature = int(rng.integers(words.networks["N"])), int(rng.integers(words.width))
    sure = [
        "compare",
        ">",
        ["confidence", "N", "x", None],
        ["constant", float(rng.choice([0, 0.1, 0.5]))],
    ]
    premise: Node | None = None
    value: Node | None = None
    match shape:
        case "robust":
            claim = ["label", "==", ["N", "x"], label]
        case "same":
            claim = ["label", "==", ["Q", "x"], ["N", "x"]]
            premise = sure
        case "fair":
            premise = ["and", ["same", [feature]], sure]
            claim = ["label", "==", ["N", "y"], ["N", "x"]]
        case "rises":
            below = ["compare", "<=", ["feature", "x", feature], ["feature", "y", feature]]
            premise = ["and", ["same", [feature]], below]
            score = [["score", "N", p, label] for p in ("x", "y")]
            room = ["constant", float(rng.choice([0.001, 0.1, 1.0]))]
            claim = ["compare", "<=", ["-", *score], room]
        case "least":
            value = draw_number(rng, words)
            premise = draw_claim(rng, words, 1) if rng.random() < 0.4 else None
            claim = ["never"]
        case "least above":
            value = ["confidence", "N", "x", None]
            claim = ["not", ["not", draw_claim(rng, words, 1)]]
        case "greatest":
            centre = [float(np.float32((a + b) / 2)) for a, b in zip(
                case["box"]["lower"], case["box"]["upper"], strict=True)]  # fmt: skip
            value = ["distance", "x", centre]
            claim = draw_claim(rng, words, 1)
        case _:
            claim = draw_claim(rng, words)
    return {"shape": shape, "premise": premise, "value": value, "claim": claim}


def spec_of(case: Case) -> str:
    """Return the text of the specification."""
    lines = ['let N = network("full.onnx")', 'let Q = network("other.onnx")']
    lines.append(f"let X = {spec_box(case['box'])}")
    binders = ["x in X", "y in X"] if case["two"] else ["x in X"]
    if case["family"]:
        lines.append('let F = family("family.npz")')
        binders.append("M in F")
    # Every point is read by a network, and every member is spoken of.
    claim, premise, value, shape = case["claim"], case["premise"], case["value"], case["shape"]
    if shape == "least":
        body = ["compare", "<=", value, ["name", "d"]]
    elif shape == "least above":
        body = ["=>", ["compare", ">", value, ["name", "d"]], claim]
    elif shape == "greatest":
        body = ["=>", ["compare", "<=", value, ["name", "d"]], claim]
    else:
        body = claim
    if premise is not None:
        body = ["=>", premise, body]
    if is_leak_shape(body):
        body = ["not", ["not", body]]
    words = text(body)
    if missing := _unspoken(case, words):
        words = f"({missing}) => ({words})"
    words = f"forall {', '.join(binders)}: {words}"
    start = "guarantee g:"
    if value is not None:
        start = f"find g: {'greatest' if shape == 'greatest' else 'least'} d such that"
    return "\n".join([*lines, f"{start} {words}", ""])


def _unspoken(case: Case, words: str) -> str:
    """Return a premise that is always true, about the points and members the words leave out."""
    wanted = [("N", p) for p in (("x", "y") if case["two"] else ("x",)) if f", {p}" not in words]
    if case["family"] and "(M," not in words:
        wanted.append(("M", "x"))
    return " and ".join(f"score({net}, {point}, 0) > -1e30" for net, point in wanted)


@dataclass(frozen=True, eq=False)
class _Pair(Inputs):
    """Pairs of points of one set; some are equal but for a few features."""

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return self.moved(super().sample(rng, count), rng)

    def moved(self, points: Floats, rng: np.random.Generator) -> Floats:
        width = len(self.lower) // 2
        points = points.copy()
        same = rng.random((len(points), width)) < rng.choice([0.0, 0.7, 0.9], (len(points), 1))
        points[:, width:][same] = points[:, :width][same]
        near = rng.random(len(points)) < 0.2
        gap = (points[near, :width] - points[near, width:]) * 10.0 ** -rng.uniform(0, 5)
        points[near, width:] = points[near, :width] - gap
        return super().moved(points, rng)


class _Judge:
    """Looks for counter-examples of a case's claim."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.width = len(case["box"]["lower"])
        self.inputs = Inputs.of(case["box"])
        if case["two"]:
            one = self.inputs
            tables = [(c + s, rows) for c, rows in one.tables for s in (0, self.width)]
            both = (np.tile(one.lower, 2), np.tile(one.upper, 2))
            self.inputs = _Pair(*both, tuple(tables))
        self.network, self.members = runtimes(case)
        self.other = Runtime(model_of(case["other"]))
        self.claim = ["not", case["premise"]] if case["premise"] is not None else None
        if case["shape"] != "least":
            claim = case["claim"]
            self.claim = claim if self.claim is None else ["or", self.claim, claim]

    def scene(self, points: Floats, member: int | None, how: int) -> Scene:
        """Evaluate everything at points (of pairs), for a member and a way of evaluation."""
        parts = {"x": points[:, : self.width]}
        if self.case["two"]:
            parts["y"] = points[:, self.width :]
        nets: dict[str, Runtime] = {"N": self.network, "Q": self.other}
        if member is not None:
            nets["M"] = self.members[member]
        scores = {
            (name, point): net.scores(at)[how]
            for name, net in nets.items()
            for point, at in parts.items()
        }
        return Scene(parts, scores)

    def wrong(self, result: Result) -> str | None:
        """Return what is wrong with a result, if anything."""
        for bound in (result.lower, result.upper):
            if bound is not None and not math.isfinite(bound):
                return f"a bound is no number: {bound}"
        if result.lower is not None and result.upper is not None and result.lower > result.upper:
            return f"bounds cross: {result.lower!r} > {result.upper!r}"
        return self._example(result) or self._contradicted(result)

    def _example(self, result: Result) -> str | None:
        example = result.example
        if example is None:
            return "refuted without an example" if result.verdict == "refuted" else None
        row = [*example.points["x"], *(example.points["y"] if self.case["two"] else ())]
        point = np.asarray([row], float)
        if not Inputs.contains(self.inputs, point)[0]:
            return f"the example is not in the set: {row}"
        member = example.members.get("M") if self.case["family"] else None
        scene = self.scene(point, member, 0).exact(0)
        if self.claim is not None and truth(self.claim, scene)[0]:
            return f"the example is none: at {row} with member {member} the claim is true"
        if self.case["value"] is None:
            return None
        value = float(number(self.case["value"], scene)[0])
        greatest = self.case["shape"] == "greatest"
        said = result.upper if greatest else result.lower
        if said is None:
            return None
        short = value - said if greatest else said - value
        if short > 1e-9 * abs(said) + 1e-12:
            return f"the example does not show the bound: {value!r} at {row}, said {said!r}"
        return None

    def _contradicted(self, result: Result) -> str | None:
        case = self.case
        proved = result.verdict == "proved"
        greatest = case["shape"] == "greatest"
        bound: float | None = None
        if case["value"] is None:
            if not proved:
                return None
        else:
            bound = result.lower if greatest else result.upper
            if bound is None:
                if not proved:
                    return None
                # There is said to be no counter-example at all.
                bound = math.inf if greatest else -math.inf
        rng = np.random.default_rng(case["seed"])
        planted = case["planted"]
        if case["two"]:
            planted = [[*a, *b] for a, b in itertools.product(planted, repeat=2)]
        members: list[int | None] = list(range(len(self.members))) if case["family"] else [None]
        for member, how in itertools.product(members, (0, 1)):

            def values(points: Floats, member: int | None = member, how: int = how) -> Floats:
                return self._badness(self.scene(points, member, how), bound, greatest)

            points, found = look(self.inputs, planted, rng, values)
            if not len(points):
                continue
            for at in np.argsort(-found[0])[:3]:
                if found[0][at] < -1e-6:
                    break
                scene = self.scene(points[at : at + 1], member, how).exact(0)
                if self._shows(scene, bound, greatest):
                    where = f"{points[at].tolist()} with member {member}, evaluation {how}"
                    return f"a counter-example to what is proved: {where}, bound {bound}"
        return None

    def _badness(self, scene: Scene, bound: float | None, greatest: bool) -> Floats:
        """By how much points are counter-examples to what was said."""
        bad = np.full(len(scene.points["x"]), math.inf)
        if self.claim is not None:
            bad = -np.asarray(margin(self.claim, scene), float)
        if bound is not None:
            value = np.asarray(number(self.case["value"], scene), float)
            over = bound - value if greatest else value - bound
            bad = np.minimum(bad, np.nan_to_num(over, posinf=1e300, neginf=-1e300))
        return np.asarray(bad)

    def _shows(self, scene: Scene, bound: float | None, greatest: bool) -> bool:
        if self.claim is not None and truth(self.claim, scene)[0]:
            return False
        if bound is None:
            return True
        value: Any = number(self.case["value"], scene)[0]
        return bool(value < bound if greatest else value > bound)

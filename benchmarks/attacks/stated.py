"""What a certificate states of points, held against samples: read off the file alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.models import load_family, load_network
from leaveout.models.replay import with_parameters

from attacks.inputs import Inputs
from attacks.truth import Runtime, look

__all__ = ["worst_stated"]

Floats = NDArray[np.float64]


class _Points(Inputs):
    """Several points side by side; some are near those before them."""

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        return self.moved(super().sample(rng, count), rng)

    def moved(self, points: Floats, rng: np.random.Generator) -> Floats:
        points, width = points.copy(), len(self.lower) // 2
        if len(self.lower) % 2 == 0:
            same = rng.random((len(points), width)) < rng.choice([0.0, 0.7, 1.0], (len(points), 1))
            gap = points[:, width:] - points[:, :width]
            gap *= np.where(same, 0.0, 10.0 ** -rng.uniform(0, 4, (len(points), 1)))
            near = rng.random(len(points)) < 0.5
            points[near, width:] = (points[:, :width] + gap)[near]
        return super().moved(points, rng)


def worst_stated(claim: dict[str, Any], folder: Path, rng: np.random.Generator) -> float:
    """Return the largest least goal of the counter-examples that are found; -inf for none.

    Points are float32 and scores are onnxruntime's, whatever the file claims of the reals.

    Parameters
    ----------
    claim : dict
        As the manifest has it.
    folder : Path
        That the names of files are relative to.
    rng : numpy.random.Generator
    """
    boxes = claim["points"]
    starts = np.cumsum([0, *(len(box["lower"]) for box in boxes)])
    tables = tuple(
        (np.asarray(each["columns"], np.int64) + start, np.asarray(each["values"], float))
        for box, start in zip(boxes, starts[:-1], strict=True)
        for each in box["choices"]
    )
    lower, upper = (np.concatenate([box[end] for box in boxes]) for end in ("lower", "upper"))
    inputs = _Points(lower.astype(float), upper.astype(float), tables)
    worst = -math.inf
    for applied in _applied(claim, folder):
        for how in (0, 1):

            def scene(points: Floats, how: int = how, applied: Any = applied) -> _Scene:
                own = [points[:, a:b] for a, b in itertools.pairwise(starts)]
                scores = [net.scores(own[point])[how] for net, point in applied]
                return _Scene(claim, own, scores)

            # Somewhere a goal may be large, and elsewhere all conditions hold.
            points, found = look(inputs, [], rng, lambda points: scene(points).badness())
            if len(points):
                best = points[np.unique(np.argsort(-found, axis=1)[:, :50])]
                worst = max(worst, scene(best).worst())
    return worst


class _Scene:
    """Forms of a claim at some points."""

    def __init__(self, claim: dict[str, Any], points: list[Floats], scores: list[Floats]) -> None:
        self.claim, self.points, self.scores = claim, points, scores

    def value(self, form: dict[str, Any]) -> Floats:
        total = np.full(len(self.points[0]), float(form["constant"]))
        for p, i, c in form["features"]:
            total = total + c * self.points[p][:, i]
        for a, j, c in form["scores"]:
            total = total + c * self.scores[a][:, j]
        return total

    def badness(self) -> Floats:
        """By how much each point is a counter-example to each case, shape (cases, p)."""
        rows = []
        for case in self.claim["cases"]:
            forms = [self.value(form) for form in case["conditions"]]
            over = 0.0 if self.claim["decides"] else self.claim["upper"]
            forms += [self.value(form) - over for form in case["goals"]]
            rows.append(np.min(forms, axis=0))
        return np.nan_to_num(np.asarray(rows), nan=-1e300, posinf=1e300, neginf=-1e300)

    def worst(self) -> float:
        """Return the largest least goal where all conditions of a case hold."""
        worst = -math.inf
        for case in self.claim["cases"]:
            met = np.ones(len(self.points[0]), bool)
            for form in [*case["conditions"], *(case["goals"] if self.claim["decides"] else [])]:
                value = self.value(form)
                met &= value > 0 if form["strict"] else value >= 0
            least = np.min([self.value(form) for form in case["goals"]], axis=0)
            worst = max(worst, float(least[met].max(initial=-math.inf)))
        return worst


def _applied(claim: dict[str, Any], folder: Path) -> Iterator[list[tuple[Runtime, int]]]:
    """Yield what is applied, and to which point, for every member that is asked about."""
    applications = claim["applications"]
    sizes = [e["family"]["members"] for e in applications if e["family"] and e["member"] is None]
    models = {e["network"]["path"]: onnx.load(folder / e["network"]["path"]) for e in applications}
    for member in range(max(sizes, default=1)):
        found = []
        for each in applications:
            path = folder / each["network"]["path"]
            model = models[each["network"]["path"]]
            if each["family"]:
                family = load_family(folder / each["family"]["file"]["path"], load_network(path))
                chosen = member if each["member"] is None else each["member"]
                taken = {name: value[0] for name, value in family.take([chosen]).items()}
                model = with_parameters(model, taken)
            found.append((Runtime(model), int(each["point"])))
        yield found

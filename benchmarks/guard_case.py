"""One family over one box: what every kind of access noises, answers, and takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Family
from leaveout.models.train.data import TrainingData
from leaveout.verifier.guard import Guard

from guard_access import Mask
from guard_folders import Deployment
from guard_paper import EPSILONS
from guard_reference import Reference, expected_accuracy
from guard_runs import Asking, Run, by_method, by_tier, time_naive
from guard_times import Timing

__all__ = ["Case", "measure"]


@dataclass(frozen=True, eq=False)
class Case:
    """What was measured.

    Attributes
    ----------
    outside : ndarray of bool, shape (p,)
        Test points outside the box.
    noised : mapping of str to ndarray of bool
        By method, which test points get noise.
    expected, inside : mapping of str to tuple of float
        By method, the exact expected accuracy at each epsilon; and of the points in the box alone.
    served : tuple of float
        Accuracy of what the guard did answer at each epsilon.
    differ, outside_naive : int
        Test points inside the box noised by one of the guard and naive iDP alone; test points
        outside it that naive iDP noises.
    wrong : int
        Answers of the guard that are not what they must be: not noised and not N's, or another
        one the second time.
    unlike : int
        Sampled points that naive iDP noises in turn but not stacked, or the other way round.
    times : mapping of str to Timing
        By method.
    tiers : tuple of (str, int, Timing or None)
        What happens, to how many test points, and how long it takes.
    spent : tuple of (int, float)
        Distinct noised inputs, and what they cost in all, at each epsilon.
    """

    outside: Mask
    noised: dict[str, Mask]
    expected: dict[str, tuple[float, ...]]
    inside: dict[str, tuple[float, ...]]
    served: tuple[float, ...]
    differ: int
    outside_naive: int
    wrong: int
    unlike: int
    times: dict[str, Timing]
    tiers: tuple[tuple[str, int, Timing | None], ...]
    spent: tuple[tuple[int, float], ...]

    @property
    def points(self) -> int:
        """How many test points there are."""
        return len(self.outside)


def measure(
    deployed: Deployment,
    data: TrainingData,
    family: Family,
    known: Reference,
    seed: int,
    tell: Callable[[str], None],
) -> Case:
    """Measure one family over one box, at every epsilon.

    Parameters
    ----------
    deployed : Deployment
    data : TrainingData
        With test rows.
    family : Family
    known : Reference
        Of this family and the test rows.
    seed : int
        Of all noise.
    tell : callable
        Told what is being done.
    """
    assert data.X_test is not None and data.y_test is not None
    points, truth, labels = data.X_test, data.y_test, len(data.labels)
    outside = ~deployed.box.contains(points.astype(np.float64))
    # Beside the bounds, so that answers are written to a disk like theirs.
    with TemporaryDirectory(dir=deployed.folder) as name:
        tell("inspecting the test points")
        tiers = _tiers(deployed, Path(name), points)
        noised = {
            "none": np.zeros(len(points), bool),
            "noise": np.ones(len(points), bool),
            "idp": known.noised,
            "threshold": outside | (known.margins <= deployed.bounds.thresholds[known.answers]),
            "guard": (tiers == 3) | (tiers == 0),
        }
        asking = Asking(deployed, known.network, labels, seed, points, noised)
        runs: list[Run] = []
        for epsilon in EPSILONS:
            tell(f"answering the test points at epsilon {epsilon:g}")
            runs.append(asking.run(epsilon, Path(name) / f"{epsilon}.sqlite"))

    def expected(at: Mask) -> dict[str, tuple[float, ...]]:
        return {
            method: tuple(
                expected_accuracy(known.answers[at], mask[at], truth[at], epsilon, labels)
                for epsilon in EPSILONS
            )
            for method, mask in noised.items()
        }

    tell("timing naive iDP")
    slow, unlike = time_naive(known, family, labels, seed, points)
    return Case(
        outside,
        noised,
        expected(np.ones(len(points), bool)),
        expected(~outside),
        tuple(float((run.first["guard"].answers == truth).mean()) for run in runs),
        int((noised["guard"] != known.noised)[~outside].sum()),
        int(known.noised[outside].sum()),
        sum(_wrong(run, known, noised["guard"]) for run in runs),
        unlike,
        by_method(runs) | slow,
        by_tier(runs, tiers, points),
        tuple((run.answers, run.epsilon) for run in runs),
    )


def _tiers(deployed: Deployment, folder: Path, points: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return what the guard's owner is told; a guard of its own, so that the timed ones are new."""
    memory = folder / "inspected.sqlite"
    with Guard.load(deployed.folder, 0.0, outside="noise", memory=memory) as guard:
        found = guard.inspect(points)
    if not np.array_equal(found.leaks, found.tiers == 3):
        raise AssertionError("Guard.inspect: leaks are not what tier 3 is")
    return found.tiers


def _wrong(run: Run, known: Reference, noised: Mask) -> int:
    first, again = run.first["guard"].answers, run.again["guard"].answers
    others = first[~noised] != known.answers[~noised]
    return int(others.sum()) + int((again != first[noised]).sum())

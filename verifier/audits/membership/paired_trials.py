"""Repeated trials: forget, unlearn, retrain, and record the attacker's view."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError
from leaveout.models.train.data import TrainingData
from leaveout.models.unlearning import (
    Deletion,
    Schedule,
    draw_rows,
    posteriors,
    retrain,
    rows_of_label,
    third_party,
)
from leaveout.models.unlearning.classifier import C, Purpose, generator
from leaveout.verifier.audits.membership.views import Views

Unlearner = Callable[[C, Deletion, int], C]
"""Returns the unlearned model, given the original, the rows to forget and a seed."""


@dataclass(frozen=True)
class Plan:
    """What each trial does.

    Attributes
    ----------
    forget : int or None
        Number of rows to forget, drawn anew for each trial.
    label : int or None
        Alternatively, all rows of this label are forgotten in every trial. The unseen rows are then
        those of this label among the test rows that the unlearner does not use.
    third : float
        Share of the test rows that the unlearner may use; the others are the unseen rows.
    rows : int
        Most rows of each kind recorded per trial.
    reuse_seed : bool
        Whether the retrained model draws its weights and shuffles from the seed of the original.
        Use it for exact methods that reuse the original's randomness; otherwise both are
        independent, like two runs of a program.
    seed : int
    """

    forget: int | None = None
    label: int | None = None
    third: float = 0.5
    rows: int = 500
    reuse_seed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.forget is None) == (self.label is None):
            raise AuditError("a plan forgets a number of rows or one label: pass one of the two")


@dataclass(frozen=True)
class Arm:
    """The accuracy and cost of one model of a trial."""

    accuracy: float
    seconds: float
    processor_seconds: float
    forgotten_label: float | None = None


@dataclass(frozen=True, eq=False)
class Trial:
    """One trial: three models evaluated on the same rows.

    Attributes
    ----------
    forgotten : ndarray of bool, shape (rows,)
    label : ndarray of int64, shape (rows,)
    posteriors : dict of str to ndarray of float32, shape (rows, labels)
        By arm: ``original``, ``unlearned``, ``retrained``.
    arms : dict of str to Arm
        By arm.
    """

    forgotten: NDArray[np.bool_]
    label: NDArray[np.int64]
    posteriors: dict[str, NDArray[np.float32]]
    arms: dict[str, Arm]


@dataclass(frozen=True, eq=False)
class _Setting(Generic[C]):
    model: C
    data: TrainingData
    schedule: Schedule
    unlearner: Unlearner[C]
    plan: Plan
    third: NDArray[np.bool_]


def run_trials(
    model: C,
    data: TrainingData,
    schedule: Schedule,
    unlearner: Unlearner[C],
    plan: Plan,
    trials: int,
    first: int = 0,
) -> Iterator[Trial]:
    """Run trials, each with its own models and newly drawn (or labelled) forgotten rows.

    Every trial trains a new original: guarantees of unlearning cover the randomness of training,
    too, and models unlearned from one original would not be independent.

    Parameters
    ----------
    model : Classifier
        Only its architecture is used.
    data : TrainingData
        Must have test rows.
    schedule : Schedule
        Training of the original and the retrained models.
    unlearner : callable
    plan : Plan
    trials : int
    first : int
        Number of trials already done: a trial depends only on its number and the plan.

    Raises
    ------
    TrainingError
        If training diverges, or the numbers do not fit the data.
    AuditError
        If the forgotten label has no test row to compare its rows with.
    """
    assert data.X_test is not None and data.y_test is not None
    for flag, count in (("--trials", trials), ("--rows", plan.rows)):
        if count < 1:
            raise AuditError(f"{flag} {count}: expected a whole number of at least 1")
    third = third_party(len(data.X_test), plan.third, plan.seed)
    if plan.label is not None:
        _refuse_unjudged(data.labels[plan.label], data.y_test[~third] == plan.label)
    setting = _Setting(model, data, schedule, unlearner, plan, third)
    for number in range(first, trials):
        yield _trial(setting, number)


def views_of(trials: Sequence[Trial], source: str = "audit") -> Views:
    """Collect the attacker's views of trials."""
    numbers = [np.full(len(trial.label), i) for i, trial in enumerate(trials)]
    arms = {
        name: np.concatenate([trial.posteriors[name] for trial in trials]).astype(np.float64)
        for name in ("unlearned", "retrained", "original")
    }
    return Views(
        trial=np.concatenate(numbers).astype(np.int64),
        forgotten=np.concatenate([trial.forgotten for trial in trials]),
        label=np.concatenate([trial.label for trial in trials]),
        source=source,
        **arms,
    )


def _trial(setting: _Setting[C], number: int) -> Trial:
    data, plan, schedule = setting.data, setting.plan, setting.schedule
    assert data.X_test is not None and data.y_test is not None
    rng = generator(plan.seed, Purpose.TRIAL, number)
    seeds = [int(seed) for seed in rng.integers(2**63 - 1, size=4)]
    rows = _draw_forgotten(data, plan, seeds[0])
    gone = np.zeros(len(data.X), dtype=np.bool_)
    gone[rows] = True
    deletion = Deletion(data.X, data.y, gone, data.X_test[setting.third])
    original, first = _time_call(lambda: retrain(setting.model, data.X, data.y, schedule, seeds[1]))
    unlearned, second = _time_call(lambda: setting.unlearner(original, deletion, seeds[2]))
    again = seeds[1] if plan.reuse_seed else seeds[3]
    retrained, third = _time_call(
        lambda: retrain(setting.model, data.X[~gone], data.y[~gone], schedule, again)
    )
    unseen = np.flatnonzero(~setting.third)
    like = unseen if plan.label is None else unseen[data.y_test[unseen] == plan.label]
    asked = np.sort(rng.permutation(rows)[: plan.rows])
    others = np.sort(rng.permutation(like)[: len(asked)])
    X = np.concatenate([data.X[asked], data.X_test[others]])
    models = {"original": original, "unlearned": unlearned, "retrained": retrained}
    arms = {
        name: _evaluate_arm(own, setting, unseen, took)
        for (name, own), took in zip(models.items(), (first, second, third), strict=True)
    }
    return Trial(
        forgotten=np.arange(len(X)) < len(asked),
        label=np.concatenate([data.y[asked], data.y_test[others]]),
        posteriors={name: posteriors(own, X) for name, own in models.items()},
        arms=arms,
    )


def _draw_forgotten(data: TrainingData, plan: Plan, seed: int) -> NDArray[np.int64]:
    if plan.label is not None:
        return rows_of_label(data, data.labels[plan.label])
    assert plan.forget is not None
    return draw_rows(len(data.X), plan.forget, seed)


def _refuse_unjudged(name: str, of_label: NDArray[np.bool_]) -> None:
    for missing, whose in ((not of_label.any(), "of it"), (bool(of_label.all()), "of others")):
        if missing:
            raise AuditError(
                f"--forget-class {name}: among the test rows that the unlearner does not use, "
                f"none is {whose}, for comparison; add test rows (X_test, y_test)"
            )


def _evaluate_arm(
    model: C, setting: _Setting[C], unseen: NDArray[np.int64], took: tuple[float, float]
) -> Arm:
    data, label = setting.data, setting.plan.label
    assert data.X_test is not None and data.y_test is not None
    truth = data.y_test[unseen]
    right = posteriors(model, data.X_test[unseen]).argmax(axis=1) == truth
    if label is None:
        return Arm(float(right.mean()), *took)
    return Arm(float(right[truth != label].mean()), *took, float(right[truth == label].mean()))


def _time_call(make: Callable[[], C]) -> tuple[C, tuple[float, float]]:
    """Return a result with its wall-clock and CPU seconds."""
    started, used = time.perf_counter(), time.process_time()
    model = make()
    return model, (time.perf_counter() - started, time.process_time() - used)

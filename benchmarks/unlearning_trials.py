"""The data that unlearning is measured on, and trials that are kept on disk as they end."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.deadline import Deadline
from leaveout.errors import AuditError
from leaveout.files import write_whole
from leaveout.models.onnx.file import network_from
from leaveout.models.train import Recipe, parse_layers
from leaveout.models.train.architecture import count_parameters, layers_of
from leaveout.models.train.data import TrainingData, read_data
from leaveout.models.train.export import network_model, unflatten
from leaveout.models.unlearning import Deletion, Game, GraphNetwork, Schedule, play
from leaveout.verifier.audits.membership import Plan, Rate, Trial, Views, run_trials
from leaveout.verifier.audits.membership.advantage import mean_upper, row_scores
from leaveout.verifier.audits.membership.paired_trials import Arm
from leaveout.verifier.certify.audits import means_above

from forest_data import SETS

__all__ = ["ARMS", "CONFIDENCE", "DATA", "Setting", "eq_12", "gather", "mean_of", "moved"]

ARMS = ("original", "retrained", "unlearned")
CONFIDENCE = 0.95


def adult_halves(folder: Path) -> TrainingData:
    """Return Adult in 107 columns, a half of its 48,842 rows to train on and the other to test.

    The columns are those of the benchmarks of forests: 102 categories of eight columns, a column
    each, and the five numbers age, fnlwgt, capital-gain, capital-loss and hours-per-week, here
    from their least value at 0 to their greatest at 1. ``education-num`` is left out: it numbers
    the categories of ``education``.
    """
    split = SETS["adult"](folder)
    X = np.concatenate([split.X, split.X_test])
    y = np.concatenate([split.y, split.y_test])
    least = X.min(axis=0)
    scaled = ((X - least) / (X.max(axis=0) - least)).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: len(X) // 2], order[len(X) // 2 :]
    return TrainingData(
        scaled[train], y[train], ("<=50K", ">50K"), X_test=scaled[test], y_test=y[test]
    )


def digits(folder: Path) -> TrainingData:
    """Return scikit-learn's 1,797 digits of 8 x 8 pixels in [0, 1]; two thirds to train on."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(
        (X / 16).astype(np.float32), y.astype(np.int64), test_size=1 / 3, random_state=0, stratify=y
    )
    return TrainingData(parts[0], parts[2], tuple("0123456789"), X_test=parts[1], y_test=parts[3])


DATA: dict[str, Callable[[Path], TrainingData]] = {
    "adult-107": adult_halves,
    "adult-21": lambda folder: read_data(folder / "adult_lucid21.npz", None),
    "digits": digits,
}
"""By name, what reads a set from the folder of the data files."""


@dataclass(frozen=True)
class Setting:
    """What is repeated on one data set, all plans alike."""

    data: str
    layers: str
    schedule: Schedule
    game: Game


def gather(
    setting: Setting,
    data: TrainingData,
    plans: dict[str, Plan],
    trials: int,
    keep: Path | None,
    seconds: float | None,
) -> dict[str, list[Trial]]:
    """Run the trials of every plan in turn, so that a busy machine is busy for all of them.

    Parameters
    ----------
    setting : Setting
    data : TrainingData
    plans : dict of str to Plan
        By a name that is also a folder's.
    trials : int
        Of each plan.
    keep : Path or None
        A folder: trials that are in it are read, others are written there as they end.
    seconds : float or None
        No trial starts later; those on disk are all read.
    """
    deadline = Deadline.after(seconds)
    model = _architecture(data, setting.layers)
    done: dict[str, list[Trial]] = {name: [] for name in plans}
    for name, plan in plans.items():
        if keep is not None:
            _same_setting(keep / name, setting, plan)
    for number in range(trials):
        for name, plan in plans.items():
            path = keep / name / f"{number:04d}.npz" if keep is not None else None
            if path is not None and path.exists():
                done[name].append(_read(path))
            elif not deadline.over and len(done[name]) == number:
                trial = next(_trials(setting, model, data, plan, number))
                if path is not None:
                    write_whole(path, _written(trial))
                done[name].append(trial)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{number + 1}/{trials} trials ")
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    return done


def mean_of(values: Sequence[float]) -> Rate:
    """Return the mean of numbers in [0, 1], with its interval for any distribution."""
    column = np.array(values)[:, None]
    error = (1 - CONFIDENCE) / 2
    low, high = means_above(column, error), mean_upper(column, error)
    return Rate(float(column.mean()), float(low[0]), float(high[0]), len(values))


def eq_12(views: Views) -> dict[str, Rate]:
    """Return the paper's privacy attack advantage, eq. 12, of either arm: mean |M_A - 0.5|.

    ``M_A`` is trained on both models' posteriors of the first third of the trials, on forgotten
    rows against rows that no model saw, and answers for the forgotten rows of the others.
    """
    attack = "membership classifier, both models"
    rows = next(row for row in row_scores(views) if row.attack == attack)
    chosen = ~views.kernel_view.counts
    counts = views.forgotten & ~chosen[views.place]
    found = {}
    for arm, scores in (("retrained", rows.retrained), ("unlearned", rows.unlearned)):
        gaps = np.abs(1 / (1 + np.exp(-scores[counts])) - 0.5)
        place = views.place[counts]
        total = np.bincount(place, gaps, minlength=len(chosen))
        means = total[~chosen] / np.bincount(place, minlength=len(chosen))[~chosen]
        found[arm] = mean_of(means.tolist())
    return found


def moved(trial: Trial, arm: str) -> float:
    """Return how far a model's posteriors of rows never seen are from the original's."""
    gap = np.abs(trial.posteriors[arm] - trial.posteriors["original"])[~trial.forgotten]
    return float(gap.sum(axis=1).mean() / 2)


def _architecture(data: TrainingData, layers: str) -> GraphNetwork:
    shapes = layers_of(Recipe(layers=parse_layers(layers)), data.X.shape[1], len(data.labels))
    blank = unflatten(shapes, np.zeros(count_parameters(shapes), dtype=np.float32))
    return GraphNetwork(network_from(network_model(shapes, blank), "network"))


def _trials(
    setting: Setting, model: GraphNetwork, data: TrainingData, plan: Plan, number: int
) -> Iterator[Trial]:
    def unlearner(original: GraphNetwork, deletion: Deletion, seed: int) -> GraphNetwork:
        return play(original, deletion, setting.game, setting.schedule, seed).model

    return run_trials(model, data, setting.schedule, unlearner, plan, number + 1, number)


def _same_setting(folder: Path, setting: Setting, plan: Plan) -> None:
    text = json.dumps(json.loads(msgspec.json.encode({"setting": setting, "plan": plan})), indent=1)
    path = folder / "setting.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_whole(path, f"{text}\n".encode())
    elif path.read_text() != f"{text}\n":
        raise AuditError(f"{path}: trials of other settings are kept here; choose another --keep")


def _written(trial: Trial) -> bytes:
    stream = io.BytesIO()
    arms = json.dumps({name: asdict(arm) for name, arm in trial.arms.items()})
    np.savez(
        stream,
        forgotten=trial.forgotten,
        label=trial.label,
        arms=np.frombuffer(arms.encode(), dtype=np.uint8),
        **trial.posteriors,
    )
    return stream.getvalue()


def _read(path: Path) -> Trial:
    with np.load(path) as archive:
        held: dict[str, NDArray[np.generic]] = dict(archive)
    arms = json.loads(held["arms"].tobytes())
    return Trial(
        forgotten=held["forgotten"].astype(np.bool_),
        label=held["label"].astype(np.int64),
        posteriors={name: held[name].astype(np.float32) for name in ARMS},
        arms={name: Arm(**arm) for name, arm in arms.items()},
    )

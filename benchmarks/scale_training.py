"""What training costs: one size in a process of its own, and a model fitted to all sizes.

    python benchmarks/scale_training.py '{"hidden": [50, 50], "rows": 4096, "batch": 1024,
        "stack": 32}'

prints one size as JSON; `scale_costs.py` asks for several. Data are random: what a step costs does
not depend on them. The first epoch, in which memory is taken, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from leaveout.models.train import Recipe
from leaveout.models.train.architecture import count_parameters, layers_of
from leaveout.models.train.pool import ENVIRONMENT

__all__ = [
    "CASES",
    "RATES",
    "TERMS",
    "Case",
    "Fit",
    "Trained",
    "fit",
    "flop",
    "keep_rates",
    "kept_rates",
    "measured",
    "train_data",
]

RATES = Path(__file__).with_name("scale_rates.json")
"""What `scale_costs.py --json` measured."""

TERMS = ("layers x steps", "parameters x steps", "parameters x rows", "neurons x rows")
"""What seconds an epoch are a sum of, each but the first times the members of a stack."""

_EPOCHS = 3


@dataclass(frozen=True)
class Case:
    """A stack of networks to train.

    Attributes
    ----------
    hidden : tuple of int
        Widths of the hidden layers.
    rows, batch, stack : int
        Of the data; a step; networks trained together.
    features, labels : int
    """

    hidden: tuple[int, ...]
    rows: int
    batch: int
    stack: int
    features: int = 21
    labels: int = 2

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return Recipe(layers=self.hidden, batch=self.batch, epochs=1 + _EPOCHS, learning_rate=1e-3)

    @property
    def parameters(self) -> int:
        """Of one network."""
        return count_parameters(layers_of(self.recipe, self.features, self.labels))

    @property
    def steps(self) -> int:
        """Of an epoch."""
        return -(-self.rows // self.batch)

    @property
    def terms(self) -> tuple[float, ...]:
        """What `TERMS` count, of an epoch of the whole stack."""
        neurons = sum(self.hidden) + self.labels
        return (
            (len(self.hidden) + 1) * self.steps,
            self.stack * self.parameters * self.steps,
            self.stack * self.parameters * self.rows,
            self.stack * neurons * self.rows,
        )

    @property
    def name(self) -> str:
        """Widths as they are usually written."""
        alike = len(self.hidden) > 1 and len(set(self.hidden)) == 1
        return f"{len(self.hidden)}x{self.hidden[0]}" if alike else "-".join(map(str, self.hidden))


@dataclass(frozen=True)
class Trained:
    """What a stack took.

    Attributes
    ----------
    case : Case
    seconds : float
        Of processor time, the least of some epochs.
    bytes : int
        By which the process grew, at most.
    """

    case: Case
    seconds: float
    bytes: int


CASES = tuple(
    Case(hidden, rows, batch, stack)
    for hidden, rows, batch, stacks in (
        ((50, 50), 4096, 1024, (1, 32, 256)),
        ((50, 50), 4096, 100, (1, 32, 256)),
        ((100, 100), 4096, 1024, (1, 32, 128)),
        ((200, 200), 4096, 1024, (1, 32)),
        ((30, 30, 30, 30), 4096, 1024, (1, 32, 256)),
        ((300, 300), 2048, 256, (1, 32)),
        ((1000, 1000), 512, 256, (1, 8, 32)),
    )
    for stack in stacks
)
"""Sizes from 4,000 parameters to a million: stacks of one, of the usual size, and beyond caches."""


def train_data(
    rows: int, features: int, labels: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.random((rows, features), dtype=np.float32)
    return X, rng.integers(0, labels, rows)


def train(case: Case) -> Trained:
    """Train a stack in this process."""
    import torch

    from leaveout.models.train.stacked import Stack

    torch.set_num_threads(1)
    X, y = train_data(case.rows, case.features, case.labels)
    layers = layers_of(case.recipe, case.features, case.labels)
    # A tiny one first: what loads with the first product is no part of the stack.
    small = Case(case.hidden[:1], 8, 8, 1, case.features, case.labels)
    _train(
        Stack(layers_of(small.recipe, 21, 2), small.recipe, X[:8], y[:8], np.zeros(1, np.int64)), 1
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Rows of the first batch: no member waits for the row that makes it differ.
    removed = np.arange(case.stack, dtype=np.int64) % case.rows
    marks = _train(Stack(layers, case.recipe, X, y, removed), -(-case.rows // case.batch))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Trained(case, float(np.diff(marks).min()), 1024 * grown)


def _train(stack: object, steps: int) -> list[float]:
    """Train, and return the processor time after each epoch."""
    marks: list[float] = []
    stack.train(lambda share: marks.append(time.process_time()))  # type: ignore[attr-defined]
    return marks[steps - 1 :: steps]


def measured(case: Case) -> Trained:
    """Train a stack in a process of its own, on one thread."""
    said = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).resolve()), json.dumps(asdict(case))],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(said.stdout)
    return Trained(case, found["seconds"], found["bytes"])


@dataclass(frozen=True, eq=False)
class Fit:
    """Seconds of an epoch as a sum of `TERMS`, each times a rate that is not negative.

    Attributes
    ----------
    rates : ndarray of float64, shape (terms,)
    """

    rates: NDArray[np.float64]

    def seconds(self, case: Case) -> float:
        """Return what an epoch of the stack takes."""
        return float(np.dot(self.rates, case.terms))

    def fixed(self, case: Case) -> float:
        """Return the part that does not grow with the stack."""
        return float(self.rates[0] * case.terms[0])


def fit(found: Sequence[Trained]) -> Fit:
    """Fit by least squares of the relative errors."""
    terms = np.array([each.case.terms for each in found], np.float64)
    seconds = np.array([each.seconds for each in found])
    table = terms / seconds[:, None]
    scale = table.max(axis=0)
    rates, _ = nnls(table / scale, np.ones(len(found)))
    return Fit(rates / scale)


def keep_rates(path: Path, found: Fit, machine: str) -> None:
    """Write the rates of a fit."""
    rates = dict(zip(TERMS, map(float, found.rates), strict=True))
    path.write_text(json.dumps({"machine": machine, "rates": rates}, indent=1) + "\n")


def kept_rates(path: Path = RATES) -> Fit:
    """Read what `keep_rates` wrote."""
    rates = json.loads(path.read_text())["rates"]
    return Fit(np.array([rates[term] for term in TERMS]))


def flop(case: Case) -> float:
    """Return the additions and multiplications of an epoch of the stack: 6 a weight and row.

    Two each for the layer's value, the gradient by its weights and the gradient by what it reads;
    the first layer has no use for the last, which is counted all the same.
    """
    return 6.0 * case.stack * case.parameters * case.rows


def _case(text: str) -> Case:
    """Read a size from JSON."""
    given = json.loads(text)
    return Case(**{**given, "hidden": tuple(given["hidden"])})


def main() -> None:
    """Print one size as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("case", type=_case, help="a size, as JSON")
    found = train(parser.parse_args().case)
    print(json.dumps({"seconds": found.seconds, "bytes": found.bytes}))


if __name__ == "__main__":
    main()

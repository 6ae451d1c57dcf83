"""Random tables, and folders of linear models that are fitted to them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.models.linear.folder import LinearFolder
from leaveout.models.linear.training import train_linear

Rows = list[dict[str, str]]


def table(seed: int, rows: int, labels: int = 2) -> Rows:
    """Return rows with a person, an age, a dose, a ward, a weight, a cost and a label."""
    rng = np.random.default_rng(seed)
    ages, doses = rng.integers(20, 60, rows), rng.normal(1, 0.4, rows)
    wards = rng.integers(0, 3, rows)
    lean = (ages - 40) / 20 + doses + rng.normal(0, 1.5, rows)
    place = np.argsort(np.argsort(lean)) * labels // rows
    return [
        {
            "person": f"P-{at}",
            "age": str(ages[at]),
            "dose": repr(float(doses[at])),
            "ward": "abc"[wards[at]],
            "counts": str(1 + at % 3),
            "cost": repr(float(np.exp(lean[at] / 4))),
            "ill": "nyz"[place[at]],
        }
        for at in range(rows)
    ]


def write(folder: Path, rows: Rows, name: str = "t.csv") -> Path:
    """Write rows as CSV."""
    with (folder / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / name


def trained(folder: Path, rows: Rows, name: str = "clinic", **options: Any) -> Path:
    """Fit a model to rows named by person, to ``ill`` unless told otherwise."""
    label = options.pop("label", "ill")
    unread = {"cost", "ill", "counts"} - {label, options.get("weights", "")}
    kept = [{key: cell for key, cell in row.items() if key not in unread} for row in rows]
    options = {"identity": "person", "test_share": 0, **options}
    train_linear(write(folder, kept), folder / name, label=label, **options)
    return folder / name


def opened(folder: Path) -> LinearFolder:
    """Return what a folder holds."""
    return LinearFolder.read(folder)

"""What a claim is about, in words: which files, which members, which inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Subject", "Table"]

Floats = NDArray[np.float64]

_ROWS = 8
"""Rows of a table that are printed; of longer ones a digest is."""


@dataclass(frozen=True, eq=False)
class Table:
    """Features that together take one of the listed rows.

    Attributes
    ----------
    columns : ndarray of int64, shape (g,)
    values : ndarray of float64, shape (v, g)
    """

    columns: NDArray[np.int64]
    values: Floats

    def __str__(self) -> str:
        width = len(self.columns)
        features = ", ".join(map(str, self.columns.tolist()))
        rows = [
            _number(row[0]) if width == 1 else f"({', '.join(map(_number, row))})"
            for row in self.values[:_ROWS].tolist()
        ]
        listed = ", ".join(rows)
        if len(self.values) > _ROWS:
            digest = hashlib.sha256(np.ascontiguousarray(self.values, "<f8").tobytes()).hexdigest()
            listed += f", ... {len(self.values):,} in all, SHA-256 of their float64s {digest}"
        if width == 1:
            return f"feature {features} takes only {listed}"
        return f"features {features} together take only {listed}"


@dataclass(frozen=True, eq=False)
class Subject:
    """The files and the inputs that a claim is about.

    Attributes
    ----------
    network, family : Path
        As read.
    network_sha256, family_sha256 : str
    members : int
    labels : int
        How many the network gives.
    lower, upper : ndarray of float64, shape (inputs,)
    tables : tuple of Table
    """

    network: Path
    network_sha256: str
    family: Path
    family_sha256: str
    members: int
    labels: int
    lower: Floats
    upper: Floats
    tables: tuple[Table, ...]

    def lines(self) -> Iterator[str]:
        """Say it, a line a file and a line a range of inputs."""
        yield f"no confidence above upper is a leak, over all {self.members:,} members and every x"
        yield f"network {self.network} (SHA-256 {self.network_sha256})"
        yield f"family {self.family} (SHA-256 {self.family_sha256})"
        listed = {int(c) for table in self.tables for c in table.columns}
        free = [i for i in range(len(self.lower)) if i not in listed]
        for (low, high), group in groupby(
            sorted(free, key=lambda i: (self.lower[i], self.upper[i], i)),
            key=lambda i: (float(self.lower[i]), float(self.upper[i])),
        ):
            own = list(group)
            features = f"features {_runs(own)} are" if len(own) > 1 else f"feature {own[0]} is"
            yield f"{features} in [{_number(low)}, {_number(high)}]"
        for table in self.tables:
            yield str(table)

    def claimed(self, labels: Collection[int]) -> str:
        """Say of which labels there is a claim."""
        own = sorted(set(labels))
        others = [label for label in range(self.labels) if label not in own]
        if not others:
            return f"claims all {self.labels} labels"
        return (
            f"claims label{'s' * (len(own) > 1)} {_runs(own)} of {self.labels}; nothing is claimed "
            f"of label{'s' * (len(others) > 1)} {_runs(others)}"
        )


def _number(value: float) -> str:
    """Return the shortest text that reads back as the number."""
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _runs(numbers: list[int]) -> str:
    """Write ascending numbers with runs of them joined: 0-4, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)

"""What it takes to train on a table of many rows: a register is drawn, and a sample of it trained.

    python benchmarks/scale_register.py --rows 1000000

Memory is the proportional share (PSS) of each process at its highest, as Linux tells it, looked at
several times a second: what processes share is divided among them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.models.reading import read_table
from leaveout.models.train.data import table_data

from scale_tables import print_table

_LOOK = 0.15
_SETTINGS = ("--sample", "20", "--layers", "20", "--epochs", "1", "--batch", "1024", "--seed", "1")
_HEADER = "patient,age,income,bmi,systolic,visits,dose,region,insurance,smoker,since,outcome"


def write_register(path: Path, rows: int) -> None:
    """Draw a table: names of rows, numbers of one and of several digits, words, a label."""
    rng = np.random.default_rng(7)
    age, systolic = rng.integers(18, 95, rows), rng.integers(90, 190, rows)
    bmi = np.round(rng.normal(27, 4, rows), 1)
    smoker = rng.choice(["never", "former", "current"], rows)
    risk = (age - 55) / 20 + (bmi - 27) / 4 + (systolic - 140) / 40 + 0.8 * (smoker == "current")
    columns = (
        [f"P{row:07d}" for row in range(rows)],
        age,
        np.round(rng.lognormal(10, 0.6, rows), 2),
        bmi,
        systolic,
        rng.poisson(3, rows),
        np.round(rng.gamma(2, 3, rows), 3),
        rng.choice(["north", "south", "east", "west", "centre"], rows),
        rng.choice(["public", "private", "none"], rows, p=[0.7, 0.25, 0.05]),
        smoker,
        rng.integers(1998, 2024, rows),
        np.where(risk + 0.9 * rng.normal(size=rows) > 0.5, "ill", "well"),
    )
    with path.open("w", encoding="utf-8") as stream:
        stream.write(f"{_HEADER}\n")
        stream.writelines(f"{','.join(map(str, row))}\n" for row in zip(*columns, strict=True))


@dataclass(frozen=True)
class Seen:
    """A run: its seconds, and the most memory of each of its processes, the first one's first."""

    seconds: float
    bytes: tuple[int, ...]


def watched(command: list[str]) -> Seen:
    """Run a command, and look at the memory of its processes."""
    began, most = time.monotonic(), dict[int, int]()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            for each in _tree(process.pid):
                with suppress(OSError, StopIteration):
                    most[each] = max(most.get(each, 0), _share(each))
            time.sleep(_LOOK)
    if process.returncode:
        raise SystemExit(process.returncode)
    return Seen(time.monotonic() - began, tuple(most.values()))


def _tree(process: int) -> list[int]:
    found = [process]
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += _tree(int(child))
    return found


def _share(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "register.csv", str(Path(folder) / "family")
        write_register(path, rows)
        what = ["-m", "leaveout", "train", str(path), "--id", "patient", "--label", "outcome"]
        command = [sys.executable, *what, *_SETTINGS, "-o", out]
        runs = {"train a sample of 20": watched(command), "the same again": watched(command)}
        marks = [time.monotonic()]
        table = read_table(path)
        marks.append(time.monotonic())
        data = table_data(table, "outcome", "patient")
        marks.append(time.monotonic())
        data.facts()
        marks.append(time.monotonic())
        read, encode, digest = np.diff(marks)
        print_table(
            ["step", "seconds"],
            [
                [f"read {path.stat().st_size / 1e6:.0f} MB", f"{read:.1f}"],
                [f"encode {rows:,} x {data.X.shape[1]}", f"{encode:.1f}"],
                ["digest", f"{digest:.1f}"],
                *([name, f"{seen.seconds:.1f}"] for name, seen in runs.items()),
            ],
        )
        print_table(
            ["run", "memory of each process, MB"],
            [
                [name, ", ".join(f"{each / 1e6:,.0f}" for each in seen.bytes)]
                for name, seen in runs.items()
            ],
        )


if __name__ == "__main__":
    main()

"""LUCID's ablation (Table 4 of the paper) on a subset of a family: bound, time, MILPs solved.

The six variants run as in the paper, without the witnesses, cut-offs and second looks that
``leaveout verify --engine lucid`` adds; the last row has them. A bound is marked ``<`` where the
time ran out: it is sound, and still falling.

    python benchmarks/ablation.py DATA.npz --members 10 --time 45
"""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from pathlib import Path

from leaveout.bab import VARIANTS, Instance, LucidOptions, search
from leaveout.cores import cores

from families import prepared


def processor() -> str:
    """Return the processor's name, where the system tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown processor"


def row(name: str, marks: tuple[bool, ...], instance: Instance, options: LucidOptions) -> str:
    """Run one variant on the first two labels and format its row."""
    cells = [f"{name:18s}", *(f"{'x' if mark else '':>4s}" for mark in marks)]
    for label in range(2):
        result = search(instance, label, options)
        bound = f"{'<' if result.reason == 'time' else ''}{result.upper:.4f}"
        cells += [f"{bound:>9s}", f"{result.seconds:8.1f}", f"{result.solved:6d}"]
        if options.witnesses:
            cells.append(f"{result.lower:9.4f}")
        else:
            cells.append(f"{'-':>9s}")
    return " ".join(cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="NPZ with X_train and y_train in [0, 1]")
    parser.add_argument("--layers", default="50,50")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--time", type=float, default=60.0, help="seconds a label and variant")
    parser.add_argument("--set-time", type=float, default=None, help="seconds a MILP")
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--solver", default="highs")
    given = parser.parse_args()
    layers = tuple(int(width) for width in given.layers.split(","))
    instance = prepared(given.data, layers, given.batch, given.members)
    print(
        f"{given.data.stem}, {given.layers}, {given.members} members, {given.solver}, "
        f"{given.workers} workers, {given.time:g} s a label, {processor()} "
        f"x {cores()}"
    )
    head = f"{'variant':18s} {'Hyp':>4s} {'MD':>4s} {'RiS':>4s} {'BaB':>4s}"
    for label in range(2):
        head += f" {f'b{label}':>9s} {f'T{label} [s]':>8s} {'MILPs':>6s} {'witness':>9s}"
    print(head)
    paper = LucidOptions(
        solver=given.solver,
        workers=given.workers,
        seconds=given.time,
        set_seconds=given.set_time,
        witnesses=False,
        tighten=False,
    )
    for name, variant in VARIANTS.items():
        encoding = variant.encoding
        marks = (
            variant.hyper,
            encoding.matching,
            encoding.relax_if_similar is not None,
            variant.branch,
        )
        options = replace(paper, variant=variant)
        if not variant.branch and given.set_time is None:
            # Nothing follows these problems, so they share all the time there is.
            problems = 1 if variant.hyper else given.members
            share = given.time * min(given.workers, problems) / problems
            options = replace(options, set_seconds=share)
        print(row(name, marks, instance, options), flush=True)
    ours = replace(paper, witnesses=True, tighten=True)
    print(row("--engine lucid", (True,) * 4, instance, ours), flush=True)


if __name__ == "__main__":
    main()

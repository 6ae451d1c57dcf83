"""How long a family would take on many workers: a simulation with measured times.

    python benchmarks/scale_simulation.py                  # tables: workers, blocks, lost workers
    python benchmarks/scale_simulation.py --validate       # against cases that are known, and runs
    python benchmarks/scale_simulation.py --record DIR/.partial --workers 2 > times.csv

The run is a family of Adult (32,561 rows, 2x50, 50 epochs, batches of 1,024) unless options say
otherwise; what they default to `scale_costs.py` measured. Noise called measured is what
`scale_times.csv` says: how long blocks of 32 such networks took two workers on a machine
that other programs used too, each over their mean. Beside it, stragglers by Pareto's law and
workers lost by an exponential one are assumed, not measured. Times are medians over ``--rounds``.

``--record`` reads when the blocks of an unfinished run of so many workers were written. They are
given out in order, so a block after the first ones began when an earlier one ended.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scale_events import Noise, Pool, Run, best_block, expected_makespan, simulate, with_block
from scale_tables import amount, print_table
from scale_training import Case, kept_rates

__all__ = ["block_times", "ideal_makespan", "measured_factors", "middle_outcome"]

TIMES = Path(__file__).with_name("scale_times.csv")
WORKERS = (1, 2, 4, 8, 16, 32, 64, 256)
SOME = (8, 64, 256)
FEW = (8, 16, 32, 64)
BLOCKS = (4, 8, 16, 32, 64, 128, 256, 512)
LIVES = (math.inf, 10.0, 2.0, 0.5)
"""Hours that a worker lives on average."""


def block_times(ended: Iterable[float], begun: float, workers: int) -> NDArray[np.float64]:
    """Return when each block began and ended, shape (blocks, 2).

    Parameters
    ----------
    ended : iterable of float
        In the order in which blocks were given out.
    begun : float
        When the first ones were.
    workers : int
    """
    ends = np.array(list(ended), float)
    starts = np.full(len(ends), begun)
    starts[workers:] = np.sort(ends)[: max(0, len(ends) - workers)]
    return np.column_stack([starts, ends])


def record(partial: Path, workers: int) -> None:
    """Print the times of the blocks of an unfinished run."""
    blocks = sorted(partial.glob("*-*.npy"))
    if not blocks:
        sys.exit(f"{partial}: no blocks of an unfinished run here")
    begun = (partial / "settings.json").stat().st_mtime
    times = block_times([each.stat().st_mtime for each in blocks], begun, workers) - begun
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("networks", "begun", "ended"))
    for block, (start, end) in zip(blocks, times, strict=True):
        first, last = map(int, block.stem.split("-"))
        out.writerow((last - first, f"{start:.2f}", f"{end:.2f}"))


def read_times(path: Path = TIMES) -> NDArray[np.float64]:
    """Return networks, begin and end of each measured block, shape (blocks, 3)."""
    with path.open() as stream:
        rows = [row for row in csv.reader(stream) if row and not row[0].startswith("#")]
    return np.array(rows[1:], float)


def measured_factors(path: Path = TIMES) -> NDArray[np.float64]:
    """Return how much longer than their mean each measured block took, start-up left out."""
    networks, begun, ended = read_times(path).T
    whole = (begun > 0) & (networks == networks.max())
    seconds = (ended - begun)[whole]
    factors: NDArray[np.float64] = seconds / seconds.mean()
    return factors


def adult_costs() -> tuple[float, float]:
    """Return seconds of a network of Adult in a block of 32, and of the block beside them.

    By the rates that `scale_costs.py` fitted.
    """
    rates, epochs = kept_rates(), 50
    case = Case((50, 50), rows=32_561, batch=1024, stack=32)
    fixed = rates.fixed(case)
    return epochs * (rates.seconds(case) - fixed) / case.stack, epochs * fixed


def ideal_makespan(run: Run, workers: int) -> float:
    """Return what a run would take without start-up, noise, losses, or an end to wait for."""
    return float(run.seconds.sum()) / workers


def middle_outcome(
    run: Run, pool: Pool, noise: Noise | None, rounds: int, seed: int = 0
) -> tuple[float, float, float, float]:
    """Return the median makespan, the one that a tenth exceeds, and mean efficiency and waste.

    Of makespans with a heavy tail the mean says more of the worst run than of any other.
    """
    makespans, efficiencies, wasted = [], [], []
    for number in range(rounds):
        found = simulate(run, pool, np.random.default_rng((seed, number)), noise)
        makespans.append(found.makespan)
        efficiencies.append(found.efficiency(pool.workers))
        wasted.append(found.wasted / max(found.wasted + found.useful, 1e-300))
    high = float(np.quantile(makespans, 0.9))
    return float(np.median(makespans)), high, float(np.mean(efficiencies)), float(np.mean(wasted))


def print_workers(run: Run, start: float, noises: Sequence[tuple[str, Noise]], rounds: int) -> None:
    """Print how the time falls with workers."""
    rows = []
    for workers in WORKERS:
        pool = Pool(workers, start)
        row = [f"{workers}", amount(ideal_makespan(run, workers))]
        for _, noise in noises:
            mean, _, share, _ = middle_outcome(run, pool, noise, rounds)
            row += [amount(mean), f"{share:.0%}"]
        row.append(amount(expected_makespan(run, pool, noises[-1][1])))
        rows.append(row)
    head = ["workers", "ideal"]
    for name, _ in noises:
        head += [name, "efficiency"]
    print(f"By workers, blocks of {run.block}\n")
    print_table([*head, f"closed form, {noises[-1][0]}"], rows)


def print_blocks(run: Run, pool: Pool, noise: Noise, rounds: int) -> None:
    """Print how the time depends on the size of a block."""
    rows = []
    for block in BLOCKS:
        own = with_block(run, block)
        mean, high, share, wasted = middle_outcome(own, pool, noise, rounds)
        formula = amount(expected_makespan(own, pool, noise))
        rows.append(
            [f"{block}", amount(own.fixed + own.network * block), amount(mean), amount(high),
             f"{share:.0%}", f"{wasted:.1%}", formula]
        )  # fmt: skip
    print(f"By blocks, {pool.workers} workers, each living {pool.life / 3600:g} hours\n")
    print_table(
        ("block", "a block", "makespan", "one run in ten above", "efficiency", "wasted",
         "closed form"),
        rows,
    )  # fmt: skip


def print_losses(run: Run, pool: Pool, noise: Noise, rounds: int) -> None:
    """Print what lost workers cost, and which block suits."""
    rows = []
    for hours in LIVES:
        own = Pool(pool.workers, pool.start, 3600 * hours, pool.gap)
        row = ["none is lost" if math.isinf(hours) else f"{hours:g} h"]
        for block in (8, run.block, 256):
            mean, _, _, wasted = middle_outcome(with_block(run, block), own, noise, rounds)
            row += [amount(mean), f"{wasted:.1%}"]
        tried = {b: middle_outcome(with_block(run, b), own, noise, rounds)[0] for b in FEW}
        best = min(tried, key=lambda block: tried[block])
        row += [f"{best} ({amount(tried[best])})", f"{best_block(run, own, noise)}"]
        rows.append(row)
    print(
        f"By how long a worker lives, {pool.workers} workers; another comes {pool.gap:g} s later\n"
    )
    head = ["life"]
    for block in (8, run.block, 256):
        head += [f"blocks of {block}", "wasted"]
    print_table([*head, "best block tried", "closed form"], rows)


def print_best(run: Run, start: float, noise: Noise, rounds: int) -> None:
    """Print the size of a block that suits so many workers."""
    rows = []
    for workers in SOME:
        pool = Pool(workers, start)
        tried = {b: middle_outcome(with_block(run, b), pool, noise, rounds)[0] for b in BLOCKS}
        best = min(tried, key=lambda block: tried[block])
        near = [b for b in BLOCKS if tried[b] <= 1.02 * tried[best]]
        own = best_block(run, pool, noise)
        at = middle_outcome(with_block(run, own), pool, noise, rounds)[0]
        rows.append(
            [f"{workers}", f"{best}", f"{near[0]} to {near[-1]}", amount(tried[best]), f"{own}",
             f"{at / tried[best] - 1:+.1%}"]
        )  # fmt: skip
    print("The block that suits, none lost; `within 2 %`: sizes tried that are nearly as good;")
    print("`formula`: sqrt(2 n F / (W t)), and how much longer the simulation takes with it\n")
    print_table(("workers", "best tried", "within 2 %", "makespan", "formula", "longer by"), rows)


def main() -> None:
    """Print what the command line asks for."""
    each, fixed = adult_costs()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=32_562)
    parser.add_argument("--network", type=float, default=each, help="seconds of one, in a block")
    parser.add_argument("--fixed", type=float, default=fixed, help="seconds of a block beside it")
    parser.add_argument("--head", type=float, default=0.003, help="seconds the head takes a block")
    parser.add_argument("--last", type=float, default=20.0, help="seconds of putting together")
    parser.add_argument("--start", type=float, default=5.0, help="seconds of a worker's start-up")
    parser.add_argument("--gap", type=float, default=60.0, help="seconds until one is replaced")
    parser.add_argument("--life", type=float, default=10.0, help="hours of a worker, on average")
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--straggler", type=float, default=0.01, help="probability of a block")
    parser.add_argument("--tail", type=float, default=1.5, help="exponent of Pareto's law")
    parser.add_argument("--times", type=Path, default=TIMES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--many", type=int, default=64, help="workers of the later tables")
    tables = ["workers", "blocks", "losses", "best"]
    parser.add_argument("--only", choices=tables, nargs="+", default=tables)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--record", type=Path, metavar="DIR", help="an unfinished run's blocks")
    parser.add_argument("--workers", type=int, default=2, help="of the run that is recorded")
    given = parser.parse_args()
    if given.record is not None:
        return record(given.record, given.workers)
    if given.validate:
        from scale_validation import validate

        return validate()
    run = Run(given.networks, given.block, given.network, given.fixed, given.head, given.last)
    factors = measured_factors(given.times)
    spread = Noise(factors)
    heavy = Noise(factors, given.straggler, given.tail)
    said = ", ".join(f"{np.quantile(factors, q):.2f}" for q in (0.1, 0.5, 0.9, 1.0))
    print(f"A network takes {run.network:.2f} s, a block {run.fixed:.2f} s beside, "
          f"{run.fixed + run.block * run.network:.1f} s in all")  # fmt: skip
    _networks, begun, ended = read_times(given.times).T
    print(f"The measured blocks of 32 took {(ended - begun)[begun > 0].min():.1f} s at least")
    print(f"{len(factors)} measured blocks: 10 %, half, 90 % and all take at most {said} means\n")
    noises = (("no noise", Noise()), ("measured", spread), ("stragglers", heavy))
    pool = Pool(given.many, given.start, 3600 * given.life, given.gap)
    printed: dict[str, Callable[[], None]] = {
        "workers": partial(print_workers, run, given.start, noises, given.rounds),
        "blocks": partial(print_blocks, run, pool, heavy, given.rounds),
        "losses": partial(print_losses, run, pool, heavy, given.rounds),
        "best": partial(print_best, run, given.start, spread, given.rounds),
    }
    for name in given.only:
        printed[name]()
    return None


if __name__ == "__main__":
    main()

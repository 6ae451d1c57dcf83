"""How often statements about all rows, from a sample of them, are wrong: against known bounds.

    python benchmarks/sampling.py                    # 10,000 families for each line
    python benchmarks/sampling.py --families 1000
    python benchmarks/sampling.py --looks            # several results, several draws, and peeking
    python benchmarks/sampling.py --sizes            # how many rows to draw, as in the docs

Every family has a bound for each of its rows, drawn from one of several laws: heavy tails, ties,
almost all rows without a leak, just one row more than is allowed above all others. A sample is
drawn as training draws it, and the rule's bound is compared with all rows. A line is one share and
one confidence; "above" is how many of the sample may lie above the bound, "exact" the chance that
the rule computes for this, which ties only lower, "wrong" the share of families in which more rows
exceed the bound than are allowed, and "at most" its upper end at 99.9 % (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.tails import few_drawn
from leaveout.models.train.draws import draw_rows
from leaveout.verifier.audits.intervals import clopper_pearson
from leaveout.verifier.points.sampling import Sampling, smallest_sample, tolerated_count

SIZES = ((569, 100), (2_800, 500), (32_561, 3_000))
ROWS = (569, 32_561, 1_000_000)
SHARES = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 20))
ERRORS = (Fraction(1, 10), Fraction(1, 20), Fraction(1, 100))

LOOKED = (2_800, 500)
NESTED = tuple(Fraction(1, each) for each in (20, 33, 50, 100))

Floats = NDArray[np.float64]


def bounds(rng: np.random.Generator, rows: int, share: Fraction) -> Floats:
    """Draw the bound of each row."""
    law = rng.integers(4)
    if law == 0:
        return rng.pareto(1.0, rows)
    if law == 1:
        return rng.integers(0, 5, rows).astype(float)
    if law == 2:
        return np.where(rng.random(rows) < 2 * float(share), rng.random(rows), 0.0)
    # Just one more than is allowed lies above.
    many = math.floor(share * rows) + 1
    found = np.zeros(rows)
    found[rng.choice(rows, many, replace=False)] = 1.0
    return found


def wrong(every: Floats, drawn: NDArray[np.int64], asked: Sampling) -> bool:
    """Whether more rows exceed the rule's bound than are allowed; what says nothing is right."""
    most = tolerated_count(asked)
    if most is None:
        return False
    at = len(drawn) - 1 - most
    bound = np.partition(every[drawn], at)[at]
    return int(np.count_nonzero(every > bound)) > asked.exceptions


def print_sizes() -> None:
    """Print how many rows must be drawn, at 95 % shared by the results of two labels."""
    print("| share | " + " | ".join(f"{rows:,}" for rows in ROWS) + " |")
    print("|---" * (len(ROWS) + 1) + "|")
    for share in reversed(SHARES):
        asked = (Sampling(rows, 1, share, Fraction(1, 40)) for rows in ROWS)
        print(
            f"| {float(share)} | "
            + " | ".join(f"{smallest_sample(each):,}" for each in asked)
            + " |"
        )


def print_coverage(families: int) -> None:
    """Print how often one statement is wrong."""
    rng = np.random.default_rng(0)
    print("| rows | sample | share | confidence | above | exact | wrong | at most |")
    print("|---" * 8 + "|")
    for rows, size in SIZES:
        for share in SHARES:
            for error in ERRORS:
                asked = Sampling(rows, size, share, error)
                most = tolerated_count(asked)
                head = f"| {rows:,} | {size:,} | {float(share)} | {1 - float(error):g} |"
                if most is None:
                    print(f"{head} too few | | | |")
                    continue
                seen = 0
                for family in range(families):
                    every = bounds(rng, rows, share)
                    seen += wrong(every, draw_rows(family, rows, size), asked)
                exact = float(few_drawn(rows, size, asked.exceptions + 1, most))
                end = clopper_pearson(seen, families, 0.998)[1]
                print(
                    f"{head} {most} | {exact:.4f} | {seen / families:.4f} | {end:.4f} |", flush=True
                )


def _fixed(every: Floats, seed: int, error: Fraction) -> bool:
    """Ask several shares of one sample, fixed before it is looked at."""
    rows, size = LOOKED
    drawn = draw_rows(seed, rows, size)
    shared = [Sampling(rows, size, share, error / len(NESTED)) for share in NESTED]
    return any(wrong(every, drawn, each) for each in shared)


def _draws(every: Floats, seed: int, error: Fraction) -> bool:
    """Draw up to four planned samples, and stop at the one with the lowest bound so far."""
    rows, size = LOOKED
    asked = Sampling(rows, size, NESTED[1], error / 4)
    return _luckiest(every, seed, asked, 4)


def _uncounted(every: Floats, seed: int, error: Fraction) -> bool:
    """Choose among draws with nothing counted, as by who trains in four folders."""
    rows, size = LOOKED
    return _luckiest(every, seed, Sampling(rows, size, NESTED[1], error), 4)


def _luckiest(every: Floats, seed: int, asked: Sampling, draws: int) -> bool:
    samples = [draw_rows(seed, asked.rows, asked.size, draw + 1) for draw in range(draws)]
    most = tolerated_count(asked)
    assert most is not None
    lowest = min(samples, key=lambda drawn: np.sort(every[drawn])[-1 - most])
    return wrong(every, lowest, asked)


def _peeked(every: Floats, seed: int, error: Fraction) -> bool:
    """Let the sample choose the claim: of 20 parts of the inputs, that with the lowest bound."""
    return _chosen(every, seed, error, 1)


def _registered(every: Floats, seed: int, error: Fraction) -> bool:
    """Choose as well where all 20 were fixed before: whichever is shown, they share."""
    return _chosen(every, seed, error, 20)


def _chosen(every: Floats, seed: int, error: Fraction, results: int) -> bool:
    rows, size = LOOKED
    asked = Sampling(rows, size, NESTED[1], error / results)
    drawn, rng = draw_rows(seed, rows, size), np.random.default_rng(seed)
    parts = [rng.permutation(every) for _ in range(20)]
    most = tolerated_count(asked)
    assert most is not None
    lowest = min(parts, key=lambda each: np.sort(each[drawn])[-1 - most])
    return wrong(lowest, drawn, asked)


LOOKS: dict[str, Callable[[Floats, int, Fraction], bool]] = {
    "four shares, fixed before": _fixed,
    "four planned draws, the best is shown": _draws,
    "four draws, uncounted, the best is shown": _uncounted,
    "20 claims, fixed before, the best is shown": _registered,
    "20 claims, uncounted, the best is shown": _peeked,
}


def print_looks(families: int) -> None:
    """Print how often a set of statements is wrong, by who chooses what to show."""
    rng = np.random.default_rng(1)
    print("| what is asked | may be wrong | wrong | at most |")
    print("|---" * 4 + "|")
    error = ERRORS[1]
    for name, look in LOOKS.items():
        # All bounds differ, so that nothing is given away.
        seen = sum(look(rng.pareto(1.0, LOOKED[0]), family, error) for family in range(families))
        end = clopper_pearson(seen, families, 0.998)[1]
        print(f"| {name} | {float(error):g} | {seen / families:.4f} | {end:.4f} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", type=int, default=10_000)
    parser.add_argument("--sizes", action="store_true", help="print how many rows to draw, alone")
    parser.add_argument("--looks", action="store_true", help="print what several results, or looks")
    given = parser.parse_args()
    if given.sizes:
        print_sizes()
        return
    begun = time.process_time()
    (print_looks if given.looks else print_coverage)(given.families)
    print(f"\n{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()

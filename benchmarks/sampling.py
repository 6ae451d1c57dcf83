"""How often a statement about all rows, from a sample of them, is wrong: against known bounds.

    python benchmarks/sampling.py                    # 10,000 families for each line
    python benchmarks/sampling.py --families 1000
    python benchmarks/sampling.py --sizes            # how many rows to draw, as in the docs

Every family has a bound for each of its rows, drawn from one of several laws: heavy tails, ties,
almost all rows without a leak, the largest rows just below the share. A sample is drawn as
training draws it, and the rule's bound is compared with all rows. A line is one share and one
confidence; "above" is how many of the sample may lie above the bound, "wrong" the share of families
in which more rows exceed it than are allowed, and its upper end at 99.9 % (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.draws import drawn_rows
from leaveout.verifier.audits.intervals import clopper_pearson
from leaveout.verifier.points.sampling import Sampling, smallest_sample, tolerated

SIZES = ((569, 100), (2_800, 500), (32_561, 3_000))
ROWS = (569, 32_561, 1_000_000)
SHARES = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 20))
ERRORS = (Fraction(1, 10), Fraction(1, 20), Fraction(1, 100))


def bounds(rng: np.random.Generator, rows: int, share: Fraction) -> NDArray[np.float64]:
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", type=int, default=10_000)
    parser.add_argument("--sizes", action="store_true", help="print how many rows to draw, alone")
    given = parser.parse_args()
    if given.sizes:
        return print_sizes()
    rng = np.random.default_rng(0)
    print("| rows | sample | share | confidence | above | wrong | at most |")
    print("|---|---|---|---|---|---|---|")
    for rows, size in SIZES:
        for share in SHARES:
            for error in ERRORS:
                asked = Sampling(rows, size, share, error)
                most = tolerated(asked)
                head = f"| {rows:,} | {size:,} | {float(share)} | {1 - float(error):g} |"
                if most is None:
                    print(f"{head} too few | | |")
                    continue
                wrong = 0
                for family in range(given.families):
                    every = bounds(rng, rows, share)
                    drawn = drawn_rows(family, rows, size)
                    bound = np.partition(every[drawn], size - 1 - most)[size - 1 - most]
                    wrong += int(np.count_nonzero(every > bound) > asked.exceptions)
                end = clopper_pearson(wrong, given.families, 0.998)[1]
                print(
                    f"{head} {most} | {wrong / given.families:.4f} | {end:.4f} |",
                    flush=True,
                )
    return None


if __name__ == "__main__":
    main()

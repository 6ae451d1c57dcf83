"""What families would need that nobody has trained: a calculation, from stated assumptions.

    python benchmarks/scale_needs.py
    python benchmarks/scale_needs.py --utilisation 0.25 --epochs 50

A network takes 6 operations a row, a parameter and an epoch. Times of a GPU are these over what it
is taken to do: its data sheet's rate of float32 without tensor cores (67 TFLOP/s for an H200:
members are trained in plain float32, so that the same run gives the same bytes), times the share of
it that is assumed to be reached. Those of a core are the model's that `scale_costs.py` fitted, in
batches of 1,024; storage is 4 bytes a parameter. Nothing of this was run.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from fractions import Fraction

from leaveout.verifier.points.sampling import Sampling, smallest_sample

from scale_tables import amount, print_table
from scale_training import Case, flop, kept_rates

BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))


@dataclass(frozen=True)
class Need:
    """A family.

    Attributes
    ----------
    name : str
    hidden : tuple of int
    rows : int
    members : int
    """

    name: str
    hidden: tuple[int, ...]
    rows: int
    members: int


def sample_of(rows: int) -> int:
    """Return how many rows a statement needs: but 0.001 of them, at 95 %, of two labels."""
    return smallest_sample(Sampling(rows, 1, Fraction(1, 1000), Fraction(1, 40)))


def size(count: float) -> str:
    """Return bytes with their unit."""
    unit, one = next((unit, one) for unit, one in BYTES if count >= one or unit == "MB")
    return f"{count / one:.3g} {unit}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--peak", type=float, default=67e12, help="operations a second of a GPU")
    parser.add_argument("--utilisation", type=float, default=0.4, help="share of it, assumed")
    given = parser.parse_args()
    needs = []
    for rows, hidden in ((32_561, (50, 50)), (10**6, (50, 50)), (10**6, (1000, 1000))):
        drawn = sample_of(rows)
        said = f"{rows:,} x {Case(hidden, rows, 1024, 1).parameters:,}"
        needs += [Need(f"{said}, every row", hidden, rows, rows)]
        needs += [Need(f"{said}, {drawn:,} drawn", hidden, rows, drawn)]
        needs += [Need(f"{said}, one network", hidden, rows, 1)]
    rates, rows = kept_rates(), []
    for need in needs:
        case = Case(need.hidden, need.rows, 1024, 32)
        operations = given.epochs * flop(case) / case.stack * need.members
        core = given.epochs * rates.seconds(case) / case.stack * need.members
        gpu = operations / (given.peak * given.utilisation)
        rows.append(
            [need.name, f"{operations:.1e}", amount(core), amount(gpu),
             size(4.0 * need.members * case.parameters)]
        )  # fmt: skip
    print(f"{given.epochs} epochs; a GPU taken to do {given.utilisation:.0%} of "
          f"{given.peak / 1e12:g} TFLOP/s\n")  # fmt: skip
    print_table(("rows x parameters", "operations", "one core", "one GPU", "storage"), rows)


if __name__ == "__main__":
    main()

"""How well the first part of a search foretells how long the rest takes.

    python benchmarks/pace.py adult/idp.spec credit/idp.spec --time 100

Of each search: when the gap between its bounds would have fallen to what it was at the end, as
advice says it after a quarter and after a half of the time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import leaveout
from leaveout.verifier.points.advice import foretell
from leaveout.verifier.records import TraceRecord

__all__ = ["foretold", "main"]

SHARES = (0.25, 0.5)


def foretold(course: TraceRecord, share: float) -> float:
    """Foretell the end of a course from its first part."""
    until = share * course.seconds[-1]
    count = sum(second <= until for second in course.seconds)
    if count < 2:
        return float("inf")
    seconds, lower, upper = (each[:count] for each in (course.seconds, course.lower, course.upper))
    first = TraceRecord(label=course.label, seconds=seconds, lower=lower, upper=upper)
    return foretell(first, course.upper[-1] - course.lower[-1])


def main() -> None:
    """Print a row a search."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("specs", type=Path, nargs="+")
    parser.add_argument("--time", type=float, default=100.0, help="seconds a specification")
    given = parser.parse_args()
    print(f"{'folder':<28s}{'label':>6s}{'took':>9s}{'by a quarter':>14s}{'by a half':>12s}")
    for path in given.specs:
        for result in leaveout.verify(path, time=given.time).results:
            for course in result.traces:
                quarter, half = (foretold(course, share) for share in SHARES)
                label = "all" if course.label is None else str(course.label)
                took = course.seconds[-1]
                print(
                    f"{path.parent.name:<28s}{label:>6s}{took:8.0f}s{quarter:13.0f}s{half:11.0f}s"
                )


if __name__ == "__main__":
    main()

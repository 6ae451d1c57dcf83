"""What *Game-Theoretic Machine Unlearning* prints, and the arithmetic of it.

    python benchmarks/unlearning_paper.py

checks its tables against themselves: no model is trained. What each line means is in
docs/unlearning.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leaveout.verifier.audits.membership import Advantage, Events, advantage

__all__ = ["HARDWARE", "PAPER", "Published", "published_advantage"]

ARMS = ("original", "retrained", "unlearned")
HARDWARE = "an A100 and a Xeon Platinum 8352V"
ROWS, TESTED = 32561, 16281
"""Of Adult, as it is divided by its authors; the paper does not say how it divides it."""
CONFIDENCE = 0.95
ALTERNATIVE = 0.2
"""Share of the retained rows that the alternative model is trained on (section V-A)."""


@dataclass(frozen=True)
class Published:
    """The paper's figures for Adult: accuracy, seconds and attack rates by arm."""

    accuracy: dict[str, float]
    seconds: dict[str, float]
    attack: dict[str, float]


def _numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def _published(accuracy: str, seconds: str, attack: str) -> Published:
    def by_arm(text: str, arms: Sequence[str]) -> dict[str, float]:
        return dict(zip(arms, _numbers(text), strict=True))

    return Published(by_arm(accuracy, ARMS), by_arm(seconds, ARMS[1:]), by_arm(attack, ARMS))


PAPER = {
    1: _published("84.88 84.18 84.88", "7.8 5.9", "1.0 0.48 0.00"),
    2: _published("84.88 84.67 84.92", "7.8 5.4", "1.0 0.48 0.03"),
    5: _published("84.88 84.50 84.89", "7.9 3.5", "1.0 0.62 0.01"),
    10: _published("84.88 84.06 84.87", "7.7 3.3", "1.0 0.60 0.00"),
}
"""Tables I, II and III, original, retrained, unlearned; by per cent forgotten."""

TIMES = {
    "MNIST": ("2595.8 2468.3 2339.9 2225.6", "176.4 183.2 190.6 203.3"),
    "CIFAR10": ("2034.9 1942.4 1857.4 1720.6", "54.1 60.0 79.4 79.5"),
    "SVHN": ("1709.3 1672.8 1574.1 1573.0", "73.7 77.2 93.5 119.8"),
    "CIFAR10, classes": (
        "1690.1 1701.7 1706.3 1825.5 1774.8 1858.1 1889.3 1852.1 1856.2 1839.7",
        "58.0 57.4 57.8 57.3 57.1 56.8 63.5 64.0 57.7 58.3",
    ),
}
"""Tables II and V: seconds of retraining and of the game."""

OF_CLASS = {
    "original": "63.96 65.83 42.60 38.85 45.52 46.98 64.17 61.25 69.68 64.47",
    "unlearned": "13.43 5.62 7.81 9.06 9.58 7.60 3.54 2.50 5.41 5.52",
}
"""Table IV: accuracy in per cent on the class that is forgotten."""


def published_advantage() -> Advantage:
    """Return what table III implies, its rows taken as independent draws, of all four shares."""
    counts: dict[str, list[int]] = {"unlearned": [], "retrained": []}
    rows = [round(percent / 100 * ROWS) for percent in PAPER]
    for count, paper in zip(rows, PAPER.values(), strict=True):
        for arm, hits in counts.items():
            hits.append(round(count * paper.attack[arm]))
    events = Events(
        tuple(f"the attack says member, {percent} %" for percent in PAPER),
        np.array(counts["unlearned"]),
        np.array(rows),
        np.array(counts["retrained"]),
        np.array(rows),
    )
    return advantage(events, CONFIDENCE)


def whole_counts(values: Sequence[float], rows: int) -> bool:
    """Return whether each is k / rows in per cent, rounded or cut to two decimals."""

    def fits(value: float) -> bool:
        near = math.floor(value / 100 * rows)
        shown = [100 * k / rows for k in range(max(0, near - 1), near + 3)]
        words = {f"{one:.2f}" for one in shown}
        words |= {f"{math.floor(100 * one + 1e-9) / 100:.2f}" for one in shown}
        return f"{value:.2f}" in words

    return all(fits(value) for value in values)


def _accuracies() -> None:
    for arm in ARMS[1:]:
        column = [paper.accuracy[arm] for paper in PAPER.values()]
        spread = max(column) - min(column)
        print(
            f"table I, Adult, {arm}: mean {np.mean(column):.2f}, standard deviation "
            f"{np.std(column, ddof=1):.2f}, from least to greatest {spread:.2f} points "
            f"= {spread / 100 * TESTED:.0f} of {TESTED:,} test rows"
        )
    values = [one for text in OF_CLASS.values() for one in _numbers(text)]
    found = [rows for rows in range(50, 1001) if whole_counts(values, rows)]
    print(f"table IV: all 20 accuracies on a class are whole counts of {found} rows of 50 to 1,000")


def _times() -> None:
    bound = 1 / ALTERNATIVE
    print(f"tables II, V: M_r' on {ALTERNATIVE:.0%} of the rows, as retraining: at most {bound:g}x")
    shares = {name: tuple(map(_numbers, pair)) for name, pair in TIMES.items()}
    shares["Adult"] = tuple([p.seconds[arm] for p in PAPER.values()] for arm in ARMS[1:])
    for name, (retrained, played) in shares.items():
        ratios = [a / b for a, b in zip(retrained, played, strict=True)]
        line = f"  {name}: speed-up {min(ratios):.1f} to {max(ratios):.1f}"
        if min(ratios) > bound:
            line += (
                f": {ALTERNATIVE:.0%} of retraining is {ALTERNATIVE * min(ratios):.1f} to "
                f"{ALTERNATIVE * max(ratios):.1f} times all that the method is said to take"
            )
        if len(retrained) == len(PAPER):
            line += (
                f"; retraining at 10 % takes {retrained[-1] / retrained[0]:.3f} of that at 1 %, "
                f"its rows are {0.9 / 0.99:.3f}"
            )
        print(line)


def _rates() -> None:
    for percent, paper in PAPER.items():
        gap = paper.attack["retrained"] - paper.attack["unlearned"]
        print(f"table III, Adult, {percent} %: the attack's rates differ by {gap:.2f} between arms")
    found = published_advantage()
    assert found.implied is not None
    print(
        f"  rows taken as draws of their own: advantage in [{found.lower:.3f}, {found.upper:.3f}] "
        f"at {CONFIDENCE:g}, alpha > {found.implied.alpha:.3f}, beta > {found.implied.beta:.3f} "
        "(they share one model, so this assumes what one run cannot show)"
    )


def main() -> None:
    """Print what the tables say of each other."""
    _accuracies()
    _times()
    _rates()


if __name__ == "__main__":
    main()

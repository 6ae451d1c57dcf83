"""What counts as a paper's figure, reproduced."""

from __future__ import annotations

import pytest
from seeds import Line, counted, sampled


@pytest.mark.parametrize(
    ("theirs", "ours", "spread", "verdict"),
    [
        (99.7, 99.66, 0.0, "reproduced"),  # rounds to it
        (99.7, 99.4, sampled(99.7, 1200), "reproduced"),  # 1,200 draws say no better
        (97.3, 99.29, sampled(97.3, 1200), "differs"),
        (83.1, 83.9, sampled(83.1, 16_281), "differs"),
        (1.78, 0.98, None, "-"),
    ],
)
def test_a_figure_is_reproduced_within_its_spread(theirs, ours, spread, verdict):
    assert Line("paper", "what", theirs, ours, spread).verdict == verdict


def test_only_figures_of_one_thing_are_counted():
    lines = [Line("p", "w", 1, 1, 0.0), Line("p", "w", 1, 2, 0.0), Line("p", "w", 1, 1, None)]
    assert counted(lines) == "1 of 2 figures reproduced; 1 for comparison"

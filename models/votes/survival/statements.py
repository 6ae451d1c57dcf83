"""Feasibility, assumptions and outcome of thresholds for given samples."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.votes.ballots import Ballots
from leaveout.models.votes.origin import Against, Assumption
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.samples import Samples

_MOST_WORK = 5e9
"""Values to look at on a level of all trees of a part: a minute or two."""
MOST_ROWS = 5_000
"""With which whole numbers of a tree stay below 2**63."""
_SHOWN = 3

_CHANGES: dict[Against, str] = {
    "edits": "one edit inserts a row with any features and any label into a part, or removes one",
    "insertions": "one insertion adds a row with any features and any label to a part",
    "removals": "one removal takes a row out of a part",
    "relabels": "one relabel gives a row of a part any other label, or one that is none of the "
    "labels, which takes it out of the part",
}


def refuse_unfit(samples: Samples, recipe: PartRecipe, rows: tuple[NDArray[np.int64], ...]) -> None:
    """Refuse samples whose thresholds would be invalid or too slow to compute."""
    learner, against = recipe.learner.surviving, recipe.survive
    if learner is None:
        return
    sizes = [len(each) for each in rows]
    largest = int(np.argmax(sizes))
    place = f"{samples.source}: part {largest} has {sizes[largest]:,} rows"
    if learner.searched and sizes[largest] > MOST_ROWS:
        raise TrainingError(
            f"{place}, and the learner {learner.name} takes at most {MOST_ROWS:,}; use more --parts"
        )
    if against is None:
        return
    if not samples.features.is_fixed:
        raise TrainingError(
            f"{samples.source}: each part of a CSV encodes its own rows, so that a changed row "
            f"would move all others, which thresholds (--survive {against}) do not count; say "
            "--encoding CSV, a table whose rows decide ranges and categories for every part, for "
            "instance the one of --test"
        )
    absent = int((samples.y < 0).sum())
    if against == "relabels" and absent:
        raise TrainingError(
            f"{samples.source}: {absent:,} training rows have a label that is none of --labels; a "
            "relabel could bring them into a part, which thresholds do not count: drop these rows, "
            "or name their labels"
        )
    exact_to = recipe.searched_to
    if exact_to is None:
        return
    for index, each in enumerate(rows):
        times = Counter((samples.keys[row], int(samples.y[row])) for row in each)
        sets = learner.work([*times.values()], len(samples.labels), against, exact_to)
        if sets * len(each) * samples.features.fit_encoder(each).width > _MOST_WORK:
            raise TrainingError(
                f"{samples.source}: part {index} has {len(each):,} rows, of which {sets:,} sets of "
                f"at most {exact_to} {against} would be tried, which takes too long; take a "
                "smaller --exact-to, or more --parts"
            )


def survival_assumptions(recipe: PartRecipe) -> list[Assumption]:
    """Return the assumptions of thresholds beyond those of votes, or none."""
    if recipe.survive is None:
        return []
    return [
        Assumption(
            text="thresholds of the members are those that were computed with their votes; "
            "counting with them computes none again",
            checked=False,
        ),
        Assumption(text=_CHANGES[recipe.survive], checked=True),
        Assumption(
            text="the features of a row are the same whatever the other rows are", checked=True
        ),
        Assumption(
            text="a member is a function of the rows of its part, whatever their order, and draws "
            "nothing",
            checked=True,
        ),
    ]


def survival_note(ballots: Ballots, against: Against) -> str:
    """Return a sentence on how many of the members' votes survive changes."""
    assert ballots.thresholds is not None
    least = np.where(ballots.thresholds < 0, np.iinfo(np.int32).max, ballots.thresholds)
    np.put_along_axis(least, ballots.votes[:, :, None], np.iinfo(np.int32).max, axis=2)
    fewest = least.min(axis=2)
    shares = ", ".join(f"{r}: {(fewest > r).mean():.1%}" for r in range(1, _SHOWN + 1))
    return f"share of the members' votes that survive so many {against} within their part: {shares}"

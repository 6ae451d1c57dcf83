"""Labels in a specification, by number or by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import BallotError
from leaveout.models.votes import Ballots
from leaveout.names import hint
from leaveout.specs.deciders import Arguments

_LISTED = 10


def label_asked(given: Arguments, name: str, ballots: Ballots) -> int | None:
    """Return the label argument of a call; None if not given."""
    value = given.get(name)
    if value is None:
        return None
    names = ballots.origin.label_names
    if isinstance(value, str):
        if value in names:
            return names.index(value)
        known = f"its labels are {_some(names)}" if names else "its labels have numbers alone"
        near = hint(value, names) if names else f": 0 to {ballots.labels - 1}"
        raise BallotError(f'{ballots.source} has no label "{value}"{near}; {known}')
    number = given.number(name)
    if not number.is_integer() or not 0 <= number < ballots.labels:
        raise BallotError(
            f"{ballots.source} has no label {number:.15g}: its labels are 0 to {ballots.labels - 1}"
        )
    label = int(number)
    if str(label) in names and names[label] != str(label):
        other = names.index(str(label))
        raise BallotError(
            f"{ballots.source}: is {name} = {label} the label called {label}, or number {label}, "
            f'which is called {names[label]}? write "{names[other]}" or "{names[label]}"'
        )
    return label


def counted_points(given: Arguments, ballots: Ballots) -> NDArray[np.bool_]:
    """Return which test points count: all, or those of the given true label."""
    label = label_asked(given, "label", ballots)
    if label is None:
        return np.ones(ballots.points, np.bool_)
    counted: NDArray[np.bool_] = ballots.truth == label
    if not counted.any():
        there = [label_with_name(ballots, each) for each in np.unique(ballots.truth).tolist()]
        raise BallotError(
            f"{ballots.source}: no test point has the true label {label_with_name(ballots, label)}, so "
            f"there is no share of them; there are test points of {_some(tuple(there))}"
        )
    return counted


def name_of(ballots: Ballots, label: int) -> str:
    """Return the name of a label; empty if it has none."""
    names = ballots.origin.label_names
    return names[label] if names else ""


def label_with_name(ballots: Ballots, label: int) -> str:
    """Return a label by number and name, as in ``1 (yes)``."""
    name = name_of(ballots, label)
    return f"{label} ({name})" if name and name != str(label) else str(label)


def _some(names: tuple[str, ...]) -> str:
    more = ", ..." if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more

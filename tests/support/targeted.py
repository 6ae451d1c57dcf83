"""Random ballots as votes, to ask what forces a label."""

from __future__ import annotations

import numpy as np

from leaveout.models.votes import Ballots, Origin
from leaveout.solvers import find_solver
from leaveout.verifier.values.votes import Vote

from attacks.kind import generator
from attacks.votes import Votes


def held_of(case):
    """Return the ballots of a case."""
    given = {
        name: np.array(case[name], kind)
        for name, kind in (("scores", np.float64), ("thresholds", np.int32))
        if name in case
    }
    votes, truth = np.array(case["votes"], np.int32), np.array(case["truth"], np.int32)
    origin = Origin(offsets=tuple(case["offsets"]))
    return Ballots(votes, truth, case["labels"], origin=origin, **given)


def vote_of(case):
    """Return the vote of a case."""
    kind = "thresholds" if case["vote"] == "certified" else case["vote"]
    return Vote(kind, held_of(case), find_solver("highs"))


def cases(seed, count, *votes):
    """Yield random ballots that are counted in these ways; no run-offs of spread parts."""
    kind, found, number = Votes(), 0, 0
    while found < count:
        case = kind.make(generator(seed, "votes", number))
        number += 1
        spread = case["vote"] == "run_off" and len(case["offsets"]) > 1
        if case["vote"] in votes and not spread:
            found += 1
            yield case

"""Whether a guard noises every leak, each bound proved again by a tree."""

from __future__ import annotations

import numpy as np

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.leaks import prepare_leaks
from leaveout.verifier.checker.served.access import Access, Share
from leaveout.verifier.checker.tree import make_tree
from leaveout.verifier.checker.tree_arrays import TreeArrays
from leaveout.verifier.checker.tree_walk import Walk


def idp(given: Given) -> bool | None:
    """Return whether no leak is above its member's bound, of any label.

    The members of a label are taken by their bounds, the highest first; each share has a tree,
    numbered in that order.
    """
    served = given.values.get("access")
    if not isinstance(served, Access):
        raise RejectedError("what the guard serves is no folder")
    if not given.number("epsilon") > 0:
        raise RejectedError("epsilon is not above 0")
    if not given.proof:
        return None
    arrays = TreeArrays(dict(given.proof), served.held.path, short=True)
    for number, share in enumerate(served.shares()):
        _prove(given, served, share, arrays, f"tree{number}")
    most = ", ".join(f"{value:.6g}" for value in served.upper.max(axis=1))
    given.tell(
        f"no leak of {len(served.family):,} members is above its member's bound in "
        f"{served.held.path / 'bounds.npz'}, of any label (the highest, by label: {most})"
    )
    for line in served.inputs.lines():
        given.tell(f"for every answer to an input whose {line}")
    given.tell(
        "rests on: the guard noises, by the exponential mechanism, whatever input a member it asks "
        "answers differently, and asks every member whose bound is not below the confidence"
    )
    given.tell(
        "covers the removal of one row that has a member; epsilons of distinct noised inputs add up"
    )
    return True


def _prove(given: Given, served: Access, share: Share, arrays: TreeArrays, name: str) -> None:
    """Walk the tree of one share."""
    # Numbers that leave float64's range are looked for where they would matter.
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            ready = prepare_leaks(served.question(share), given.arithmetic)
            part = arrays.tree(name, leaks=True)
            tree = make_tree(ready.tree(part, share.label), ready.shape(share.label), share.bound)
            Walk(ready.space(share.label), tree, share.bound).run()
        except RejectedError as error:
            raise RejectedError(
                f"label {share.label}, the {len(share.members):,} members with bound "
                f"{share.bound:.6g}: {error}"
            ) from None

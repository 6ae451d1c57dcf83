"""Make a wrong case smaller, as long as the same sort of mistake is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from leaveout.deadline import Deadline

from attacks.kind import Case, Outcome, digest, sort_of

__all__ = ["shrunk"]


def shrunk(
    case: Case,
    outcome: Outcome,
    smaller: Callable[[Case], Iterator[Case]],
    check: Callable[[Case], Outcome],
    stopped: Callable[[], bool] = lambda: False,
    *,
    seconds: float = 120.0,
    tries: int = 2000,
) -> tuple[Case, Outcome]:
    """Take the first smaller case that is as wrong, again and again.

    Parameters
    ----------
    case : Case
    outcome : Outcome
        Of the case; it is wrong.
    smaller : callable
        Yields smaller cases.
    check : callable
        What is made of a case.
    stopped : callable, optional
        Ends the search at once where it is true.
    seconds : float
        At most.
    tries : int
        Cases that are checked at most.

    Returns
    -------
    Case, Outcome
        Of the smallest case found.
    """
    sort = sort_of(outcome.wrong or "")
    end = Deadline.after(seconds)
    seen = {digest(case)}
    going = True
    while going:
        going = False
        for each in smaller(case):
            if stopped() or end.over or len(seen) > tries:
                return case, outcome
            name = digest(each)
            if name in seen:
                continue
            seen.add(name)
            found = check(each)
            if found.wrong is not None and sort_of(found.wrong) == sort:
                case, outcome, going = each, found, True
                break
    return case, outcome

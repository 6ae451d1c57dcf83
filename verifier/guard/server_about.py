"""The public description of a served guard, and the owner's line at the start."""

from __future__ import annotations

from leaveout.models.train.encoding import CategoryColumn
from leaveout.verifier.guard.account import Account
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.padding import Pace
from leaveout.verifier.guard.server_messages import About, BoxFacts, Column, ListedValues


def about(guard: Guard) -> About:
    """Return the public description, which depends on no question.

    Numeric columns are given by name only: the range of the training rows is private.
    """
    box, encoding = guard.box, guard.encoding
    return About(
        features=list(guard.features),
        columns=[] if encoding is None else [
            Column(each.name, "category", list(each.categories))
            if isinstance(each, CategoryColumn)
            else Column(each.name, "number")
            for each in encoding.columns
        ],
        labels=guard.subject.labels,
        names=list(guard.names),
        box=None if box is None else BoxFacts(
            lower=box.lower.tolist(),
            upper=box.upper.tolist(),
            listed=[
                ListedValues(each.columns.tolist(), each.values.tolist()) for each in box.choices
            ],
        ),
        outside=guard.settings.outside,
        members=guard.members,
        epsilon=guard.settings.epsilon,
        promise=_promise(guard),
    )  # fmt: skip


def start_line(
    guard: Guard, account: Account, address: str, pace: Pace | None, most_rows: int
) -> str:
    """Return the line for the owner at the start, who alone may see what was spent."""
    settings = guard.settings
    cap = "no cap" if settings.cap is None else f"cap {settings.cap:g}"
    timing = "answers are sent at once, so that their time tells how they were found"
    if pace is not None:
        timing = (
            f"1 input is answered after {pace.seconds(1):g} s, {most_rows:,} after "
            f"{pace.seconds(most_rows):g} s, {pace.places * pace.processes} at once"
        )
        if pace.processes > 1:
            timing += f" in {pace.processes} processes"
    closed = "; it is closed: nothing is answered" if guard.closed else ""
    return (
        f"{address} answers for {guard.members:,} members over {guard.subject.domain.words}; "
        f"epsilon = {settings.epsilon:g} a noised answer; {account.answers:,} noised so far cost "
        f"{account.epsilon:g}, {cap}; {timing}{closed}"
    )


def _promise(guard: Guard) -> str:
    noised = (
        f"drawn so that none of them changes the chance of any label by more than a factor of "
        f"exp({guard.settings.epsilon:g})"
    )
    which, outside = "For every input of finite numbers", ""
    if guard.box is not None:
        which = "For every input in the box"
        outside = (
            "; inputs outside the box are answered with such a draw"
            if guard.settings.outside == "noise"
            else "; inputs outside the box are refused"
        )
    return (
        f"{which}, the answer is the same whichever one of {guard.members:,} training points is "
        f"left out, or it is {noised}; drawn answers are kept and given again, and the epsilons of "
        f"different ones add up{outside}."
    )

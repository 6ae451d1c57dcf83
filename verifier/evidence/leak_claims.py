"""What a statement of the results asks of leaks, read from its own text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import Confident, Find, Guarantee, check, parse
from leaveout.specs.text.errors import Slip
from leaveout.verifier.points.leak_statements import recognise
from leaveout.verifier.points.sampled_job import share_of, without_share
from leaveout.verifier.report import StatementRecord
from leaveout.verifier.resolve_names import Resolver

__all__ = ["AskedOfLeaks", "asked_of_leaks"]


@dataclass(frozen=True)
class AskedOfLeaks:
    """``confidence(N, x) > threshold => the labels agree``.

    Attributes
    ----------
    label : int or None
        The one label that it is about; None where it is about all.
    threshold : float
        No leak is to be above it: infinite where it is to be found, minus infinity where there is
        to be no leak at all.
    share : float or None
        Of all rows, so many may be exceptions; None where it is about the members.
    level : float or None
        Its confidence.
    """

    label: int | None
    threshold: float
    share: float | None = None
    level: float | None = None

    def follows(self, upper: float) -> bool:
        """Whether it holds where no leak has a confidence above a number.

        Parameters
        ----------
        upper : float
            Below 0 it says that there is no leak: no answer has a confidence that is negative.
        """
        return upper < 0 or upper <= self.threshold


def asked_of_leaks(said: StatementRecord) -> AskedOfLeaks | None:
    """Return what a statement asks of leaks; None where it is about something else.

    Parameters
    ----------
    said : StatementRecord
        Of results from anywhere: no file that it names is opened.
    """
    try:
        tree = parse("\n".join([*said.definitions, said.text]) + "\n", said.name)
        checked = check(tree)
        last = checked.statements[-1] if checked.statements else None
        if not isinstance(last, Guarantee | Find) or last.name != said.name:
            return None
        share, confident, level = share_of(last), last.claim, None
        if share is not None and isinstance(confident, Confident):
            level = confident.level.value
            last = without_share(last)
        read = recognise(last, Resolver(checked, Path()))
    except (LeaveoutError, Slip):
        return None
    if isinstance(read, LeaveoutError):
        return None
    threshold = math.inf if read.threshold is None else read.threshold
    return AskedOfLeaks(read.label, threshold, None if share is None else share.value, level)

"""Views of a report in Python: lines, a data frame and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.names import find_reference
from leaveout.verifier.amounts import span
from leaveout.verifier.records import AnswersRecord
from leaveout.verifier.report import Report, Result

_SPREAD = 0.25  # how far points of a label lie from its line, of the distance between lines


def lines(report: Report) -> str:
    """Return one line per result, then one per network and family with given rows."""
    told = [_line(each) for each in report.results]
    return "\n".join([*told, *(each.words for each in report.answers)]) or "no results"


def _line(result: Result) -> str:
    known = result.lower is not None or result.upper is not None
    amount = f", {span(*result.claimed_bounds)}" if known else ""
    return f"{result.title}: {result.outcome}{amount}"


def frame(report: Report) -> Any:
    """Return a pandas DataFrame of the results."""
    columns = (
        "name",
        "kind",
        "label",
        "label_name",
        "verdict",
        "lower",
        "upper",
        "confidence",
        "seconds",
    )
    rows = [
        {**{name: getattr(each, name) for name in columns}, "reason": each.reason}
        for each in report.results
    ]
    return data_frame(rows, [*columns, "reason"], "report.results")


def data_frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str], same: str) -> Any:
    """Return a pandas DataFrame; ``same`` is where its numbers are without pandas."""
    made: Any = _require("pandas:DataFrame", "pandas", "a table of results", same)
    return made(rows, columns=columns)


def chart(report: Report, ax: Any = None) -> Any:
    """Draw each result's bounds, and confidences of given rows, into matplotlib axes."""
    shown = [each for each in report.results if each.lower is not None or each.upper is not None]
    if not shown:
        raise LeaveoutError("no result has a bound to draw; see report.results")
    if ax is None:
        subplots: Any = _require("matplotlib.pyplot:subplots", "matplotlib", "a chart of results")
        _, ax = subplots(figsize=(7.0, 1.2 + 0.6 * len(shown)), layout="constrained")
    for place, result in enumerate(shown):
        low = result.lower if result.lower is not None else result.upper
        high = result.upper if result.upper is not None else result.lower
        ax.plot([low, high], [place, place], color="C0", linewidth=5, solid_capstyle="butt")
        ax.plot([high], [place], marker="|", markersize=18, color="C0")
        for answers in report.answers:
            if result.name in answers.statements:
                _points(ax, place, result, answers)
    ax.set_yticks(range(len(shown)), [each.title for each in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    given = " and confidences of the rows" if report.answers else ""
    ax.set_xlabel(f"lower and upper bound{given}")
    return ax


def _points(ax: Any, place: int, result: Result, answers: AnswersRecord) -> None:
    every = zip(answers.answers, answers.confidences, answers.states, strict=True)
    own = [
        (confidence, state)
        for label, confidence, state in every
        if result.label in (None, label) and confidence is not None
    ]
    # Spread the same way each time, so that many at one place are seen.
    shifts = np.random.default_rng(0).uniform(-_SPREAD, _SPREAD, len(own))
    colours = {"owes nothing": "C2", "not above": "C1", "unknown": "C7", "outside": "C3"}
    ax.scatter(
        [confidence for confidence, _ in own],
        place + shifts,
        s=8,
        alpha=0.6,
        c=[colours[state] for _, state in own],
    )


def _require(reference: str, library: str, what: str, same: str = "report.results") -> object:
    """Return an object of an optional library; raise with the install hint."""
    try:
        return find_reference(reference)
    except ImportError:
        raise LeaveoutError(
            f"{what} needs {library}: pip install {library}; {same} contains the same numbers"
        ) from None

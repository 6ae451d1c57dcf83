"""The tables, as text and for ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from guard_case import Case
from guard_dpsgd import CLIP, RATES, Private
from guard_folders import Deployment
from guard_paper import EPSILONS, Published, published
from guard_runs import SAMPLE
from guard_times import Timing
from paper import Row

__all__ = ["describe", "entry", "private_entry", "private_text", "text"]

_ROWS = (
    # Name, method of the accuracy, method of the times, method in the paper.
    ("no protection", "none", "none", "none"),
    ("naive noise", "noise", "noise", "noise"),
    ("naive iDP, in turn", "idp", "in turn", "idp"),
    ("naive iDP, stacked", "idp", "stacked", None),
    ("threshold (LUCID)", "threshold", "threshold", "threshold"),
    ("guard", "guard", "guard", None),
)


def describe(row: Row, deployed: Deployment, rows: int) -> str:
    """Say what a table is about: the family, the box and the bounds."""
    found = []
    for result, figure in zip(deployed.report.results, row.figures, strict=True):
        paper = f", paper {figure.bound:g}" if figure else ""
        found.append(f"{result.upper:.4f} (from {result.lower:.4f}{paper})")
    seconds = sum(result.seconds for result in deployed.report.results)
    members = deployed.bounds.upper.shape[1]
    return (
        f"{row.name}, {members:,} of {rows:,} members, box {deployed.name}; "
        f"bounds {', '.join(found)} in {seconds:.0f} s"
    )


def text(row: Row, case: Case, private: Sequence[Private]) -> str:
    """Return the table of one family over one box."""
    paper = published(row)
    access = f"{'median':>10s}{'mean':>9s}{'worst':>9s}{'x none':>8s}{'paper':>8s}"
    lines = [
        f"{'':20s}{'noised':>8s}"
        + "".join(f"{f'epsilon {e:g}':>14s}{'paper':>7s}" for e in EPSILONS)
        + access
    ]
    for name, accuracy, times, theirs in _ROWS:
        lines.append(
            f"{name:20s}{int(case.noised[accuracy].sum()):8,d}"
            + _accuracies(case.expected[accuracy], paper.get(theirs or ""))
            + _times(case.times[times], paper.get(theirs or ""))
        )
    lines.append(f"{'  as it answered':28s}{_accuracies(case.served, None)}")
    by_target = {each.target: each.mean for each in private}
    found = tuple(by_target.get(epsilon) for epsilon in EPSILONS)
    lines.append(f"{'DP-SGD':20s}{'-':>8s}{_accuracies(found, paper.get('dpsgd'))}")
    return "\n".join([*lines, *_exactness(case), *_tiers(case)])


def _accuracies(found: Sequence[float | None], paper: Published | None) -> str:
    cells = []
    for i, value in enumerate(found):
        cells.append(f"{'-' if value is None else format(100 * value, '.2f'):>14s}")
        cells.append(f"{paper.accuracies[i]:7.1f}" if paper else f"{'-':>7s}")
    return "".join(cells)


def _times(found: Timing, paper: Published | None) -> str:
    theirs = paper.milliseconds if paper else None
    last = "-" if theirs is None else f"{theirs:,g}"
    return f"{found.median:10.4f}{found.mean:9.4f}{found.worst:9.3f}{found.ratio:8.2f}{last:>8s}"


def _exactness(case: Case) -> list[str]:
    outside = int(case.outside.sum())
    inside = ~case.outside
    naive, own = (int((case.noised[each] & inside).sum()) for each in ("idp", "guard"))
    lines = [
        f"inside the box: {int(inside.sum()):,} test points, noised {own:,} by the guard and "
        f"{naive:,} by naive iDP; these differ in {case.differ}",
        f"outside the box: {outside:,} test points, which threshold and guard noise; naive iDP "
        f"noises {case.outside_naive:,} of them"
        if outside
        else "outside the box: no test points",
        *([_inside(case)] if outside else []),
        "noised inputs remembered, and epsilon spent on them in all: "
        + ", ".join(
            f"{answers:,} and {total:g} at {epsilon:g} each"
            for epsilon, (answers, total) in zip(EPSILONS, case.spent, strict=True)
        ),
    ]
    if case.wrong:
        lines.append(f"WRONG: {case.wrong} answers are not what they must be")
    if case.unlike:
        lines.append(f"naive iDP in turn and stacked differ in {case.unlike} of {SAMPLE} queries")
    return lines


def _inside(case: Case) -> str:
    found = [
        f"{name} {' '.join(format(100 * each, '.2f') for each in case.inside[method])}"
        for name, method in (("naive iDP", "idp"), ("threshold", "threshold"), ("guard", "guard"))
    ]
    bare = f"{100 * case.inside['none'][0]:.2f}"
    return f"accuracy inside the box alone: no protection {bare}; {'; '.join(found)}"


def _tiers(case: Case) -> list[str]:
    lines = [
        f"{'the guard by tier':28s}{'queries':>9s}{'share':>8s}"
        f"{'median':>10s}{'mean':>9s}{'worst':>9s}{'x none':>8s}"
    ]
    for name, queries, found in case.tiers:
        head = f"  {name:26s}{queries:9,d}{queries / case.points:8.2%}"
        lines.append(head + (_times(found, None)[:-8] if found else f"{'-':>10s}"))
    return lines


def private_text(private: Sequence[Private], row: Row, seeds: int) -> str:
    """Return what DP-SGD gave, a line a target."""
    recipe = row.recipe(0)
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    paper = published(row).get("dpsgd")
    theirs = dict(zip(EPSILONS, paper.accuracies, strict=True)) if paper else {}
    lines = [
        f"DP-SGD: Poisson batches of {recipe.batch:,} on average, {recipe.epochs} epochs, clipping "
        f"norm {CLIP:g}, seeds: {seeds}; learning rate of {rates}, by training rows held back"
    ]
    for each in private:
        low, high = 100 * min(each.accuracies), 100 * max(each.accuracies)
        known = f"{theirs[each.target]:.1f}" if each.target in theirs else "-"
        lines.append(
            f"  epsilon {each.target:<4g}{100 * each.mean:7.2f} ({low:.2f} to {high:.2f}), paper "
            f"{known}; spent {each.epsilon:.3f} at delta {each.delta:.1e}, noise {each.noise:.2f}, "
            f"learning rate {each.rate:g}, {each.seconds:.0f} s a training"
        )
    return "\n".join(lines)


def entry(row: Row, deployed: Deployment, case: Case) -> dict[str, object]:
    """Return one family over one box for ``--json``."""
    inside = ~case.outside
    return {
        "row": row.name,
        "box": deployed.name,
        "members": deployed.bounds.upper.shape[1],
        "lower": [result.lower for result in deployed.report.results],
        "upper": [result.upper for result in deployed.report.results],
        "bound_seconds": [result.seconds for result in deployed.report.results],
        "test_points": case.points,
        "outside": int(case.outside.sum()),
        "outside_noised_by_naive_idp": case.outside_naive,
        "noised": {method: int(mask.sum()) for method, mask in case.noised.items()},
        "noised_inside": {m: int((mask & inside).sum()) for m, mask in case.noised.items()},
        "guard_differs_from_naive_idp": case.differ,
        "wrong_answers": case.wrong,
        "stacked_differs_from_in_turn": case.unlike,
        "epsilons": list(EPSILONS),
        "expected_accuracy": case.expected,
        "expected_accuracy_inside": case.inside,
        "served_accuracy": case.served,
        "spent": case.spent,
        "times": {method: asdict(found) for method, found in case.times.items()},
        "tiers": [
            {"tier": name, "queries": queries, "times": asdict(found) if found else None}
            for name, queries, found in case.tiers
        ],
        "paper": {method: asdict(each) for method, each in published(row).items()},
    }


def private_entry(row: Row, private: Sequence[Private]) -> dict[str, object]:
    """Return DP-SGD on one set for ``--json``."""
    return {
        "row": row.name,
        "clipping_norm": CLIP,
        "learning_rates": RATES,
        "targets": [
            {**asdict(each), "mean": each.mean, "deviation": float(np.std(each.accuracies))}
            for each in private
        ],
    }

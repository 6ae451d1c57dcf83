"""Advice for unknown results: only what is known to hold for the case."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from leaveout.bab import Instance
from leaveout.encoders import Box
from leaveout.models import Manifest
from leaveout.models.matrices import magnitude
from leaveout.models.train.encoding import CategoryColumn, encoding_of, listable
from leaveout.verifier.amounts import percent
from leaveout.verifier.points.sentences import join_some
from leaveout.verifier.records import TraceRecord
from leaveout.verifier.report import Result

_NAMED = 3  # columns of a line
_CLOSED, _LONGEST = 0.01, 30 * 86_400.0
"""Gap of a closed search, relative to the upper end, and seconds that nobody waits."""
_MOST_POWER = 700.0
_WIDER = 1.05  # how much wider than the data a range is that is worth a word


@dataclass(frozen=True, eq=False)
class Case:
    """The context of a result."""

    box: Box  # the set of inputs
    manifest: Manifest | None = None  # of the family; None where there is none, or several
    instance: Instance | None = None  # of leaks


def advice(result: Result, case: Case) -> tuple[str, ...]:
    """Return advice for deciding an unknown result, one line each."""
    if result.verdict != "unknown":
        return ()
    said = [*_smaller(case), *_time(result), *_tie(result), *_engine(result)]
    if case.instance is not None:
        said += _widest(case.instance)
    return tuple(said)


def _smaller(case: Case) -> Iterator[str]:
    """Advise on inputs in the box that no record can have."""
    if case.manifest is None:
        return
    encoding, facts = encoding_of(case.manifest), case.manifest.data
    free = set(np.flatnonzero(case.box.lower < case.box.upper).tolist())
    free -= set(case.box.discrete.tolist())
    whole: list[str] = []
    words: list[tuple[str, list[int]]] = []
    for column, places in () if encoding is None else encoding.layout:
        at = list(range(places.start, places.stop))
        if not free.issuperset(at):
            continue
        if isinstance(column, CategoryColumn):
            words += [(column.name, at)] if len(at) > 1 else []
        elif column.whole and listable(column) and column.minimum < column.maximum:
            whole.append(column.name)
    if words:
        name, at = words[0]
        yield (
            f"{_columns([each for each, _ in words])} one category in each record, but any "
            f"numbers in this set of inputs: one_hot(X, at = {at}) restricts the set to possible "
            f"values of {name!r}, a smaller question"
        )
    if whole:
        yield (
            f"{_columns(whole)} whole numbers in the training data, but any number in this set "
            "of inputs: integers(X, at = ...) restricts it to whole ones"
        )
    if facts is not None and len(facts.minimum) == case.box.dimension:
        data = np.asarray(facts.maximum) - np.asarray(facts.minimum)
        own = case.box.upper - case.box.lower
        categories = {each for _, at in words for each in at}
        wider = [i for i in np.flatnonzero(own > _WIDER * data).tolist() if i in free - categories]
        if wider:
            yield (
                f"the set of inputs is wider than the training data in "
                f"{_feature_names(wider, case.manifest)}: a box of the data's own ranges is smaller"
            )


def _time(result: Result) -> Iterator[str]:
    """Advise on time, from the progress in the second half of the search."""
    reason = result.reason or ""
    if not reason.startswith("time"):
        return
    courses = [
        each for each in result.traces if each.seconds[-1] > 0 and each.upper[-1] > each.lower[-1]
    ]
    if not courses and result.kind == "guarantee" and "stopped after" in reason:
        yield (
            "more --time may decide it; a find of the least number for which it holds shows how "
            "close it is"
        )
        return
    if not courses:
        yield "its search had no time left: raise --time, or ask for less in one run"
        return
    course = max(courses, key=lambda each: each.upper[-1])
    half, before, after = _halves(course)
    if after >= before:
        yield (
            f"in the last {half:.3g} s of the search neither bound moved: a smaller set of inputs "
            "may help more than time"
        )
        return
    yield (
        f"in the last {half:.3g} s of the search the gap between the bounds went from "
        f"{before:.4g} to {after:.4g}: at this pace 1 % takes {_pace(course)}, a rough guess; "
        "--resume FILE saves the progress for the next run"
    )


def _pace(course: TraceRecord) -> str:
    """Say how long a gap of 1 % takes if gaps go on falling by a power of time, as they mostly do.

    ``benchmarks/pace.py`` measures how well that foretells (``docs/native.md``).
    """
    seconds = foretell(course, _CLOSED * abs(course.upper[-1]))
    if seconds > _LONGEST:
        return "more than a month: ask about fewer inputs or members, or a smaller model"
    sizes = {"days": 86_400, "hours": 3_600, "minutes": 60, "s": 1}
    unit = next((name for name, size in sizes.items() if seconds >= 2 * size), "s")
    return f"about {float(f'{seconds / sizes[unit]:.1g}'):g} {unit}"


def foretell(course: TraceRecord, goal: float) -> float:
    """Return when the gap will have fallen to a goal, in seconds since the search began.

    By the power of time that it fell by in the second half; infinity if it did not fall.
    """
    end, (half, before, after) = course.seconds[-1], _halves(course)
    if not before > after:
        return math.inf
    after = max(after, 1e-300)
    power = math.log(before / after) / math.log(end / max(end - half, end / 100))
    needed = max(math.log(after / max(goal, 1e-300)), 0.0) / power
    return end * math.exp(min(needed, _MOST_POWER))


def _tie(result: Result) -> Iterator[str]:
    """Advise on a guarantee that only rounding keeps open."""
    if result.kind == "guarantee" and (result.reason or "").startswith("numerical: float32"):
        yield (
            "it may hold with equality, or fail by less than rounding can resolve: more --time "
            "does not help; relax the claim slightly, e.g. <= 1.001 instead of <= 1"
        )


def _halves(course: TraceRecord) -> tuple[float, float, float]:
    """Return the length of the second half, and the gaps before and after it."""
    end = course.seconds[-1]
    at = max(i for i, second in enumerate(course.seconds) if second <= end / 2 or i == 0)
    gaps = [high - low for low, high in zip(course.lower, course.upper, strict=True)]
    return end - course.seconds[at], gaps[at], gaps[-1]


def _engine(result: Result) -> Iterator[str]:
    if result.engine == "lucid":
        yield "the default engine, native, decides the same claim without a solver: drop --engine"


def _widest(instance: Instance) -> Iterator[str]:
    """Advise on unstable neurons and the inputs that affect them most."""
    hidden = instance.bounds[:-1]
    if not hidden:
        return
    free = sum(int(((each.lower < 0) & (each.upper > 0)).sum()) for each in hidden)
    total = sum(each.lower.size for each in hidden)
    yield from _inputs(instance, f"{free:,} of {total:,} neurons have no fixed phase over the set")


def _inputs(instance: Instance, head: str) -> Iterator[str]:
    first = instance.network.stack.layers[0].weights.get(0)
    width = instance.box.upper - instance.box.lower
    moved = None if first is None else magnitude(first[0]).sum(axis=0) * width
    if moved is None or not moved.sum() > 0 or len(moved) < 2:
        yield head
        return
    most = np.argsort(-moved, kind="stable")[:_NAMED]
    manifest = instance.family.manifest
    told = ", ".join(
        f"{_name(int(i), manifest)} ({percent(round(moved[i] / moved.sum(), 2))})" for i in most
    )
    more = f"; the first layer depends mostly on {told}: narrow these first"
    yield head + (more if moved[most].sum() > 0.5 * moved.sum() else "")


def _columns(names: Iterable[str]) -> str:
    listed = list(names)
    shown = join_some([*map(repr, listed)], _NAMED)
    return f"column {shown} takes" if len(listed) == 1 else f"columns {shown} take"


def _feature_names(features: list[int], manifest: Manifest) -> str:
    return join_some([_name(each, manifest) for each in features], _NAMED)


def _name(at: int, manifest: Manifest) -> str:
    facts = manifest.data
    known = facts is not None and at < len(facts.features)
    return facts.features[at] if facts is not None and known else f"feature {at}"

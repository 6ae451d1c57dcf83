"""Reading of RESULT.json files, with one-line errors."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path, PurePath

import msgspec

from leaveout.files import RESULTS, read_whole, refuse_unread, sha256_of
from leaveout.specs.deciders import Curve
from leaveout.verifier.page.model import GuardAccounts, Run
from leaveout.verifier.page.spec_text import read_specification
from leaveout.verifier.page.target import PageError
from leaveout.verifier.records import GroupsRecord, TraceRecord
from leaveout.verifier.report import Report, Result

_GROUPS = 1000


def load(names: Sequence[str]) -> tuple[Run, ...]:
    """Read result files, each once."""
    distinct = list(dict.fromkeys(names))
    short = [Path(name).name for name in distinct]
    shown = short if len(set(short)) == len(short) else distinct
    return tuple(
        _run(name, "standard input" if name == "-" else show, number)
        for number, (name, show) in enumerate(zip(distinct, shown, strict=True), start=1)
    )


def _run(name: str, shown: str, number: int) -> Run:
    data = sys.stdin.buffer.read() if name == "-" else _bytes(name)
    report, unread = _report(data, "standard input" if name == "-" else name)
    folder = None if name == "-" else Path(name).parent
    return Run(
        name=shown,
        digest=hashlib.sha256(data).hexdigest(),
        report=report,
        specification=read_specification(
            report.spec, folder, report.spec_sha256, report.notes, _included_digests(report)
        ),
        unread=unread,
        number=number,
    )


def guard_accounts(folder: Path, runs: Sequence[Run]) -> GuardAccounts:
    """Return the accounts of the guard that serves a folder with a model of the results."""
    from leaveout.verifier.guard.memory import Memory, memories

    # Bounds and thresholds of other models say nothing of this guard's answers.
    digests = {
        (PurePath(each.path).name, each.sha256)
        for run in runs
        for each in run.report.files
        if each.kind in ("network", "forest", "linear", "trees")
    }
    here = [name for name, _ in digests if (folder / name).is_file()]
    with refuse_unread(PageError, f"--guard {folder}"):
        found = {(name, sha256_of(folder / name)) for name in here}
    if not digests & found:
        raise PageError(f"--guard {folder}: does not serve a model of these results")
    models = ", ".join(sorted(name for name, _ in digests & found))
    accounts = tuple((path.name, Memory.read(path)) for path in memories(folder))
    return GuardAccounts(f"{models} in the folder {folder.resolve().name}", accounts)


def _included_digests(report: Report) -> frozenset[str] | None:
    """Return the digests of the included specifications; None if unrecorded."""
    kept = [each.sha256 for each in report.files if each.kind == "included specification"]
    return frozenset(kept) if report.files else None


def _bytes(name: str) -> bytes:
    path = Path(name)
    try:
        return read_whole(path, RESULTS)
    except IsADirectoryError:
        raise PageError(
            f"{name}: is a folder; expected a results file from verify --json"
        ) from None
    except FileNotFoundError:
        raise PageError(
            f"{name}: no such file; 'leaveout verify SPEC --json {name}' writes one"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PageError(f"{name}: cannot read: {reason}") from None


def _report(data: bytes, name: str) -> tuple[Report, tuple[str, ...]]:
    expected = "expected a results file from 'leaveout verify --json'"
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if name.endswith(".spec"):
            raise PageError(
                f"{name}: is a specification; verify it first, with 'leaveout verify {name} "
                "--json result.json', and name result.json"
            ) from None
        raise PageError(f"{name}: not valid JSON ({error}), {expected}") from None
    except RecursionError:
        raise PageError(f"{name}: is nested too deeply, {expected}") from None
    if not isinstance(raw, dict) or not {"leaveout", "results"} <= set(raw):
        raise PageError(f"{name}: JSON without results, {expected}")
    try:
        report = msgspec.convert(raw, Report)
    except (msgspec.ValidationError, RecursionError) as error:
        version = raw["leaveout"]
        by = f", written by leaveout {version[:20]!r}," if isinstance(version, str) else ""
        wrong = f"does not contain results that this version can read: {error}"
        raise PageError(f"{name}{by} {wrong}") from None
    for at, result in enumerate(report.results):
        where = f"result {at} ({result.name!r})"
        for curve in result.curves:
            _check(curve, f"{name}: curve {curve.name!r} of {where}")
        for trace in result.traces:
            _check_trace(trace, f"{name}: a trace of {where}")
        for tree in result.groups:
            _check_groups(tree, f"{name}: the groups of {where}")
        _refuse_infinite(result, f"{name}: {where}")
    return report, _unknown_fields(raw)


def _check(curve: Curve, where: str) -> None:
    if not len(curve.at) == len(curve.lower) == len(curve.upper):
        raise PageError(
            f"{where} has {len(curve.at)} places, {len(curve.lower)} lower and "
            f"{len(curve.upper)} upper ends; expected the same number of each"
        )
    if any(after <= before for before, after in pairwise(curve.at)):
        raise PageError(f"{where} is not ascending")
    if any(abs(at) > 2**53 for at in curve.at):
        raise PageError(f"{where} extends beyond what can be drawn")
    if any(low > high for low, high in zip(curve.lower, curve.upper, strict=True)):
        raise PageError(f"{where} has a lower end above its upper end")


def _check_trace(trace: TraceRecord, where: str) -> None:
    if not 2 <= len(trace.seconds) == len(trace.lower) == len(trace.upper):
        raise PageError(
            f"{where} has {len(trace.seconds)} times, {len(trace.lower)} lower and "
            f"{len(trace.upper)} upper bounds; expected at least two, and the same number of each"
        )
    if any(after < before for before, after in pairwise(trace.seconds)) or trace.seconds[0] < 0:
        raise PageError(f"{where} has times that do not ascend")


def _check_groups(tree: GroupsRecord, where: str) -> None:
    for at, group in enumerate(tree.groups):
        if not (group.parent == -1 if at == 0 else 0 <= group.parent < at):
            raise PageError(
                f"{where} do not form a tree: group {at} is part of group {group.parent}"
            )
    if len(tree.groups) > _GROUPS:
        raise PageError(f"{where} number {len(tree.groups):,}; at most {_GROUPS} can be drawn")


def _refuse_infinite(result: Result, where: str) -> None:
    """Raise on numbers no run writes; a float too large is read as infinite."""
    numbers = [result.seconds, *(x for x in (result.lower, result.upper) if x is not None)]
    numbers += [x for curve in result.curves for x in (*curve.lower, *curve.upper)]
    for trace in result.traces:
        numbers += [*trace.seconds, *trace.lower, *trace.upper]
    numbers += [group.upper for tree in result.groups for group in tree.groups]
    facts = [fact for record in result.facts for fact in record.facts.values()]
    numbers += [fact for fact in facts if isinstance(fact, float)]
    numbers += [] if result.confidence is None else [result.confidence]
    if not all(map(math.isfinite, numbers)):
        raise PageError(f"{where} contains a number that is not finite")
    if len(result.box.lower) != len(result.box.upper):
        raise PageError(f"{where} has a box with unequal numbers of lower and upper ends")


def _unknown_fields(raw: dict[str, object]) -> tuple[str, ...]:
    """Return the fields of another version that this one would drop."""
    unread = dict.fromkeys(key for key in raw if key not in Report.__struct_fields__)
    results = raw["results"]
    assert isinstance(results, list)
    for result in results:
        known = Result.__struct_fields__
        unread |= dict.fromkeys(f"results[].{key}" for key in result if key not in known)
    return tuple(unread)


_WRITTEN = re.compile(r"\d{4}-\d{2}-\d{2}")


def day(text: str) -> str:
    """Return a day as given; empty if none is given."""
    if not text:
        return ""
    try:
        if _WRITTEN.fullmatch(text):
            return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise PageError(f"--date {text!r}: not a date; expected year-month-day, e.g. 2026-11-23")


def check_day(text: str, runs: Sequence[Run]) -> None:
    """Raise if the results store a different day."""
    for run in runs:
        if text and run.day and run.day != text:
            raise PageError(
                f"--date {text}: {run.name} already states its date, {run.day}; drop --date"
            )

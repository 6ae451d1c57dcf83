"""The confidence of a network's answers to points, compared with the proved bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.models import Family, Network
from leaveout.specs import expand
from leaveout.specs.text.parse import parse, read
from leaveout.specs.typing.params import params
from leaveout.verifier.page.model import Confidences, Run
from leaveout.verifier.page.spec_text import overridden_params
from leaveout.verifier.page.target import PageError
from leaveout.verifier.points.answers import answers_of, as_box
from leaveout.verifier.points.given import DataError, GivenPoints
from leaveout.verifier.points.leak_statements import IdpStatement, recognise
from leaveout.verifier.points.sentences import label_name
from leaveout.verifier.records import BoxRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Reading, read_spec


@dataclass(frozen=True, eq=False)
class _Question:
    """The network, comparison and input set that a result is about."""

    network: Network
    family: Family
    box: BoxRecord
    run: Run


def confidences(
    runs: Sequence[Run], given: GivenPoints
) -> tuple[tuple[Confidences, ...], tuple[str, ...]]:
    """Return the confidences of the answers to given points, per bounded label.

    Where several bounds of a label are known, the lowest is used: each of them holds.
    """
    found: list[Confidences] = []
    refused: list[LeaveoutError] = []
    for run in runs:
        try:
            for question, results in _questions(run):
                found += _label_confidences(question, results, given)
        except (PageError, DataError) as error:
            refused.append(error)
    if not found and refused:
        raise refused[0]
    if not found:
        raise PageError(
            f"{given.place}: no result bounds the confidence of leaks of a family, so there is "
            "nothing to compare points with"
        )
    return tuple(found), tuple(str(error).removeprefix("--data").strip(": ") for error in refused)


_OTHERS = ("forest", "linear", "trees")


def _questions(run: Run) -> Iterable[tuple[_Question, list[Result]]]:
    """Yield each question about leaks once, with its results."""
    bounded = [each for each in run.report.results if each.box.lower and each.upper is not None]
    if not bounded:
        return
    kinds: set[str] = {each.model for each in run.report.models}
    kinds |= {each.kind for each in run.report.files if each.kind in ("network", *_OTHERS)}
    if kinds and "network" not in kinds:
        raise PageError(
            f"--data: {run.name} is about no network; leaveout hinges DIR FILE says which answers "
            "one record changes"
        )
    reading = _read_run_spec(run)
    resolver = reading.resolver()
    written = {each.name: each for each in reading.checked.statements}
    gathered: dict[tuple[str, str, BoxRecord], tuple[_Question, list[Result]]] = {}
    for result in bounded:
        if result.name not in written:
            continue
        try:
            leak = recognise(written[result.name], resolver)
            if not isinstance(leak, IdpStatement):
                # A claim of another form, which bounds no confidence.
                continue
            if resolver.is_network(leak.family):
                # What another network answers says nothing of any training point.
                continue
            names = str(resolver.value(leak.network)), str(resolver.value(leak.family))
            key = (*names, result.box)
            if key not in gathered:
                network = resolver.network(leak.network)
                family = resolver.family(leak.family, network)
                gathered[key] = (_Question(network, family, result.box, run), [])
        except LeaveoutError as error:
            raise _unknown(run, str(error)) from None
        gathered[key][1].append(result)
    yield from gathered.values()


def _read_run_spec(run: Run) -> Reading:
    specification = run.specification
    path = specification.path
    if path is None:
        raise _unknown(run, specification.missing or "the specification was built in Python")
    try:
        before = params(expand(parse(read(path), str(path)), path.parent, path))
        return read_spec(path, values=overridden_params(run.report.notes, before))
    except LeaveoutError as error:
        raise _unknown(run, str(error)) from None


def _unknown(run: Run, why: str) -> PageError:
    first = why.partition("\n")[0]
    return PageError(f"--data: cannot read the network of {run.name}: {first}")


def _label_confidences(
    question: _Question, results: list[Result], given: GivenPoints
) -> Iterable[Confidences]:
    """Yield the confidences of one network's answers, per bounded label."""
    network, manifest = question.network, question.family.manifest
    x = given.points(manifest, network.inputs, network.source)
    y = given.labels(manifest)
    found = answers_of(network, x)
    inside = as_box(question.box).contains(x.astype(np.float64))
    for label in range(network.labels):
        known = [each for each in results if each.label in (None, label)]
        if not known:
            continue
        best = min(known, key=_upper)
        own = found.labels == label
        yield Confidences(
            run=question.run,
            network=Path(network.source).name,
            label=label,
            name=label_name(manifest.data, label),
            statement=best.name,
            upper=_upper(best),
            box=question.box,
            points=len(x),
            values=found.confidences[own],
            inside=inside[own],
            right=None if y is None else y[own] == label,
        )


def _upper(result: Result) -> float:
    assert result.upper is not None
    return result.upper

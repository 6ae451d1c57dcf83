"""Given points whose answers each row's absence changes; every member is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import make_instance
from leaveout.bab.linear.search import confidence, dissenters
from leaveout.bab.native.files.manifest_parts import family_digest, network_digest
from leaveout.encoders import Box
from leaveout.errors import SpecError
from leaveout.kernel.model import LinearModel
from leaveout.models import Family, Network, load_family, load_network
from leaveout.models.archive import read_archive
from leaveout.models.forest.columns import COLUMNS, ForestColumns, load_columns
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import Ensemble, forest_digest
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.forest.state import load_plain
from leaveout.models.linear.family import bound_members, centre
from leaveout.models.linear.file import load_linear
from leaveout.verifier.guard.forests.leaks import ForestLeakTest
from leaveout.verifier.guard.forests.subject import ForestAccess, ForestSubject
from leaveout.verifier.guard.leaks import Crowd
from leaveout.verifier.points.answers import answers_of, as_box
from leaveout.verifier.points.given import GivenPoints
from leaveout.verifier.points.linear_leaks import load_names
from leaveout.verifier.points.sentences import point_words
from leaveout.verifier.points.table_names import forest_names
from leaveout.verifier.records import ByRowRecord, RowLeakRecord
from leaveout.verifier.row_records import RowPointsRecord, RowsError


@dataclass(frozen=True, eq=False)
class Asked:
    """Points, the model's answers, and the members that answer differently."""

    x: NDArray[Any]  # shape (points, features)
    labels: NDArray[np.int64]  # shape (points,)
    confidences: Floats  # shape (points,)
    removed: NDArray[np.int64]  # shape (members,): the row that each member lacks
    apart: Sequence[NDArray[np.int64]]
    answer: Callable[[int, int], int]  # returns what a member answers to a point, both by position


@dataclass(frozen=True, eq=False)
class Changed:
    """The answers to some points that a row's absence changes."""

    points: RowPointsRecord
    leaks: tuple[tuple[int, RowLeakRecord], ...]


def changed_points(
    record: ByRowRecord,
    data: Any,
    network: Path | None,
    family: Path | None,
    folders: Sequence[Path],
) -> dict[int, Changed]:
    """Return for each left-out row which answers to some points it changes."""
    given = GivenPoints.of(data)
    if record.model == "network":
        asked = ask_networks(record, given, network, family, folders)
    elif record.model == "forest":
        asked = ask_forest(record, given, data, network, folders)
    else:
        asked = ask_linear(record, given, data, network, folders)
    # Of several members without a row any may be the one that answers otherwise.
    changed: dict[int, dict[int, int]] = {row: {} for row, _ in _left_out(record)}
    for point, members in enumerate(asked.apart):
        for member in members.tolist():
            changed[int(asked.removed[member])].setdefault(point, member)
    bounds = _bounds(record, asked)
    _check_against(record, given, asked, changed, bounds)
    excluded = _count_excluded(record, asked, bounds)
    return {
        row: Changed(
            RowPointsRecord(
                data=given.name,
                points=len(asked.x),
                changed=tuple(changed[row]),
                places=tuple(map(given.row_name, changed[row])),
                not_excluded=len(asked.x) - int(excluded[at]),
            ),
            tuple(_leaks(row, asked, changed[row], bounds)),
        )
        for row, at in _left_out(record)
    }


def _left_out(record: ByRowRecord) -> Iterator[tuple[int, int]]:
    """Yield the rows that members lack, with their positions in the record."""
    for at, (row, members) in enumerate(zip(record.rows, record.members, strict=True)):
        if members:
            yield row, at


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Bounds of rows per label, infinite if unknown, and the points they cover."""

    of: dict[int, Floats]
    inside: NDArray[np.bool_]


def _bounds(record: ByRowRecord, asked: Asked) -> _Bounds:
    of = {}
    for each in record.labels:
        levels = np.append(np.asarray(each.levels, np.float64), np.inf)
        of[each.label] = levels[np.asarray(each.level)]
    return _Bounds(of, as_box(record.box).contains(asked.x.astype(np.float64)))


def _check_against(
    record: ByRowRecord,
    given: GivenPoints,
    asked: Asked,
    changed: dict[int, dict[int, int]],
    bounds: _Bounds,
) -> None:
    for row, at in _left_out(record):
        for point in changed[row]:
            of = bounds.of.get(int(asked.labels[point]))
            if of is None or not bounds.inside[point]:
                continue
            if asked.confidences[point] > of[at]:
                raise RowsError(
                    f"the results are wrong about row {row}: its bound for label "
                    f"{asked.labels[point]} is {of[at]:.6g}, but without it the answer to "
                    f"{given.row_name(point)} of {given.name}, confidence "
                    f"{asked.confidences[point]:.6g}, changes; verify again"
                )


def _leaks(
    row: int, asked: Asked, changed: dict[int, int], bounds: _Bounds
) -> Iterator[tuple[int, RowLeakRecord]]:
    """Yield the worst changed answer of each label asked about."""
    worst: dict[int, int] = {}
    for point in changed:
        label = int(asked.labels[point])
        if not bounds.inside[point] or label not in bounds.of:
            continue
        if label not in worst or asked.confidences[point] > asked.confidences[worst[label]]:
            worst[label] = point
    for label, point in worst.items():
        x = asked.x[point]
        yield (
            label,
            RowLeakRecord(
                row=row,
                member=changed[point],
                confidence=float(asked.confidences[point]),
                member_label=asked.answer(changed[point], point),
                x=x.astype(x.dtype.newbyteorder("<")).tobytes(),
            ),
        )


def _count_excluded(record: ByRowRecord, asked: Asked, bounds: _Bounds) -> NDArray[np.int64]:
    """Return for each row how many covered points lie above its bound."""
    excluded = np.zeros(len(record.rows), np.int64)
    for label, of in bounds.of.items():
        own = bounds.inside & (asked.labels == label)
        confidences = np.sort(asked.confidences[own])
        excluded += len(confidences) - np.searchsorted(confidences, of, side="right")
    return excluded


def ask_networks(
    record: ByRowRecord,
    given: GivenPoints,
    network: Path | None,
    family: Path | None,
    folders: Sequence[Path],
) -> Asked:
    """Evaluate the network and every member of its family at points."""
    whole, members = network_and_family(record, network, family, folders)
    x = given.points(members.manifest, whole.inputs, whole.source)
    answers = answers_of(whole, x)
    points = x.astype(np.float64)
    try:
        # Rounding is bounded over the points themselves, wherever they lie.
        instance = make_instance(whole, members, Box(points.min(axis=0), points.max(axis=0)))
    except SpecError as error:
        raise RowsError(f"{given.place}: {error}") from None
    # Where the network itself ties there is nothing to change.
    asked = np.flatnonzero(answers.confidences > 0)
    found = Crowd(instance).dissenters(x[asked], answers.labels[asked])
    apart = [np.zeros(0, np.int64)] * len(x)
    for at, members_apart in zip(asked.tolist(), found, strict=True):
        apart[at] = members_apart

    def answer(member: int, point: int) -> int:
        return int(instance.others.runner(member).scores(x[point][None])[0].argmax())

    return Asked(x, answers.labels, answers.confidences, members.removed, apart, answer)


def network_and_family(
    record: ByRowRecord, network: Path | None, family: Path | None, folders: Sequence[Path]
) -> tuple[Network, Family]:
    """Read the network and the family of a record."""
    path = find_file(record.network, network, folders, "--network")
    whole = load_network(path)
    _same(str(path), network_digest(whole), record.network_sha256, lambda: "network")
    source = find_file(record.family, family, folders, "--family")
    members = load_family(source, whole)
    _same(str(source), family_digest(members), record.family_sha256, lambda: "family")
    return whole, members


def input_words(
    record: ByRowRecord, network: Path | None, family: Path | None, folders: Sequence[Path]
) -> Callable[[Sequence[float]], str]:
    """Return how inputs are written in the units of the training table."""
    if record.model == "network":
        manifest = network_and_family(record, network, family, folders)[1].manifest
        return lambda x: point_words(manifest, np.asarray(x, np.float32))
    if record.model == "linear":
        where, model = _linear(record, network, folders)
        known = load_names(where, model)
        return lambda x: known.point(np.asarray(x))
    path, ensemble = _forest(record, network, folders)
    names = forest_names(path, ScoredForest.of(ensemble), ensemble.X.shape[1])
    return lambda x: names.point(np.asarray(x))


def _forest(
    record: ByRowRecord, forest: Path | None, folders: Sequence[Path]
) -> tuple[Path, Ensemble]:
    path = find_file(record.network, forest, folders, "--network")
    ensemble = load_plain(path)
    if forest_digest(ensemble) != record.network_sha256:
        raise RowsError(
            f"{path}: differs from the verified forest in its rows, trees or settings; pass the "
            "one that was verified, or verify again"
        )
    return path, ensemble


def find_file(known: str, given: Path | None, folders: Sequence[Path], option: str) -> Path:
    """Return the path of a file that the results name."""
    if given is not None:
        return given
    if not known:
        raise RowsError(f"the results name no file; pass it with {option}")
    parts = Path(known).parts
    for start in range(len(parts)):
        for folder in folders:
            path = folder.joinpath(*parts[start:])
            if path.exists():
                return path
    raise RowsError(f"{known}: no such file; if it has moved, pass it with {option}")


def _same(path: str, found: str, expected: str, what: Callable[[], str]) -> None:
    if found != expected:
        raise RowsError(
            f"{path}: differs from the verified {what()} (sha256 {found[:12]}..., expected "
            f"{expected[:12]}...); pass the one that was verified, or verify again"
        )


def _linear(
    record: ByRowRecord, file: Path | None, folders: Sequence[Path]
) -> tuple[Path, LinearModel]:
    path = find_file(record.network, file, folders, "--network")
    model = load_linear(path)
    _same(str(path), model.digest, record.network_sha256, lambda: "linear model")
    return path, model


def ask_linear(
    record: ByRowRecord, given: GivenPoints, data: Any, file: Path | None, folders: Sequence[Path]
) -> Asked:
    """Evaluate a linear model, and its members without each row, at points."""
    path, model = _linear(record, file, folders)
    columns = load_names(path, model).columns
    x = _linear_points(given, data, model.inputs, columns)
    scores = model.scores(x)
    labels = scores.argmax(axis=1)
    confidences = np.array([confidence(own, at) for own, at in zip(scores, labels, strict=True)])
    family, apart = dissenters(bound_members(model), x, labels)

    def answer(member: int, point: int) -> int:
        other = replace(model, coefficients=centre(family, member))
        return int(other.answers(x[point][None])[0])

    return Asked(x, labels, confidences, model.unit_names, apart, answer)


def _linear_points(
    given: GivenPoints, data: Any, width: int, columns: ForestColumns | None
) -> Floats:
    encoding = None if columns is None else columns.encoding
    table = given.table_like(encoding)
    if table is not None and columns is not None and encoding is not None:
        x = columns.encode(list(table.records()))
    elif table is not None:
        x = np.array([[float(each) for each in row.values()] for row in table.records()])
    elif given.name != given.place:
        arrays = read_archive(Path(data), RowsError)
        x = np.asarray(arrays["X_test" if "X_test" in arrays else "X"], np.float64)
    else:
        x = np.asarray(data, np.float64).reshape(len(data), -1)
    if x.ndim != 2 or x.shape[1] != width:
        raise RowsError(
            f"{given.place}: a point has {x.shape[-1]} features, the linear model reads {width}"
        )
    return np.require(x, np.float64, ["C"])


def ask_forest(
    record: ByRowRecord, given: GivenPoints, data: Any, forest: Path | None, folders: Sequence[Path]
) -> Asked:
    """Evaluate a forest, and its members without each row, at points."""
    path, ensemble = _forest(record, forest, folders)
    family = leave_one_out(ensemble)
    x = _points(path, ensemble, family, given, data)
    scores = ScoredForest.of(ensemble).probabilities(x)
    labels = scores.argmax(axis=1)
    rest = scores.copy()
    places = np.arange(len(x))
    rest[places, labels] = -np.inf
    others = rest.max(axis=1)
    confidences = scores[places, labels] - np.where(np.isfinite(others), others, 0.0)
    test = ForestLeakTest(family)
    apart = [test.flips(point)[1] for point in x]

    def answer(member: int, point: int) -> int:
        return int(family.member(member).probabilities(x[point][None])[0].argmax())

    return Asked(x, labels, confidences, family.removed, apart, answer)


def _points(path: Path, ensemble: Ensemble, family: Any, given: GivenPoints, data: Any) -> Floats:
    beside = path.with_name(COLUMNS)
    width = ensemble.X.shape[1]
    columns = load_columns(beside, width) if beside.exists() else None
    if columns is not None and columns.encoding is None:
        columns = None
    subject = ForestSubject(ForestAccess(path.parent, ensemble, columns, family, ()))
    table = given.table_like(None if columns is None else columns.encoding)
    if table is not None:
        x = subject.encode(list(table.records()))
    elif given.name != given.place:
        x = subject.read_arrays(Path(data))
    else:
        x = np.asarray(data, np.float64).reshape(len(data), -1)
    if x.shape[1] != width:
        raise RowsError(
            f"{given.place}: a point has {x.shape[1]} features, the forest reads {width}"
        )
    return np.require(x, np.float64, ["C", "W"])

"""The models statements are about: their records, and how columns are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from leaveout.models.train.encoding import Encoding, NumberColumn, encoding_of
from leaveout.verifier.points.network_job import Job
from leaveout.verifier.records import ColumnRecord, ModelRecord

if TYPE_CHECKING:
    from leaveout.verifier.points.forest_leaks import ForestJob


def network_record(job: Job) -> ModelRecord:
    """Return the record of a statement's network and its family."""
    network, family = job.instance.network, job.instance.family
    facts = None if job.pair else family.manifest.data
    members = 0 if job.pair else len(np.unique(family.removed))
    return ModelRecord(
        model="network",
        file=network.source,
        family=family.source,
        statements=(job.statement.statement.name,),
        members=members,
        rows=None if facts is None else max(facts.rows, members),
        labels=() if facts is None else facts.labels,
        columns=()
        if job.pair
        else _columns(encoding_of(family.manifest), {} if facts is None else facts.units),
    )


def forest_record(job: ForestJob, file: str) -> ModelRecord:
    """Return the record of a statement's forest, whose family has no file."""
    columns = job.names.columns
    members = 0 if job.other is not None else job.members
    return ModelRecord(
        model="forest",
        file=file,
        family="",
        statements=(job.statement.statement.name,),
        members=members,
        rows=len(job.rows) or None,
        labels=job.names.labels,
        columns=() if columns is None else _columns(columns.encoding, columns.units),
    )


def merge_models(found: Iterable[ModelRecord]) -> tuple[ModelRecord, ...]:
    """Return each model once, with all statements about it."""
    kept: dict[ModelRecord, list[str]] = {}
    for each in found:
        kept.setdefault(structs.replace(each, statements=()), []).extend(each.statements)
    return tuple(structs.replace(each, statements=tuple(own)) for each, own in kept.items())


def _columns(encoding: Encoding | None, units: Mapping[str, str]) -> tuple[ColumnRecord, ...]:
    found: list[ColumnRecord] = []
    first = 0
    for column in () if encoding is None else encoding.columns:
        at = tuple(range(first, first + len(column.features)))
        first += len(at)
        unit = units.get(column.name, "")
        if not isinstance(column, NumberColumn):
            words = tuple(map(str, column.categories))
            found.append(ColumnRecord(name=column.name, unit=unit, at=at, categories=words))
            continue
        zero, one = (column.minimum, column.maximum) if column.scaled else (0.0, 1.0)
        found.append(ColumnRecord(name=column.name, unit=unit, at=at, zero=zero, one=one))
    return tuple(found)

"""Results that contradict themselves, or what is seen, are refused, or prove nothing."""

from __future__ import annotations

import msgspec
import pytest

import leaveout
from leaveout.verifier.points import network_leaks
from leaveout.verifier.row_records import RowsError

from support.files import write_question
from support.rows import points


def lowered(report, share):
    (record,) = report.by_row
    labels = tuple(
        msgspec.structs.replace(
            each, levels=tuple(level * share for level in each.levels), leaks=()
        )
        for each in record.labels
    )
    record = msgspec.structs.replace(record, labels=labels)
    return msgspec.structs.replace(report, by_row=(record,))


def test_a_bound_that_a_point_or_a_leak_contradicts_is_refused(tmp_path, snapshot):
    report = leaveout.verify(write_question(tmp_path, seed=6))
    x = points(tmp_path, 2000, low=0.0, high=1.0)
    assert any(each.points.changed for each in report.rows(x) if each.points)
    with pytest.raises(RowsError) as told:
        lowered(report, 1e-3).rows(x)
    assert str(told.value) == snapshot
    (record,) = report.by_row
    labels = tuple(
        msgspec.structs.replace(each, leaks=before.leaks)
        for each, before in zip(lowered(report, 1e-3).by_row[0].labels, record.labels, strict=True)
    )
    forged = msgspec.structs.replace(record, labels=labels)
    with pytest.raises(RowsError) as told:
        msgspec.structs.replace(report, by_row=(forged,)).rows()
    assert str(told.value) == snapshot


FORGED = {
    "as many": lambda each: msgspec.structs.replace(each, members=each.members[1:]),
    "ascend": lambda each: msgspec.structs.replace(each, rows=each.rows[::-1]),
    "box": lambda each: msgspec.structs.replace(
        each, box=msgspec.structs.replace(each.box, lower=())
    ),
    "left out": lambda each: msgspec.structs.replace(each, members=(0,) * len(each.members)),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_does_not_fit_together_is_refused(tmp_path, name):
    report = leaveout.verify(write_question(tmp_path))
    forged = FORGED[name](report.by_row[0])
    with pytest.raises(RowsError):
        msgspec.structs.replace(report, by_row=(forged,)).rows()


@pytest.mark.parametrize("change", [{"level": (7000,)}, {"levels": (float("nan"),)}, {"level": ()}])
def test_levels_that_are_not_there_are_refused(tmp_path, change):
    report = leaveout.verify(write_question(tmp_path))
    (record,) = report.by_row
    own = record.labels[0]
    if change.get("level"):
        change = {"level": change["level"] * len(own.level)}
    labels = (msgspec.structs.replace(own, **change), *record.labels[1:])
    forged = msgspec.structs.replace(record, labels=labels)
    with pytest.raises(RowsError):
        msgspec.structs.replace(report, by_row=(forged,)).rows()


def test_a_leak_above_its_own_rows_bound_discredits_every_bound(tmp_path, monkeypatch):
    honest = leaveout.verify(write_question(tmp_path))
    worst = max(honest.results, key=lambda each: each.lower)

    def wrong(instance, kept, clock):
        for each in kept.values():
            each.upper[:] = 0.0

    monkeypatch.setattr(network_leaks, "tighten", wrong)
    report = leaveout.verify(tmp_path / "test.spec")
    assert {each.verdict for each in report.results} == {"unknown"}
    assert all("exceeds a bound" in each.reason for each in report.results)
    by_label = {each.label: each.upper for each in report.results}
    assert by_label[worst.label] >= worst.lower
    for row in report.rows():
        for each in row.labels:
            if each.bound is not None:
                assert each.bound >= (each.leak or 0.0)
                assert each.bound == by_label[each.label]

"""What is said early of a run that takes long, or that the disk or the table is not made for."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from leaveout.models.family import DataFacts, Manifest, save_members
from leaveout.models.train import family_run
from leaveout.models.train.encoding import CategoryColumn, Encoding, NumberColumn
from leaveout.models.train.family_run import Forecast, opening_notes


def job_of(tmp_path, *, members=100, rows=100, columns=(), size=1000, ids=(), features=1):
    facts = DataFacts(sha256="00", rows=rows, minimum=(0.0,), maximum=(1.0,), ids=ids)
    data = SimpleNamespace(X=np.zeros((rows, features)), encoding=Encoding("y", columns))
    return SimpleNamespace(
        data=data,
        members=members,
        networks=members + 1,
        removed=np.arange(members),
        manifest=Manifest(data=facts),
        directory=tmp_path,
        signature=SimpleNamespace(size=size),
    )


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(family_run.time, "monotonic", lambda: now.seconds)
    return now


def told(clock, job, rate, start=0, block=1):
    """Return what is said, with when, of a run that makes so many networks a second.

    All are done at the same time in blocks: those of one are finished when all of it is done.
    """
    watch, said = Forecast(job, start, block), []
    for clock.seconds in [0, 2, *range(3, 60)]:
        work = max(0.0, rate * (clock.seconds - 2))
        line = watch.forecast_line(start + int(work // block) * block, start + work)
        if line:
            said.append((clock.seconds, line))
    return said


@pytest.mark.parametrize(
    ("members", "rate", "expected"),
    [
        (1_000_000, 0.15, ("1,000,001", "77 days")),
        (100_000, 10.0, ("100,001", "2.8 hours")),
        (1_000_000, 0.001, ("1,000,001", "32 years")),
        (20, 0.01, ("21", "35 minutes")),
        (20, 1.0, None),
    ],
)
def test_it_is_said_once_after_some_seconds_and_only_if_it_is_long(
    tmp_path, clock, members, rate, expected, snapshot
):
    said = told(clock, job_of(tmp_path, members=members, rows=10**6), rate)
    if expected is None:
        assert said == []
    else:
        ((when, line),) = said
        assert when == 8
        assert all(number in line for number in expected)
        assert line == snapshot


def test_who_leaves_out_all_of_many_rows_is_told_of_a_sample(tmp_path, clock, snapshot):
    ((_, line),) = told(clock, job_of(tmp_path, members=10_000, rows=10_000), 0.1)
    assert line == snapshot
    ((_, line),) = told(clock, job_of(tmp_path, members=10_000, rows=10_001), 0.1)
    assert "--sample" not in line


def test_it_is_said_how_long_a_stop_keeps_nothing_new(tmp_path, clock, snapshot):
    job = job_of(tmp_path, members=100_000)
    ((_, line),) = told(clock, job, 2.0, block=64)
    assert "26 seconds" in line
    assert line == snapshot
    ((_, line),) = told(clock, job, 2.0, block=64, start=32)
    assert "26 seconds" in line
    assert line == snapshot
    ((_, line),) = told(clock, job, 2.0, block=4)
    assert line == snapshot


def test_what_was_behind_before_is_no_work_of_this_run(tmp_path, clock, snapshot):
    ((_, line),) = told(clock, job_of(tmp_path, members=10_000), 0.1, start=9_000)
    assert line == snapshot
    assert "2.8 hours" in line


def test_a_disk_that_is_too_small_is_told_before(tmp_path, monkeypatch, snapshot):
    free = 4000 * (90 + 101) + 2000  # rows of members, and a manifest that says little
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert opening_notes(job_of(tmp_path), 90) == ""
    line = opening_notes(job_of(tmp_path), 91)
    assert line == snapshot


def test_names_of_rows_take_room_on_the_disk_too(tmp_path, monkeypatch):
    ids = tuple(f"patient {row:092d}" for row in range(10_000))
    job = job_of(tmp_path, rows=len(ids), ids=ids)
    stacks = {"w": np.zeros((job.members, 1000), dtype=np.float32)}
    save_members(tmp_path / "family.npz", job.removed, job.manifest, stacks)
    written = 4000 * 102 + (tmp_path / "family.npz").stat().st_size
    for free, is_told in [(written, False), (written - 2000, True)]:
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda path, usage=usage: usage)
        assert bool(opening_notes(job, 101)) == is_told


def test_a_column_of_very_many_words_is_named(tmp_path, snapshot):
    few = CategoryColumn("ward", tuple(map(str, range(500))))
    many = CategoryColumn("admitted", tuple(map(str, range(2016))))
    line = opening_notes(job_of(tmp_path, columns=(few, NumberColumn("age", 0, 1), many)), 1)
    assert line == snapshot
    assert "ward" not in line


def test_a_wide_table_is_told_that_bounds_stay_open(tmp_path):
    numbers = tuple(NumberColumn(f"x{place}", 0, 1) for place in range(11))
    words = tuple(CategoryColumn(f"w{place}", ("no", "yes")) for place in range(20))
    few = job_of(tmp_path, columns=numbers[:10] + words, features=50)
    assert opening_notes(few, 1) == ""
    many = job_of(tmp_path, columns=numbers, features=11)
    assert "with 11 numbers" in opening_notes(many, 1)
    many.removed = many.removed[:0]
    assert opening_notes(many, 1) == ""


def test_every_feature_of_an_array_is_a_number(tmp_path):
    job = job_of(tmp_path, features=11)
    job.data.encoding = None
    assert "with 11 numbers" in opening_notes(job, 1)
    job.data.X = job.data.X[:, :10]
    assert opening_notes(job, 1) == ""

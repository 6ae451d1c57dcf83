"""The campaign: a short run finds nothing wrong; mistakes are counted, shrunk and written."""

from __future__ import annotations

import itertools
import json
import threading
import time

import campaign
import pytest

from attacks import workers
from attacks.counting import Table
from attacks.kind import KINDS, Outcome, generator, load
from attacks.shrinking import shrunk
from attacks.workers import Worker, judged
from support.odd_kinds import Sized

CASES = 240


def test_a_short_run_finds_nothing_wrong():
    table, wrong = Table(), []
    kinds = {name: load(name) for name in KINDS}
    for name, number in campaign.schedule(list(KINDS), CASES):
        outcome = judged(kinds[name], kinds[name].make(generator(14, name, number)))
        table.add(name, outcome, 0.0)
        if outcome.wrong:
            wrong.append((name, number, outcome.wrong))
    assert not wrong
    assert table.cases == CASES


def test_kinds_are_drawn_as_often_as_their_weights_say():
    drawn = list(itertools.islice(campaign.schedule(list(KINDS), None), 10_000))
    assert len(set(drawn)) == 10_000
    total = sum(weight for _, weight in KINDS.values())
    for name, (_, weight) in KINDS.items():
        count = sum(each == name for each, _ in drawn)
        assert abs(count - 10_000 * weight / total) <= 2


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [("Dying", "kills the process"), ("Hanging", "hangs"), ("Raising", "raised ValueError")],
)
def test_what_kills_hangs_or_raises_is_wrong_and_the_next_case_is_checked(
    worker, monkeypatch, kind, wrong
):
    name = f"support.odd_kinds:{kind}"
    assert worker.given(name, {"size": 1}).wrong is None
    monkeypatch.setattr(workers, "_LIMIT", 2.0)
    found = worker.given(name, {"size": 8})
    assert found.wrong is not None
    assert found.wrong.startswith(wrong)
    assert worker.given(name, {"size": 1}).wrong is None


def test_shrinking_ends_at_the_smallest_case_that_is_as_wrong():
    kind = Sized()
    case = {"size": 93}
    small, outcome = shrunk(case, kind.check(case), kind.shrink, kind.check)
    assert small == {"size": 7}
    assert outcome.wrong == "too large: 7"


def test_shrinking_keeps_the_sort_of_mistake_and_ends_where_cases_go_round():
    def check(case):
        return Outcome("", "proved", f"{'even' if case['size'] % 2 == 0 else 'odd'}: a number")

    def around(case):
        yield from ({"size": (case["size"] + 1) % 9}, {"size": (case["size"] + 2) % 10})

    small, outcome = shrunk({"size": 4}, check({"size": 4}), around, check, tries=50)
    assert small["size"] % 2 == 0
    assert outcome.wrong == "even: a number"


def test_a_mistake_is_shrunk_written_and_repeated(tmp_path, monkeypatch, capsys):
    name = "support.odd_kinds:Sized"
    monkeypatch.setitem(KINDS, name, ("support.odd_kinds:Sized", 1.0))
    run = campaign.Campaign(0, tmp_path, 1)
    run.run([name], 12, 600.0)
    assert run.table.cases == 12
    assert 1 <= run.table.wrong <= 12
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    assert json.loads(files[0].read_text())["case"] == {"size": 7}
    assert campaign.main(["--replay", str(files[0])]) == 1
    assert "too large: 7" in capsys.readouterr().out


def test_what_is_told_to_end_ends_and_counts_no_case_that_it_broke_off(tmp_path, monkeypatch):
    name = "support.odd_kinds:Hanging"
    monkeypatch.setitem(KINDS, name, (name, 1.0))
    run = campaign.Campaign(0, tmp_path, 1)
    thread = threading.Thread(target=run.run, args=([name], None, 600.0))
    thread.start()
    try:
        while not run.at_work:
            assert thread.is_alive()
            time.sleep(0.01)
    finally:
        run.stop()
        thread.join(60.0)
    assert not thread.is_alive()
    assert run.table.wrong == 0
    assert not list(tmp_path.iterdir())


def test_the_table_counts_by_kind_and_class():
    table = Table()
    table.add("leaks", Outcome("a", "proved"), 0.01)
    table.add("leaks", Outcome("a", "refuted"), 0.01)
    table.add("leaks", Outcome("b", "unknown", "bad: 1"), 0.01)
    lines = [line.split() for line in table.text().splitlines()]
    assert lines[1] == ["leaks", "a", "2", "1", "1", "0", "0", "0"]
    assert lines[2] == ["leaks", "b", "1", "0", "0", "1", "0", "1"]
    assert lines[3] == ["leaks", "all", "3", "1", "1", "1", "0", "1", "10.0"]
    assert (table.cases, table.wrong) == (3, 1)

"""The time of a run is shared, and what is asked in turn ends where an answer or Ctrl-C ends it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from leaveout.verifier import time_sharing, verify
from leaveout.verifier.certify.check import check
from leaveout.verifier.points import network_leaks
from leaveout.verifier.time_sharing import Clock, in_turn

from support import files
from support.cases import slow_question


@pytest.fixture
def now(monkeypatch):
    now = SimpleNamespace(value=0.0, perf_counter=lambda: now.value)
    monkeypatch.setattr("leaveout.deadline.time", now)
    monkeypatch.setattr("leaveout.verifier.time_sharing.time", now)
    return now


def found(lower, upper=9.0, *, witness=True, interrupted=False):
    return SimpleNamespace(
        lower=lower, upper=upper, witness=object() if witness else None, interrupted=interrupted
    )


def asked(results, clock, *, floor=0.0, decide=False, lasting=0.0, now=None):
    """Search parts with such results; return each one's floor and time, and what came out."""
    seen = []

    def search(part, floor):
        seen.append((floor, clock.next()))
        if now is not None:
            now.value += lasting
        result = results[part]
        if result is KeyboardInterrupt:
            raise KeyboardInterrupt
        return result

    parts = range(len(results))
    return seen, in_turn(
        parts, search, lambda part: found(0.0, part), clock, floor=floor, decide=decide
    )


def test_each_part_gets_its_share_of_what_the_others_left(now):
    seen, _ = asked([found(0.0)] * 4, Clock(8.0, 0.0, 4), lasting=1.0, now=now)
    assert [seconds for _, seconds in seen] == [8 / 4, 7 / 3, 6 / 2, 5.0]
    assert [seconds for _, seconds in asked([found(0.0)] * 2, Clock(None, 0.0, 2))[0]] == [None] * 2


def test_what_one_part_finds_is_the_floor_of_the_next():
    seen, results = asked([found(0.5), found(0.2), found(0.7), found(0.1)], Clock(None, 0.0, 4))
    assert [floor for floor, _ in seen] == [0.0, 0.5, 0.5, 0.7]
    assert [each.lower for each in results] == [0.5, 0.2, 0.7, 0.1]


def test_one_counter_example_decides_and_leaves_its_time_to_others(now):
    clock = Clock(12.0, 0.0, 6)
    parts = [found(0.5, witness=False), found(0.5), found(0.6), found(0.9)]
    seen, results = asked(parts, clock, floor=0.5, decide=True)
    assert [floor for floor, _ in seen] == [0.5] * 3
    assert results == parts[:3]
    assert clock.next() == 12.0 / 2


@pytest.mark.parametrize("result", [KeyboardInterrupt, found(0.3, interrupted=True)])
def test_after_ctrl_c_the_rest_is_asked_with_no_time(result):
    clock = Clock(None, 0.0, 3)
    seen, results = asked([found(0.1), result, found(0.2, witness=False)], clock)
    assert clock.interrupted
    assert [seconds for _, seconds in seen] == [None, None, 0.0]
    assert len(results) == 3
    assert results[1].upper == (1 if result is KeyboardInterrupt else result.upper)


def test_a_part_of_the_time_is_shared_on_its_own(now):
    clock = Clock(12.0, 0.0, 3)
    own = clock.part(2)
    assert (own.next(), clock.seconds_left) == (2.0, 12.0)
    now.value = 3.0
    assert (own.seconds_left, own.next(), clock.next()) == (1.0, 1.0, 4.5)
    clock.interrupted = True
    assert clock.part(5).next() == 0.0
    assert Clock.without_time().next() == 0.0


def test_what_is_left_goes_to_searches_that_could_use_it(now):
    clock = Clock(12.0, 0.0, 3)
    now.value = 6.0
    assert clock.go_on(2)
    assert clock.goes_on
    assert (clock.next(), clock.next()) == (3.0, 6.0)
    now.value = 6.5
    assert not clock.go_on(2)  # they hardly used it, and none ended
    assert clock.go_on(1)
    now.value = 9.0
    assert not clock.go_on(0)
    assert clock.go_on(3)
    now.value = 11.5
    assert not clock.go_on(1)
    assert not Clock(None, 0.0, 3).go_on(2)


_TWO = """let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)
find hard: least b such that forall x in X, M in F: confidence(N, x, 1) > b => label(M, x) == 1
guarantee easy: forall x in X, M in F: confidence(N, x, 1) > 1000 => label(M, x) == 1
"""


def test_a_search_goes_on_when_the_others_need_no_time(tmp_path, monkeypatch):
    hard, went_on = slow_question(5, 20, (6, 30, 30, 2)), []
    monkeypatch.setattr(files, "question", lambda *given, **options: hard)
    # However long a busy machine takes to load, half of what is left remains.
    monkeypatch.setattr(time_sharing, "_WORTH", 0.1)
    search = network_leaks.search_native

    def watched(*given, checkpoint, **options):
        before = checkpoint is not None and checkpoint.has_state
        result = search(*given, checkpoint=checkpoint, **options)
        went_on.append((before, result.seconds))
        return result

    monkeypatch.setattr(network_leaks, "search_native", watched)
    (found, easy) = verify(files.write_question(tmp_path, text=_TWO), time=6.0).results
    assert (found.verdict, easy.verdict) == ("unknown", "proved")
    assert found.traces[0].seconds[-1] > went_on[0][1]
    text = _TWO.replace("find hard: least b such that", "guarantee hard:")
    text = text.replace("> b", f"> {found.lower * 1.05}")
    (open_, easy) = verify(files.write_question(tmp_path, text=text), time=6.0).results
    assert (open_.verdict, easy.verdict) == ("unknown", "proved")
    assert sum(before for before, _ in went_on) >= 2
    for each in (found, open_):
        assert each.reason.startswith("time: stopped after its share of ")


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_search_for_which_no_time_was_left_gets_what_the_others_leave(
    tmp_path, monkeypatch, goes_on
):
    # The share of the first of three is less, those of the others more.
    monkeypatch.setattr(network_leaks, "_WORTH_STARTING", 25.0)
    if not goes_on:
        monkeypatch.setattr(network_leaks.NetworkLeaks, "open_searches", lambda *given: 0)
    lines = _TWO.splitlines()[:2]
    for at in (1, 2, 3):
        lines.append(f"find b{at}: least b such that forall x in box(0, {at / 3}), M in F:")
        lines.append("    confidence(N, x, 1) > b => label(M, x) == 1")
    found = verify(files.write_question(tmp_path, text="\n".join(lines)), time=60.0).results
    first = "proved" if goes_on else "unknown"
    assert [each.verdict for each in found] == [first, "proved", "proved"]


def test_what_was_found_stays_where_ctrl_c_ends_a_search_that_went_on(tmp_path, monkeypatch):
    hard = slow_question(5, 20, (6, 30, 30, 2))
    monkeypatch.setattr(files, "question", lambda *given, **options: hard)
    text = _TWO.replace(
        "guarantee easy", _TWO.splitlines()[3].replace("hard", "other") + "\nguarantee easy"
    )
    spec = files.write_question(tmp_path, text=text)
    monkeypatch.setattr(time_sharing, "_WORTH", 0.1)
    go_on = Clock.go_on

    def interrupt(clock, jobs):
        pays = go_on(clock, jobs)
        clock.interrupted = clock.interrupted or pays
        return pays

    monkeypatch.setattr(Clock, "go_on", interrupt)
    found = verify(spec, time=6.0).results
    assert [each.verdict for each in found] == ["unknown", "unknown", "proved"]
    for each in found[:2]:
        assert each.traces
        assert each.reason.startswith("time: stopped after its share of ")


def test_ctrl_c_while_a_certificate_is_checked_keeps_it_and_the_results(tmp_path, monkeypatch):
    def interrupt(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.verifier.points.proofs.used_parts", interrupt)
    certificate = tmp_path / "proof.cert"
    report = verify(files.write_question(tmp_path), time=10.0, certificate=certificate)
    assert report.results
    assert all(each.upper is not None for each in report.results)
    assert any("check and shorten it" in note for note in report.notes)
    assert check(certificate)

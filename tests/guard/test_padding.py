"""Answers leave at times that follow from the rows asked about, not from the work."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import GuardError
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.padding import BusyError, Effort, Pace, Padding
from leaveout.verifier.guard.server_clock import Clock
from leaveout.verifier.guard.server_effort import measure

efforts = st.builds(
    Effort,
    row=st.floats(0, 0.2),
    commit=st.floats(0, 0.1),
    cores=st.integers(1, 64),
)
paces = st.builds(Pace, pad=st.floats(0.001, 1), effort=efforts)


@given(paces, st.integers(1, 5000))
def test_there_is_time_for_the_most_work(pace, rows):
    effort = pace.effort
    assert pace.seconds(rows) >= rows * effort.row + effort.commit
    assert 1 <= pace.taken(rows) <= pace.places
    # Where every place works on its own input, the machine and its disk keep up.
    all_at_once = pace.places * (effort.row / effort.cores + effort.commit)
    assert all_at_once <= pace.seconds(1) * (1 + 1e-9)


@given(paces)
def test_a_core_answers_one_batch_at_a_time(pace):
    batches = pace.places // pace.taken(5000)
    assert batches <= max(1, 2 * pace.effort.cores)


def test_pads_that_no_timer_keeps_are_refused():
    for pad in (1e-4, -1.0, float("nan"), 1e3):
        with pytest.raises(GuardError, match="a pad must be between"):
            Pace(pad, Effort(0, 0, 1))


def test_the_effort_of_a_guard_is_measured_without_answering(leaky, tmp_path):
    with Guard.load(leaky.folder, 0.5, memory=tmp_path / "m") as guard:
        effort = measure(guard)
        assert effort.row > 0 and effort.commit > 0 and effort.cores >= 1
        assert guard.account().answers == 0


def run(pace: Pace | None, body, **options):
    """Run a coroutine with a padding."""

    async def whole():
        padding = Padding(pace, **options)
        padding.start()
        try:
            return await body(padding)
        finally:
            padding.close()

    return asyncio.run(whole())


PACE = Pace(0.05, Effort(row=0.01, commit=0.002, cores=1))  # two at once


def test_a_clock_wakes_in_order_and_not_early():
    async def body():
        clock, woken = Clock(asyncio.get_running_loop()).start(), []
        now = time.monotonic()

        async def one(when):
            await clock.until(when)
            assert time.monotonic() >= when
            woken.append(when)

        whens = [now + after for after in (0.05, 0.01, 0.03, -1.0, 0.02)]
        await asyncio.gather(*map(one, whens))
        assert woken == sorted(whens)
        clock.close()

    asyncio.run(body())


def test_quick_and_slow_work_take_alike():
    async def body(padding):
        for seconds in (0.0, 0.03):
            start = time.monotonic()
            await padding.run(start, 1, lambda s=seconds: time.sleep(s))
            assert 0.05 <= time.monotonic() - start < 0.1
        assert padding.missed == 0

    run(PACE, body)


def test_work_that_misses_its_time_waits_twice_as_long(caplog):
    async def body(padding):
        start = time.monotonic()
        await padding.run(start, 1, lambda: time.sleep(0.12))
        assert 0.2 <= time.monotonic() - start < 0.25
        assert padding.missed == 1

    run(PACE, body)
    assert "1 answers were not ready in their time" in caplog.text


def test_places_are_kept_until_the_answer_leaves_however_quick_the_work_was():
    async def body(padding):
        start = time.monotonic()
        count = 2 * padding.pace.places + 1

        async def one():
            await padding.run(start, 1, lambda: None)
            return round((time.monotonic() - start) / 0.05 - 0.2)

        # One that had to wait leaves at a multiple after its own start, too.
        places = padding.pace.places
        assert sorted(await asyncio.gather(*(one() for _ in range(count)))) == (
            [1] * places + [3] * places + [5]
        )

    run(PACE, body)


def test_too_many_that_wait_are_refused_and_those_before_are_answered():
    async def body(padding):
        start = time.monotonic()
        count = padding.pace.places + 3
        work = [padding.run(start, 1, lambda: "done") for _ in range(count)]
        found = await asyncio.gather(*work, return_exceptions=True)
        assert found[:-1] == ["done"] * (count - 1)
        assert isinstance(found[-1], BusyError)

    run(PACE, body, waiting=2)


def test_one_who_gives_up_waiting_leaves_no_place_taken():
    async def body(padding):
        start = time.monotonic()
        first = [asyncio.create_task(padding.run(start, 1, int)) for _ in range(padding._free)]
        late = asyncio.create_task(padding.run(start, 1, int))
        await asyncio.sleep(0.01)
        late.cancel()
        await asyncio.gather(*first)
        assert padding._free == padding.pace.places and not padding._queue

    run(PACE, body)


def test_without_a_pace_results_come_at_once_and_side_by_side():
    async def body(padding):
        barrier = threading.Barrier(4)
        start = time.monotonic()
        await asyncio.gather(*(padding.run(start, 1, barrier.wait) for _ in range(4)))
        await padding.rest(start)

    run(None, body)


def test_errors_in_the_work_are_raised():
    async def body(padding):
        with pytest.raises(ZeroDivisionError):
            await padding.run(time.monotonic(), 1, lambda: np.int64(1) and 1 / 0)
        assert padding._free == padding.pace.places

    run(PACE, body)

"""Answers leave at times that follow from the rows asked about, not from the work."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import GuardError
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.padding import BusyError, Clock, Effort, Pace, Padding
from leaveout.verifier.guard.server_app import measure

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
    assert 1 <= pace.places_for(rows) <= pace.places
    # Where every place works on its own input, the machine and its disk keep up.
    all_at_once = pace.places * (effort.row / effort.cores + effort.commit)
    assert all_at_once <= pace.seconds(1) * (1 + 1e-9)


@given(paces)
def test_a_core_answers_one_batch_at_a_time(pace):
    batches = pace.places // pace.places_for(5000)
    assert batches <= max(1, 2 * pace.effort.cores)


def test_pads_that_no_timer_keeps_are_refused(snapshot):
    for pad in (1e-4, -1.0, float("nan"), 1e3):
        with pytest.raises(GuardError) as told:
            Pace(pad, Effort(0, 0, 1))
        assert str(told.value) == snapshot


def test_the_effort_of_a_guard_is_measured_without_answering(either, tmp_path):
    with Guard.load(either.folder, 0.5, memory=tmp_path / "m") as guard:
        effort = measure(guard)
        assert effort.row > 0 and effort.commit > 0 and effort.cores >= 1
        assert guard.account().answers == 0


class Later:
    """A clock and a pool in one: time goes on where all wait for it, and then to the next event.

    Work takes the seconds in its attribute ``takes``, none without one.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, int, asyncio.Future[None]]] = []
        self.under_way: list[tuple[float, Future, Callable]] = []
        self.number = itertools.count()

    def monotonic(self) -> float:
        return self.now

    async def until(self, when: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self.due, (when, next(self.number), woken))
        await woken

    def submit(self, work: Callable) -> Future:
        found: Future = Future()
        self.under_way.append((self.now + getattr(work, "takes", 0.0), found, work))
        return found

    async def run(self) -> None:
        while True:
            # So often that whoever can go on has got to where it waits.
            for _ in range(50):
                await asyncio.sleep(0)
            if self.due:
                when, _, woken = heapq.heappop(self.due)
                self.now = max(self.now, when)
                for entry in [each for each in self.under_way if each[0] <= self.now]:
                    self.under_way.remove(entry)
                    try:
                        entry[1].set_result(entry[2]())
                    except Exception as error:
                        entry[1].set_exception(error)
                if not woken.done():
                    woken.set_result(None)


def working(seconds: float) -> Callable[[], None]:
    def work() -> None:
        pass

    work.takes = seconds
    return work


def run(pace: Pace, body, **options):
    """Run a coroutine with a padding whose time is made up."""

    async def whole():
        later = Later()
        padding = Padding(pace, **options)
        padding._pool.shutdown()
        padding._pool = padding._clock = later
        with mock.patch("leaveout.verifier.guard.padding.time", later):
            ticking = asyncio.create_task(later.run())
            try:
                return await body(padding, later)
            finally:
                ticking.cancel()

    return asyncio.run(whole())


def run_threads(body):
    """Run a coroutine with a padding that waits for nothing but the work, in threads."""

    async def whole():
        padding = Padding(None)
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

        async def one(when):
            await clock.until(when)
            assert time.monotonic() >= when
            woken.append(when)

        # Held until all are asked for, however long that takes.
        with clock._changed:
            now = time.monotonic()
            whens = [now + after for after in (0.05, 0.01, 0.03, -1.0, 0.02)]
            tasks = [asyncio.create_task(one(when)) for when in whens]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert woken == sorted(whens)
        clock.close()

    asyncio.run(body())


def test_quick_and_slow_work_take_alike():
    async def body(padding, later):
        for seconds in (0.0, 0.03, 0.049):
            start = later.monotonic()
            await padding.run(start, 1, working(seconds))
            assert 0.05 <= later.monotonic() - start < 0.1
        assert padding.missed == 0

    run(PACE, body)


def test_work_that_misses_its_time_waits_twice_as_long(caplog, snapshot):
    async def body(padding, later):
        start = later.monotonic()
        await padding.run(start, 1, working(0.12))
        assert 0.2 <= later.monotonic() - start < 0.25
        assert padding.missed == 1

    run(PACE, body)
    assert caplog.messages == snapshot


def test_places_are_kept_until_the_answer_leaves_however_quick_the_work_was():
    async def body(padding, later):
        start = later.monotonic()
        count = 2 * padding.pace.places + 1

        async def one():
            await padding.run(start, 1, lambda: None)
            return int((later.monotonic() - start) / 0.05 + 1e-9)

        # One that had to wait leaves at a multiple after its own start, too.
        places = padding.pace.places
        assert sorted(await asyncio.gather(*(one() for _ in range(count)))) == (
            [1] * places + [3] * places + [5]
        )

    run(PACE, body)


def test_too_many_that_wait_are_refused_and_those_before_are_answered():
    async def body(padding, later):
        start = later.monotonic()
        count = padding.pace.places + 3
        work = [padding.run(start, 1, lambda: "done") for _ in range(count)]
        found = await asyncio.gather(*work, return_exceptions=True)
        assert found[:-1] == ["done"] * (count - 1)
        assert isinstance(found[-1], BusyError)

    run(PACE, body, waiting=2)


def test_one_who_gives_up_waiting_leaves_no_place_taken():
    async def body(padding, later):
        start = later.monotonic()
        first = [asyncio.create_task(padding.run(start, 1, int)) for _ in range(padding._free)]
        late = asyncio.create_task(padding.run(start, 1, int))
        await asyncio.sleep(0)
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

    run_threads(body)


def test_a_pace_is_kept_in_threads_too():
    async def whole():
        padding = Padding(PACE)
        padding.start()
        start = time.monotonic()
        assert await padding.run(start, 1, lambda: "done") == "done"
        padding.close()
        return time.monotonic() - start

    assert asyncio.run(whole()) >= 0.05


def test_errors_in_the_work_are_raised():
    async def body(padding, later):
        with pytest.raises(ZeroDivisionError):
            await padding.run(later.monotonic(), 1, lambda: 1 / 0)
        assert padding._free == padding.pace.places

    run(PACE, body)

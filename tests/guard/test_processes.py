"""Several processes serve one guard: one answer for one input, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import GuardError
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.padding import Effort, Pace
from leaveout.verifier.guard.server_processes import Shared, Turn, in_child
from leaveout.verifier.guard.server_settings import ServeSettings

from support import children
from support.served import Asker, process
from support.snapshots import passages

CLINIC = Path(__file__).parents[2] / "examples" / "breast_cancer" / "family"


def children_of(served) -> list[int]:
    return children.children(served.process.pid)


def leaks_of(folder, memory, count):
    with Guard.load(folder, 0.5, memory=memory) as guard:
        points = np.random.default_rng(2).random((4000, guard.inputs)).astype(np.float32)
        return points[guard.inspect(points).leaks][:count]


def metric(port: int, name: str) -> float:
    asker = Asker(port)
    lines = asker.get("/metrics").body.decode().splitlines()
    asker.close()
    return sum(
        float(line.split()[-1]) for line in lines if line.startswith(f"leaveout_guard_{name}")
    )


@given(
    st.builds(Effort, row=st.floats(0, 2), commit=st.floats(0, 0.1), cores=st.integers(1, 64)),
    st.floats(0.001, 1),
    st.integers(1, 64),
    st.integers(1, 5000),
)
def test_all_places_of_all_processes_are_ready_in_time(effort, pad, processes, rows):
    try:
        pace = Pace(pad, effort, processes)
    except GuardError as error:
        assert processes > 1 and "choose fewer --processes" in str(error)
        return
    places = pace.places * processes
    assert pace.places >= 1
    # However the places are taken: single inputs share the cores, and all wait for one disk.
    assert places * (effort.row / effort.cores + effort.commit) <= pace.seconds(1) * (1 + 1e-9)
    # Batches have a core each, in whatever process they are.
    taken = pace.places_for(rows)
    assert 1 <= taken <= pace.places
    if rows >= places:
        assert processes * (pace.places // taken) <= max(effort.cores, 1)


def test_a_pad_that_is_too_short_for_the_processes_says_which_is_not(snapshot):
    effort = Effort(row=0.0, commit=0.02, cores=8)
    with pytest.raises(GuardError) as caught:
        Pace(0.05, effort, 4)
    assert str(caught.value) == snapshot
    enough = float(str(caught.value).split("a --pad of ")[1].split()[0])
    assert Pace(enough * 1.05, effort, 4).places >= 1


def test_turns_are_taken_by_one_process_at_a_time_and_given_back_by_the_dead():
    turn, shared = Turn(), Shared(1, 1)
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            for _ in range(300):
                with turn:
                    seen = int(shared.counts[0, 0])
                    os.sched_yield()
                    shared.counts[0, 0] = seen + 1
            turn.__enter__()
            os.kill(os.getpid(), signal.SIGKILL)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    assert shared.counts[0, 0] == 1200
    with turn:
        pass


def test_racing_processes_give_one_answer_to_one_input(leaky, tmp_path):
    memory = tmp_path / "m.sqlite"
    leaks = leaks_of(leaky.folder, tmp_path / "own", 30)
    options = ("--pad", "0", "--processes", "3", "--memory", str(memory))
    told: dict[int, set[int]] = {at: set() for at in range(len(leaks))}
    with process(leaky.folder, *options) as served:
        assert len(children_of(served)) == 3
        start = threading.Barrier(6)

        def ask(_: int) -> None:
            asker = Asker(served.port)
            start.wait()
            for at, x in enumerate(leaks):
                told[at].add(asker.ask({"x": x.tolist()}).said["label"])
            asker.close()

        threads = [threading.Thread(target=ask, args=[each]) for each in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert metric(served.port, "rows_answered_total") == 6 * len(leaks)
    assert all(len(found) == 1 for found in told.values())
    with Guard.load(leaky.folder, 0.5, memory=memory) as guard:
        assert guard.account().answers == len(leaks)
        assert guard.labels(leaks).tolist() == [found.pop() for found in told.values()]


def test_a_process_that_dies_is_replaced_and_all_end_when_told(leaky, tmp_path, snapshot):
    options = ("--pad", "0", "--processes", "2", "--memory", str(tmp_path / "m"))
    with process(leaky.folder, *options) as served:
        first = children_of(served)
        os.kill(first[0], signal.SIGKILL)
        children.wait_until(
            lambda: len(set(children_of(served)) | set(first)) == 3 and first[0] not in
            children_of(served) and len(children_of(served)) == 2,
            "another process",
            served.process,
        )  # fmt: skip
        assert metric(served.port, "process_restarts_total") == 1
        now = children_of(served)
        served.process.terminate()
        log = served.log()
        assert served.process.returncode == 0
        assert passages(log, "9") == snapshot
        assert "Traceback" not in log
        children.wait_until_gone(now)


@pytest.mark.parametrize("ending", [False, True])
def test_processes_end_with_their_parent(leaky, tmp_path, ending):
    """However long new requests would have been taken: the port is needed for another server."""
    options = ("--pad", "0", "--processes", "2", "--drain", "3600", "--memory", str(tmp_path / "m"))
    with process(leaky.folder, *options) as served:
        left = children_of(served)
        if ending:
            asker = Asker(served.port)
            served.process.terminate()
            children.wait_until(
                lambda: asker.get("/health").said == {"status": "ending"}, "503", served.process
            )
            asker.close()
        served.process.kill()
        children.wait_until_gone(left)


def test_a_guard_that_one_process_closes_is_closed_in_all(leaky, tmp_path):
    leaks = leaks_of(leaky.folder, tmp_path / "own", 2)
    options = ("--pad", "0", "--processes", "2", "--cap", "0.6", "--memory", str(tmp_path / "m"))
    with process(leaky.folder, *options) as served:
        asker = Asker(served.port)
        assert asker.ask({"x": leaks[0].tolist()}).status == 200
        assert asker.ask({"x": leaks[1].tolist()}).status == 503
        statuses = set()
        for _ in range(12):
            other = Asker(served.port)
            statuses.add(other.ask({"x": leaks[0].tolist()}).status)
            statuses.add(other.get("/health").status)
            other.close()
        assert statuses == {503}


@pytest.mark.parametrize("processes", [1, 2])
def test_it_is_not_ready_before_it_ends_and_does_not_wait_for_slow_senders(
    leaky, tmp_path, processes
):
    options = ("--pad", "0", "--drain", "3600", "--grace", "0.5", "--memory", str(tmp_path / "m"))
    with process(leaky.folder, *options, "--processes", str(processes)) as served:
        slow, asker = Asker(served.port), Asker(served.port)
        slow._connection.putrequest("POST", "/label")
        slow._connection.putheader("content-type", "application/json")
        slow._connection.putheader("content-length", "19")
        slow._connection.endheaders(b"{")
        served.under_way()
        served.process.terminate()
        children.wait_until(
            lambda: asker.get("/health").said == {"status": "ending"}, "503", served.process
        )
        assert asker.get("/health").status == 503
        # Until it has ended it answers, whoever comes.
        assert Asker(served.port).ask({"x": [0.25, 0.75]}).status == 200
        # Each process has been told by now, and is told once more: at once.
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(children.HANGS) == 0
        assert slow.reply().status == 503


def test_slow_senders_are_waited_for_no_longer_than_said(leaky, tmp_path):
    options = ("--pad", "0", "--grace", "0.5", "--processes", "2", "--memory", str(tmp_path / "m"))
    with process(leaky.folder, *options) as served:
        slow = Asker(served.port)
        slow._connection.putrequest("POST", "/label")
        slow._connection.putheader("content-type", "application/json")
        slow._connection.putheader("content-length", "19")
        slow._connection.endheaders(b"{")
        served.under_way()
        served.process.terminate()
        assert slow.reply().status == 503
        assert served.process.wait(children.HANGS) == 0


def test_many_members_are_asked_after_a_fork(tmp_path):
    """Threads that the parent asked with are not there any more."""
    folder = shutil.copytree(CLINIC, tmp_path / "clinic")
    with Guard.load(folder, 0.5, adopt=True) as guard:
        assert guard.members > 512

    def work() -> bytes:
        signal.alarm(15)  # ends a process that waits for them
        with guard.reopen() as own:
            own.rehearse(np.zeros((1, own.inputs), np.float32))
        return b"answered"

    assert in_child(work) == b"answered"


def test_a_server_whose_processes_cannot_start_says_so_and_ends(leaky, tmp_path, snapshot):
    log = tmp_path / "keys"
    log.write_text("no key\n")
    done = children.run(
        [sys.executable, "-m", "leaveout", "guard", leaky.folder, "--epsilon", "0.5", "--serve",
         "--processes", "2", "--keys", log, "--memory", tmp_path / "m"],
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == snapshot
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        {"processes": 0},
        {"burst": 3.0},
        {"rate": 0.0},
        {"most_rows": 0},
        {"grace": -1.0},
        {"drain": float("nan")},
    ],
)
def test_settings_are_checked(options, snapshot):
    with pytest.raises(GuardError) as told:
        ServeSettings(**options)
    assert str(told.value) == snapshot

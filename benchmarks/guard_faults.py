"""Break what the memory of a served guard stands on, and hold the answers against their history.

    python benchmarks/guard_faults.py
    python benchmarks/guard_faults.py --step 97 --requests 86400

No file may grow beyond a limit, which moves on by ``--step`` bytes from run to run: a process is
killed at the write that crosses it, or told that the disk is full. A process is stopped in the
middle of an answer while another asks. The clock jumps by years. And a day's requests (one a
second) are answered by processes that are killed now and then. Whatever happened, an input has one
answer, for good; what was given is in the memory; and each is paid for once. Exit status 1 if not.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from leaveout.errors import GuardError
from leaveout.verifier.guard import memory as memory_module
from leaveout.verifier.guard.memory import Memory

LABELS = 10**6
"""Many, so that no two draws agree by chance."""

_AGAIN = 200
"""Inputs that most requests are about."""

History = dict[int, int]


def opened(path: Path) -> Memory:
    """Open a memory of answers."""
    return Memory(path, "network", "family", "box", 0.2, LABELS)


def ask(memory: Memory, given: int, draw: Callable[[], int] | None = None) -> int:
    """Return the answer of one input."""
    chance = draw or (lambda: random.SystemRandom().randrange(LABELS))
    (answer,) = memory.answer(
        [given.to_bytes(4, "big")], lambda at, epsilon: chance(), epsilon=0.2, cap=None,
        uniform=False, remember=10**6,
    )  # fmt: skip
    return answer


def in_child(
    work: Callable[[Callable[[int, int], None]], None],
) -> tuple[list[tuple[int, int]], int]:
    """Run work in a process of its own; return what it said it gave, and its status."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read)
            work(lambda given, answer: os.write(write, b"%d %d\n" % (given, answer)) and None)
            status = 0
        except GuardError:
            status = 3
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        lines = [line for line in stream.read().splitlines(keepends=True) if line.endswith(b"\n")]
    _, status = os.waitpid(pid, 0)
    return [(int(a), int(b)) for a, b in map(bytes.split, lines)], status


class Checker:
    """The history of what was given, and what is wrong with it."""

    def __init__(self) -> None:
        self.given: History = {}
        self.wrong: list[str] = []

    def note(self, pairs: list[tuple[int, int]]) -> None:
        """Take in answers: an input has one for good."""
        for given, answer in pairs:
            if self.given.setdefault(given, answer) != answer:
                self.wrong.append(f"input {given} was answered in two ways")

    def check(self, path: Path, room: int) -> None:
        """Hold a memory against the history; ``room`` answers may not have arrived."""
        memory = opened(path)
        known = memory.recall([given.to_bytes(4, "big") for given in self.given])
        account = memory.account()
        memory.close()
        if known != list(self.given.values()):
            self.wrong.append("an answer that was given is not in the memory")
        if not len(self.given) <= account.answers <= len(self.given) + room:
            self.wrong.append(f"{account.answers} answers are paid for, {len(self.given)} given")


def limited(
    limit: int, *, full: bool, inputs: range, path: Path
) -> tuple[list[tuple[int, int]], int]:
    """Answer in a process whose files may not exceed a limit."""

    def work(say: Callable[[int, int], None]) -> None:
        memory = opened(path)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN if full else signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        for given in inputs:
            say(given, ask(memory, given))
        memory.close()

    return in_child(work)


def writes(folder: Path, step: int, *, full: bool) -> tuple[int, list[str]]:
    """Kill, or fill the disk, at every write: within answers, and when the log is moved over."""
    first = folder / "first.sqlite"
    wrong, runs = list[str](), 0
    for before in (0, 300):
        done, status = limited(1 << 30, full=False, inputs=range(before), path=first)
        assert status == 0
        limit, survived = 0, False
        while not survived:
            path = folder / "memory.sqlite"
            for end in ("", "-wal", "-shm"):
                Path(f"{path}{end}").unlink(missing_ok=True)
            shutil.copy(first, path)
            checker = Checker()
            checker.note(done)
            limit += step
            new = range(before, before + 12)
            found, status = limited(limit, full=full, inputs=new, path=path)
            survived = status == 0
            checker.note(found)
            # It goes on with room again: the answers stand, the others are drawn.
            again, healed = limited(1 << 30, full=False, inputs=new, path=path)
            checker.note(again)
            checker.check(path, 0)
            if healed or len(again) < len(new):
                checker.wrong.append(
                    f"with room again, the memory answers {len(again)} of {len(new)}"
                )
            wrong += [f"at {limit} bytes, {before} stored: {each}" for each in checker.wrong]
            runs += 1
    return runs, wrong


def stopped(folder: Path, wait: float) -> list[str]:
    """Stop a process in the middle of an answer while another asks for the same input."""
    path, checker = folder / "stopped.sqlite", Checker()
    opened(path).close()
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:

        def draw() -> int:
            os.write(told, b"+")
            time.sleep(0.2)
            return 7

        ask(opened(path), 1, draw)
        os._exit(0)
    os.read(ready, 1)
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    with mock.patch.object(memory_module, "_BUSY", wait):
        found, status = in_child(lambda say: say(1, ask(opened(path), 1)))
    waited = time.monotonic() - started
    os.kill(pid, signal.SIGCONT)
    os.waitpid(pid, 0)
    if status == 0 or found:
        checker.wrong.append("a second process answered what a stopped one was answering")
    if not wait * 0.8 <= waited <= wait + 20:
        checker.wrong.append(f"the second process waited for {waited:.1f} s, not {wait:g} s")
    found, _ = in_child(lambda say: say(1, ask(opened(path), 1)))
    if found != [(1, 7)]:
        checker.wrong.append(f"the stopped process's answer was 7, then {found}")
    return checker.wrong


def jumps(folder: Path) -> list[str]:
    """Let the clock jump by years between answers."""
    path, checker, real = folder / "clock.sqlite", Checker(), time.time
    for year in (0, 30, -30, 60, 0):
        with mock.patch("time.time", lambda year=year: real() + year * 31_556_952):
            found, status = in_child(
                lambda say: [say(given, ask(memory, given)) for memory in [opened(path)]
                             for given in range(20)] and None
            )  # fmt: skip
        if status:
            checker.wrong.append(f"{year} years away nothing is answered")
        checker.note(found)
    checker.check(path, 0)
    return checker.wrong


def day(folder: Path, count: int, seed: int) -> tuple[float, int, list[str]]:
    """Answer a day's requests by processes that are killed after some thousand, in mid-answer."""
    path, checker, rng = folder / "day.sqlite", Checker(), random.Random(seed)
    asked = [
        rng.randrange(_AGAIN) if rng.random() < 0.9 else rng.randrange(count) for _ in range(count)
    ]
    start, at, kills = time.perf_counter(), 0, 0
    while at < count:
        until = min(count, at + rng.randrange(500, 4000))

        def work(say: Callable[[int, int], None], begin: int = at, end: int = until) -> None:
            memory = opened(path)
            for given in asked[begin:end]:
                say(given, ask(memory, given))
            if end < count:
                ask(memory, count + end, lambda: os.kill(os.getpid(), signal.SIGKILL) or 0)

        found, _ = in_child(work)
        checker.note(found)
        at, kills = until, kills + 1
    checker.check(path, 0)
    return time.perf_counter() - start, kills - 1, checker.wrong


def main() -> None:
    """Break things, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=int, default=509, help="bytes from one limit to the next")
    parser.add_argument("--requests", type=int, default=86_400, help="of the day")
    parser.add_argument("--wait", type=float, default=5.0, help="seconds for another process")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words, full in (("killed at a write", False), ("disk full at a write", True)):
            part = folder / words.split()[0]
            part.mkdir()
            runs, found = writes(part, given.step, full=full)
            wrong += found
            print(f"{words:28} {runs:6,} runs, {len(found)} wrong", flush=True)
        for words, found in (
            ("stopped in an answer", stopped(folder, given.wait)),
            ("clock jumps by years", jumps(folder)),
        ):
            wrong += found
            print(f"{words:28} {len(found)} wrong", flush=True)
        seconds, kills, found = day(folder, given.requests, given.seed)
        wrong += found
        print(
            f"{given.requests:,} requests of a day   {seconds:.0f} s, {kills} kills, "
            f"{len(found)} wrong"
        )
    for each in wrong[:20]:
        print(f"wrong: {each}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

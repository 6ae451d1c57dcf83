"""Attack verdicts with random cases whose truth is found in other ways; count, shrink and keep.

    python benchmarks/campaign.py --minutes 60 --seed 1

Case i of a kind depends on the seed, the kind and i alone. A case is checked in a process of its
own, which may die or hang: that is a mistake too. Exit status: 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from leaveout.deadline import Deadline

from attacks.counting import Table
from attacks.kind import KINDS, Case, Outcome, digest, generator, imported, load, sort_of
from attacks.shrinking import shrunk
from attacks.workers import Worker

__all__ = ["Campaign", "main", "replay", "schedule"]

# Some truths are those the tests use, which no package holds.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

_KEPT = 5
"""Mistakes of one kind and sort that are shrunk and written; all are counted."""

_TOLD = 20.0
"""Seconds between two lines of progress."""


def schedule(kinds: list[str], cases: int | None) -> Iterator[tuple[str, int]]:
    """Yield (kind, number), each kind as often as its weight says."""
    counts = dict.fromkeys(kinds, 0)
    total = 0
    while cases is None or total < cases:
        name = min(kinds, key=lambda each: (counts[each] + 1) / KINDS[each][1])
        yield name, counts[name]
        counts[name] += 1
        total += 1


class Campaign:
    """Checks cases on some processes at once.

    Parameters
    ----------
    seed : int
    found : Path
        Folder that mistakes are written to.
    workers : int
    """

    def __init__(self, seed: int, found: Path, workers: int) -> None:
        self.seed, self.found, self.workers = seed, found, workers
        self.table = Table()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._kept: dict[tuple[str, str], int] = {}
        self.at_work: list[Worker] = []

    def run(self, kinds: list[str], cases: int | None, seconds: float) -> None:
        """Check cases until there are enough, the time is over, or Ctrl-C."""
        end = Deadline.after(seconds)
        waiting = schedule(kinds, cases)
        threads = [
            threading.Thread(target=self._work, args=(waiting, end)) for _ in range(self.workers)
        ]
        for thread in threads:
            thread.start()
        telling = Deadline.after(_TOLD)
        try:
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.05)
                if telling.over:
                    telling = Deadline.after(_TOLD)
                    _say(self.table.line())
        except KeyboardInterrupt:
            _say("stopping")
        finally:
            self.stop()
            for thread in threads:
                thread.join()

    def stop(self) -> None:
        """End `run` at once; cases that it breaks off are not counted."""
        self._stop.set()
        for worker in self.at_work:
            worker.kill()

    def _work(self, waiting: Iterator[tuple[str, int]], end: Deadline) -> None:
        worker = Worker()
        self.at_work.append(worker)
        try:
            while not self._stop.is_set() and not end.over:
                with self._lock:
                    task = next(waiting, None)
                if task is None:
                    return
                name, number = task
                begun = time.monotonic()
                outcome = worker.numbered(name, self.seed, number)
                if self._stop.is_set():
                    # It may have been ended in the midst of the case.
                    return
                with self._lock:
                    self.table.add(name, outcome, time.monotonic() - begun)
                if outcome.wrong is not None:
                    self._keep(worker, name, number, outcome)
        finally:
            worker.close()

    def _keep(self, worker: Worker, name: str, number: int, outcome: Outcome) -> None:
        """Shrink a mistake and write it down."""
        sort = sort_of(outcome.wrong or "")
        with self._lock:
            count = self._kept[name, sort] = self._kept.get((name, sort), 0) + 1
        _say(f"WRONG {name} {number} [{outcome.label}]: {outcome.wrong}")
        if count > _KEPT:
            return
        kind = load(name)
        case = kind.make(generator(self.seed, name, number))
        case, outcome = shrunk(
            case, outcome, kind.shrink, lambda each: worker.given(name, each), self._stop.is_set
        )
        self.found.mkdir(parents=True, exist_ok=True)
        path = self.found / f"{name}-{digest(case)}.json"
        path.write_text(written(name, case, outcome, f"seed {self.seed}, case {number}"))
        _say(f"  {path}: {outcome.wrong}")


def written(name: str, case: Case, outcome: Outcome, origin: str) -> str:
    """Return the text of a file that `replay` reads."""
    content = {"kind": name, "wrong": outcome.wrong, "origin": origin, "case": case}
    return json.dumps(content, indent=1) + "\n"


def replay(path: Path) -> tuple[str, Outcome]:
    """Check a written case again, in this process; returns its kind, too."""
    from attacks.workers import judged

    content = json.loads(path.read_text())
    return content["kind"], judged(load(content["kind"]), content["case"])


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=None, help="end after so many")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    parser.add_argument("--replay", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--found", type=Path, default=Path("found"), metavar="DIR")
    given = parser.parse_args(arguments)
    if given.replay:
        bad = 0
        for path in given.replay:
            name, outcome = replay(path)
            bad += outcome.wrong is not None
            print(f"{path}: {name}: {outcome.label}: {outcome.answer}: {outcome.wrong or 'fine'}")
        return 1 if bad else 0
    for each in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell that runs it in the background had it ignored.
        signal.signal(each, signal.default_int_handler)
    for name in given.only:
        # What cannot be imported is told here, not as a process that died.
        imported(name)
    campaign = Campaign(given.seed, given.found, given.workers)
    campaign.run(given.only, given.cases, 60.0 * given.minutes)
    print(campaign.table.text())
    return 1 if campaign.table.wrong else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

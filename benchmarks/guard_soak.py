"""Soak a served guard: many clients, repeated inputs, and a server that is killed now and then.

    python benchmarks/guard_soak.py FOLDER --data ../shared/data/adult_lucid21.npz

FOLDER is what ``leaveout train`` leaves, with the bounds of ``leaveout verify --bounds``. The
guard is served by ``leaveout guard FOLDER --serve`` with a memory of its own; clients ask for test
rows and for leaks, the same ones again and again, one or several at a time, and send some that is
invalid. Meanwhile the server is killed (SIGKILL) and started again; with ``--processes`` single
processes of it are, too, which it replaces itself. Clients try again. At the end no input may have
had two answers, and the memory must hold what was given, paid for once. Exit status 1 if
anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from leaveout.deadline import Deadline
from leaveout.errors import LeaveoutError
from leaveout.verifier.guard import Guard

from guard_soak_checks import failures, read_ledger
from guard_soak_load import Inputs, Tally, client, find_inputs, requests
from traces import machine

SHOWN = 5


class Server:
    """``leaveout guard --serve`` in a process of its own, on one port.

    Parameters
    ----------
    command : list of str
    """

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.log: list[str] = []
        self.killed = 0
        self.before = self.after = (0.0, 0)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers, or has ended without."""
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        said = []
        # It may say something before, as of rows that no member covers.
        for line in self.process.stderr:
            said.append(line)
            if re.search(r"http://\S+:\d+ answers", line):
                break
        else:
            raise SystemExit("".join(said))
        self.line = line
        threading.Thread(target=self._read, args=[self.process.stderr], daemon=True).start()

    def _read(self, stream: object) -> None:
        self.log.extend(line for line in stream if "HTTP/1.1" not in line)  # type: ignore[attr-defined]

    def kill(self) -> None:
        """End it and all its processes as a power cut would."""
        every = [self.process.pid, *descendants(self.process.pid)]
        for pid in every:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        # The port is theirs until they have gone.
        while any(is_alive(pid) for pid in every):
            time.sleep(0.01)

    def kill_one(self, rng: np.random.Generator) -> bool:
        """End one of its processes so; return whether there was one."""
        found = descendants(self.process.pid)
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(rng.choice(found)), signal.SIGKILL)
        return True

    def held(self) -> tuple[float, int]:
        """Return the MiB that its processes hold, shared pages in parts, and their descriptors."""
        size = files = 0
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            with contextlib.suppress(OSError):
                rolled = Path(f"/proc/{pid}/smaps_rollup").read_text()
                size += int(re.search(r"^Pss:\s+(\d+)", rolled, re.M)[1])  # type: ignore[index]
                files += len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return size / 1024, files

    def stop(self) -> int:
        """End it as its owner would."""
        self.process.terminate()
        return self.process.wait(timeout=120)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody waited for does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(path.parent.name))
    return found


def soak(given: argparse.Namespace, inputs: Inputs, memory: Path) -> tuple[Tally, Server, float]:
    """Send all requests, killing the server and single processes of it now and then."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(
        [sys.executable, "-m", "leaveout", "guard", str(given.folder), "--epsilon",
         str(given.epsilon), "--serve", "--port", str(port), "--pad", str(given.pad),
         "--memory", str(memory), "--processes", str(given.processes)]
    )  # fmt: skip
    rng = np.random.default_rng(given.seed)
    try:
        made = iter(requests(inputs, given.requests, given.seed))
        lock, tally = threading.Lock(), Tally()
        deadline, handed = Deadline.after(given.time), 0

        def work() -> object:
            nonlocal handed
            with lock:
                if deadline.over or (request := next(made, None)) is None:
                    return None
                handed += 1
                return request

        clients = [
            threading.Thread(
                target=client, args=[work, port, inputs, tally, given.patience], daemon=True
            )
            for _ in range(given.clients)
        ]
        start = time.perf_counter()

        def wait_until(share: float) -> None:
            while any(each.is_alive() for each in clients):
                late = given.time and time.perf_counter() - start >= share * given.time
                if late or tally.done >= share * given.requests:
                    return
                time.sleep(0.02)

        for each in clients:
            each.start()
        server.before = server.held()
        singles = given.single_kills if given.processes > 1 else 0
        whole = sorted(rng.permutation(given.kills + singles)[: given.kills].tolist())
        for kill in range(given.kills + singles):
            wait_until((kill + 1) / (given.kills + singles + 1))
            if kill in whole:
                server.kill()
                server.start()
            elif server.kill_one(rng):
                server.killed += 1
        wait_until(0.99)
        server.after = server.held()
        for each in clients:
            each.join()
        seconds = time.perf_counter() - start
        if server.stop() != 0:
            tally.wrong.append("the server did not end cleanly")
    finally:
        server.kill()
    if tally.done < handed:
        tally.wrong.append(f"{handed - tally.done} requests got no answer")
    return tally, server, seconds


def latencies(tally: Tally) -> list[str]:
    """Return a line of the table a tier, and how well times tell the tiers apart."""
    lines = [f"{'ms a request of one input':28}{'n':>8}{'median':>9}{'p99':>9}{'worst':>9}"]
    for tier in (1, 2, 3, 0):
        taken = np.array([s for of, s in tally.seconds if tier in (0, of)]) * 1e3
        if len(taken):
            shown = "".join(f"{np.percentile(taken, at):9.1f}" for at in (50, 99, 100))
            name = f"tier {tier}" if tier else "all"
            lines.append(f"{name:28}{len(taken):8,}{shown}")
    first, third = ([s for of, s in tally.seconds if of == tier] for tier in (1, 3))
    if first and third:
        test = ks_2samp(first, third)
        lines.append(f"{'tiers 1 and 3 apart':28}{test.statistic:.3f} (KS), p = {test.pvalue:.2g}")
    return lines


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of leaveout train, with bounds.npz")
    parser.add_argument("--data", type=Path, help="NPZ with X_test (default: random inputs)")
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--pad", type=float, default=0.05, help="seconds")
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--time", type=float, help="seconds, after which no more are sent")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--kills", type=int, default=3, help="of the server")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--single-kills", type=int, default=3, help="of one of several processes")
    parser.add_argument("--search", type=float, default=60.0, help="seconds, for leaks")
    parser.add_argument("--rows", type=int, default=1000, help="of the test rows, at most")
    parser.add_argument("--leaks", type=int, default=500, help="to look for")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for one request")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=Path, help="folder (default: a temporary one)")
    return parser.parse_args()


def rows_of(given: argparse.Namespace, guard: Guard) -> NDArray[np.float32]:
    """Return test rows, or random inputs."""
    if given.data is None:
        rng = np.random.default_rng(given.seed + 1)
        return guard.box.sample(rng, given.rows).astype(np.float32)
    with np.load(given.data) as archive:
        return np.asarray(archive["X_test"][: given.rows], np.float32)


def main() -> None:
    """Print the table."""
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.memory or Path(temporary)
        memory = folder / "answers.sqlite"
        if memory.exists():
            raise SystemExit(f"{memory}: is there already; name another --memory")
        try:
            with Guard.load(given.folder, given.epsilon, memory=folder / "own.sqlite") as guard:
                inputs = find_inputs(
                    guard, rows_of(given, guard), given.leaks, given.seed,
                    seconds=given.search, say=lambda line: print(line, flush=True),
                )  # fmt: skip
        except LeaveoutError as error:
            raise SystemExit(str(error)) from None
        tally, server, seconds = soak(given, inputs, memory)
        found = failures(inputs, tally, read_ledger(memory))
        with Guard.load(given.folder, given.epsilon, memory=memory) as guard:
            account = guard.account()
    leaks = np.flatnonzero(inputs.tiers == 3)
    answered = sum(int(index) in tally.answers for index in leaks)
    asked = sum(int(index) in tally.asked for index in leaks)
    print(f"{given.folder.name}: {server.line.strip().removeprefix('leaveout: ')}")
    print(f"{machine()}, server and clients together")
    rate = tally.done / seconds
    for name, value in [
        ("requests answered", f"{tally.done:,} in {seconds:.0f} s, {rate:.0f} a second"),
        ("clients", f"{given.clients}"),
        ("kills, of one process", f"{given.kills}, {server.killed} of {given.processes}"),
        ("tries that broke, were busy", f"{tally.retries:,}, {tally.busy:,}"),
        ("MiB, start and end", f"{server.before[0]:.0f}, {server.after[0]:.0f}"),
        ("descriptors, start and end", f"{server.before[1]}, {server.after[1]}"),
        ("inputs", f"{len(inputs.points):,}, {len(leaks):,} of them leaks"),
        ("leaks answered, kept, asked", f"{answered:,} <= {account.answers:,} <= {asked:,}"),
        ("epsilon of all answers", f"{account.epsilon:g}"),
    ]:  # fmt: skip
        print(f"{name:28}{value}")
    print("\n".join(latencies(tally)))
    for name, wrong in found.items():
        print(f"{name:44}{'holds' if not wrong else f'WRONG, {len(wrong)} times'}")
        for line in wrong[:SHOWN]:
            print(f"    {line}")
    for line in server.log:
        if "missed their deadline" not in line:
            print(f"log: {line.strip()}")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()

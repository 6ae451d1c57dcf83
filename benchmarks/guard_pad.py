"""How far the work behind an answer moves the time at which a padded one leaves.

    python benchmarks/guard_pad.py FOLDER --data ../shared/data/crypto_lucid7.npz

FOLDER is what ``leaveout train`` leaves, with the bounds of ``leaveout verify --bounds``. The guard
is served with a pad, but without the time at random that is added to every answer, which would
hide what is to be seen. Test rows and leaks are asked in random order over one connection, and
then once more: a leak is then remembered. Times of tiers 2 (members were asked) and 3 (leaks) are
told against those of tier 1 (the proved bound decides), in medians, with their standard errors.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from leaveout.errors import LeaveoutError
from leaveout.verifier.guard import Guard

from guard_soak import Server, rows_of
from guard_soak_load import JSON, find_inputs
from traces import machine

STEADY = """
from leaveout.verifier.guard import padding
padding._JITTER = 0.0
from leaveout.__main__ import main
main()
"""
WARM = 20
"""Questions before clocks run."""
DRAWN = 400
"""Times that medians are drawn again, for their standard errors."""


def ask(connection: http.client.HTTPConnection, body: bytes) -> float:
    """Ask, and return the seconds until the answer is there."""
    start = time.perf_counter()
    connection.request("POST", "/label", body, JSON)
    reply = connection.getresponse()
    reply.read()
    taken = time.perf_counter() - start
    if reply.status != 200:
        raise SystemExit(f"status {reply.status}: a question in the box is to be answered")
    return taken


def asked(port: int, points: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float64]:
    """Ask for all inputs in random order; return the milliseconds that each took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bodies = [json.dumps({"x": point}).encode() for point in points.tolist()]
    taken = np.empty(len(bodies))
    for index in rng.permutation(len(bodies)):
        taken[index] = ask(connection, bodies[index])
    connection.close()
    return taken * 1e3


def error(values: NDArray[np.float64], rng: np.random.Generator) -> float:
    """Return the standard error of a median."""
    drawn = rng.choice(values, size=(DRAWN, len(values)))
    return float(np.median(drawn, axis=1).std())


def lines(name: str, taken: NDArray[np.float64], tiers: NDArray[np.int64]) -> list[str]:
    """Return what is said of one round."""
    rng = np.random.default_rng(0)
    first = taken[tiers == 1]
    said = [f"{name:12}{'tier 1':10}{len(first):7,}{np.median(first):12.4f} ms"]
    for tier in (2, 3):
        own = taken[tiers == tier]
        if len(own):
            shift = np.median(own) - np.median(first)
            sure = np.hypot(error(own, rng), error(first, rng))
            apart = ks_2samp(own, first).pvalue
            said.append(
                f"{name:12}{f'tier {tier}':10}{len(own):7,}{shift:+12.4f} ms, standard error "
                f"{sure:.4f}; KS p = {apart:.2g}"
            )
    return said


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of leaveout train, with bounds.npz")
    parser.add_argument("--data", type=Path, help="NPZ with X_test (default: random inputs)")
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--pad", type=float, default=0.02, help="seconds")
    parser.add_argument("--rows", type=int, default=1000, help="of the test rows, at most")
    parser.add_argument("--leaks", type=int, default=1000, help="to look for")
    parser.add_argument("--search", type=float, default=60.0, help="seconds, for leaks")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        memory = Path(temporary) / "answers.sqlite"
        try:
            with Guard.load(given.folder, given.epsilon, memory=memory) as guard:
                inputs = find_inputs(
                    guard, rows_of(given, guard), given.leaks, given.seed,
                    seconds=given.search, say=lambda line: print(line, flush=True),
                )  # fmt: skip
        except LeaveoutError as error:
            raise SystemExit(str(error)) from None
        if not (inputs.tiers == 1).any():
            raise SystemExit(f"{given.folder}: the bound decides of no input; ask other --data")
        server = Server(
            [sys.executable, "-c", STEADY, "guard", str(given.folder), "--epsilon",
             str(given.epsilon), "--serve", "--port", "0", "--pad", str(given.pad),
             "--memory", str(memory)]
        )  # fmt: skip
        try:
            port = int(server.line.partition("127.0.0.1:")[2].split()[0])
            rng = np.random.default_rng(given.seed)
            asked(port, inputs.points[inputs.tiers == 1][:WARM], rng)
            print(f"{given.folder.name}: {server.line.strip().removeprefix('leaveout: ')}")
            print(f"{machine()}, server and client together")
            for name in ("first", "once more"):
                print(
                    "\n".join(lines(name, asked(port, inputs.points, rng), inputs.tiers)),
                    flush=True,
                )
            server.stop()
        finally:
            server.kill()
        for line in server.log:
            print(f"log: {line.strip()}")


if __name__ == "__main__":
    main()

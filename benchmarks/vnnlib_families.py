"""Families of VNN-LIB instances in a folder: how many are read and solved, beside nnenum.

Each family is a folder with ``instances.csv``, as the competitions publish them:
``python benchmarks/vnnlib_families.py --data FOLDER --seconds 60 --instances 5``. With ``--nnenum
PYTHON``, an interpreter that has nnenum, every instance is put to it too, on the same cores. Times
are processor seconds with the start.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acas_peers import run_nnenum, try_nnenum

__all__ = ["Answer", "Instance", "instances", "main", "run"]

_STATUS = {0: "unsat", 1: "sat", 2: "refused", 3: "unknown"}
_GRACE = 60.0


@dataclass(frozen=True)
class Instance:
    """One network and one query."""

    network: Path
    query: Path


@dataclass(frozen=True)
class Answer:
    """What a program said: sat, unsat, unknown, or refused."""

    verdict: str
    cpu: float
    wall: float
    megabytes: float
    detail: str = ""


def instances(family: Path, most: int) -> Iterator[Instance]:
    """Yield instances spread over a family's list, those whose files are there."""
    with (family / "instances.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) >= 2]
    found = []
    for network, query, *_ in rows:
        each = Instance(family / network.strip(), family / query.strip())
        if each.network.exists() and each.query.exists():
            found.append(each)
    for at in np.unique(np.linspace(0, len(found) - 1, most).astype(int)) if found else ():
        yield found[at]


def run(instance: Instance, seconds: float) -> Answer:
    """Ask leaveout about one instance."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "leaveout", "vnnlib", str(instance.query)]
    command += ["--network", str(instance.network), "--time", f"{seconds:g}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _MEASURE, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=seconds + _GRACE)[1].strip().splitlines()
        code = process.returncode
    except subprocess.TimeoutExpired:
        # With all that it started, or it would go on beside the next instance.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        code, said = -1, ["leaveout: it went on after its time"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = next((float(line.split()[1]) for line in said if line.startswith("peak ")), 0.0)
    detail = next((line for line in said if line.startswith("leaveout: ")), "")
    verdict = _STATUS.get(code, "failed")
    return Answer(verdict, cpu, time.perf_counter() - begun, peak, detail[10:])


_MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print("peak", peak, file=sys.stderr)
sys.exit(code)
"""


def _summary(answers: list[Answer]) -> str:
    count = Counter(each.verdict for each in answers)
    solved = count["sat"] + count["unsat"]
    cpu = sum(each.cpu for each in answers if each.verdict in {"sat", "unsat"})
    return f"{solved} of {len(answers)} ({count['unsat']} unsat, {count['sat']} sat), {cpu:.1f} s"


def main() -> None:
    """Print a row a family, and every contradiction."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder a family")
    parser.add_argument("--families", help="their names, with commas; all by default")
    parser.add_argument("--instances", type=int, default=5, help="how many of each family")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each")
    parser.add_argument("--nnenum", type=Path, help="an interpreter that has nnenum")
    parser.add_argument("--each", action="store_true", help="print a line an instance too")
    options = parser.parse_args()
    if options.nnenum is not None:
        try_nnenum(options.nnenum)
    wrong = 0
    folders = sorted(each.parent for each in options.data.glob("*/instances.csv"))
    for family in folders:
        if options.families and family.name not in options.families.split(","):
            continue
        own, others = [], []
        for each in instances(family, options.instances):
            own.append(run(each, options.seconds))
            line = f"  {each.network.name} {each.query.name}: {own[-1].verdict} {own[-1].cpu:.1f} s"
            if options.nnenum is not None:
                peer = run_nnenum(options.nnenum, each.network, each.query, options.seconds)
                others.append(Answer(peer.verdict, peer.cpu, peer.wall, 0.0, peer.detail))
                line += f", nnenum {peer.verdict} {peer.cpu:.1f} s {peer.detail[:60]}"
                wrong += {own[-1].verdict, peer.verdict} == {"sat", "unsat"}
            if options.each:
                print(line, own[-1].detail[:120], flush=True)
        refused = next((each.detail for each in own if each.verdict == "refused"), "")
        over = max((each.wall - options.seconds for each in own), default=0.0)
        peak = max((each.megabytes for each in own), default=0.0)
        print(
            f"{family.name}: {_summary(own)}, peak {peak:.0f} MB, over its time by {over:.1f} s",
            *([f"nnenum {_summary(others)}"] if others else []),
            *([f"refused: {refused}"] if refused else []),
            sep="; ",
            flush=True,
        )
    if wrong:
        raise SystemExit(f"{wrong} contradictions")


if __name__ == "__main__":
    main()

"""What the search of a family costs as it grows: time to first bounds, bounds in time, memory.

    python benchmarks/search_scale.py FOLDER --members 500,3000,36000 --explore 10,30

FOLDER holds full.onnx and family.npz, as `leaveout train` or many_members.py left them; the family
is cut to its first members. Times are of the processor, of one thread, so that a machine that does
other things as well gives the same. Each line is a process of its own, since memory is what the
process held at most: pages of the family's file, which others would share, among them.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from leaveout.bab import make_instance
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.workers.worker import Worker
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.models import Family, Network, load_family, load_network
from leaveout.models.family import FAMILY
from leaveout.models.train.export import NETWORK

HEAD = (
    f"{'members':>8s}{'load':>7s}{'ready':>7s}{'leak':>7s}{'first':>7s}{'lower':>9s}{'upper':>9s}"
)
"""Seconds until the family is loaded, a worker has read it, a leak was sought, the root bounded."""

_SLICE = 0.2
_SOUGHT = 20.0
"""Seconds at most, by the clock, that a first leak is sought."""


def box_of(network: Network, family: Family) -> Box:
    """Return the range of each feature in the training rows; [0, 1] where it is not known."""
    facts = family.manifest.data
    if facts is None:
        return Box(np.zeros(network.inputs), np.ones(network.inputs))
    return Box(np.asarray(facts.minimum, float), np.asarray(facts.maximum, float))


def measure(folder: Path, members: int, label: int, explore: list[float]) -> dict[str, object]:
    """Search one label of a family's first members, in this process."""
    begun = time.process_time()

    def since() -> float:
        return time.process_time() - begun

    network = load_network(folder / NETWORK)
    family = load_family(folder / FAMILY, network)
    if members < len(family):
        family = family.first(members)
    loaded = since()
    question = Leaks(make_instance(network, family, box_of(network, family)), label)
    options = NativeOptions()
    worker = Worker(question, options, threads=1)
    ready = since()
    found = question.first(options, Deadline.after(_SOUGHT))
    lower = 0.0 if found is None else found.confidence
    sought = since()
    stand = worker.start(lower).stand
    first = since()
    course, spent = [], time.process_time()
    for until in explore:
        while time.process_time() - spent < until and stand.worth_going_on:
            stand = worker.explorer.step(lower, _SLICE)
        course.append((until, max(lower, stand.value), stand.bounded))
    return {
        "members": len(family), "load": loaded, "ready": ready, "leak": sought, "first": first,
        "lower": lower, "upper": question.most, "course": course,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def shown(line: dict[str, object]) -> str:
    """Format one line of the table."""
    seconds = "".join(f"{line[name]:7.1f}" for name in ("load", "ready", "leak", "first"))
    course = line["course"]
    assert isinstance(course, list)
    later = "".join(f"{upper:9.4f}{nodes:9,d}" for _, upper, nodes in course)
    bounds = f"{line['lower']:9.4f}{line['upper']:9.4f}"
    return f"{line['members']:8,d}{seconds}{bounds}{later}{line['peak']:9,.0f}"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--members", default="500,3000,36000")
    parser.add_argument("--label", type=int, default=0)
    parser.add_argument(
        "--explore", default="10,30", help="seconds of the processor after which bounds are shown"
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.members = [int(each) for each in given.members.split(",")]
    given.explore = [float(each) for each in given.explore.split(",")]
    if min(given.members) < 1 or not all(0 < each < math.inf for each in given.explore):
        parser.error("--members and --explore: expected numbers above 0")
    return given


def main() -> None:
    """Print the table."""
    given = arguments()
    if given.alone:
        line = measure(given.folder, given.members[0], given.label, given.explore)
        print(json.dumps(line))
        return
    later = "".join(f"{f'at {each:g} s':>9s}{'nodes':>9s}" for each in given.explore)
    print(f"{HEAD}{later}{'peak MiB':>9s}", flush=True)
    for members in given.members:
        command = [sys.executable, __file__, str(given.folder), "--members", str(members)]
        command += ["--label", str(given.label), "--alone"]
        command += ["--explore", ",".join(f"{each:g}" for each in given.explore)]
        run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if run.returncode:
            sys.exit(run.returncode)
        print(shown(json.loads(run.stdout)), flush=True)


if __name__ == "__main__":
    main()

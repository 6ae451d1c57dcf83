"""One label of one family, searched by whichever checkout ``PYTHONPATH`` names first.

    PYTHONPATH=src:benchmarks python -P benchmarks/idp_search.py FOLDER --label 0 --time 60

``FOLDER`` has full.onnx and family.npz. Prints one line of JSON: bounds, seconds, nodes, and the
seconds of processor time that this process and its children used meanwhile. Loading and compiling
are not counted. ``idp.py --against`` starts it, in a process of its own for each line.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path

import numpy as np

import leaveout
from leaveout.bab import make_instance
from leaveout.bab.native.options import NativeOptions
from leaveout.encoders import Box
from leaveout.models import load_family, load_network

import traces


def cpu() -> float:
    """Return the seconds of processor time of this process and its children so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--label", type=int, default=0)
    parser.add_argument("--members", type=int, help="first so many; default all")
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernel", default="cpu")
    given = parser.parse_args()
    network = load_network(given.folder / "full.onnx")
    family = load_family(given.folder / "family.npz", network)
    if given.members is not None and given.members < len(family):
        family = family.first(given.members)
    box = Box(np.zeros(network.inputs), np.ones(network.inputs))
    instance = make_instance(network, family, box)
    options = NativeOptions(seconds=given.time, seed=given.seed, kernel=given.kernel)
    traces.warm_up(instance, options)
    before = cpu()
    result = traces.run_native(given.folder.name, instance, given.label, options).result
    facts = {
        "source": str(Path(leaveout.__file__).resolve()),
        "members": len(family),
        "lower": result.lower,
        "upper": result.upper,
        "seconds": result.seconds,
        "cpu": cpu() - before,
        "nodes": result.solved,
        "closed": result.closed,
        "reason": result.reason,
        "interrupted": result.interrupted,
    }
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()

"""ACAS Xu: the 186 instances of its ten properties, or pairs of its networks with changed copies.

    python benchmarks/acas.py --data ../shared/data/acas
    python benchmarks/acas.py --data ../shared/data/acas --only 3,4/1_9 --nnenum venv/bin/python
    python benchmarks/acas.py --data ../shared/data/acas --pairs --count 5 --within 0.05

The folder has ACASXU_run2a_A_B_batch_2000.onnx, prop_P.vnnlib and published.csv, whose lines are
the instances. Each is decided in this process as ``leaveout vnnlib`` would. ``search`` are seconds
of the search alone, ``seconds`` also those of reading the files; imports and compiling are not
counted in either. ``cpu`` is of this process and its children, over the same time as ``seconds``.
``agrees`` holds the verdict against the published one, ``replayed`` a counter-example against the
property: this script runs the network in onnxruntime and reads the property itself. ``published``
are nnenum's seconds with its start, on another machine; ``nnenum`` those of its search as it
reports them on this one, ``wall`` with its start. Both have
``--time`` seconds. A wrong verdict or counter-example makes the exit status 1.

Lines appear as they finish; Ctrl-C ends the table after the instance at hand.

nnenum is made ready outside of the project: a clone, a virtual environment with numpy, scipy,
onnx, onnxruntime, skl2onnx, swiglpk, termcolor and threadpoolctl, and ``pip install --no-deps -e``
of the clone; ``--nnenum`` is the environment's interpreter.

With ``--pairs`` see acas_pairs.py.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.verifier.warm_up import warm

from acas_instances import Instance, chosen, read_instances
from acas_pairs import KINDS, compare_pairs
from acas_peers import run_nnenum, try_nnenum
from acas_table import HEAD, PEER, Line, entry, run, shown, summary
from traces import machine


def table(instances: Sequence[Instance], given: argparse.Namespace, lines: list[Line]) -> None:
    """Print a line an instance, and keep them; Ctrl-C ends after the one at hand."""
    for instance in instances:
        line = run(instance, given.time, given.seed)
        try:
            if given.nnenum and not line.interrupted:
                peer = run_nnenum(given.nnenum, instance.onnx, instance.vnnlib, given.time)
                line = replace(line, peer=peer)
        finally:
            lines.append(line)
            print(shown(line), flush=True)
        if line.interrupted:
            raise KeyboardInterrupt


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with what is asked")
    parser.add_argument("--only", help="properties and instances, as in 3,4/1_9; default all")
    parser.add_argument("--networks", help="as in 1_1,2_3; default all")
    parser.add_argument("--time", type=float, help="seconds a question; default 116, of pairs 100")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the table here, too")
    parser.add_argument(
        "--nnenum",
        type=Path,
        metavar="PYTHON",
        help="run the peer, too: an interpreter that has it",
    )
    pairs = parser.add_argument_group("pairs")
    pairs.add_argument("--pairs", action="store_true", help="networks beside changed copies")
    pairs.add_argument("--count", type=int, default=10, help="how many networks (default 10)")
    pairs.add_argument("--kinds", help=f"of changes; default {','.join(KINDS)}")
    pairs.add_argument("--within", type=float, help="also decide whether scores differ by no more")
    given = parser.parse_args()
    given.kinds = given.kinds.split(",") if given.kinds else list(KINDS)
    for kind in given.kinds:
        if kind not in KINDS:
            parser.error(f"--kinds: no kind {kind!r}; kinds: {', '.join(KINDS)}")
    if given.time is None:
        given.time = 100.0 if given.pairs else 116.0
    if not (given.time > 0 and math.isfinite(given.time)):
        parser.error("--time: must be above 0")
    if given.count < 1:
        parser.error("--count: must be at least 1")
    return given


def main() -> int:
    """Print the table; 1 where something is wrong."""
    given = arguments()
    try:
        instances = chosen(read_instances(given.data), given.only, given.networks)
        if given.nnenum:
            try_nnenum(given.nnenum)
    except LeaveoutError as error:
        sys.stderr.write(f"acas.py: {error}\n")
        return 2
    warm(["points"], lambda text: print(text, file=sys.stderr))
    print(f"{given.time:g} s a question, {machine()}", flush=True)
    facts: dict[str, object] = {"machine": machine(), "time": given.time, "seed": given.seed}
    if given.pairs:
        rows, wrong = compare_pairs(given)
        facts["pairs"] = rows
    else:
        print(HEAD + (PEER if given.nnenum else ""), flush=True)
        lines: list[Line] = []
        try:
            table(instances, given, lines)
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")
        print(summary(lines))
        wrong = any(line.wrong for line in lines)
        facts["instances"] = [entry(line) for line in lines]
    if given.json:
        given.json.write_text(json.dumps(facts, indent=1) + "\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())

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
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean

from leaveout.errors import LeaveoutError
from leaveout.specs.vnnlib import load_query
from leaveout.verifier.points.query import decide
from leaveout.verifier.warm_up import warm

from acas_instances import Instance, chosen, read_instances
from acas_pairs import KINDS, compare_pairs
from acas_peers import Peer, run_nnenum, try_nnenum
from acas_replay import Replay, replay
from traces import machine

VERDICTS = {"proved": "unsat", "refuted": "sat", "unknown": "unknown"}

HEAD = (
    f"{'property':9s}{'network':8s}{'verdict':8s}{'agrees':8s}{'replayed':9s}{'seconds':>9s}"
    f"{'search':>9s}{'cpu':>9s}{'nodes':>10s}{'published':>11s}"
)
PEER = f"   {'nnenum':8s}{'seconds':>9s}{'wall':>9s}{'cpu':>9s}"


@dataclass(frozen=True)
class Line:
    """How one instance went.

    Attributes
    ----------
    instance : Instance
    verdict : {"sat", "unsat", "unknown"}
    reason : str
        Of "unknown".
    seconds, search, cpu : float
    nodes : int
    replay : Replay or None
        Of "sat".
    interrupted : bool
    peer : Peer or None
    """

    instance: Instance
    verdict: str
    reason: str
    seconds: float
    search: float
    cpu: float
    nodes: int
    replay: Replay | None
    interrupted: bool = False
    peer: Peer | None = None

    @property
    def solved(self) -> bool:
        """Whether there is an answer."""
        return self.verdict != "unknown"

    @property
    def wrong(self) -> str:
        """What is wrong, empty if nothing is."""
        if self.replay is not None and not self.replay.holds:
            return f"the counter-example misses the property by {self.replay.missing:.3g}"
        if self.solved and self.verdict != self.instance.verdict:
            return f"{self.verdict}, published is {self.instance.verdict}"
        return ""


def run(instance: Instance, seconds: float, seed: int) -> Line:
    """Decide one instance, and replay what it finds."""
    begun, cpu = time.perf_counter(), _cpu()
    query = load_query(instance.vnnlib, [str(instance.onnx)]).query
    decision = decide(query, seconds=seconds, seed=seed)
    took, used = time.perf_counter() - begun, _cpu() - cpu
    points = decision.points if decision.verdict == "refuted" else None
    shown = replay(instance.onnx, instance.vnnlib, points[0].tolist()) if points else None
    return Line(
        instance,
        VERDICTS[decision.verdict],
        decision.reason or "",
        took,
        decision.seconds,
        used,
        decision.nodes,
        shown,
        decision.interrupted,
    )


def _cpu() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def shown(line: Line) -> str:
    """Format one line."""
    own, replayed = line.instance, "-"
    agrees = ("yes" if line.verdict == own.verdict else "NO") if line.solved else "-"
    if line.replay is not None:
        exact = "yes" if line.replay.missing == 0 else f"{line.replay.missing:.1g}"
        replayed = exact if line.replay.holds else "NO"
    published = "-" if own.published is None else f"{own.published:.2f}"
    text = (
        f"{own.prop:9s}{own.network:8s}{line.verdict:8s}{agrees:8s}{replayed:9s}"
        f"{line.seconds:9.3f}{line.search:9.3f}{line.cpu:9.3f}{line.nodes:10,d}{published:>11s}"
    )
    if line.peer is not None:
        peer = line.peer
        text += f"   {peer.verdict:8s}{peer.seconds:9.3f}{peer.wall:9.3f}{peer.cpu:9.3f}"
        text += f"  {peer.detail}" if peer.detail else ""
    return text + (f"\nWRONG: {own.name}: {line.wrong}" if line.wrong else "")


def entry(line: Line) -> dict[str, object]:
    """Return one line for ``--json``."""
    own = line.instance
    facts = {name: value for name, value in asdict(line).items() if name != "instance"}
    names = {"property": own.prop, "network": own.network, "published_verdict": own.verdict}
    return {**names, "published_nnenum_s": own.published, **facts, "wrong": line.wrong}


def summary(lines: Sequence[Line]) -> str:
    """Format what the table amounts to."""
    solved = [line for line in lines if line.solved]
    sat = [line for line in solved if line.verdict == "sat"]
    held = sum(line.replay is not None and line.replay.holds for line in sat)
    wrong = sum(bool(line.wrong) for line in lines)
    texts = [
        f"solved {len(solved)} of {len(lines)}, sat {len(sat)}, unsat {len(solved) - len(sat)}; "
        f"wrong {wrong}; counter-examples replayed {held} of {len(sat)}; "
        f"search {sum(line.search for line in lines):.1f} s in all"
    ]
    theirs = [(line.search, line.instance.published) for line in solved]
    texts.append(_against("nnenum as published, with its start, elsewhere", theirs))
    if any(line.peer for line in lines):
        peers = [line.peer for line in lines if line.peer is not None]
        done = [peer for peer in peers if peer.verdict != "unknown"]
        total = sum(peer.seconds for peer in peers)
        texts.append(f"nnenum here: solved {len(done)} of {len(peers)}, {total:.1f} s in all")
        measured = [
            (line.search, line.peer.seconds)
            for line in solved
            if line.peer is not None and line.peer.verdict != "unknown"
        ]
        texts.append(_against("nnenum here, its search alone", measured))
    return "\n".join(texts)


def _against(name: str, pairs: Sequence[tuple[float, float | None]]) -> str:
    """Compare over what both solve."""
    both = [(max(own, 1e-3), max(other, 1e-3)) for own, other in pairs if other is not None]
    if not both:
        return f"{name}: none that both solve"
    own, other = (geometric_mean(side) for side in zip(*both, strict=True))
    return (
        f"{name}: over {len(both)} that both solve geometric means {own:.3f} s and {other:.3f} s, "
        f"ratio {own / other:.3f}"
    )


def table(instances: Sequence[Instance], given: argparse.Namespace, lines: list[Line]) -> None:
    """Print a line an instance, and keep them; Ctrl-C ends after the one at hand."""
    for instance in instances:
        line = run(instance, given.time, given.seed)
        try:
            if given.nnenum and not line.interrupted:
                peer = run_nnenum(given.nnenum, instance.onnx, instance.vnnlib, given.time)
                line = Line(**{**line.__dict__, "peer": peer})
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

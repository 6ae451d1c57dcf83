"""One instance of ACAS Xu decided and replayed, as a line, and what all lines amount to."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean

from leaveout.errors import LeaveoutError
from leaveout.specs.vnnlib import load_query
from leaveout.verifier.points.query import decide

from acas_instances import Instance
from acas_peers import Peer
from acas_replay import Replay, replay

__all__ = ["HEAD", "PEER", "Line", "entry", "run", "shown", "summary"]

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
    try:
        query = load_query(instance.vnnlib, [str(instance.onnx)]).query
        decision = decide(query, seconds=seconds, seed=seed)
    except LeaveoutError as error:
        return Line(instance, "unknown", str(error), 0.0, 0.0, 0.0, 0, None)
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
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


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
    text += "" if line.reason.startswith(("time", "interrupted")) else f"  {line.reason}".rstrip()
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

"""How far apart ACAS Xu networks and changed copies of them are: ``acas.py --pairs``.

Copies are those of acas_changes.py: weights rounded to float16, a twentieth of each layer's weights
cut, a thousandth of noise, some steps of training towards noisy scores. Inputs are all that the
networks were made for, as normalised there: distance 0 to 60,760 ft is [-0.328422877,
0.679857769], the two angles, each from minus to plus pi, and the speeds 100 to 1,200 and 0 to
1,200 ft/s are [-0.5, 0.5]. Asked is, of score 0 as normalised,

    find d: least d such that forall x in X: abs(score(f, x, 0) - score(g, x, 0)) <= d

and with ``--within`` also whether the difference is never above that number. ``lower`` is a
difference that was found and that this script replays, ``ratio`` upper over lower. Beyond the 45
networks ``--count`` begins again with another seed, for copies that depend on one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import onnx

import leaveout
from leaveout.errors import LeaveoutError
from leaveout.verifier import Result

from acas_changes import KINDS, SEEDED, NoTorchError, changed
from acas_instances import network_file
from acas_replay import scores

__all__ = ["KINDS", "PairLine", "ask", "compare_pairs"]

LOWER = (-0.328422877, -0.5, -0.5, -0.5, -0.5)
UPPER = (0.679857769, 0.5, 0.5, 0.5, 0.5)

NETWORKS = tuple(f"{a}_{b}" for a in range(1, 6) for b in range(1, 10))

HEAD = (
    f"{'network':8s}{'copy':10s}{'seed':>5s}{'lower':>12s}{'upper':>12s}{'ratio':>11s}"
    f"{'seconds':>9s}"
)

_SPEC = """\
let f = network("f.onnx")
let g = network("g.onnx")
let X = box({lower}, {upper})
{asked} forall x in X: abs(score(f, x, 0) - score(g, x, 0)) <= {most}
"""


@dataclass(frozen=True)
class PairLine:
    """What is known of one network and one copy.

    Attributes
    ----------
    network, kind : str
    seed : int
    lower, upper : float
        Between which the largest difference lies; what was found is `lower`, replayed.
    seconds : float
    decision : {"proved", "refuted", "unknown"} or None
        Whether it is never above what ``--within`` says; None where that was not asked.
    decision_seconds : float or None
    wrong : str
        What is wrong, empty if nothing is.
    """

    network: str
    kind: str
    seed: int
    lower: float
    upper: float
    seconds: float
    decision: str | None = None
    decision_seconds: float | None = None
    wrong: str = ""

    @property
    def ratio(self) -> float | None:
        """Upper over lower."""
        return self.upper / self.lower if self.lower > 0 else None


def ask(
    first: Path,
    copy: onnx.ModelProto,
    box: tuple[tuple[float, ...], tuple[float, ...]],
    seconds: float,
    within: float | None,
    seed: int = 0,
) -> tuple[PairLine, bool]:
    """Bound the largest difference of score 0, and decide whether it is within a number.

    Returns
    -------
    PairLine
        Without names.
    bool
        Whether Ctrl-C ended it.
    """
    with TemporaryDirectory(prefix="acas-") as name:
        folder = Path(name)
        onnx.save(onnx.load(first), folder / "f.onnx")
        onnx.save(copy, folder / "g.onnx")
        found, difference, wrong = _one(folder, "find d: least d such that", "d", box, seconds)
        lower, upper = found.lower or 0.0, found.upper
        assert upper is not None
        if difference < lower * (1 - 1e-6):
            wrong = wrong or f"the difference found is {difference:.6g}, not {lower:.6g}"
        line = PairLine("", "", seed, difference, upper, found.seconds, wrong=wrong)
        stopped = (found.reason or "").endswith("interrupted")
        if within is None or stopped:
            return line, stopped
        decided, difference, wrong = _one(folder, "guarantee g:", repr(within), box, seconds)
        if decided.verdict == "refuted" and not difference > within:
            wrong = wrong or f"refuted, but the difference found is {difference:.6g}"
        if decided.verdict == "proved" and line.lower > within:
            wrong = f"proved, but a difference of {line.lower:.6g} was found"
        if decided.verdict == "refuted" and upper < within:
            wrong = wrong or f"refuted, but the upper bound is {upper:.6g}"
        line = PairLine(
            "", "", seed, line.lower, upper, line.seconds, decided.verdict, decided.seconds,
            line.wrong or wrong,
        )  # fmt: skip
        return line, (decided.reason or "").endswith("interrupted")


def _one(
    folder: Path,
    asked: str,
    most: str,
    box: tuple[tuple[float, ...], tuple[float, ...]],
    seconds: float,
) -> tuple[Result, float, str]:
    """Verify one statement; return what is known, the replayed difference, and what is wrong."""
    lower, upper = (list(side) for side in box)
    spec = folder / "pair.spec"
    spec.write_text(_SPEC.format(lower=lower, upper=upper, asked=asked, most=most))
    result = leaveout.verify(spec, time=seconds).results[0]
    if result.example is None:
        return result, 0.0, ""
    x = np.array(result.example.points["x"])
    values = [scores(folder / file, x.tolist())[0] for file in ("f.onnx", "g.onnx")]
    inside = bool((x >= lower).all() and (x <= upper).all())
    return result, abs(values[0] - values[1]), "" if inside else "the input found lies outside"


def shown(line: PairLine, within: float | None) -> str:
    """Format one line."""
    ratio = "-" if line.ratio is None else f"{line.ratio:.4g}"
    text = (
        f"{line.network:8s}{line.kind:10s}{line.seed:5d}{line.lower:12.6f}{line.upper:12.6f}"
        f"{ratio:>11s}{line.seconds:9.2f}"
    )
    if within is not None:
        seconds = "-" if line.decision_seconds is None else f"{line.decision_seconds:.2f}"
        text += f"  {line.decision or '-':9s}{seconds:>9s}"
    name = f"{line.network} {line.kind}"
    return text + (f"\nWRONG: {name}: {line.wrong}" if line.wrong else "")


def summary(lines: list[PairLine], within: float | None) -> str:
    """Format what the table amounts to."""
    ratios = [line.ratio for line in lines if line.ratio is not None]
    middle = f", median ratio {median(ratios):.4g}, largest {max(ratios):.4g}" if ratios else ""
    wrong = sum(bool(line.wrong) for line in lines)
    text = f"{len(lines)} pairs{middle}; wrong {wrong}"
    if within is not None:
        counts = [
            f"{verdict} {sum(line.decision == verdict for line in lines)}"
            for verdict in ("proved", "refuted", "unknown")
        ]
        text += f"; within {within:g}: {', '.join(counts)}"
    return text


def wanted(given: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Yield network, kind and seed of each pair, as many networks as asked for."""
    names = given.networks.split(",") if given.networks else NETWORKS
    for k in range(given.count):
        if given.networks and k == len(names):
            return
        again, position = divmod(k, len(names))
        for kind in given.kinds:
            if not again or kind in SEEDED:
                yield names[position], kind, given.seed + again


def compare_pairs(given: argparse.Namespace) -> tuple[list[dict[str, object]], bool]:
    """Print a line a pair; return them for ``--json``, and whether anything is wrong."""
    within, lines = given.within, list[PairLine]()
    extra = "" if within is None else f"  {f'<= {within:g}':9s}{'seconds':>9s}"
    print(HEAD + extra, flush=True)
    box, sides = (LOWER, UPPER), (np.array(LOWER), np.array(UPPER))
    try:
        for network, kind, seed in wanted(given):
            try:
                first = network_file(given.data, network)
                copy = changed(onnx.load(first), kind, seed, sides)
                line, stopped = ask(first, copy, box, given.time, within, seed)
            except (NoTorchError, LeaveoutError) as error:
                print(f"{network:8s}{kind:10s}{seed:5d}  {error}", flush=True)
                continue
            lines.append(PairLine(**{**asdict(line), "network": network, "kind": kind}))
            print(shown(lines[-1], within), flush=True)
            if stopped:
                break
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    print(summary(lines, within))
    rows: list[dict[str, object]] = [{**asdict(line), "ratio": line.ratio} for line in lines]
    return rows, any(line.wrong for line in lines)

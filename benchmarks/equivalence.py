"""The largest difference of a network and a rounded copy: as a pair, and each on its own.

    python benchmarks/equivalence.py NETWORK.onnx [--time 60] [--low 0] [--high 1]

The copy's weights are rounded to float16. Both searches are the same but for what is propagated:
the difference of the two networks, or the scores of both side by side. ``reached`` is when the
first had proved what the second ended with; ``ratio`` how many times longer that took the second.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from leaveout.bab import NativeOptions, Progress, SearchResult
from leaveout.bab.attack.counterexamples import Found
from leaveout.bab.joint_claim import JointClaim, join_claim
from leaveout.bab.native.claims import STEPS, Claims
from leaveout.bab.native.search import search_question
from leaveout.encoders import Box
from leaveout.encoders.query import Application, Case, Form, Query
from leaveout.models import Network, load_network
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

HEAD = (
    f"{'score':>6s}{'sign':>5s}  {'':10s}{'lower':>12s}{'upper':>12s}{'seconds':>9s}"
    f"{'nodes':>9s}{'reached':>9s}{'ratio':>8s}"
)


def rounded(network: Network) -> Network:
    """Return the network with weights rounded to float16."""
    values = {
        name: value.astype(np.float16).astype(np.float32)
        for name, value in network.parameters.items()
    }
    return network_from(with_parameters(network.model, values), "rounded")


def traced(
    claim: JointClaim, seconds: float
) -> tuple[SearchResult[Found], list[tuple[float, float]]]:
    """Search, and keep when the upper bound was how low."""
    trace: list[tuple[float, float]] = []
    started = time.perf_counter()

    def keep(progress: Progress) -> None:
        trace.append((progress.seconds, progress.upper))

    options = NativeOptions(seconds, steps=STEPS)
    result = search_question(Claims(claim), options, floor=-math.inf, progress=keep)
    trace.append((time.perf_counter() - started, result.upper))
    return result, trace


def line(name: str, result: SearchResult[Found]) -> str:
    """Format what one search found."""
    bounds = f"{name:10s}{result.lower:12.6f}{result.upper:12.6f}"
    return f"{bounds}{result.seconds:9.1f}{result.solved:9,d}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("network", type=Path)
    parser.add_argument("--time", type=float, default=60.0, help="seconds a search")
    parser.add_argument("--low", type=float, default=0.0)
    parser.add_argument("--high", type=float, default=1.0)
    given = parser.parse_args()
    network = load_network(given.network)
    copy = rounded(network)
    box = Box(np.full(network.inputs, given.low), np.full(network.inputs, given.high))
    applications = (Application(network, 0, "N(x)"), Application(copy, 0, "rounded(x)"))
    query = Query((box,), applications, ())
    # What is compiled is compiled before anything is timed.
    warm = Form((), ((0, 0, 1.0), (1, 0, -1.0)))
    for apart in (False, True):
        traced(join_claim(query, [Case((), (warm,))], apart=apart), 0.5)
    print(HEAD)
    for label in range(network.labels):
        for sign in (1.0, -1.0):
            goal = Form((), ((0, label, sign), (1, label, -sign)))
            cases = [Case((), (goal,))]
            own, trace = traced(join_claim(query, cases), given.time)
            other, _ = traced(join_claim(query, cases, apart=True), given.time)
            reached = next((at for at, upper in trace if upper <= other.upper), None)
            shown = "" if reached is None else f"{reached:9.2f}{other.seconds / reached:8.0f}"
            print(f"{label:6d}{sign:5.0f}  {line('pair', own)}", flush=True)
            print(f"{'':13s}{line('apart', other)}{shown}", flush=True)


if __name__ == "__main__":
    main()

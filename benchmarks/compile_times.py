"""What compiling takes: of each function, of each group, and of starting commands.

    python benchmarks/compile_times.py points growth

Each group is compiled by a process of its own into an empty folder, then loaded by another. ``own``
is CPU time without what a function calls, which is compiled with it. Commands are started twice, in
an empty folder and after that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numba.core import event

from leaveout.verifier.warm_up import KERNELS

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "breast_cancer" / "breast_cancer.spec"
CODE = "import leaveout"
COMMANDS = {
    "import leaveout": ["-c", CODE],
    "--help": ["-m", "leaveout", "--help"],
    "verify, trivial": ["-m", "leaveout", "verify", "trivial.spec"],
    "verify, make demo": ["-m", "leaveout", "verify", str(EXAMPLE)],
}
TRIVIAL = """\
let N = network("{0}/full.onnx")
let F = family("{0}/family.npz")
let X = box(0, 1)
guarantee g: forall x in X, M in F: confidence(N, x) > 1e6 => label(M, x) == label(N, x)
"""


class Watch(event.Listener):
    """The CPU time of compiling each function, its own and all."""

    def __init__(self) -> None:
        self.open: list[list[float]] = []
        self.rows: dict[str, list[float]] = {}

    def on_start(self, event: Any) -> None:
        """Begin a function."""
        self.open.append([time.process_time(), 0.0])

    def on_end(self, event: Any) -> None:
        """End the function begun last."""
        begun, inner = self.open.pop()
        took = time.process_time() - begun
        if self.open:
            self.open[-1][1] += took
        function = event.data["dispatcher"].py_func
        row = self.rows.setdefault(f"{function.__module__}.{function.__name__}", [0, 0.0, 0.0])
        for k, more in enumerate((1, took - inner, took)):
            row[k] += more


def report_group(name: str) -> None:
    """Print what one group takes in this process."""
    watch, cpu, wall = Watch(), time.process_time(), time.perf_counter()
    with event.install_listener("numba:compile", watch):
        KERNELS[name]()
    times = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"times": times, "functions": watch.rows}))


def in_program(arguments: list[str], folder: Path) -> tuple[float, float, str]:
    """Run Python; return its CPU and wall seconds, and what it printed."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    took, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, took, done.stdout


def twice(run: Callable[[Path], Any]) -> tuple[Any, Any]:
    """Return what a function says of an empty folder, and of the folder it left."""
    with TemporaryDirectory(prefix="leaveout-compile-") as name:
        family = ROOT / "examples" / "breast_cancer" / "family"
        (Path(name) / "trivial.spec").write_text(TRIVIAL.format(family))
        return run(Path(name)), run(Path(name))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help="as `leaveout warm` names them; default: all")
    parser.add_argument("--functions", type=int, default=12, help="lines for each group")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        report_group(given.inside)
        return
    once = {run: name for name, run in reversed(KERNELS.items())}
    for name in given.groups or reversed(once.values()):
        inside = [str(Path(__file__).resolve()), "--inside", name]
        cold, warm = twice(lambda folder, own=inside: json.loads(in_program(own, folder)[2]))
        (cpu, wall), (again, later) = cold["times"], warm["times"]
        print(f"\n{name}: compiled in {cpu:.1f} s CPU, {wall:.1f} s; loaded in {again:.2f} s CPU, "
              f"{later:.2f} s; {len(cold['functions'])} functions")  # fmt: skip
        rows = sorted(cold["functions"].items(), key=lambda row: -row[1][1])
        for function, (count, own, everything) in rows[: given.functions]:
            print(f"  {function:60s}{count:4.0f} times, own {own:5.2f} s, all {everything:5.2f} s")
    print("\nstarting, CPU s (wall)           cold            warm")
    for name, arguments in COMMANDS.items():
        cold, warm = twice(lambda folder, own=arguments: in_program(own, folder))
        print(f"{name:26s}{cold[0]:8.2f} ({cold[1]:.2f}){warm[0]:8.2f} ({warm[1]:.2f})")


if __name__ == "__main__":
    main()

"""Whether ``leaveout check`` accepts what is proved and rejects what is forged, and how fast.

    python benchmarks/kernel_check.py --count 1000

Small random questions about leaks and claims over points, whose regions are split at inputs, by
members and by tied neurons, and given back untied; of each certificate the honest one, and one that
claims less than is true, with its proof changed from the inside. Ctrl-C ends the table after the
certificate at hand.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
import onnx

import leaveout
from leaveout.bab import Instance, NativeOptions, make_instance, search_native
from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.files.certificate import CertificateBook, FileFacts
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.nodes import Node, Split
from leaveout.encoders import Box, Choices
from leaveout.errors import LeaveoutError
from leaveout.models import Family, load_family, load_network, save_family_file
from leaveout.verifier.certify.check import check
from leaveout.verifier.points.proofs import shorten

from attacks.certificate_content import Content
from attacks.claims import spec_of
from attacks.forging import FORGERIES
from attacks.nets import model_of
from attacks.point_forging import POINT_FORGERIES
from attacks.proofs import Proofs
from attacks.questions import write_files
from attacks.stated import worst_stated
from attacks.warm import memory_folder

KINDS = ("root", "input", "members", "phase", "untied")
SECONDS = 0.05
HONEST = "proof.cert"


@dataclass
class Tally:
    """What was seen of one sort of certificate."""

    honest: Counter[bool] = field(default_factory=Counter)
    forged: Counter[bool] = field(default_factory=Counter)
    nodes: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def line(self, name: str) -> str:
        """Return a row of the table."""
        return (
            f"{name:8s}{self.honest.total():8d}{self.honest[True]:10d}"
            f"{self.forged.total():9d}{self.forged[False]:10d}{self.seconds:10.1f}"
        )


HEAD = f"{'':8s}{'honest':>8s}{'accepted':>10s}{'forged':>9s}{'rejected':>10s}{'CPU s':>10s}"


def tied(choose: Callable[..., list[Split]]) -> Callable[..., list[Split]]:
    """Prefer to tie phases, which small questions would seldom need."""

    def chosen(self: Brancher, node: Node, target: float) -> list[Split]:
        splits = choose(self, node, target)
        if splits and splits[0].kind == "input" and not node.plain and self._rng.random() < 0.6:
            neuron = self._neuron(node)
            return splits if neuron is None else [Split("phase", neuron)]
        return splits

    return chosen


def verdict(path: Path, seen: Counter[bool]) -> float:
    """Check a certificate, count whether it is accepted, and return the CPU seconds."""
    begun = time.process_time()
    try:
        check(path)
        seen[True] += 1
    except LeaveoutError as error:
        seen[False] += 1
        if path.name == HONEST:
            sys.stderr.write(f"{error}\n")
    return time.process_time() - begun


def dense(rng: np.random.Generator, widths: tuple[int, ...]) -> onnx.ModelProto:
    """Return a network of fully connected layers with random weights."""
    nodes, constants, before = [], [], "x"
    for k in range(len(widths) - 1):
        shapes = {f"w{k}": widths[k : k + 2], f"b{k}": widths[k + 1 : k + 2]}
        for name, shape in shapes.items():
            own = rng.normal(size=shape) * (0.3 if name[0] == "b" else 1.5 / np.sqrt(widths[k]))
            constants.append(onnx.numpy_helper.from_array(own.astype(np.float32), name))
        nodes.append(onnx.helper.make_node("Gemm", [before, *shapes], [f"z{k}"]))
        before = f"z{k}"
        if k < len(widths) - 2:
            nodes.append(onnx.helper.make_node("Relu", [before], [f"h{k}"]))
            before = f"h{k}"
    number = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "dense",
        [onnx.helper.make_tensor_value_info("x", number, ["n", widths[0]])],
        [onnx.helper.make_tensor_value_info(before, number, ["n", widths[-1]])],
        constants,
    )
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)


def question(rng: np.random.Generator, folder: Path) -> Instance:
    """Write a random network and a family of it to disk, and read them."""
    inputs, labels, depth = (int(n) for n in rng.integers((1, 2, 1), (4, 4, 4)))
    widths = (inputs, *(int(n) for n in rng.integers(3, 7, depth)), labels)
    onnx.save(dense(rng, widths), folder / "full.onnx")
    network = load_network(folder / "full.onnx")
    members, spread = int(rng.integers(1, 5)), float(rng.choice([0.02, 0.1, 0.3]))
    near = {
        name: np.stack([v + spread * rng.normal(size=v.shape) for _ in range(members)])
        for name, v in network.parameters.items()
    }
    moved = {name: value.astype(np.float32) for name, value in near.items()}
    save_family_file(folder / "family.npz", Family(moved, np.arange(members)))
    low = float(rng.choice([0.0, -0.5]))
    choices = ()
    if rng.random() < 0.3:
        values = np.linspace(low, 1.0, 4).astype(np.float32).astype(np.float64)[:, None]
        choices = (Choices(np.array([0]), values),)
    box = Box(np.full(inputs, low), np.ones(inputs), choices)
    return make_instance(network, load_family(folder / "family.npz", network), box)


def leaks(seed: int, folder: Path) -> tuple[Path, float] | None:
    """Write a certificate of all labels of a random question; also return a leak of the first."""
    instance, worst = question(np.random.default_rng(seed), folder), []
    book = CertificateBook("benchmark", "benchmark.spec", "")
    files = FileFacts(folder / "full.onnx", folder / "family.npz")
    with ExitStack() as patched:
        for name, value in (
            ("leaveout.bab.native.leaks.find_leak", lambda *args, **more: None),
            ("leaveout.bab.native.search._FIRST", 0.01),
            ("leaveout.bab.native.search._ROUND", 0.05),
            ("leaveout.bab.native.branching.SMALL_REGION", 0.5),
        ):
            patched.enter_context(mock.patch(name, value))
        if seed % 3:
            patched.enter_context(mock.patch.object(Brancher, "choose", tied(Brancher.choose)))
        for label in range(instance.labels):
            records: list[Record] = []
            options = NativeOptions(nodes=100, seconds=2 * SECONDS, gap=0.02, certificate=True)
            found = search_native(instance, label, options, proofs=records.extend)
            book.add("bound", label, found.upper, records, instance, files)
            worst.append(found.lower if records else None)
    if not book:
        return None
    path = folder / HONEST
    book.write(path)
    if seed % 2:
        shorten(path, [files.network], [files.family])
    known = next(each for each in worst if each is not None)
    return path, known if known > 0 else -np.inf


def points(seed: int, folder: Path) -> tuple[Path, float] | None:
    """Write a certificate of a random claim over points; also return what a sample counts."""
    rng = np.random.default_rng(seed)
    case = Proofs().make(rng)
    write_files(case, folder)
    onnx.save(model_of(case["other"]), folder / "other.onnx")
    (folder / "claim.spec").write_text(spec_of(case))
    path = folder / HONEST
    shortened = shorten if seed % 2 else lambda *given: None
    with mock.patch("leaveout.verifier.points.proofs.shorten", shortened):
        try:
            leaveout.verify(folder / "claim.spec", time=SECONDS, workers=1, certificate=path)
        except LeaveoutError:
            # A network that is none: there are such on purpose.
            return None
    if not path.exists():
        return None
    claim = Content.of(path).manifest["claims"][0]
    return path, -np.inf if claim["reals"] else worst_stated(claim, folder, rng)


def forged(path: Path, worst: float, seed: int, *, of_points: bool) -> Path | None:
    """Falsify a certificate from the inside: claim less than is true, on a proof changed too."""
    rng, content = np.random.default_rng(seed), Content.of(path)
    if not np.isfinite(worst):
        return None
    least = worst - float(rng.choice([1e-6, 1e-3, 0.3]))
    forgeries = POINT_FORGERIES if of_points else FORGERIES
    try:
        forgeries[str(rng.choice(list(forgeries)))](rng, content, least)
    except (IndexError, KeyError, ValueError):
        # It has not what was to be changed.
        return None
    honest = Content.of(path).manifest
    if content.manifest["questions"] != honest["questions"] or content.first.get("reals"):
        # Of fewer inputs, or of exact arithmetic, less may be true.
        return None
    content.first["upper"] = min(least, content.first["upper"])
    content.save(path.with_name("forged.cert"))
    return path.with_name("forged.cert")


def main() -> int:
    """Print the table; 1 if an honest certificate is rejected, or a forged one accepted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--keep", type=Path, help="folder for all certificates and their files")
    given = parser.parse_args()
    tallies = {"leaks": Tally(), "points": Tally()}
    total, seed = 0, given.seed
    try:
        while total < given.count:
            seed += 1
            name = "points" if seed % 4 == 0 else "leaks"
            tally = tallies[name]
            with tempfile.TemporaryDirectory(dir=memory_folder()) as place:
                made = (points if name == "points" else leaks)(seed, Path(place))
                if made is None:
                    continue
                path, worst = made
                total += 1
                tally.seconds += verdict(path, tally.honest)
                content = Content.of(path)
                for key, kinds in content.arrays.items():
                    if key.endswith(".kind"):
                        tally.nodes.update(kinds.tolist())
                false = forged(path, worst, seed, of_points=name == "points")
                if false is not None:
                    verdict(false, tally.forged)
                if given.keep:
                    shutil.copytree(place, given.keep / f"{name}{seed}")
            if total % 100 == 0:
                sys.stderr.write(f"{total} certificates\n")
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    print(HEAD)
    for name, tally in tallies.items():
        print(tally.line(name))
        nodes = ", ".join(f"{tally.nodes[k]:,} {kind}" for k, kind in enumerate(KINDS))
        print(f"        nodes: {nodes}")
    if given.json:
        text = {
            name: {
                "honest": dict(tally.honest),
                "forged": dict(tally.forged),
                "seconds": tally.seconds,
            }
            for name, tally in tallies.items()
        }
        given.json.write_text(json.dumps(text, indent=1) + "\n")
    wrong = any(tally.forged[True] or tally.honest[False] for tally in tallies.values())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Read what exporters write: 200 small models as people make them, each held against onnxruntime.

    python benchmarks/corpus.py /tmp/corpus

The models are made with torch (both exporters), skl2onnx, Keras and tf2onnx, which are no extras of
the package; a maker that is not installed is left out, and said to be. Models that are in the
folder already are not made again. A model is *read* if its scores are those of onnxruntime up to
the stated bound of rounding, and its labels those that the file itself gives; *refused* with a line
and what to do; anything else is *wrong*, and the program ends with status 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
from corpus_keras import keras_models
from corpus_sklearn import sklearn_models
from corpus_torch import torch_models

from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.errors import ModelError
from leaveout.models import Network, load_network

MAKERS = (
    (torch_models, ("torch", "onnxscript")),
    (sklearn_models, ("skl2onnx",)),
    (keras_models, ("keras", "tensorflow", "tf2onnx")),
)
POINTS = 200


def made(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the exporter and the file of each model."""
    folder.mkdir(parents=True, exist_ok=True)
    for maker, needs in MAKERS:
        absent = [name for name in needs if importlib.util.find_spec(name) is None]
        if absent:
            print(f"left out: what needs {' and '.join(absent)}", file=sys.stderr)
        else:
            yield from maker(folder)


def wrong_in(path: Path, network: Network) -> str:
    """Tell where what was read is not what the file computes; empty if nowhere."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(POINTS, network.inputs)).astype(np.float32)
    exact = points.astype(np.float64)
    scores = network.stack.scores(exact)[0]
    box = Box(exact.min(axis=0), exact.max(axis=0))
    stacked = {name: value[None] for name, value in network.parameters.items()}
    bounds = network_bounds(network.stack, box)
    error = rounding_error(evaluation_of(network.graph, stacked), bounds, box)
    allowed = error.of_forms(np.eye(network.labels)) + 1e-13 * np.abs(scores).max()
    off = np.abs(scores - network.runner().scores(points))
    if not np.isfinite(allowed).all() or (off > allowed).any():
        return f"scores are off by {off.max():.3g}, allowed are {allowed.max():.3g}"
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 2 * allowed.max() + 1e-5
    labels, given = scores.argmax(axis=1), labels_of(path, network, points)
    return "" if (labels == given)[clear].all() else "labels differ from those of the file"


def labels_of(path: Path, network: Network, points: np.ndarray) -> np.ndarray:
    """Labels that the file gives by itself: by its first output, in onnxruntime."""
    session = onnxruntime.InferenceSession(str(path))
    found = [session.run(None, _feeds(session, row, bool(network.graph.bare))) for row in points]
    if found[0][0].dtype.kind != "f":
        if found[0][0].dtype.kind == "i":
            return np.asarray([int(each[0][0]) for each in found])
        names = sorted({str(each[0][0]) for each in found})
        return np.asarray([names.index(str(each[0][0])) for each in found])
    values = np.asarray([each[0].reshape(-1) for each in found])
    if values.shape[1] > 1:
        return values.argmax(axis=1)
    middle = 0.5 if any("Sigmoid" in note for note in network.graph.notes) else 0.0
    return (values[:, 0] > middle).astype(int)


def _feeds(
    session: onnxruntime.InferenceSession, row: np.ndarray, bare: bool
) -> dict[str, np.ndarray]:
    """Return what the file's own inputs get of a row: its columns, in order."""
    feeds, start = {}, 0
    for item in session.get_inputs():
        shape = item.shape if bare else (1, *item.shape[1:])
        width = int(np.prod(shape))
        feeds[item.name] = row[start : start + width].reshape(shape)
        start += width
    return feeds


def main() -> None:
    """Make, read, compare, and print the table."""
    parser = argparse.ArgumentParser(description="Read what exporters write.")
    parser.add_argument("folder", type=Path, help="Where the models are, or are put.")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: list[tuple[str, str, str, str]] = []
    for kind, path in made(given.folder):
        start = time.perf_counter()
        try:
            why = wrong_in(path, load_network(path))
            verdict = "wrong" if why else "read"
        except ModelError as refusal:
            verdict, why = "refused", str(refusal).removeprefix(f"{path}: ")
            verdict = "wrong" if ";" not in why and ":" not in why else verdict
        except Exception as error:
            verdict, why = "wrong", f"{type(error).__name__}: {error}"
        rows.append((kind, path.stem, verdict, why))
        print(f"{verdict:8} {time.perf_counter() - start:6.2f} s  {path.stem}  {why}", flush=True)
    print()
    kinds = dict.fromkeys(kind for kind, *_ in rows)
    print(f"{'':14} {'read':>5} {'refused':>8} {'wrong':>6} {'models':>7}")
    for kind in (*kinds, "all"):
        count = Counter(verdict for k, _, verdict, _ in rows if kind in {k, "all"})
        told = (count["read"], count["refused"], count["wrong"], count.total())
        print(f"{kind:14} {told[0]:5} {told[1]:8} {told[2]:6} {told[3]:7}")
    sys.exit(any(verdict == "wrong" for _, _, verdict, _ in rows))


if __name__ == "__main__":
    main()

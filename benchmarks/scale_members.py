"""What members cost once they are there: bounding nodes, asking members, deleting from a forest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from clock import LEAK, Question, write
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from leaveout.bab import Instance, make_instance
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.workers.worker import Worker
from leaveout.encoders import Box
from leaveout.models import load_family, load_network

from guard_access import Mechanism, Session, Stacked
from traces import warm_up

__all__ = ["Asked", "Deleted", "Searched", "asked", "deleted", "drawn", "searched"]

_FEATURES = 21


@dataclass(frozen=True)
class Searched:
    """What a search of a family takes.

    Attributes
    ----------
    parameters, members, nodes : int
    prepare, root, node : float
        Seconds of processor time: before the first bound, of the first, of each node after it.
    """

    parameters: int
    members: int
    nodes: int
    prepare: float
    root: float
    node: float


@dataclass(frozen=True)
class Asked:
    """What one question to all members takes.

    Attributes
    ----------
    parameters, members : int
    seconds : float
        Of processor time.
    """

    parameters: int
    members: int
    seconds: float


@dataclass(frozen=True)
class Deleted:
    """What a forest takes.

    Attributes
    ----------
    rows, deletions : int
    fit, delete : float
        Seconds of processor time; the second of one deletion and the next prediction, on average.
    """

    rows: int
    deletions: int
    fit: float
    delete: float


def drawn(hidden: tuple[int, ...], members: int) -> Instance:
    """Draw a network and members near it; what a node costs hardly depends on which."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, Question((_FEATURES, *hidden, 2), members, LEAK))
        return opened(folder)


def opened(folder: Path, members: int | None = None) -> Instance:
    """Load a network and its family over [0, 1]^d."""
    network = load_network(folder / "full.onnx")
    family = load_family(folder / "family.npz", network)
    if members is not None:
        family = family.first(members)
    return make_instance(network, family, Box(np.zeros(network.inputs), np.ones(network.inputs)))


def parameters_of(instance: Instance) -> int:
    """Return how many numbers one network holds."""
    return sum(stack[0].size for stack in instance.family.parameters.values())


@cache
def _warm() -> None:
    """Have kernels compiled, or read from disk, before any clock runs."""
    warm_up(drawn((3, 3), 2), NativeOptions())


def searched(instance: Instance, seconds: float) -> Searched:
    """Search label 0 for some seconds, on one thread."""
    options = NativeOptions()
    _warm()
    begun = time.process_time()
    worker = Worker(Leaks(instance, 0), options, threads=1)
    prepared = time.process_time()
    report = worker.start(0.0)
    rooted = time.process_time()
    first = report.stand.bounded
    if report.stand.worth_going_on:
        report = worker.step(0.0, seconds)
    spent = time.process_time() - rooted
    nodes = report.stand.bounded - first
    return Searched(
        parameters_of(instance),
        len(instance.family),
        nodes,
        prepared - begun,
        rooted - prepared,
        spent / nodes if nodes else float("nan"),
    )


def asked(instance: Instance, questions: int = 20) -> Asked:
    """Ask every member about one input after the other, as one product a layer."""
    family, network = instance.family, instance.network
    named = {
        f"layers.{i // 2}.{'bias' if i % 2 else 'weight'}": stack
        for i, stack in enumerate(family.parameters.values())
    }
    access = Stacked(
        Session(network), type(family)(named, family.removed, family.manifest),
        Mechanism(0.2, 2, 0),
    )  # fmt: skip
    points = np.random.default_rng(0).random((questions + 1, network.inputs), dtype=np.float32)
    spent = []
    with threadpool_limits(1):
        access.scores(points[-1])
        for point in points[:-1]:
            begun = time.process_time()
            access.scores(point)
            spent.append(time.process_time() - begun)
    return Asked(parameters_of(instance), len(family), float(np.median(spent)))


def deleted(rows: tuple[int, ...], seconds: float, q: float) -> Iterator[Deleted]:
    """Train forests of 50 trees, each row in a share ``q`` of them, and delete for some seconds."""
    from leaveout.models.forest import DareForestClassifier

    for count in (400, *rows):
        X, y = make_classification(
            count, 40, n_informative=5, n_redundant=5, flip_y=0.05, random_state=1
        )
        forest = DareForestClassifier(50, max_depth=20, random_state=1, n_jobs=1, q=q)
        begun = time.process_time()
        forest.fit(X, y)
        fitted = time.process_time()
        done = 0
        for row in np.random.default_rng(0).permutation(count)[: count // 2]:
            forest.delete(int(row))
            forest.predict_proba(X[:1])
            done += 1
            if time.process_time() > fitted + seconds:
                break
        # The smallest one is there for its kernels to be compiled.
        if count != 400:
            spent = time.process_time() - fitted
            yield Deleted(count, done, fitted - begun, spent / done)

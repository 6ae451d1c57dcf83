"""Folders a guard can serve: random networks and families with proved bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from leaveout.bab import Instance, NativeOptions, make_instance, search_native
from leaveout.encoders import Box
from leaveout.models import Family, Manifest
from leaveout.models.family import save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.access import ProvedBounds, save_bounds

from support.cases import shaken
from support.children import HANGS


@dataclass(frozen=True)
class Served:
    """A folder, and what is in it."""

    folder: Path
    instance: Instance

    def answers(self, points: np.ndarray) -> np.ndarray:
        """Labels of N, and of each member, by onnxruntime."""
        network, family = self.instance.network, self.instance.family
        runners = [network.runner()] + [
            network.runner({name: stack[0] for name, stack in family.take([member]).items()})
            for member in range(len(family))
        ]
        return np.array([one_by_one(runner, points).argmax(axis=1) for runner in runners])

    def truth(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of N, and whether some member answers otherwise or ties, all by onnxruntime."""
        network, family = self.instance.network, self.instance.family
        own = one_by_one(network.runner(), points)
        labels = own.argmax(axis=1)
        leaks = np.zeros(len(points), bool)
        for member in range(len(family)):
            parameters = {name: stack[0] for name, stack in family.take([member]).items()}
            scores = one_by_one(network.runner(parameters), points)
            for at, label in enumerate(labels):
                others = np.delete(scores[at], label)
                leaks[at] |= not scores[at, label] > others.max()
        return labels, leaks


def one_by_one(runner, points):
    return np.concatenate([runner.scores(point[None]) for point in points])


def make_folder(
    folder: Path,
    model: onnx.ModelProto,
    *,
    seed: int = 0,
    members: int = 6,
    spread: float = 0.1,
    box: Box | None = None,
    seconds: float = HANGS,
    manifest: Manifest | None = None,
    family: Family | None = None,
) -> Served:
    rng = np.random.default_rng(seed)
    network = network_from(model, "N")
    if family is None:
        stacks = shaken(rng, network, members, spread)
        removed = np.arange(members, dtype=np.int64)
        family = Family(stacks, removed, manifest or Manifest())
    instance = make_instance(
        network, family, box or Box(np.zeros(network.inputs), np.ones(network.inputs))
    )
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "full.onnx")
    save_family_file(folder / "family.npz", family)
    results = [
        search_native(instance, label, NativeOptions(seconds=seconds, nodes=50_000))
        for label in range(instance.labels)
    ]
    save_bounds(folder / "bounds.npz", ProvedBounds.of(instance, results))
    return Served(folder, instance)


def points_of(guard: Guard, tier: int | tuple[int, ...], count: int) -> np.ndarray:
    """Return random inputs of a tier of `Inspection`, or of some."""
    rng = np.random.default_rng(tier)
    found = np.empty((0, guard.inputs), guard.subject.domain.kind)
    for _ in range(100):
        sample = guard.subject.domain.points(rng.random((4000, guard.inputs)))
        found = np.concatenate([found, sample[np.isin(guard.inspect(sample).tiers, tier)]])
        if len(found) >= count:
            return found[:count]
    raise AssertionError(f"too few inputs of tier {tier}")

"""Attacks on how a guard asks many members: none that disagrees may be left out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance, make_instance
from leaveout.encoders import Box
from leaveout.errors import LeaveoutError
from leaveout.models import Family, Network
from leaveout.models.onnx.file import network_from
from leaveout.verifier.guard.access import ProvedBounds
from leaveout.verifier.guard.leaks import Crowd, LeakTest

from attacks.crowd_members import Fed, Maker, Points, Values, margins
from attacks.kind import Case, Outcome
from support import networks
from support.guards import one_by_one

__all__ = ["Crowds"]

_FEWEST = 257
"""Members that are more than are evaluated without a closer look."""

_CLOSE = 1e-3
"""Share of the largest score of all, far above what float32 loses in such networks."""

_ASKED = 40
"""Inputs that are asked about one at a time, by threads."""

_THREADS = 3

_REPLAYS = 400
"""Members near a tie that a case may have at all its inputs: each is loaded by onnxruntime."""


class Crowds:
    """Families of hundreds of members, asked at and around inputs where a few barely disagree."""

    name = "crowds"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        shape = str(rng.choice([*networks.ALL, *["dense"] * 8]))
        widths, numbers = [], 100
        if shape == "dense":
            hidden = rng.integers(2, int(rng.choice([6, 25])), int(rng.integers(4))).tolist()
            if rng.random() < 0.05:
                hidden = [int(rng.integers(250, 300))]
            widths = [int(rng.integers(1, 7)), *hidden, int(rng.integers(2, 5))]
            numbers = sum((a + 1) * b for a, b in pairwise(widths))
        most = 2000 if rng.random() < 0.1 else 600
        members = int(rng.integers(_FEWEST, max(_FEWEST + 30, min(most, 400_000 // numbers))))
        asked = 3000 if rng.random() < 0.1 else 400
        return {
            "shape": shape,
            "widths": widths,
            "scale": float(rng.choice([0.1, 0.3, 1.0, 1.0, 3.0])),
            "lower": float(rng.choice([0.0, 0.0, -1.0])),
            "seed": int(rng.integers(2**31)),
            "focal": int(rng.integers(1, 6)),
            "barely": int(rng.choice([0, 1, 1, 2, 4])),
            "reach": float(10.0 ** rng.uniform(-2.5, 0.5)),
            "bounds": str(rng.choice(["useless", "useless", "propagated", "exact", "beside"])),
            "members": list(range(members)),
            "asked": list(range(60 if shape == "convolution_2d" else asked)),
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        label = f"{case['shape']}, {case['bounds']}"
        network = _network(case)
        inputs = _Inputs.of(case, network)
        stacks = [inputs.member(number) for number in case["members"]]
        family = Family(
            {name: np.stack([each[name] for each in stacks]) for name in stacks[0]},
            np.arange(len(stacks), dtype=np.int64),
        )
        width = network.inputs
        try:
            instance = make_instance(
                network, family, Box(np.full(width, case["lower"]), np.ones(width))
            )
        except LeaveoutError:
            return Outcome(label, "refused")
        points = np.stack([inputs.asked(number) for number in case["asked"]])
        truth = _Truth.of(instance, inputs.maker.fed, stacks, points)
        chosen = truth.quick(instance.member_error)
        if not len(chosen):
            return Outcome(label, "unknown")
        points, truth = points[chosen], truth.at(chosen)
        bounds = ProvedBounds.of(instance, [None] * instance.labels)
        rng = np.random.default_rng([case["seed"], 2])
        bounds = replace(bounds, upper=_upper(case["bounds"], bounds, truth, instance.labels, rng))
        return Outcome(label, "proved", _wrong(instance, bounds, points, truth))

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for name in ("asked", "members"):
            listed = case[name]
            for size in sorted({max(1, len(listed) // parts) for parts in (2, 4, 8)}, reverse=True):
                for at in range(0, len(listed), size):
                    left = listed[:at] + listed[at + size :]
                    if left:
                        yield {**case, name: left}
        if case["bounds"] != "useless":
            yield {**case, "bounds": "useless"}


def _network(case: Case) -> Network:
    rng = np.random.default_rng([case["seed"], 0])
    if case["shape"] == "dense":
        return network_from(networks.dense(rng, tuple(case["widths"]), case["scale"]), "N")
    return network_from(networks.ALL[case["shape"]](rng), "N")


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What a case's numbers stand for."""

    case: Case
    maker: Maker

    @staticmethod
    def of(case: Case, network: Network) -> _Inputs:
        rng, fed = np.random.default_rng([case["seed"], 1]), Fed(network)
        points = rng.uniform(case["lower"], 1.0, (4 * case["focal"], network.inputs))
        points[rng.random(points.shape) < 0.2] = rng.choice([0.0, -0.0, 1.0])
        points = points.astype(np.float32)
        own = {name: np.asarray(value) for name, value in network.parameters.items()}
        scores = fed.scores(own, points)
        labels = scores.argmax(axis=1)
        chosen = np.argsort(-margins(scores, labels), kind="stable")[: case["focal"]]
        return _Inputs(case, Maker(own, fed, points[chosen], labels[chosen], case["reach"]))

    def member(self, number: int) -> Values:
        """Return a member; one in twenty is as another one."""
        rng = np.random.default_rng([self.case["seed"], 3, number])
        if number < self.case["barely"]:
            return self.maker.barely(rng)
        if number and rng.random() < 0.05:
            return self.member(number // 2)
        return self.maker.around(rng)

    def asked(self, number: int) -> Points:
        """Return an input at, beside or around a focal one, at a change of labels, or anywhere."""
        rng = np.random.default_rng([self.case["seed"], 4, number])
        focal, lower = self.maker.focal, np.float32(self.case["lower"])
        x = focal[number % len(focal)].copy()
        way = rng.random()
        if number < len(focal):
            return x
        if way < 0.4:
            moved = rng.random(x.shape) < 0.5
            x[moved] = np.nextafter(x[moved], np.float32(rng.choice([-2.0, 2.0])))
        elif way < 0.8:
            x += (10.0 ** rng.uniform(-7, -1) * rng.normal(size=x.shape)).astype(np.float32)
        else:
            x = rng.uniform(lower, 1.0, x.shape).astype(np.float32)
            x[rng.random(x.shape) < 0.1] = rng.choice([0.0, -0.0, 1.0, 1e-45])
            if way > 0.99:
                x = self._edge(focal[number % len(focal)], x, number)
        x[(x == 0) & (rng.random(x.shape) < 0.5)] *= -1.0
        return np.clip(x, lower, np.float32(1.0))

    def _edge(self, a: Points, b: Points, number: int) -> Points:
        """Halve the way between two inputs that are answered otherwise, as far as it goes."""
        chosen = [dict(self.maker.own), self.member(number % (self.case["barely"] + 1))][number % 2]

        def label(x: Points) -> int:
            return int(self.maker.fed.scores(chosen, x[None])[0].argmax())

        first, low, high = label(a), np.float32(0), np.float32(1)
        for _ in range(30):
            middle = (low + high) / np.float32(2)
            here = label(a + middle * (b - a)) == first
            low, high = (middle, high) if here else (low, middle)
        return np.asarray(a + high * (b - a))


@dataclass(frozen=True, eq=False)
class _Truth:
    """What onnxruntime says.

    Attributes
    ----------
    labels, confidences : ndarray, shape (n,)
        N's.
    margins : ndarray of float64, shape (m, n)
        Of members, but for rounding.
    possible : ndarray of bool, shape (m, n)
        Whether a member leaks, or may: that is not looked at closely where another one leaks.
    leaks : ndarray of bool, shape (n,)
    """

    labels: NDArray[np.int64]
    confidences: NDArray[np.float64]
    margins: NDArray[np.float64]
    possible: NDArray[np.bool_]
    leaks: NDArray[np.bool_]

    @staticmethod
    def of(instance: Instance, fed: Fed, members: list[Values], points: Points) -> _Truth:
        own = one_by_one(instance.network.runner(), points).astype(float)
        labels = own.argmax(axis=1)
        found = np.empty((len(members), len(points)))
        close = np.empty((len(members), 1))
        for at, member in enumerate(members):
            scores = fed.scores(member, points)
            found[at] = margins(scores, labels)
            close[at] = _CLOSE * (_CLOSE + np.abs(scores).max())
        leaks = (found < -close).any(axis=0)
        possible = found <= close
        seen = set()
        for at in np.flatnonzero(possible[:, ~leaks].any(axis=1)).tolist():
            name = b"".join(value.tobytes() for value in members[at].values())
            asked = np.flatnonzero(possible[at] & ~leaks)
            if len(asked) and name not in seen:
                scores = one_by_one(instance.network.runner(members[at]), points[asked])
                leaks[asked] |= ~(margins(scores.astype(float), labels[asked]) > 0)
                seen.add(name)
        return _Truth(labels, margins(own, labels), found, possible, leaks)

    def quick(self, error: float) -> NDArray[np.int64]:
        """Return the inputs at which few members are near a tie, in order."""
        near = (np.abs(self.margins) <= error).sum(axis=0)
        order = np.argsort(near, kind="stable")
        return np.sort(order[np.cumsum(near[order]) <= _REPLAYS])

    def at(self, chosen: NDArray[np.int64]) -> _Truth:
        """Return what is said of some inputs."""
        return _Truth(
            self.labels[chosen],
            self.confidences[chosen],
            self.margins[:, chosen],
            self.possible[:, chosen],
            self.leaks[chosen],
        )


def _upper(
    kind: str, proved: ProvedBounds, truth: _Truth, labels: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return bounds that hold at all inputs that are asked about."""
    if kind == "propagated":
        return proved.upper
    if kind == "useless":
        return np.full_like(proved.upper, np.inf)
    upper = np.zeros_like(proved.upper)
    for label in range(labels):
        here = truth.labels == label
        if here.any():
            known = truth.confidences[here]
            upper[label] = np.where(truth.possible[:, here], known, 0.0).max(axis=1)
            if kind == "beside":
                chosen = rng.choice(known)
                beside = [np.nextafter(chosen, 0.0), chosen, np.nextafter(chosen, np.inf)]
                upper[label] = np.maximum(upper[label], rng.choice(beside, upper.shape[1]))
    return upper


def _wrong(instance: Instance, bounds: ProvedBounds, points: Points, truth: _Truth) -> str | None:
    """Ask in every way, and compare."""
    test = LeakTest(instance, bounds, local=True)
    few = points[:_ASKED]
    with ThreadPoolExecutor(_THREADS) as pool:
        alone = list(pool.map(test.find, few))
    for way, found in (("alone", alone), ("together", test.find_all(points))):
        for at, each in enumerate(found):
            if each.label != truth.labels[at]:
                return f"labels: {each.label} at {points[at].tolist()}, {way}"
            if each.leak != truth.leaks[at]:
                return f"leaks: {each.leak} at {points[at].tolist()} (input {at}), {way}"
    crowd = Crowd(instance)
    crowd.prepare(np.argsort(truth.margins[:, 0], kind="stable"))
    for at, x in enumerate(few):
        # Whoever disagrees is asked last.
        order = np.argsort(-truth.margins[:, at], kind="stable")
        if (crowd.dissenter(x, int(truth.labels[at]), order) is not None) != truth.leaks[at]:
            return f"crowd: {not truth.leaks[at]} at {x.tolist()} (input {at})"
    return None

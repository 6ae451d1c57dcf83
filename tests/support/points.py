"""Certificates of small claims over points, and what samples say of what they claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.bab import NativeOptions
from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.claims import BELOW, STEPS, Claims
from leaveout.bab.native.files.certificate import CertificateBook, prove_points
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.search import search_question
from leaveout.encoders import Box, Choices
from leaveout.encoders.query import Case, Form
from leaveout.models import Network, load_family, load_network
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from support.point_claims import KINDS, Asked

__all__ = ["asked", "worst_of", "write_asked", "write_kind"]

NODES = 120


def asked(folder: Path, kind: str, seed: int) -> Asked:
    """Make a claim of a kind; one that is to be decided is made true, by a little."""
    folder.mkdir(parents=True, exist_ok=True)
    found = KINDS[kind](folder, np.random.default_rng(seed))
    if not found.decides:
        return found
    limits = NativeOptions(nodes=NODES * len(found.cases), gap=0.05, steps=STEPS)
    bound = search_question(Claims(join_claim(found.query, found.cases)), limits, floor=-np.inf)
    room = max(bound.upper, 0.0) + 0.02

    def lower(form: Form) -> Form:
        return replace(form, constant=form.constant - room)

    cases = tuple(
        Case(
            tuple(
                each if case.goals else replace(each, form=lower(each.form))
                for each in case.conditions
            ),
            tuple(map(lower, case.goals)),
        )
        for case in found.cases
    )
    return replace(found, cases=cases)


def write_asked(
    folder: Path, given: Asked, nodes: int = 2 * NODES, gap: float = 0.02
) -> Path | None:
    """Bound every case, and write the certificate; None where nothing is proved."""
    # What is to be decided is decided, however searches share their time.
    limit = (20 if given.decides else len(given.cases)) * nodes
    options = NativeOptions(nodes=limit, gap=gap, steps=STEPS, certificate=True)
    claims, records = Claims(join_claim(given.query, given.cases)), list[Record]()
    floor = BELOW if given.decides else -np.inf
    found = search_question(
        claims, options, floor=floor, decide=given.decides, proofs=records.extend
    )
    proved = prove_points(
        "claim", found.upper, claims, records, given.sources, decides=given.decides
    )
    if proved is None:
        return None
    book = CertificateBook("test", "test.spec", "")
    book.add_points(proved)
    book.write(folder / "proof.cert")
    return folder / "proof.cert"


def write_kind(folder: Path, kind: str, seed: int = 1) -> Path:
    """Write a certificate of a kind of claim."""
    path = write_asked(folder, asked(folder, kind, seed))
    assert path is not None, kind
    return path


def worst_of(claim: dict[str, Any], folder: Path, seed: int = 0, count: int = 20_000) -> float:
    """Return the largest least goal of the counter-examples among samples; -inf for none.

    Points are float32 and scores are onnxruntime's, whatever the file claims of the reals.
    """
    rng = np.random.default_rng(seed)
    boxes = [_box(part) for part in claim["points"]]
    points = [box.sample(rng, count).astype(np.float32) for box in boxes]
    if len(points) == 2 and points[0].shape == points[1].shape:
        step = rng.uniform(-0.5, 0.5, points[1].shape) * rng.choice([0.02, 0.5, 1.0], (count, 1))
        close = np.where(rng.random(step.shape) < 0.6, points[0], points[0] + step)
        points[1] = np.where(rng.random((count, 1)) < 0.9, close, points[1]).astype(np.float32)
    # Rounding must not carry a sample out of its box.
    inside = np.all([box.contains(p.astype(float)) for box, p in zip(boxes, points)], axis=0)
    wide = [each.astype(float) for each in points]

    def value(form: dict[str, Any]) -> np.ndarray:
        total = np.full(count, float(form["constant"]))
        for p, i, c in form["features"]:
            total = total + c * wide[p][:, i]
        for a, j, c in form["scores"]:
            total = total + c * scores[a][:, j]
        return total

    best = -np.inf
    for networks_ in _applied(claim, folder):
        scores = [
            network.runner().scores(points[each["point"]]).astype(float)
            for network, each in zip(networks_, claim["applications"], strict=True)
        ]
        for case in claim["cases"]:
            met = inside.copy()
            for form in [*case["conditions"], *(case["goals"] if claim["decides"] else [])]:
                found = value(form)
                met &= found > 0 if form["strict"] else found >= 0
            least = np.min([value(form) for form in case["goals"]], axis=0)
            best = max(best, float(least[met].max(initial=-np.inf)))
    return best


def _applied(claim: dict[str, Any], folder: Path) -> Iterator[list[Network]]:
    """Yield the networks of all applications, for every member that is asked about."""
    applications = claim["applications"]
    sizes = [e["family"]["members"] for e in applications if e["family"] and e["member"] is None]
    for member in range(max(sizes, default=1)):
        found = []
        for each in applications:
            network = load_network(folder / each["network"]["path"])
            if each["family"]:
                family = load_family(folder / each["family"]["file"]["path"], network)
                chosen = member if each["member"] is None else each["member"]
                taken = {name: value[0] for name, value in family.take([chosen]).items()}
                network = network_from(with_parameters(network.model, taken), "a member")
            found.append(network)
        yield found


def _box(part: dict[str, Any]) -> Box:
    choices: Sequence[Choices] = tuple(
        Choices(np.array(each["columns"]), np.array(each["values"])) for each in part["choices"]
    )
    return Box(np.array(part["lower"]), np.array(part["upper"]), tuple(choices))

"""Small claims over points of every kind, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from leaveout.bab.native.files.certificate import FamilySource, Source
from leaveout.encoders import Box, Choices
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.models import Family, Members, Network, load_family, load_network, save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters
from leaveout.specs.vnnlib import load_query

from support import networks

__all__ = ["KINDS", "Asked", "random_asked"]


@dataclass(frozen=True, eq=False)
class Asked:
    """A claim: cases over one query, and where what is applied is read from."""

    query: Query
    cases: tuple[Case, ...]
    sources: tuple[Source, ...]
    decides: bool


def _saved(folder: Path, name: str, model: onnx.ModelProto) -> tuple[Path, Network]:
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path, load_network(path)


def _near(rng: np.random.Generator, model: onnx.ModelProto, spread: float) -> onnx.ModelProto:
    own = network_from(model, "own").parameters
    moved = {k: (v + spread * rng.normal(size=v.shape)).astype(np.float32) for k, v in own.items()}
    return with_parameters(model, moved)


def _family(
    folder: Path, rng: np.random.Generator, network: Network, spread: float, count: int = 3
) -> tuple[FamilySource, Members]:
    """Write members near a network, and read them back."""
    moved = {
        name: np.stack(
            [(v + spread * rng.normal(size=v.shape)).astype(np.float32) for _ in range(count)]
        )
        for name, v in network.parameters.items()
    }
    save_family_file(folder / "f.npz", Family(moved, np.arange(count)))
    members = Members(network.graph, load_family(folder / "f.npz", network))
    return FamilySource(folder / "f.npz", False, count), members


def margin(application: int, first: int, second: int, constant: float = 0.0) -> Form:
    """Return how far one score is above another."""
    return Form((), ((application, first, 1.0), (application, second, -1.0)), constant)


def apart(feature: int, sign: float, reach: float) -> Condition:
    """Return ``sign (y - x) + reach >= 0`` of one feature of two points."""
    return Condition(Form(((0, feature, -sign), (1, feature, sign)), (), reach))


def _robustness(folder: Path, rng: np.random.Generator) -> Asked:
    path, network = _saved(folder, "n", networks.dense(rng, (3, 6, 6, 3)))
    centre = rng.random(3)
    box = Box(centre - 0.4, centre + 0.4)
    label = int(np.argmax(network.runner().scores(centre[None].astype(np.float32))[0]))
    cases = tuple(Case((), (margin(0, c, label),)) for c in range(3) if c != label)
    return Asked(Query((box,), (Application(network, 0),), ()), cases, (Source(path),), True)


def _equivalence(folder: Path, rng: np.random.Generator) -> Asked:
    model = networks.dense(rng, (2, 5, 5, 2))
    path, first = _saved(folder, "n", model)
    other, second = _saved(folder, "m", _near(rng, model, 0.05))
    box = Box(np.zeros(2) - 0.25, np.ones(2))
    applied = (Application(first, 0), Application(second, 0))
    cases = []
    for label in range(2):
        for sign in (1.0, -1.0):
            form = Form((), ((0, label, sign), (1, label, -sign)), 0.0)
            cases.append(Case((Condition(form, True),)))
    return Asked(Query((box,), applied, ()), tuple(cases), (Source(path), Source(other)), True)


def _fairness(folder: Path, rng: np.random.Generator) -> Asked:
    path, network = _saved(folder, "n", networks.dense(rng, (2, 6, 4, 2)))
    box = Box(np.zeros(2), np.ones(2))
    applied = (Application(network, 0), Application(network, 1))
    near = (apart(0, 1.0, 0.3), apart(0, -1.0, 0.3), apart(1, 1.0, 0.0), apart(1, -1.0, 0.0))
    goal = Form((), ((0, 1, 1.0), (0, 0, -1.0), (1, 1, -1.0), (1, 0, 1.0)), 0.0)
    return Asked(Query((box, box), applied, ()), (Case(near, (goal,)),), (Source(path),) * 2, False)


def _monotonicity(folder: Path, rng: np.random.Generator) -> Asked:
    path, network = _saved(folder, "n", networks.residual(rng))
    width = network.inputs
    box = Box(np.zeros(width), np.ones(width))
    applied = (Application(network, 0), Application(network, 1))
    conditions = [apart(0, 1.0, 0.0), apart(0, -1.0, 0.5)]
    for i in range(1, width):
        conditions += [apart(i, 1.0, 0.0), apart(i, -1.0, 0.0)]
    goal = Form((), ((0, 1, 1.0), (1, 1, -1.0)), 0.0)
    cases = (Case(tuple(conditions), (goal,)),)
    return Asked(Query((box, box), applied, ()), cases, (Source(path),) * 2, False)


def _single(folder: Path, rng: np.random.Generator) -> Asked:
    path, network = _saved(folder, "n", networks.dense(rng, (2, 5, 5, 3)))
    rows = np.linspace(-0.5, 0.5, 7, dtype=np.float32)[:, None]
    box = Box(np.zeros(2) - 0.5, np.ones(2) * 0.5, (Choices(np.array([1]), rows),))
    scores = network.runner().scores(box.sample(rng, 500).astype(np.float32))
    goals = (
        Form(((0, 0, 0.5),), ((0, 0, 1.0), (0, 2, -0.7)), 0.25),
        Form((), ((0, 1, 1.0),), 0.0),
    )
    middle = float(np.median(scores[:, 2]))
    case = Case((Condition(Form((), ((0, 2, 1.0),), -middle)),), goals)
    return Asked(Query((box,), (Application(network, 0),), ()), (case,), (Source(path),), False)


def _side_by_side(folder: Path, rng: np.random.Generator) -> Asked:
    path, first = _saved(folder, "n", networks.dense(rng, (2, 5, 2)))
    other, second = _saved(folder, "m", networks.dense(rng, (2, 4, 4, 2)))
    box = Box(np.zeros(2), np.ones(2))
    applied = (Application(first, 0), Application(second, 0))
    goal = Form((), ((0, 0, 1.0), (1, 0, -1.0)), 0.0)
    case = Case((Condition(margin(1, 0, 1)),), (goal,))
    return Asked(
        Query((box,), applied, (), reals=True), (case,), (Source(path), Source(other)), False
    )


QUERY = """\
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (>= X_0 -0.5))
(assert (<= X_0 0.5))
(assert (>= X_1 0.0))
(assert (<= X_1 1.0))
(assert (or (and (>= Y_0 (+ Y_1 0.5)) (<= Y_1 (- X_0 0.25))) (>= (+ Y_0 Y_1) X_1)))
"""


def _query(folder: Path, rng: np.random.Generator) -> Asked:
    path, _ = _saved(folder, "n", networks.dense(rng, (2, 5, 4, 2)))
    (folder / "q.vnnlib").write_text(QUERY)
    query = load_query(folder / "q.vnnlib", [path]).query
    return Asked(query, tuple(map(Case, query.cases)), (Source(path),), True)


def _members(folder: Path, rng: np.random.Generator) -> Asked:
    """How far any member's scores are from the network's."""
    path, network = _saved(folder, "n", networks.dense(rng, (2, 5, 5, 2)))
    source, members = _family(folder, rng, network, 0.05)
    box = Box(np.zeros(2) - 0.25, np.ones(2))
    applied = (Application(network, 0), Application(network, 0, family=0))
    cases = tuple(
        Case((), (Form((), ((0, label, sign), (1, label, -sign)), 0.0),))
        for label in range(2)
        for sign in (1.0, -1.0)
    )
    query = Query((box,), applied, (), families=(members,))
    return Asked(query, cases, (Source(path), Source(path, source)), False)


def _any_member(folder: Path, rng: np.random.Generator) -> Asked:
    """Robustness of every member, beside a network of another shape."""
    path, network = _saved(folder, "n", networks.dense(rng, (2, 4, 4, 3)))
    other, second = _saved(folder, "m", networks.dense(rng, (2, 3, 3)))
    source, members = _family(folder, rng, network, 0.1)
    box = Box(np.zeros(2), np.ones(2))
    applied = (Application(second, 0), Application(network, 0, family=0))
    cases = tuple(Case((Condition(margin(0, 0, 1, 2.0)),), (margin(1, c, 0),)) for c in (1, 2))
    query = Query((box,), applied, (), families=(members,))
    return Asked(query, cases, (Source(other), Source(path, source)), True)


def _one_member(folder: Path, rng: np.random.Generator) -> Asked:
    """One member at two points."""
    path, network = _saved(folder, "n", networks.dense(rng, (2, 5, 5, 2)))
    source, members = _family(folder, rng, network, 0.1)
    box = Box(np.zeros(2), np.ones(2))
    taken = {name: value[0] for name, value in members.family.take([1]).items()}
    own = network_from(with_parameters(network.model, taken), "member 1")
    applied = (Application(own, 0), Application(own, 1))
    near = (apart(0, 1.0, 0.2), apart(0, -1.0, 0.2), apart(1, 1.0, 0.0), apart(1, -1.0, 0.0))
    goal = Form((), ((0, 1, 1.0), (0, 0, -1.0), (1, 1, -1.0), (1, 0, 1.0)), 0.0)
    query = Query((box, box), applied, ())
    return Asked(query, (Case(near, (goal,)),), (Source(path, source, 1),) * 2, False)


def random_asked(folder: Path, seed: int) -> Asked:
    """Make a find of random forms: of one network, of two that are near, far or at two points."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    width, labels = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    hidden = [int(rng.integers(2, 6)) for _ in range(int(rng.integers(1, 4)))]
    model = networks.dense(rng, (width, *hidden, labels))
    path, network = _saved(folder, "n", model)
    lower = np.round(rng.uniform(-1, 0.5, width), 2)
    box = Box(lower, lower + rng.choice([0.05, 0.5, 1.5], width))
    if rng.random() < 0.3:
        rows = np.linspace(box.lower[0], box.upper[0], 4).astype(np.float32)[1:-1, None]
        box = Box(box.lower, box.upper, (Choices(np.array([0]), rows),))
    way, points, sources, families = int(rng.integers(6)), [box], [Source(path)], ()
    applied, conditions = [Application(network, 0)], []
    if way == 1:
        other, second = _saved(folder, "m", _near(rng, model, float(rng.choice([1e-3, 0.2]))))
        applied, sources = [*applied, Application(second, 0)], [*sources, Source(other)]
    elif way == 2:
        points, applied, sources = [box, box], [*applied, Application(network, 1)], 2 * sources
        reach = float(rng.choice([0.0, 0.05, 0.4]))
        for i in range(width if rng.random() < 0.7 else 0):
            conditions += [apart(i, 1.0, reach), apart(i, -1.0, reach)]
    elif way == 3:
        other, second = _saved(folder, "m", networks.dense(rng, (width, 3, 3, labels)))
        applied, sources = [*applied, Application(second, 0)], [*sources, Source(other)]
    elif way > 3:
        spread, count = float(rng.choice([1e-3, 0.1])), int(rng.integers(1, 4))
        source, members = _family(folder, rng, network, spread, count)
        families = (members,)
        if way == 5:
            # At a point of its own.
            points = [box, box]
        applied = [*applied, Application(network, len(points) - 1, family=0)]
        sources = [*sources, Source(path, source)]

    def drawn() -> Form:
        scores = [
            (a, j, float(np.round(rng.normal(), 2)) or 1.0)
            for a in range(len(applied))
            for j in range(labels)
            if rng.random() < 0.6
        ]
        features = [
            (p, i, float(np.round(rng.normal(), 2)) or 1.0)
            for p in range(len(points))
            for i in range(width)
            if rng.random() < 0.3
        ]
        return Form(tuple(features), tuple(scores), float(np.round(rng.normal(), 1)))

    cases = []
    for _ in range(int(rng.integers(1, 4))):
        own = [Condition(drawn(), bool(rng.integers(2))) for _ in range(int(rng.integers(0, 2)))]
        goals = tuple(drawn() for _ in range(int(rng.integers(1, 3))))
        cases.append(Case((*conditions, *own), goals))
    reals = bool(rng.random() < 0.2)
    query = Query(tuple(points), tuple(applied), (), reals=reals, families=families)
    return Asked(query, tuple(cases), tuple(sources), False)


KINDS: dict[str, Callable[[Path, np.random.Generator], Asked]] = {
    "robustness": _robustness,
    "equivalence": _equivalence,
    "fairness": _fairness,
    "monotonicity": _monotonicity,
    "single": _single,
    "side by side": _side_by_side,
    "query": _query,
    "members": _members,
    "any member": _any_member,
    "one member": _one_member,
}

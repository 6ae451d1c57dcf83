"""Attacks on the guard: it noises exactly where some member answers otherwise, and remembers."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.bab import Instance, NativeOptions, make_instance, search_native
from leaveout.encoders import Box, Choices
from leaveout.errors import GuardError, LeaveoutError
from leaveout.models import Family
from leaveout.models.family import save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.access import ProvedBounds, save_bounds
from leaveout.verifier.guard.guard import draw_noisy_label

from attacks.kind import Case, Outcome
from attacks.warm import memory_folder
from support import networks
from support.guards import Served

__all__ = ["Guards"]

Points = NDArray[np.float32]

_DRAWS = 1000
_TAMPERED: list[Any] = [99, -1, 7, "x", None, 2.5, 2**62, 0, b"1"]


class Guards:
    """Small networks and families, at times with ties, asked near where answers change."""

    name = "guard"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        width, labels = int(rng.integers(1, 4)), int(rng.integers(2, 4))
        widths = [width, *(int(n) for n in rng.integers(2, 5, int(rng.integers(0, 3)))), labels]
        members = int(rng.integers(1, 5))
        network = network_from(networks.dense(rng, tuple(widths)), "N")
        spread = float(rng.choice([0.0, 1e-7, 1e-3, 0.05, 0.3]))
        step = float(rng.choice([0, 0, 0.5]))
        own = {n: _rounded(value, step) for n, value in network.parameters.items()}
        stacks = {
            n: [
                _rounded(value + spread * rng.normal(size=value.shape), step)
                for _ in range(members)
            ]
            for n, value in network.parameters.items()
        }
        negative = bool(rng.random() < 0.3)
        columns = [int(rng.integers(width))] if rng.random() < 0.3 else []
        values = sorted({float(np.float32(v)) for v in rng.choice([0, 1e-9, 0.25, 0.7, 1.0], 3)})
        points = rng.random((int(rng.integers(2, 9)), width)) * 1.2 - 0.1
        points[rng.random(points.shape) < 0.2] = rng.choice([0.0, -0.0, 0.5, 1.0, 1e-45])
        if columns:
            listed = rng.choice([*values, 0.3], len(points))
            points[:, columns[0]] = listed
        return {
            "widths": widths,
            "network": {n: _plain(value) for n, value in own.items()},
            "members": {n: [_plain(value) for value in stack] for n, stack in stacks.items()},
            "lower": -1.0 if negative else 0.0,
            "columns": columns,
            "values": values,
            "points": points.astype(np.float32).tolist(),
            "epsilon": float(rng.choice([0.0, 0.2, 1.0, 5.0])),
            "seed": int(rng.integers(1000)),
            "outside": ["refuse", "noise"][rng.integers(2)],
            "searched": bool(rng.random() < 0.02),
            "tampered": _tampering(rng) if rng.random() < 0.25 else None,
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        label = "tampered" if case["tampered"] else "listed" if case["columns"] else "a box"
        label += ", searched" if case["searched"] else ""
        with tempfile.TemporaryDirectory(dir=memory_folder()) as at:
            try:
                served = _served(case, Path(at))
            except LeaveoutError:
                return Outcome(label, "refused")  # a question that nothing can be proved of
            points = _points(case, served.instance)
            labels, leaks = served.truth(points)
            inside = served.instance.box.contains(points.astype(np.float64))
            wrong = _asked(case, served, points, labels, leaks & inside, inside)
            if wrong is None and case["tampered"]:
                wrong = _tampered(case, served, points, inside)
            law = _law(case)
        return Outcome(label, "proved", wrong or law)

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for at in range(len(case["points"]) if len(case["points"]) > 1 else 0):
            yield {**case, "points": case["points"][:at] + case["points"][at + 1 :]}
        members = len(next(iter(case["members"].values())))
        for at in range(members if members > 1 else 0):
            left = {n: stack[:at] + stack[at + 1 :] for n, stack in case["members"].items()}
            yield {**case, "members": left}
        if case["columns"]:
            yield {**case, "columns": []}
        if case["searched"]:
            yield {**case, "searched": False}


def _rounded(value: NDArray[Any], step: float) -> NDArray[np.float32]:
    """Round to multiples of a step, so that ties are exact."""
    return (np.round(value / step) * step if step else value).astype(np.float32)


def _plain(value: NDArray[np.float32]) -> Any:
    return value.astype(float).tolist()


def _tampering(rng: np.random.Generator) -> dict[str, Any]:
    kinds = ["answers", "answers", "answers", "input", "spent", "guard", "drop", "bytes", "cut"]
    return {
        "what": kinds[rng.integers(len(kinds))],
        "which": int(rng.integers(len(_TAMPERED))),
        "at": float(rng.random()),
    }


def _served(case: Case, at: Path) -> Served:
    """Write a folder that a guard can serve."""
    base = networks.dense(np.random.default_rng(0), tuple(case["widths"]))
    own = {n: np.array(value, np.float32) for n, value in case["network"].items()}
    model = with_parameters(base, own)
    network = network_from(model, "N")
    stacks = {n: np.array(stack, np.float32) for n, stack in case["members"].items()}
    family = Family(stacks, np.arange(len(next(iter(stacks.values()))), dtype=np.int64))
    choices = tuple(
        Choices(np.array([column]), np.array(case["values"])) for column in case["columns"]
    )
    width = network.inputs
    box = Box(np.full(width, case["lower"]), np.ones(width), choices)
    instance = make_instance(network, family, box)
    onnx.save(model, at / "full.onnx")
    save_family_file(at / "family.npz", family)
    results = [
        search_native(instance, label, NativeOptions(seconds=0.3)) if case["searched"] else None
        for label in range(instance.labels)
    ]
    save_bounds(at / "bounds.npz", ProvedBounds.of(instance, results))
    return Served(at, instance)


def _points(case: Case, instance: Instance) -> Points:
    """Return the points of a case, and neighbours in float32 between which an answer changes."""
    points = np.array(case["points"], np.float32)
    family = instance.family
    models = [None, *({n: s[0] for n, s in family.take([m]).items()} for m in range(len(family)))]
    runners = [instance.network.runner(each) for each in models]
    found = [points]
    for at in range(len(points) - 1):
        runner = runners[at % len(runners)]
        found.append(_edge(runner, points[at], points[at + 1]))
    both = np.concatenate(found)
    for column in case["columns"]:
        values = np.array(case["values"], np.float32)
        both[len(points) :, column] = values[np.arange(len(both) - len(points)) % len(values)]
    return both


def _edge(runner: Any, a: Points, b: Points) -> Points:
    """Halve the way between two points that are answered otherwise, down to neighbours."""

    def label(x: Points) -> int:
        return int(runner.scores(x[None])[0].argmax())

    first, low, high = label(a), 0.0, 1.0
    if label(b) == first:
        return np.empty((0, len(a)), np.float32)
    here, there = a, b
    while True:
        middle = (low + high) / 2
        x = (a + np.float32(middle) * (b - a)).astype(np.float32)
        if (x == here).all() or (x == there).all():
            return np.stack([here, there])
        if label(x) == first:
            low, here = middle, x
        else:
            high, there = middle, x


def _asked(
    case: Case,
    served: Served,
    points: Points,
    labels: NDArray[np.int64],
    leaks: NDArray[np.bool_],
    inside: NDArray[np.bool_],
) -> str | None:
    """Ask a guard, twice, and compare with every member."""
    given = {"outside": case["outside"], "seed": case["seed"]}
    with Guard.load(served.folder, case["epsilon"], **given) as guard:
        seen = guard.inspect(points)
        for name, ours, theirs in (("leaks", seen.leaks, leaks), ("labels", seen.labels, labels)):
            if not np.array_equal(ours, theirs):
                at = int(np.argmax(ours != theirs))
                return f"{name}: {ours[at]} at {points[at].tolist()}, where it is {theirs[at]}"
        if not np.array_equal(seen.tiers == 0, ~inside):
            return "inside: another set of inputs is guarded"
        answers = guard.answers(points)
        again = [_one(guard, point) for point in points]
        if any(isinstance(each, str) for each in again):
            return next(each for each in again if isinstance(each, str))
        if answers.tolist() != again:
            return f"memory: {answers.tolist()}, and then {again}"
        refused = ~inside if case["outside"] == "refuse" else np.zeros(len(points), bool)
        if not np.array_equal(answers == -1, refused):
            return "outside: other inputs are refused than those outside"
        plain = inside & ~leaks
        if not np.array_equal(answers[plain], labels[plain]):
            return "plain: noise where no member disagrees"
        drawn = leaks if case["outside"] == "refuse" else ~plain
        if not ((answers[drawn] >= 0) & (answers[drawn] < served.instance.labels)).all():
            return f"label: {answers[drawn].tolist()} are no labels"
        keys = {(point + np.float32(0)).tobytes() for point in points[drawn]}
        account = guard.account()
        if account.answers != len(keys):
            return f"account: {account.answers} answers, where {len(keys)} are noised"
        if not math.isclose(account.epsilon, len(keys) * case["epsilon"], rel_tol=1e-12):
            return f"account: epsilon = {account.epsilon}, where {len(keys)} are noised"
    return None


def _one(guard: Guard, point: Points) -> int | str:
    """Ask about one input; -1 where it is refused, a text where that is done badly."""
    try:
        return guard.label(point)
    except GuardError as error:
        return f"message: {str(error)!r}" if "\n" in str(error) else -1


def _tampered(case: Case, served: Served, points: Points, inside: NDArray[np.bool_]) -> str | None:
    """Change the memory's file: what is answered then are labels, or there is one error."""
    _spoil(case["tampered"], served.folder / "answers.sqlite")
    try:
        with Guard.load(served.folder, case["epsilon"], seed=case["seed"]) as guard:
            answers = guard.answers(points[inside])
            guard.account()
    except GuardError as error:
        return f"message: {str(error)!r}" if "\n" in str(error) else None
    if not ((answers >= 0) & (answers < served.instance.labels)).all():
        return f"label: {answers.tolist()} from a tampered memory are no labels"
    return None


def _spoil(tampered: dict[str, Any], path: Path) -> None:
    value, what = _TAMPERED[tampered["which"]], tampered["what"]
    if what in {"bytes", "cut"}:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = bytearray(path.read_bytes())
        place = int(tampered["at"] * len(content))
        if what == "cut":
            del content[place:]
        else:
            content[place] ^= 0xFF
        path.write_bytes(content)
        return
    column = ["format", "epsilon", "secret", "box"][int(4 * tampered["at"])]
    table = ["answers", "spent", "guard"][int(3 * tampered["at"])]
    statements = {
        "answers": "UPDATE answers SET answer = ?",
        "input": "UPDATE answers SET input = ?",
        "spent": "UPDATE spent SET answers = ?",
        "guard": f"UPDATE guard SET {column} = ?",
        "drop": f"DROP TABLE {table}",
    }
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        given = () if what == "drop" else (value,)
        try:
            database.execute(statements[what], given)
        except sqlite3.Error:
            database.execute("DELETE FROM answers")  # what a column does not take


class _Evenly:
    """Draws every number in turn, a thousandth apart."""

    def __init__(self) -> None:
        self._drawn = 0

    def randrange(self, most: int) -> int:
        """Return the next of the numbers below ``most``."""
        self._drawn += 1
        return (2 * self._drawn - 1) * most // (2 * _DRAWS)


def _law(case: Case) -> str | None:
    """Compare how often each label is drawn with the formula of the exponential mechanism."""
    labels, epsilon, chance = case["widths"][-1], case["epsilon"], _Evenly()
    drawn = [draw_noisy_label(labels - 1, labels, epsilon, chance) for _ in range(_DRAWS)]  # type: ignore[arg-type]
    found = np.bincount(drawn, minlength=labels) / _DRAWS
    weights = np.exp(epsilon / 2 * (np.arange(labels) == labels - 1))
    if np.abs(found - weights / weights.sum()).max() > 2 / _DRAWS:
        return f"law: {found.tolist()} with epsilon = {epsilon}"
    return None

"""Listed values: from beside the box's ends to 1e-12 of them, with leaks that only they open."""

from __future__ import annotations

import numpy as np

from attacks.bumps import bump_net
from attacks.inputs import random_box
from attacks.kind import Case
from attacks.leaks import Leaks, random_ask

__all__ = ["Listed", "planted_question"]


class Listed(Leaks):
    """A leak behind a gate that is open at one listed value."""

    name = "listed"

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a planted question, and how it is asked."""
        case = planted_question(rng)
        ask = random_ask(rng, case["net"]["labels"])
        ask["attack"] = False
        if rng.random() < 0.85:
            ask["label"] = 0
        return {**case, "ask": ask}

    def label(self, case: Case) -> str:
        """Return how far the listed values are from the bounds."""
        sizes = []
        for table in case["box"]["tables"]:
            for column, *_ in (table["columns"],):
                size = max(abs(case["box"]["lower"][column]), abs(case["box"]["upper"][column]))
                values = [abs(row[0]) for row in table["rows"] if row[0]]
                if values and size:
                    sizes.append(min(values) / size)
        if not sizes:
            return "no listed value but 0"
        return f"value/bound from 1e{int(np.floor(np.log10(min(sizes)))):+03d}"


def planted_question(rng: np.random.Generator) -> Case:
    """Draw a question with a narrow leak that opens at a listed value alone."""
    width = int(rng.integers(2, 5))
    columns = [int(i) for i in rng.permutation(width)]
    gated = columns[: int(rng.integers(1, min(3, width)))]
    bumped = columns[len(gated) :][: int(rng.integers(1, 3))]
    lower, upper = np.zeros(width), np.ones(width)
    gates: dict[int, tuple[float, float]] = {}
    tables = []
    for column in gated:
        size = float(10.0 ** rng.integers(-3, 5)) if rng.random() < 0.6 else 1.0
        value = float(np.float32(size * 10.0 ** rng.uniform(-12, 0) * rng.choice([-1, 1])))
        lower[column], upper[column] = -size, size
        far = -size if rng.random() < 0.5 else size
        others = [far]
        if rng.random() < 0.3:
            # Close beside, which is closed as well as float32 can tell.
            others.append(float(np.clip(np.float32(3 * value), -size, size)))
        if rng.random() < 0.2:
            others.append(0.0)
        if rng.random() < 0.15:
            others = []
        gates[column] = (value, (1.0 if far > value else -1.0) * 2.0 / abs(far - value))
        tables.append({"columns": [column], "rows": [[v] for v in dict.fromkeys([value, *others])]})
    if len(gated) == 2 and rng.random() < 0.5:
        tables = [_joined(rng, tables[0], tables[1])]
    rest = random_box(rng, width, listed=0.0)
    for column in range(width):
        if column not in gated and column not in bumped:
            lower[column], upper[column] = rest["lower"][column], rest["upper"][column]
    at = {c: float(np.float32(rng.uniform(0.05, 0.95))) for c in bumped}
    spread = {c: float(10.0 ** rng.uniform(-3, -0.5)) for c in bumped}
    net, quiet, loud = bump_net(rng, width, at, spread, gates, int(rng.choice([2, 3])))
    members = [{**net["floats"], "W3": loud}]
    if rng.random() < 0.3:
        members.append({**net["floats"], "W3": quiet})
    point = [float(v) for v in (lower + upper) / 2]
    for column, (value, _) in gates.items():
        point[column] = value
    for column, value in at.items():
        point[column] = value
    box = {"lower": lower.tolist(), "upper": upper.tolist(), "tables": tables}
    return {
        "net": net, "members": members, "box": box, "planted": [point],
        "seed": int(rng.integers(2**31)),
    }  # fmt: skip


def _joined(rng: np.random.Generator, one: Case, two: Case) -> Case:
    """Return a table of both columns, with the first rows together and some other pairs."""
    rows = [[*one["rows"][0], *two["rows"][0]]]
    for first in one["rows"]:
        rows += [[*first, *second] for second in two["rows"] if rng.random() < 0.6]
    unique = [list(row) for row in dict.fromkeys(tuple(row) for row in rows)]
    return {"columns": [*one["columns"], *two["columns"]], "rows": unique}

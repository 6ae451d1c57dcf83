"""Small networks and members for the kernel, and true answers by brute force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaveout.kernel.boxes import Inputs, Table
from leaveout.kernel.float32 import Program, Step
from leaveout.kernel.smooth import FUNCTIONS
from leaveout.verifier.certify.networks import lines_only


@dataclass(frozen=True, eq=False)
class Stacked:
    """Members that are held as one program."""

    program: Program

    def __len__(self):
        return len(self.program)

    def take(self, members):
        steps = []
        for step in self.program.steps:
            if step.matrix is None:
                steps.append(step)
                continue
            own = (part[members] for part in (step.matrix, step.constant, step.size))
            steps.append(Step(step.sources, *own))
        return Program(self.program.inputs, tuple(steps))


@dataclass(frozen=True, eq=False)
class Question:
    """A network, members and a box."""

    network: Program
    members: Stacked
    box: Inputs

    def points(self, rng, count):
        """Return points of the box."""
        lower, upper = self.box.lower, self.box.upper
        found = rng.uniform(lower, upper, (count, len(lower)))
        at = rng.random(found.shape)
        found = np.where(at < 0.15, lower, np.where(at > 0.85, upper, found))
        for table in self.box.tables:
            chosen = rng.integers(0, len(table.values), count)
            found[:, table.columns] = table.values[chosen]
        return found

    def worst(self, rng, count=4000):
        """Return the largest confidence of a leak found for each label; -inf if there is none."""
        x = self.points(rng, count)
        own = evaluate(self.network, x)[0]
        others = evaluate(self.members.program, x)
        labels = own.shape[1]
        found = np.full(labels, -np.inf)
        for label in range(labels):
            rest = [c for c in range(labels) if c != label]
            confidence = own[:, label] - own[:, rest].max(1)
            leaks = (others[:, :, label] <= others[:, :, rest].max(2)).any(0)
            if leaks.any():
                found[label] = confidence[leaks].max()
        return found


def evaluate(program, x):
    """Return the scores of all networks in float64, shape (m, points, labels)."""
    return layers_of(program, x)[-1]


def layers_of(program, x):
    """Return the values before each activation, and the scores, shape (m, points, width)."""
    values, found = [np.broadcast_to(x, (len(program), *x.shape))], []
    for step in program.steps:
        first = values[step.sources[0]]
        if step.matrix is not None:
            values.append(first @ step.matrix + step.constant[:, None])
        elif step.sign:
            values.append(first + step.sign * values[step.sources[1]])
        else:
            found.append(first)
            value = np.vectorize(FUNCTIONS[step.kind].value, otypes=[float])
            values.append(value(first) if step.kind else np.maximum(first, 0))
    return [*found, values[-1]]


def random_question(seed, *, members=3, spread=0.2, inputs=2, labels=3, kinds=(0, 0)):
    """Return a random question: negative boxes, listed rows and skipped layers among them."""
    rng = np.random.default_rng(seed)
    width, skip = int(rng.integers(2, 5)), bool(rng.random() < 0.4)

    def affine(source, rows, columns, count, base=None):
        matrix = rng.normal(size=(1, rows, columns)) / np.sqrt(rows)
        constant = 0.3 * rng.normal(size=(1, columns))
        if base is not None:
            matrix = base.matrix + spread * rng.normal(size=(count, rows, columns))
            constant = base.constant + spread * rng.normal(size=(count, columns))
        matrix, constant = (v.astype(np.float32).astype(float) for v in (matrix, constant))
        return Step((source,), matrix, constant, np.abs(constant))

    def network(base=None, count=1):
        known = iter([] if base is None else [s for s in base.steps if s.matrix is not None])
        take = lambda: next(known, None)
        steps = [affine(0, inputs, width, count, take()), Step((1,), kind=kinds[0])]
        steps += [affine(2, width, width, count, take()), Step((3,), kind=kinds[1])]
        top = 4
        if skip:
            steps.append(Step((4, 2), sign=1))
            top = 5
        steps.append(affine(top, width, labels, count, take()))
        return Program(inputs, tuple(steps))

    own = network()
    others = Stacked(network(own, members))
    low = np.where(rng.random(inputs) < 0.5, 0.0, -1.0)
    tables = ()
    if rng.random() < 0.3:
        values = np.sort(rng.choice(np.linspace(0, 1, 9), (3, 1), replace=False), axis=0)
        tables = (Table(np.array([0]), values),)
    return Question(own, others, Inputs(low, np.ones(inputs), tables))


def honest(tree, shares):
    """Answer with a tree, one share for all leaves, and the usual lines."""

    def ask(what, known):
        if what == "tree":
            return tree
        if what == "proof":
            count, hidden = len(known["nodes"]), known["state"].shape[2]
            none = np.full((count, hidden), np.nan)
            return {"share": np.tile(shares, (count, 1)), "cz": none, "cd": none}
        return lines_only(what, known)

    return ask


def root_tree(rivals, members):
    """Return the arrays of a tree of roots alone."""
    return {
        "parent": np.full(rivals, -1),
        "kind": np.zeros(rivals, np.int8),
        "index": np.arange(rivals),
        "side": np.zeros(rivals, np.int64),
        "point": np.zeros(rivals),
        "renew": np.zeros(rivals, bool),
        "group": np.zeros(rivals, np.int64),
        "members": np.arange(members),
        "offsets": np.array([0, members]),
    }

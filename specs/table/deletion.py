"""Deletion: services that unlearn, forests, and audits of what a model remembers."""

from __future__ import annotations

from functools import partial

from leaveout.specs.table.networks import same_kind
from leaveout.specs.table.signatures import Function, Parameter
from leaveout.specs.types import (
    AUDIT,
    BOOLEAN,
    FOREST,
    FORESTS,
    INPUTS,
    LINEAR,
    LINEARS,
    NUMBER,
    RECORD,
    RECORDS,
    SHARDED,
    TEXT,
    TREES,
)

_PATH = (Parameter("path", (TEXT,)),)
_CHANGE = (Parameter("forest", (FOREST,)), Parameter("record", (RECORD,)))


_LINEAR = Parameter("model", (LINEAR,))
_ROWS = Parameter("rows", (NUMBER,), named=True, least=1)


def _amount(name: str, most: float | None = None) -> Parameter:
    return Parameter(name, (NUMBER,), named=True, least=0, most=most)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "sharded",
        _PATH,
        SHARDED,
        "A service of models trained on shards, with private aggregation of their answers.",
        'let S = sharded("service.toml")',
        reads=True,
    ),
    Function(
        "unlearns",
        (
            Parameter("service", (SHARDED, AUDIT)),
            Parameter("updates", named=True, words=("adaptive", "oblivious")),
            _amount("alpha"),
            _amount("beta", 1),
            _amount("gamma", 1),
        ),
        BOOLEAN,
        "Whether, with probability 1 - gamma, what remains of a deleted point is (alpha, "
        "beta)-close to retraining; for a service, or for the service whose events an audit "
        "counted, which can only refute it.",
        "unlearns(S, updates = adaptive, alpha = 1, beta = 1e-3, gamma = 1e-3)",
        threat="a stream of points is deleted, if adaptive chosen by someone who sees the answers",
        words="{service} unlearns {updates} updates with alpha = {alpha}, beta = {beta} and "
        "gamma = {gamma}",
    ),
    Function(
        "forest",
        _PATH,
        FOREST,
        "A saved forest: one that can unlearn, or one of scikit-learn, which only answers.",
        'let T = forest("forest.npz")',
        reads=True,
        kernels=("forest",),
    ),
    Function(
        "leave_one_out",
        (Parameter("forest", (FOREST, LINEAR)),),
        FORESTS,
        "The forest or linear model retrained without one row each, for every row that it has.",
        "let F = leave_one_out(T)",
        threat="the training set loses any one row",
        results={FOREST: FORESTS, LINEAR: LINEARS},
    ),
    Function(
        "leave_out",
        (_LINEAR, _ROWS),
        LINEARS,
        "The linear model retrained without any few of its rows, or groups: up to this many.",
        "let F = leave_out(L, rows = 5)",
        threat="the training set loses any few rows",
    ),
    Function(
        "relabel",
        (_LINEAR, _ROWS),
        LINEARS,
        "The linear model retrained after the labels of any few of its rows were flipped.",
        "let F = relabel(L, rows = 5)",
        threat="any few labels of the training set are flipped",
    ),
    Function(
        "add_one",
        (_LINEAR, Parameter("within", (INPUTS,), named=True)),
        LINEARS,
        "The linear model retrained with one more row, any input of a set with any label.",
        "let F = add_one(L, within = box(0, 1))",
        threat="the training set gains any one row",
    ),
    Function(
        "points",
        _PATH,
        RECORDS,
        "The records of a table with a column 'row': each names a row of the training set, or "
        "several separated by blanks, which are deleted one after the other.",
        'forall z in points("deletions.csv"): unlearn(T, z) == retrain(T, z)',
        reads=True,
    ),
    Function(
        "unlearn",
        _CHANGE,
        FOREST,
        "The forest after unlearning a record.",
        "unlearn(T, z) == retrain(T, z)",
        threat="the training set loses one record",
        words="{forest} after it unlearned {record}",
    ),
    Function(
        "retrain",
        _CHANGE,
        FOREST,
        "The forest retrained without a record.",
        "unlearn(T, z) == retrain(T, z)",
        threat="the training set loses one record",
        words="{forest} retrained without {record}",
    ),
    Function(
        "caches_sound",
        (Parameter("forest", (FOREST,)),),
        BOOLEAN,
        "Whether a forest, including every statistic it keeps for later deletions, equals the "
        "one that training on its rows produces.",
        "caches_sound(T)",
        words="what {forest} keeps for later deletions is what training produces",
    ),
    Function(
        "same_function",
        (
            Parameter("forest", (FOREST, TREES)),
            Parameter("other", (FOREST, TREES)),
            Parameter("inputs", (INPUTS,)),
        ),
        BOOLEAN,
        "Whether two forests give every input of a set the same label, or two tree ensembles the "
        "same scores.",
        'same_function(T, forest("other.npz"), box(0, 1))',
        partial(same_kind, "same_function", "forest"),
        words="{forest} and {other} give every input of {inputs} the same answer",
    ),
    Function(
        "audit",
        _PATH,
        AUDIT,
        "What an attacker sees of a model that unlearned, next to one that was retrained.",
        'let A = audit("audit.npz")',
        reads=True,
    ),
    Function(
        "membership_advantage",
        (
            Parameter("audit", (AUDIT,)),
            Parameter("unit", optional=True, named=True, words=("trials", "records")),
        ),
        NUMBER,
        "How much better than retraining allows an attacker can tell who was deleted, from all "
        "forgotten rows of a trial together or from one record of it.",
        'membership_advantage(audit("audit.npz")) <= 0.05 with confidence 0.95',
        threat="the training set loses a set of points",
        words="the membership advantage of an attacker in {audit}",
    ),
)

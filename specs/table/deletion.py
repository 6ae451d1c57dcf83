"""Deletion: services that unlearn, forests, and audits of what a model remembers."""

from __future__ import annotations

from leaveout.specs.table.signatures import Function, Parameter
from leaveout.specs.types import (
    AUDIT,
    BOOLEAN,
    FOREST,
    FORESTS,
    INPUTS,
    NUMBER,
    RECORD,
    RECORDS,
    SHARDED,
    TEXT,
)

_PATH = (Parameter("path", (TEXT,)),)
_CHANGE = (Parameter("forest", (FOREST,)), Parameter("record", (RECORD,)))


def _amount(name: str, most: float | None = None) -> Parameter:
    return Parameter(name, (NUMBER,), named=True, least=0, most=most)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "sharded",
        _PATH,
        SHARDED,
        "A service of models trained on shards, with private aggregation of what they answer.",
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
        "Whether, with probability 1 - gamma, what is left of a deleted point is (alpha, "
        "beta)-close to retraining; of a service, or of one that counted events of an audit are "
        "about, which can refute it alone.",
        "unlearns(S, updates = adaptive, alpha = 1, beta = 1e-3, gamma = 1e-3)",
        threat="a stream of points is deleted, if adaptive chosen by someone who sees the answers",
        words="{service} unlearns {updates} updates with alpha = {alpha}, beta = {beta} and "
        "gamma = {gamma}",
    ),
    Function(
        "forest",
        _PATH,
        FOREST,
        "A forest as it was saved: one that can unlearn, or one of scikit-learn, which only "
        "answers.",
        'let T = forest("forest.npz")',
        reads=True,
        kernels=("forest",),
    ),
    Function(
        "leave_one_out",
        (Parameter("forest", (FOREST,)),),
        FORESTS,
        "The forest retrained without one row each, for every row that it holds.",
        "let F = leave_one_out(T)",
        threat="the training set loses any one row",
    ),
    Function(
        "points",
        _PATH,
        RECORDS,
        "The records of a table with a column 'row': each names a row of the training set, or "
        "several with blanks between, which are deleted one after the other.",
        'forall z in points("deletions.csv"): unlearn(T, z) == retrain(T, z)',
        reads=True,
    ),
    Function(
        "unlearn",
        _CHANGE,
        FOREST,
        "The forest after it unlearned a record.",
        "unlearn(T, z) == retrain(T, z)",
        threat="the training set loses one record",
        words="{forest} after it unlearned {record}",
    ),
    Function(
        "retrain",
        _CHANGE,
        FOREST,
        "The forest trained anew without a record.",
        "unlearn(T, z) == retrain(T, z)",
        threat="the training set loses one record",
        words="{forest} trained anew without {record}",
    ),
    Function(
        "caches_sound",
        (Parameter("forest", (FOREST,)),),
        BOOLEAN,
        "Whether a forest, and every statistic it keeps for later deletions, is what training on "
        "the rows it holds gives.",
        "caches_sound(T)",
        words="what {forest} keeps for later deletions is what training gives",
    ),
    Function(
        "same_function",
        (
            Parameter("forest", (FOREST,)),
            Parameter("other", (FOREST,)),
            Parameter("inputs", (INPUTS,)),
        ),
        BOOLEAN,
        "Whether two forests give every input of a set the same label.",
        'same_function(T, forest("other.npz"), box(0, 1))',
        words="{forest} and {other} give every input of {inputs} the same label",
    ),
    Function(
        "audit",
        _PATH,
        AUDIT,
        "What an attacker sees of a model that unlearned, beside one that was retrained.",
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
        "How much better than retraining allows an attacker tells who was deleted, by all "
        "forgotten rows of a trial together or by one record of it.",
        'membership_advantage(audit("audit.npz")) <= 0.05 with confidence 0.95',
        threat="the training set loses a set of points",
        words="the membership advantage of an attacker in {audit}",
    ),
)

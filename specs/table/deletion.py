"""Deletion: services that unlearn, forests, and audits of what a model remembers."""

from __future__ import annotations

from leaveout.specs.signatures import Function, Parameter
from leaveout.specs.types import AUDIT, BOOLEAN, FOREST, NUMBER, RECORD, RECORDS, SHARDED, TEXT

__all__ = ["FUNCTIONS"]

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
    ),
    Function(
        "unlearns",
        (
            Parameter("service", (SHARDED,)),
            Parameter("updates", named=True, words=("adaptive", "oblivious")),
            _amount("alpha"),
            _amount("beta", 1),
            _amount("gamma", 1),
        ),
        BOOLEAN,
        "Whether, with probability 1 - gamma, what is left of a deleted point is (alpha, "
        "beta)-close to retraining.",
        "unlearns(S, updates = adaptive, alpha = 1, beta = 1e-3, gamma = 1e-3)",
        threat="a stream of points is deleted, if adaptive chosen by someone who sees the answers",
    ),
    Function("forest", _PATH, FOREST, "A forest that can unlearn.", 'let T = forest("forest.npz")'),
    Function(
        "points",
        _PATH,
        RECORDS,
        "The records of a table.",
        'forall z in points("deletions.csv"): unlearn(T, z) == retrain(T, z)',
    ),
    Function(
        "unlearn",
        _CHANGE,
        FOREST,
        "The forest after it unlearned a record.",
        "unlearn(T, z) == retrain(T, z)",
        threat="the training set loses one record",
    ),
    Function(
        "retrain",
        _CHANGE,
        FOREST,
        "The forest trained anew without a record.",
        "unlearn(T, z) == retrain(T, z)",
        threat="the training set loses one record",
    ),
    Function(
        "audit",
        _PATH,
        AUDIT,
        "What an attacker sees of a model that unlearned, beside one that was retrained.",
        'let A = audit("audit.npz")',
    ),
    Function(
        "membership_advantage",
        (Parameter("audit", (AUDIT,)),),
        NUMBER,
        "How much better than retraining allows an attacker tells who was deleted.",
        'membership_advantage(audit("audit.npz")) <= 0.05',
        threat="the training set loses a set of points",
    ),
)

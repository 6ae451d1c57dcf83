"""Specifications and results of which the first page speaks, and what it says of them."""

from __future__ import annotations

from leaveout.verifier.page.first_page.show import summary
from leaveout.verifier.records import ModelRecord

NETS = 'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'
VOTES = 'let V = ballots("b.npz")\nlet W = ballots("w.npz")\n'
LEAK = "forall x in X, M in F: confidence(N, x) > {} => label(M, x) == label(N, x)"
UNKNOWN = {"verdict": "unknown", "reason": "time: 3 s are over"}
AUDIT = 'guarantee s: membership_advantage(audit("a.npz")) <= 0.5 with confidence 0.95'


def model(**given):
    """Return what results record of a network and its family."""
    usual = {
        "model": "network",
        "file": "/home/me/full.onnx",
        "family": "family.npz",
        "statements": ("s",),
        "members": 12,
        "rows": 12,
        "labels": ("benign", "malignant"),
    }
    return ModelRecord(**(usual | given))


def told(made, spec, *results, **given):
    """Return what the first page says of results."""
    page = made.pages(made.file(*results, spec=spec, **given))
    return summary(page)


def said(made, spec, *results, **given):
    """Return its one sentence of what was found."""
    (line,) = told(made, spec, *results, **given).lines
    return line.words

"""Files of results as ``verify --json`` writes them, made from few words, and pages of them."""

from __future__ import annotations

import msgspec
import pytest

from leaveout.specs.deciders import Curve
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.records import BoxRecord, ExampleRecord, WitnessRecord
from leaveout.verifier.report import Report, Result

SPEC = """\
let V = ballots("b.npz")
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)

guarantee half: certified_accuracy(dpa(V), edits = 8) >= 0.5
find bound: least b per label such that
    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)
"""


class Made:
    """Makes results, files of them, and pages."""

    def __init__(self, folder):
        self.folder = folder

    def result(self, **given):
        usual = {
            "name": "half",
            "kind": "guarantee",
            "verdict": "proved",
            "lower": None,
            "upper": None,
            "label": None,
            "witness": None,
            "seconds": 1.25,
            "engine": "values",
            "solver": None,
            "reason": None,
            "box": BoxRecord(lower=(), upper=()),
            "members": 0,
        }
        return Result(**(usual | given))

    def leak(self, features=3, label=0, **given):
        witness = WitnessRecord(
            x=tuple(0.25 + i for i in range(features)),
            member=4,
            removed=40,
            confidence=0.5,
            scores=(0.75, 0.25),
            member_scores=(-0.125, 0.625),
            label=label or 0,
            member_label=1 - (label or 0),
            words="without row 40 the answer at x flips",
        )
        usual = {
            "name": "bound",
            "kind": "find",
            "lower": 0.5,
            "upper": 0.5004,
            "label": label,
            "witness": witness,
            "engine": "native",
            "box": BoxRecord(lower=(0.0,) * features, upper=(1.0,) * features),
            "members": 12,
        }
        return self.result(**(usual | given))

    def curve(self, name="dpa", lower=(0.9, 0.6, 0.2), **given):
        usual = {
            "name": name,
            "value": "certified accuracy",
            "unit": "edits",
            "at": tuple(range(len(lower))),
            "lower": tuple(lower),
            "upper": tuple(lower),
        }
        return Curve(**(usual | given))

    def example(self, **given):
        return ExampleRecord(**({"points": {}, "scores": {}, "labels": {}} | given))

    def file(self, *results, name="r.json", spec=SPEC, **given):
        if spec is not None:
            (self.folder / "test.spec").write_text(spec, encoding="utf-8")
        whole = Report(leaveout="0.1.0", spec="test.spec", results=results)
        path = self.folder / name
        path.write_bytes(msgspec.structs.replace(whole, **given).to_json())
        return path

    def pages(self, *paths):
        return Page(load([str(path) for path in paths]))

    def page(self, *results, **given):
        return document(self.pages(self.file(*results, **given)))


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path)

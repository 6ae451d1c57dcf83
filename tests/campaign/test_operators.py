"""The campaign against the reading of ONNX files tells a misreading from rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leaveout.encoders import RoundingError
from leaveout.models.onnx import table
from leaveout.models.onnx.operators.arithmetic import Gemm
from leaveout.models.onnx.operators.shape import Identity

from attacks.kind import generator, sort_of
from attacks.operator_nodes import network
from attacks.operators import Operators
from attacks.workers import judged


def wrongs(count):
    """Sorts of mistakes in networks with no oddities."""
    kind = Operators()
    cases = (network(generator(0, "operators", number)) for number in range(count))
    found = [judged(kind, case).wrong for case in cases]
    return [sort_of(wrong) for wrong in found if wrong is not None]


def _gemm(use):
    read = table._gemm(use)
    return Gemm(read.weight, read.bias, read.alpha, 1.0, read.transposed)


@pytest.mark.parametrize(
    ("operator", "reader"),
    [("Relu", lambda use: Identity()), ("Gemm", _gemm), ("Conv", lambda use: Identity())],
)
def test_a_reader_that_errs_is_seen(monkeypatch, operator, reader):
    misread = replace(table.OPERATORS[operator], read=reader)
    monkeypatch.setitem(table.OPERATORS, operator, misread)
    assert {"scores", "margins"} & set(wrongs(400))


def test_a_bound_on_rounding_that_charges_too_little_is_seen(monkeypatch):
    whole = RoundingError.of_forms
    monkeypatch.setattr(RoundingError, "of_forms", lambda *given: 1e-3 * whole(*given))
    assert "scores" in wrongs(200)


def test_cases_are_made_smaller_until_they_are_right():
    kind = Operators()
    case = network(generator(0, "operators", 3))
    sizes = [len(str(each)) for each in kind.shrink(case)]
    assert sizes
    assert min(sizes) < len(str(case))

"""Which engine a statement goes to: the first that accepts it, and none by accident."""

from __future__ import annotations

from typing import get_args

import numpy as np
import onnx
import pytest

from leaveout.errors import LeaveoutError
from leaveout.models import load_network
from leaveout.specs import check, parse
from leaveout.verifier.engines import engines
from leaveout.verifier.evidence.certified import QUESTIONS
from leaveout.verifier.options import ENGINES, VerifyOptions
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.run import verify
from leaveout.verifier.statements import Statements
from leaveout.verifier.tasks import Context, Subject

from support import networks
from support.files import write_question

HEAD = """\
let N = network("full.onnx")
let O = network("other.onnx")
let F = family("family.npz")
let X = box(0, 1)
"""
LEAK = "forall x in X, M in F: confidence(N, x) > 0.5 => label(M, x) == label(N, x)"
PAIR = "forall x in X: confidence(N, x) > 0.5 => label(O, x) == label(N, x)"
STATEMENTS = {
    f"guarantee g: {LEAK}": ("NativeLeaks", "NetworkLeaks"),
    f"find b: least b such that {LEAK.replace('0.5', 'b')}": ("NativeLeaks", "NetworkLeaks"),
    # Of another architecture: pairs of neurons are no help, and lucid says so when it loads it.
    f"guarantee g: {PAIR}": ("Formulas", "NetworkLeaks"),
    "guarantee g: forall x in X: score(N, x, 0) <= 1e6": ("Formulas", None),
    "guarantee g: forall x in X, M in F: difference(N, M, x) <= 1e6": ("Formulas", None),
    "guarantee g: 2 > 1": ("Values", "Values"),
}


def add_other(folder):
    """Write a network of another architecture beside the first."""
    first = load_network(folder / "full.onnx")
    widths = (first.inputs, 9, first.labels)
    onnx.save(networks.dense(np.random.default_rng(0), widths, 1.0), folder / "other.onnx")


def context(tmp_path, text, engine="native"):
    path = write_question(tmp_path, text=HEAD + text + "\n")
    add_other(tmp_path)
    checked = check(parse(path.read_text(), str(path)))
    resolver, options = Resolver(checked, tmp_path), VerifyOptions(engine=engine)
    return Context(checked, resolver, tmp_path, options)


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_statement_goes_to_the_first_engine_that_accepts_it(tmp_path, statement, place):
    made = context(tmp_path, statement, ("native", "lucid")[place])
    (written,) = made.checked.statements
    taking = (type(each).__name__ for each in engines(made) if each.accepts(written) is None)
    assert next(taking, None) == STATEMENTS[statement][place]


@pytest.mark.parametrize(
    ("statement", "engine"),
    [
        ("guarantee g: forall x in X: score(N, x, 0) <= 1e6", "lucid"),
        (f"guarantee g: {PAIR}", "lucid"),
        ("guarantee g: 2 > 1 and (forall x in X: score(N, x, 0) > 0)", "native"),
    ],
)
def test_what_none_accepts_is_refused_with_the_reason_of_the_last(
    tmp_path, statement, engine, snapshot
):
    with pytest.raises(LeaveoutError) as caught:
        Statements(context(tmp_path, statement, engine))
    assert str(caught.value) == snapshot
    assert "test.spec:5:" in str(caught.value) or "test.spec:2:" in str(caught.value)


def test_a_file_that_is_missing_is_named_and_no_reason_to_try_another_engine(tmp_path):
    made = context(tmp_path, f"guarantee g: {PAIR}")
    (tmp_path / "other.onnx").unlink()
    with pytest.raises(LeaveoutError, match=r"other\.onnx"):
        Statements(made)


@pytest.mark.parametrize("first", ["guarantee g: 2 > 1", f"guarantee g: {LEAK}"])
def test_after_ctrl_c_no_leak_is_sought_any_more(tmp_path, monkeypatch, first):
    begun = []

    def stop(*given, **options):
        begun.append(given)
        raise KeyboardInterrupt

    for place in ("values.decider.Values._guarantee", "points.network_leaks.search_native"):
        monkeypatch.setattr(f"leaveout.verifier.{place}", stop)
    path = write_question(
        tmp_path, text=f"{HEAD}{first}\nguarantee h: {LEAK.replace('0.5', '0.25')}\n"
    )
    add_other(tmp_path)
    for result in verify(path).results:
        assert (result.verdict, result.reason) == ("unknown", "time: interrupted")
    assert len(begun) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_evidence_is_held_against_the_claims_of_every_engine(tmp_path, engine):
    made = context(tmp_path, f"guarantee g: {LEAK}", engine)
    assert {each.subject for each in engines(made)} <= set(QUESTIONS) == set(get_args(Subject))

"""What may help where a result is unknown: it is true of the case; of others nothing is said."""

from __future__ import annotations

import re

import numpy as np
import pytest

import leaveout
from leaveout.bab import make_instance
from leaveout.encoders import Box, Choices
from leaveout.models import Family, load_family, load_network, matrices
from leaveout.models.onnx.file import network_from
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.points.advice import Case, advice
from leaveout.verifier.records import BoxRecord, TraceRecord
from leaveout.verifier.report import Result

from support import networks
from support.cases import shaken
from support.clinic import write_clinic
from support.snapshots import passages


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    write_clinic(folder)
    network = load_network(folder / "full.onnx")
    return network, load_family(folder / "family.npz", network)


def box(low=0.0, high=1.0, choices=()):
    return Box(np.full(4, low), np.full(4, high), choices)


def unknown(*traces, **given):
    usual = {
        "name": "bound",
        "kind": "find",
        "verdict": "unknown",
        "lower": 0.0,
        "upper": 1.0,
        "label": 0,
        "witness": None,
        "seconds": 8.0,
        "engine": "native",
        "solver": None,
        "reason": "time: 8 s are over",
        "box": BoxRecord(lower=(), upper=()),
        "members": 5,
        "traces": traces,
    }
    return Result(**(usual | given))


def trace(*moments):
    seconds, lower, upper = zip(*moments, strict=True)
    return TraceRecord(label=0, seconds=seconds, lower=lower, upper=upper)


def said(result, case):
    return "\n".join(advice(result, case))


def test_of_what_is_known_nothing_is_said(clinic):
    _, family = clinic
    for verdict in ("proved", "refuted"):
        assert advice(unknown(verdict=verdict), Case(box(), family.manifest)) == ()


def test_a_bare_box_over_one_hot_columns_is_named(clinic, snapshot):
    _, family = clinic
    bare = said(unknown(), Case(box(), family.manifest))
    assert bare == snapshot
    assert "one_hot(X, at = [1, 2, 3])" in bare
    ward = Choices(np.array([1, 2, 3]), np.eye(3))
    age = Choices(np.array([0]), np.linspace(0, 1, 61).astype(np.float32)[:, None].astype(float))
    listed = said(unknown(), Case(box(choices=(ward,)), family.manifest))
    assert "one_hot" not in listed and "integers" in listed
    assert "integers" not in said(unknown(), Case(box(choices=(ward, age)), family.manifest))
    assert "one_hot" not in said(unknown(), Case(box(), None))


def test_what_one_hot_advice_says_makes_the_set_smaller(tmp_path):
    (bare, listed) = (
        leaveout.verify(write_clinic(tmp_path, box=each, spread=0.3), time=60)["bound"]
        for each in ("box(0, 1)", "one_hot(box(0, 1), at = [1, 2, 3])")
    )
    for wide, narrow in zip(bare, listed, strict=True):
        assert narrow.lower <= wide.upper


def test_a_box_wider_than_the_data_is_named_by_its_columns(clinic, snapshot):
    _, family = clinic
    ward = Choices(np.array([1, 2, 3]), np.eye(3))
    wide = Box(np.array([-1.0, 0, 0, 0]), np.array([2.0, 1, 1, 1]), (ward,))
    assert said(unknown(), Case(wide, family.manifest)) == snapshot
    own = Case(box(choices=(ward,)), family.manifest)
    assert said(unknown(), own) == snapshot


@pytest.mark.parametrize(
    ("moments", "words"),
    [
        ([(0, 0.0, 4.0), (4, 0.5, 2.5), (8, 0.5, 1.5)], "in the last 4 s .* from 2 to 1:"),
        ([(0, 0.0, 4.0), (3, 0.5, 2.5), (8, 0.5, 2.5)], "in the last 5 s .* neither bound moved"),
        ([(1, 0.0, 4.0), (8, 0.5, 2.5)], "in the last 7 s .* from 4 to 2:"),
    ],
)
def test_of_time_what_the_second_half_of_the_search_did_is_said(moments, words):
    assert re.search(words, said(unknown(trace(*moments)), Case(box())))


@pytest.mark.parametrize(
    ("moments", "words"),
    [
        # From 2 to 1 as time doubles, so a hundred times the time: the upper end is 1.
        ([(0, 0.0, 4.0), (4, 0.0, 2.0), (8, 0.0, 1.0)], "1 % takes about 10 minutes"),
        ([(0, 0.0, 4.0), (4, 0.0, 1.001), (8, 0.0, 1.0)], "more than a month: ask about fewer"),
        ([(0, 0.0, 4.0), (4, 0.97, 2.0), (8, 0.985, 1.0)], "about 9 s"),
        ([(0, 0.0, 4.0), (400, 0.0, 2.0), (800, 0.0, 1.0)], "about 20 hours"),
    ],
)
def test_how_long_closing_takes_is_foretold_from_the_second_half(moments, words):
    assert words in said(unknown(trace(*moments)), Case(box()))


def test_of_other_reasons_nothing_is_said_of_time(snapshot):
    assert "--time" not in said(unknown(reason="numerical: close"), Case(box()))
    assert said(unknown(), Case(box())) == snapshot
    assert said(unknown(engine="lucid"), Case(box())) == snapshot


def test_of_a_guarantee_that_only_rounding_keeps_open_a_tie_is_named(snapshot):
    reason = "numerical: float32 rounding may move what is asked by 5e-07"
    told = said(unknown(kind="guarantee", reason=reason), Case(box()))
    assert "equality" in told
    assert told == snapshot
    assert "equality" not in said(unknown(reason=reason), Case(box()))


def test_of_a_guarantee_that_was_searched_it_is_not_said_that_it_was_not(snapshot):
    reason = "time: stopped after its share of 8 s"
    told = said(unknown(kind="guarantee", reason=reason), Case(box()))
    assert told == snapshot
    assert "find" in told


def test_of_a_search_that_ended_below_its_goal_no_pace_is_told():
    course = trace((0.0006, 0.0, 0.0), (0.0132, 0.0, -1e-9))
    told = said(unknown(kind="guarantee", traces=(course,)), Case(box()))
    assert "no time left" in told
    assert "pace" not in told


def test_neurons_without_a_phase_are_counted(clinic):
    network, family = clinic
    instance = make_instance(network, family, box())
    found = said(unknown(), Case(box(), family.manifest, instance))
    rng = np.random.default_rng(0)
    layer = network.stack.layers[0]
    values = rng.random((20_000, 4)) @ np.asarray(layer.weights[0])[0].T + layer.bias[0]
    seen = int(((values.min(axis=0) < 0) & (values.max(axis=0) > 0)).sum())
    free = int(re.search(r"(\d+) of 4 neurons have no fixed phase", found).group(1))
    assert free >= seen


def test_inputs_of_a_convolution_are_weighed_by_its_entries(monkeypatch):
    def of_convolution():
        network = network_from(networks.convolution_1d(np.random.default_rng(0)), "net")
        members = Family(shaken(np.random.default_rng(1), network, 2, 0.1), np.arange(2))
        whole = Box(np.zeros(network.inputs), np.ones(network.inputs))
        instance = make_instance(network, members, whole)
        return instance.network.stack.is_sparse, said(unknown(), Case(whole, None, instance))

    is_sparse, expected = of_convolution()
    monkeypatch.setattr(matrices, "_DENSE", 0)
    monkeypatch.setattr(matrices, "_FILLED", 2.0)
    assert (is_sparse, of_convolution()) == (False, (True, expected))
    assert "the first layer depends mostly on" in expected


def test_it_is_shown_wherever_the_reason_is(tmp_path, capsys, snapshot):
    from leaveout.verifier.cli.app import run

    spec = write_clinic(tmp_path, box="box(0, 1)", spread=0.4)
    assert run(["verify", str(spec), "--time", "0.01", "--json", str(tmp_path / "r.json")]) == 3
    out = capsys.readouterr().out
    assert passages(out, "'ward'") == snapshot
    (loaded,) = load([str(tmp_path / "r.json")])
    assert any(each.advice for each in loaded.report.results)
    assert passages(document(Page((loaded,))), "'ward'") == snapshot
    assert passages(loaded.report._repr_html_(), "'ward'") == snapshot
    assert loaded.report.to_json() == (tmp_path / "r.json").read_bytes()

"""Bounds and rounding end with the time."""

import numpy as np
import pytest

from leaveout.bab import joint_claim
from leaveout.bab.joint_claim import FormErrors
from leaveout.deadline import Deadline, OverdueError
from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.encoders.query import Application, Form, Query
from leaveout.models.onnx.file import network_from
from leaveout.verifier.points.query import decide

from support import networks

LATE = Deadline.after(0.0)
BOX = Box(np.zeros(3), np.ones(3))


def read():
    return network_from(networks.dense(np.random.default_rng(0)), "n")


def test_the_rounding_analysis_ends_at_the_deadline():
    network = read()
    parameters = {name: value[None] for name, value in network.parameters.items()}
    with pytest.raises(OverdueError):
        evaluation_of(network.graph, parameters, LATE)
    found = evaluation_of(network.graph, parameters)
    with pytest.raises(OverdueError):
        rounding_error(found, network_bounds(network.stack, BOX), BOX, LATE)


@pytest.fixture
def large(monkeypatch):
    """Have every network be one whose analysis takes long."""
    monkeypatch.setattr(joint_claim, "_EASY", 0)


def test_rounding_that_is_not_known_in_time_is_without_bound(large):
    query = Query((BOX,), (Application(read(), 0),), ())
    form = Form((), ((0, 0, 1.0),), 0.0)
    assert FormErrors(query, LATE).over([form]).tolist() == [np.inf]
    assert np.isfinite(FormErrors(query).over([form])).all()


def test_without_time_nothing_is_proved(large):
    form = Form((), ((0, 0, -1.0),), 1e3)
    query = Query((BOX,), (Application(read(), 0),), (), worst=form)
    cases = Query((BOX,), (Application(read(), 0),), ((),), worst=form)
    assert decide(query, seconds=1e-9).verdict == "proved"  # there is no case
    found = decide(cases, seconds=1e-9)
    assert found.verdict == "unknown"
    assert found.upper == np.inf


def test_a_small_network_is_analysed_however_late_it_is():
    query = Query((BOX,), (Application(read(), 0),), ())
    form = Form((), ((0, 0, 1.0),), 0.0)
    assert FormErrors(query, LATE).over([form]) == FormErrors(query).over([form])

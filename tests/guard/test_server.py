"""A guard over HTTP: labels, and nothing else that tells how they were found."""

from __future__ import annotations

import json
import re
import signal
import sqlite3

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from leaveout.errors import GuardError
from leaveout.models import DataFacts, Manifest
from leaveout.verifier.guard import Guard, server
from leaveout.verifier.guard.server import serve
from leaveout.verifier.guard.server_settings import ServeSettings

from support import networks
from support.depth import rounds
from support.guards import make_folder, points_of
from support.served import JSON, Asker, in_thread, process

RECIPE = {
    "encoding": {
        "label": "ill",
        "columns": [
            {"type": "number", "name": "age", "minimum": 20.0, "maximum": 70.0},
            {"type": "category", "name": "stage", "categories": ["1", "2"]},
        ],
    }
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    facts = DataFacts(
        sha256="", rows=9, minimum=(0, 0, 0), maximum=(1, 1, 1),
        features=("age", "stage=1", "stage=2"), labels=("no", "yes"),
    )  # fmt: skip
    model = networks.dense(np.random.default_rng(8), (3, 4, 2))
    manifest = Manifest(data=facts, recipe=RECIPE)
    return make_folder(tmp_path_factory.mktemp("named"), model, manifest=manifest, seconds=0.5)


@pytest.fixture(scope="module")
def guard(leaky, tmp_path_factory):
    memory = tmp_path_factory.mktemp("memory") / "answers.sqlite"
    with Guard.load(leaky.folder, 0.5, memory=memory) as opened:
        yield opened


@pytest.fixture(scope="module")
def port(guard):
    with in_thread(guard, most_rows=50, most_bytes=5000) as found:
        yield found


@pytest.fixture
def asker(port):
    opened = Asker(port)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def named(trained, tmp_path_factory):
    memory = tmp_path_factory.mktemp("memory") / "answers.sqlite"
    with (
        Guard.load(trained.folder, 0.5, memory=memory) as opened,
        in_thread(opened) as port,
    ):
        yield opened, Asker(port)


def test_labels_are_those_of_the_guard_for_one_and_for_several(asker, guard, grid):
    X = grid[::13]
    reply = asker.ask({"X": X.tolist()})
    assert (reply.status, set(reply.said)) == (200, {"labels"})
    assert reply.said["labels"] == guard.labels(X).tolist()
    for x, label in zip(X[:5], reply.said["labels"]):
        assert asker.ask({"x": x.tolist()}).said == {"label": label}


def test_equal_inputs_get_equal_answers_however_they_are_written(asker, guard):
    for x in points_of(guard, 3, 20):
        first = asker.ask({"x": x.tolist()}).body
        written = ", ".join(repr(float(value)) + "0" for value in x)
        assert asker.ask(f'{{"x": [{written}]}}'.encode()).body == first
        assert asker.ask({"X": [x.tolist()]}).said["labels"] == [json.loads(first)["label"]]


def test_answers_are_named_where_names_are_known(named):
    guard, asker = named
    row = {"age": 40, "stage": 2}
    (label,) = guard.labels(guard.encode([row]))
    assert asker.ask({"row": row}).said == {"label": label, "name": ("no", "yes")[label]}
    both = asker.ask({"rows": [row, {"age": "40.0", "stage": "2"}]}).said
    assert both == {"labels": [label] * 2, "names": [("no", "yes")[label]] * 2}
    x = guard.encode([row])[0].tolist()
    assert asker.ask({"x": x}).said == asker.ask({"row": row}).said


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"age": 40}, "column 'stage' is missing"),
        ({"age": 40, "stag": 1, "stage": 1}, "no column 'stag' (did you mean 'stage'?)"),
        ({"age": 40, "stage": 3}, "is not a category"),
        ({"age": "old", "stage": 1}, "is not a finite number"),
        ({"age": "nan", "stage": 1}, "is not a finite number"),
        ({"age": True, "stage": 1}, "True is not a finite number"),
        ({"age": None, "stage": 1}, "the value is missing"),
        ({"age": [40], "stage": 1}, "got `array`"),
        ({"age": 10**400, "stage": 1}, "Expected `int` <="),
        ({"age": 71, "stage": 1}, "outside the verified range"),
    ],
)
def test_rows_that_do_not_fit_are_refused(named, row, error):
    _, asker = named
    reply = asker.ask({"row": row})
    assert (reply.status, set(reply.said)) == (422, {"error"})
    assert error in reply.said["error"] and "\n" not in reply.said["error"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b'{"x": [NaN, 0]}', 400, "not valid JSON"),
        (b'{"x": [0, -Infinity]}', 400, "not valid JSON"),
        (b'{"x": [0, 1]', 400, "not valid JSON"),
        (b"", 400, "not valid JSON"),
        (b'{"x": [0, 1]} 2', 400, "not valid JSON"),
        (b'{"row": {"\xff": 1}}', 400, "not valid JSON"),
        (b"[" * 4000, 422, "Expected `object`"),
        (b'{"x": [1e999, 0]}', 422, "out of range"),
        (b'{"x": [1e39, 0]}', 422, "feature 0 is inf"),
        ({"x": [0.5]}, 422, "x has 1 numbers, expected 2"),
        ({"X": [[0, 1], [0.5]]}, 422, "input 1 of X has 1 numbers, expected 2"),
        ({"x": []}, 422, "x has 0 numbers"),
        ({"X": []}, 422, "at least one"),
        ({"rows": []}, 422, "at least one"),
        ({"x": ["0", 1]}, 422, "got `str`"),
        ({"x": [True, 1]}, 422, "got `bool`"),
        ({"x": [None, 1]}, 422, "got `null`"),
        ({"x": [[0, 1]]}, 422, "got `array`"),
        ({"X": [0, 1]}, 422, "Expected `array`"),
        ({"x": {"0": 1}}, 422, "got `object`"),
        ([0, 1], 422, "Expected `object`"),
        ({}, 422, "exactly one of"),
        ({"x": [0, 1], "X": [[0, 1]]}, 422, "exactly one of"),
        ({"x": [0, 1], "scores": True}, 422, "unknown field"),
        ({"row": {"0": 0.5, "1": 0.5, "2": 0}}, 422, "no column '2'"),
        ({"x": [0, 1.5]}, 422, "feature 1 is outside the verified range [0, 1]"),
        ({"X": [[0, 0], [-1, 0]]}, 422, "input 1: feature 0 is outside"),
        (b'{"x": [0, 1], "x": [1, 0]}', 422, "an object has a duplicate key"),
        (b'{"row": {"0": 0, "\\u0030": 1, "1": 0}}', 422, "an object has a duplicate key"),
        (b'{"rows": [{"0": 0, "1": 0}, {"1": 0, "1": 0}]}', 422, "an object has a duplicate key"),
        ({"X": [[0, 0]] * 51}, 413, "at most 50"),
        ({"X": [[0.123456789] * 2] * 500}, 413, "larger than 5,000 bytes"),
    ],
)
def test_bad_requests_are_refused_in_one_line(asker, body, status, error):
    reply = asker.ask(body)
    assert (reply.status, set(reply.said)) == (status, {"error"})
    assert error in reply.said["error"] and "\n" not in reply.said["error"]


def test_bodies_without_a_length_are_cut_off_too(port):
    asker = Asker(port)
    asker._connection.request("POST", "/label", iter([b" " * 1000] * 6), JSON, encode_chunked=True)
    assert asker._connection.getresponse().status == 413


@pytest.mark.parametrize(
    ("host", "is_own"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False), ("", False)]
)
def test_where_others_than_this_machine_can_ask(host, is_own):
    with server._open_socket(host, 0) as listening:
        assert server._is_loopback(listening) == is_own


@pytest.mark.parametrize(("host", "warned"), [("localhost", 0), ("", 1)])
def test_it_warns_where_others_than_this_machine_can_ask(leaky, tmp_path, host, warned):
    options = ("--host", host, "--pad", "0", "--memory", str(tmp_path / "answers.sqlite"))
    with process(leaky.folder, *options) as served:
        assert " answers for " in served.line
        served.process.terminate()
        log = served.log()
    assert log.count("anyone who can reach this machine may query") == warned


def test_other_paths_methods_and_types_are_refused(asker):
    assert asker.ask({"x": [0, 1]}, headers={"content-type": "text/plain"}).status == 415
    assert asker.ask({"x": [0, 1]}, headers={}).status == 415
    charset = {"content-type": "Application/JSON; charset=utf-8"}
    assert asker.ask({"x": [0, 1]}, headers=charset).status == 200
    wrong = asker.get("/label")
    assert (wrong.status, wrong.headers["allow"], set(wrong.said)) == (405, "POST", {"error"})
    unknown = asker.get("/scores")
    assert (unknown.status, set(unknown.said)) == (404, {"error"})
    assert asker.ask({}, "/health").status == 405


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=rounds(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.sampled_from(["x", "X", "row", "rows"]), json_values, min_size=1)
    | json_values
)
def test_no_question_makes_the_server_fail(asker, body):
    reply = asker.ask(body)
    assert reply.status in {200, 400, 413, 422}
    assert set(reply.said) in ({"label"}, {"labels"}, {"error"})


def test_responses_are_as_the_document_says(asker, guard):
    document = asker.get("/openapi.json").said
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert used == set(schemas)

    def fits(reply, path, method="get"):
        declared = document["paths"][path][method]["responses"][str(reply.status)]
        schema = declared["content"]["application/json"]["schema"]
        whole = {**schema, "components": document["components"]}
        Draft202012Validator(whole).validate(reply.said)

    question = {"$ref": "#/components/schemas/Question", "components": document["components"]}
    for body, valid in [
        ({"x": [0, 1]}, True), ({"rows": [{"0": 1, "1": "2"}]}, True), ({}, False),
        ({"x": [0], "X": []}, False), ({"x": ["0"]}, False), ({"y": 1}, False),
    ]:  # fmt: skip
        assert Draft202012Validator(question).is_valid(body) is valid
        fits(asker.ask(body), "/label", "post")
    fits(asker.get("/health"), "/health")
    for path in ("/", "/about"):
        fits(asker.get(path), path)


def test_what_is_served_is_told_and_nothing_that_was_asked(asker, guard):
    before = asker.get("/about").body
    for x in points_of(guard, 3, 5):
        asker.ask({"x": x.tolist()})
    assert asker.get("/").body == before
    told = json.loads(before)
    assert told["members"] == guard.members and told["epsilon"] == 0.5
    assert told["box"]["lower"] == [0, 0] and told["features"] == ["0", "1"]
    assert asker.get("/health").body == b'{"status":"ok"}'


def test_what_the_training_rows_ranged_over_is_not_told(named):
    _, asker = named
    told = asker.get("/about").said
    assert told["columns"] == [
        {"name": "age", "kind": "number"},
        {"name": "stage", "kind": "category", "categories": ["1", "2"]},
    ]
    assert told["names"] == ["no", "yes"]


def closed_alike(guard: Guard, leak: np.ndarray, other: np.ndarray) -> str:
    """Ask for a leak that closes a guard, then for anything; return what all are told."""
    with in_thread(guard) as port:
        asker = Asker(port)
        assert asker.get("/health").status == 200
        replies = [
            asker.ask({"x": leak.tolist()}),
            asker.ask({"x": other.tolist()}),
            asker.ask({"X": [other.tolist()]}),
            asker.ask({"x": [7.0, 7.0]}),
            asker.ask(b"["),
        ]
        health = asker.get("/health")
        asker.close()
    assert {(reply.status, reply.body) for reply in replies} == {(503, replies[0].body)}
    assert (health.status, health.said) == (503, {"status": "closed"})
    return replies[0].said["error"]


def test_a_spent_guard_refuses_everything_alike(either, tmp_path):
    with Guard.load(either.folder, 0.5, memory=tmp_path / "m", cap=0.6) as guard:
        leaks, other = points_of(guard, 3, 2), points_of(guard, (1, 2), 1)[0]
        guard.label(leaks[0])
        assert "epsilon" not in closed_alike(guard, leaks[1], other)


def test_a_guard_whose_memory_is_lost_refuses_everything_alike(either, tmp_path):
    path = tmp_path / "answers.sqlite"
    with Guard.load(either.folder, 0.5, memory=path) as guard:
        leak, other = points_of(guard, 3, 1)[0], points_of(guard, (1, 2), 1)[0]
        with sqlite3.connect(path) as database:
            database.execute("DROP TABLE answers")
        assert "answers" not in closed_alike(guard, leak, other).replace("answers nothing", "")


def test_a_fault_tells_nothing_but_in_the_log(guard, monkeypatch, caplog):
    def fail(_):
        raise RuntimeError("secret")

    with in_thread(guard) as port:
        monkeypatch.setattr(guard, "label", fail)
        asker = Asker(port)
        reply = asker.ask({"x": [0, 1]})
        asker.close()
    assert reply.status == 500 and b"secret" not in reply.body
    assert "secret" in caplog.text


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_to_once_requests_under_way_are_answered(leaky, tmp_path, stop, snapshot):
    memory = str(tmp_path / "m")
    with process(leaky.folder, "--pad", "1", "--memory", memory) as served:
        assert served.line == snapshot
        asker = Asker(served.port)
        asker.send({"x": [0.25, 0.75]})
        served.under_way()
        served.process.send_signal(stop)
        assert asker.reply().status == 200
        log = served.log()
        assert served.process.returncode == 0
        assert '"POST /label HTTP/1.1" 200' in log
        assert "0.25" not in log and "Traceback" not in log


def test_a_second_ctrl_c_ends_it_at_once(leaky, tmp_path):
    with process(leaky.folder, "--pad", "30", "--memory", str(tmp_path / "m")) as served:
        asker = Asker(served.port)
        asker.send({"x": [0.25, 0.75]})
        served.under_way()
        served.process.send_signal(signal.SIGINT)
        served.told()
        served.process.send_signal(signal.SIGINT)
        assert asker.reply().status == 503
        log = served.log()
        assert served.process.returncode == 0
        assert "Traceback" not in log


def test_an_address_in_use_or_a_pad_too_short_is_said_in_one_line(guard, port, snapshot):
    with pytest.raises(GuardError) as told:
        serve(guard, "127.0.0.1", port)
    assert str(told.value) == snapshot
    with pytest.raises(GuardError) as told:
        serve(guard, port=0, settings=ServeSettings(pad=1e-6))
    assert str(told.value) == snapshot

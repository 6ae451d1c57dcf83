"""Claims over points have what leaks have: workers, kernels, checkpoints, all members at once."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest

from leaveout.bab.joint_claim import FormErrors, join_claim
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.search import search_question
from leaveout.encoders import Box
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.errors import FamilyError
from leaveout.models import Members, load_family, load_network
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run
from leaveout.verifier.run import verify

from support import children, networks
from support.cases import dividing, family_of
from support.depth import IS_DEEP
from support.files import BOUND, write_question

HEAD = BOUND[: BOUND.index("find")]
CLAIMS = {
    "robust": "find d: least d such that forall x in X, y in X: distance(x, y) <= 0.1 => "
    "abs(score(N, x, 0) - score(N, y, 0)) <= d",
    "equal": 'let K = network("other.onnx")\n'
    "find d: least d such that forall x in X: difference(N, K, x) <= d",
    "fair": "guarantee g: forall x in X, y in X: feature(x, 0) == feature(y, 0) => "
    "abs(score(N, x, 1) - score(N, y, 1)) <= 0.5",
    "monotone": "guarantee g: forall x in X, y in X: (feature(x, 0) <= feature(y, 0) "
    "and feature(x, 1) == feature(y, 1)) => score(N, x, 0) - score(N, y, 0) <= 4",
    "members": "find d: least d such that forall x in X, M in F: difference(N, M, x) <= d",
    "twice": "guarantee g: forall x in X, y in X, M in F: "
    "abs(score(M, x, 0) - score(M, y, 0)) <= 100",
}
OTHERS = [{"workers": 2}, {"kernel": "torch:cpu"}, {"kernel": "numpy"}]
WAYS = [{}, {"workers": 2}, {"kernel": "torch:cpu"}, {"executor": "ray", "workers": 2}]


def each_way(ways):
    """Return each claim with each way; each with every other one outside CI."""
    pairs = [(claim, way) for claim in CLAIMS for way in ways]
    chosen = pairs if IS_DEEP else [
        (claim, way) for claim, way in pairs
        if ([*CLAIMS].index(claim) + ways.index(way)) % 2 == 0
    ]  # fmt: skip
    return [
        pytest.param(claim, way, id="-".join([*map(str, way.values()), claim]))
        for claim, way in chosen
    ]


def written(folder, claim: str):
    onnx.save(networks.dense(np.random.default_rng(7), (3, 5, 2), 1.0), folder / "other.onnx")
    return write_question(folder, text=HEAD + CLAIMS[claim] + "\n")


def provable(folder, claim: str):
    """Write a claim that has no counter-example."""
    spec = written(folder, claim)
    spec.write_text(spec.read_text().replace("<= 0.5", "<= 50"))
    return spec


def overlap(one, two) -> bool:
    """Whether two results can both be true."""
    if one.kind == "guarantee":
        return {one.verdict, two.verdict} != {"proved", "refuted"}
    return one.lower <= two.upper and two.lower <= one.upper


@pytest.mark.parametrize(("claim", "given"), each_way(OTHERS))
def test_workers_and_kernels_answer_alike(tmp_path, claim, given, array_kernels):
    if "torch" in given.get("kernel", ""):
        pytest.importorskip("torch")
    spec = written(tmp_path, claim)
    (one,), (two,) = (verify(spec, time=20.0).results, verify(spec, time=20.0, **given).results)
    assert overlap(one, two)
    assert two.kind == "guarantee" or (two.lower is not None and two.upper is not None)


@pytest.mark.parametrize(("claim", "given"), each_way(WAYS))
def test_what_is_proved_in_any_way_is_proved_again(tmp_path, claim, given, request, array_kernels):
    if "torch:cpu" in given.values():
        pytest.importorskip("torch")
    if "ray" in given.values():
        request.getfixturevalue("cluster")
    spec, target = provable(tmp_path, claim), tmp_path / "c.cert"
    # Workers are started within the time, which on a busy machine takes as long as it takes.
    seconds = children.HANGS if given else 4.0
    (found,) = verify(spec, time=seconds, certificate=target, **given).results
    most = max(each.upper for each in check(target))
    assert most < 0.0 if found.upper is None else found.upper <= most <= found.upper + 1e-4


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_resumed_search_is_proved_again(tmp_path, claim):
    spec, state, target = provable(tmp_path, claim), tmp_path / "state", tmp_path / "c.cert"
    first = verify(spec, time=0.5, certificate=target, resume=state)
    second = verify(spec, time=4.0, certificate=target, resume=state)
    (one,), (two,) = first.results, second.results
    assert overlap(one, two)
    most = max(each.upper for each in check(target))
    assert most < 0.0 if two.upper is None else two.upper <= most <= two.upper + 1e-4


def test_members_applied_twice_are_claimed_one_by_one_and_all(tmp_path, capsys, snapshot):
    spec, target = provable(tmp_path, "twice"), tmp_path / "c.cert"
    verify(spec, time=20.0, certificate=target)
    assert run(["check", str(target)]) == 0
    assert capsys.readouterr().out == snapshot


SAME = HEAD + "guarantee g: forall x in X, M in F: label(M, x) == label(N, x)\n"


def test_that_nothing_changes_is_proved_where_it_is_so(tmp_path):
    """Also without a premise: no confidence at all leaks, and neither does a tie."""
    spec = write_question(tmp_path, text=SAME)
    network = load_network(tmp_path / "full.onnx")
    family = load_family(tmp_path / "family.npz", network)
    rng = np.random.default_rng(0)
    points = rng.random((4000, network.inputs)).astype(np.float32)
    scores = [network.runner().scores(points)]
    for index in range(len(family)):
        taken = {name: value[0] for name, value in family.take([index]).items()}
        scores.append(network.runner(taken).scores(points))
    ordered = np.sort(np.stack(scores).astype(float), axis=2)
    sure = (ordered[..., -1] - ordered[..., -2]).min(axis=0)
    labels = np.stack(scores).argmax(axis=2)
    sure[(labels != labels[0]).any(axis=0)] = -1.0
    centre = points[int(sure.argmax())]
    low, high = ([float(v) + move for v in centre] for move in (-1e-3, 1e-3))
    spec.write_text(SAME.replace("box(0, 1)", f"box({low}, {high})"))
    target = tmp_path / "c.cert"
    (found,) = verify(spec, time=20.0, certificate=target).results
    assert (found.verdict, found.lower, found.upper) == ("proved", 0.0, 0.0)
    assert all(each.upper < 0.0 for each in check(target))


def test_exact_claims_are_charged_what_folding_rounds():
    rng = np.random.default_rng(0)
    network = network_from(networks.dense(rng, (2, 6, 3), 3.0), "N")
    query = Query((Box(np.zeros(2), np.ones(2)),), (Application(network, 0),), ())
    form = Form((), ((0, 0, 1.0), (0, 1, -1.0)))
    (float32,) = FormErrors(query).over([form])
    (exact,) = FormErrors(replace(query, reals=True)).over([form])
    assert 0.0 < exact == 2.0**-27 * float32


def constant(folder, *scores):
    """Write a network that gives these scores everywhere."""
    network = network_from(networks.dense(np.random.default_rng(0), (1, 4, len(scores))), "n")
    flat = {name: np.zeros_like(value) for name, value in network.parameters.items()}
    (last,) = [name for name, value in flat.items() if value.shape == (len(scores),)]
    flat[last] = np.array(scores, np.float32)
    onnx.save(with_parameters(network.model, flat), folder / "n.onnx")


def test_scores_that_cancel_are_summed_exactly(tmp_path):
    constant(tmp_path, 1e20, 1e20, 0.001)
    (tmp_path / "s.spec").write_text(
        'let N = network("n.onnx")\nlet X = box(0, 1)\nfind d: greatest d such that '
        "forall x in X: score(N, x, 0) + score(N, x, 2) - score(N, x, 1) >= d\n"
    )
    (found,) = verify(tmp_path / "s.spec", time=1.0).results
    assert found.lower is None or found.lower <= float(np.float32(0.001))
    assert found.upper >= float(np.float32(0.001))


@pytest.mark.parametrize(
    "claim", ["score(N, x, 1) - 0.5 - 1e-17 < 0.5", "score(N, x, 1) - 1 < 1e-17"]
)
def test_what_holds_by_less_than_numbers_are_rounded_is_not_refuted(tmp_path, claim):
    constant(tmp_path, 0.0, 1.0)
    head = 'let N = network("n.onnx")\nlet X = box(0, 1)\n'
    (tmp_path / "s.spec").write_text(f"{head}guarantee g: forall x in X: {claim}\n")
    (found,) = verify(tmp_path / "s.spec", time=1.0).results
    assert found.verdict != "refuted"


def test_more_workers_go_on_from_fewer(tmp_path):
    """Those that are given nothing at first name no node as another is named."""
    spec, state, target = provable(tmp_path, "robust"), tmp_path / "state", tmp_path / "c.cert"
    verify(spec, time=1.0, certificate=target, resume=state)
    for workers in (3, 2):
        (found,) = verify(spec, time=6.0, certificate=target, resume=state, workers=workers).results
        most = max(each.upper for each in check(target))
        assert found.upper <= most <= found.upper + 1e-4


@pytest.mark.parametrize("claim", CLAIMS)
def test_killed_and_resumed_it_ends_as_it_would_have(tmp_path, claim, monkeypatch):
    spec = written(tmp_path, claim)
    (whole,) = verify(spec, time=60.0).results
    program = (
        "import sys; from leaveout.bab.native import checkpoint; checkpoint.EVERY = 0.0; "
        "checkpoint._SHARE = 0.0; from leaveout.verifier.run import verify; "
        "verify(sys.argv[1], resume=sys.argv[2])"
    )
    state = tmp_path / "state"
    running = children.start(
        [sys.executable, "-c", program, spec, state], stderr=subprocess.PIPE, cwd=tmp_path
    )
    children.wait_until(
        lambda: state.exists() or running.poll() is not None, "a checkpoint", running
    )
    running.send_signal(signal.SIGKILL)
    running.wait()
    (again,) = verify(spec, time=60.0, resume=state).results
    assert overlap(whole, again)
    assert again.verdict == whole.verdict
    # What is finished is answered from the file.
    with monkeypatch.context() as patch:
        patch.setattr("leaveout.bab.native.workers.pool.InlineExecutor.pool", None)
        (last,) = verify(spec, resume=state).results
    assert (last.verdict, last.lower, last.upper) == (again.verdict, again.lower, again.upper)


def test_a_checkpoint_of_another_claim_is_refused(tmp_path, snapshot):
    spec = written(tmp_path, "robust")
    verify(spec, time=20.0, resume=tmp_path / "state")
    other = spec.read_text().replace("<= 0.1", "<= 0.2")
    spec.write_text(other)
    with pytest.raises(Exception) as told:
        verify(spec, time=20.0, resume=tmp_path / "state")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("seed", range(6))
def test_all_members_at_once_are_bounded_as_one_by_one(seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (2, 4, 3), 1.0), "N")
    family = family_of(rng, network, 7, 0.1)
    box = Box(np.zeros(2), np.ones(2))
    members = Members(network.graph, family)
    query = Query(
        (box,), (Application(network, 0), Application(network, 0, family=0)), (),
        families=(members,),
    )  # fmt: skip
    cases = [
        Case((), (Form((), ((0, label, sign), (1, label, -sign))),))
        for label in range(3)
        for sign in (1.0, -1.0)
    ]
    points = np.stack(np.meshgrid(*[np.linspace(0, 1, 60)] * 2), -1).reshape(-1, 2)
    points = points.astype(np.float32)
    own = network.runner().scores(points).astype(np.float64)
    worst, most = -math.inf, -math.inf
    for index in range(7):
        taken = {name: value[0] for name, value in family.take([index]).items()}
        scores = network.runner(taken).scores(points).astype(np.float64)
        worst = max(worst, float(np.abs(scores - own).max()))
        most = max(most, float(scores[scores[:, 0] >= scores[:, 1], 2].max(initial=-math.inf)))
    options = NativeOptions(nodes=20_000, steps=40)
    found = search_question(Claims(join_claim(query, cases)), options, floor=-math.inf)
    assert found.upper >= worst
    assert found.closed and found.lower >= worst - 0.02 * abs(worst)
    one = Query((box,), (Application(network, 0, family=0),), (), families=(members,))
    # Of the members alone, under a condition of their own.
    ahead = Condition(Form((), ((0, 0, 1.0), (0, 1, -1.0))))
    alone = [Case((ahead,), (Form((), ((0, 2, 1.0),)),))]
    found = search_question(Claims(join_claim(one, alone)), options, floor=-math.inf)
    assert found.upper >= most
    assert found.lower <= found.upper


def test_a_member_that_divides_by_zero_is_refused_by_number(snapshot):
    network, family = dividing()
    members = Members(network.graph, family)
    box = Box(np.zeros(2), np.ones(2))
    query = Query((box,), (Application(network, 0, family=0),), (), families=(members,))
    with pytest.raises(FamilyError) as told:
        join_claim(query, [Case((), (Form((), ((0, 0, 1.0),)),))])
    assert str(told.value) == snapshot


@pytest.mark.parametrize("seed", range(6))
def test_what_rounding_may_do_to_any_member_holds_of_each(seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (2, 6, 3), 3.0), "N")
    family = family_of(rng, network, 5, 0.2)
    box = Box(np.zeros(2), np.ones(2))
    members = Members(network.graph, family)
    query = Query((box,), (Application(network, 0, family=0),), (), families=(members,))
    errors = FormErrors(query)
    for _ in range(10):
        row = np.where(rng.random(3) < 0.7, rng.normal(size=3), 0.0)
        form = Form((), tuple((0, j, float(c)) for j, c in enumerate(row) if c))
        any_of = errors.over([form])
        for index in range(5):
            assert errors.over([form], [box], [index]) <= any_of * (1 + 1e-9)


@pytest.mark.parametrize("place", ["join_claim", "search_question"])
def test_ctrl_c_before_a_search_leaves_a_result(tmp_path, monkeypatch, place):
    def stop(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"leaveout.verifier.points.decide.{place}", stop)
    (found,) = verify(written(tmp_path, "equal")).results
    assert (found.verdict, found.reason.split("; ")[0]) == ("unknown", "time: interrupted")
    assert found.upper is None


def test_ten_cases_are_one_tree_with_two_sided_bounds(tmp_path):
    rng = np.random.default_rng(0)
    first = networks.dense(rng, (5, 20, 20, 20, 5), 1.0)
    onnx.save(first, tmp_path / "n.onnx")
    network = network_from(first, "N")
    other = {name: value + np.float32(1e-3) for name, value in network.parameters.items()}
    onnx.save(with_parameters(network.model, other), tmp_path / "m.onnx")
    (tmp_path / "s.spec").write_text(
        'let N = network("n.onnx")\nlet M = network("m.onnx")\nlet X = box(-1, 1)\n'
        "find d: least d such that forall x in X: difference(N, M, x) <= d\n"
    )
    (found,) = verify(tmp_path / "s.spec", time=1.0).results
    assert 0 < found.lower <= found.upper < math.inf


@pytest.mark.parametrize("direction", ["least", "greatest"])
def test_it_is_said_which_members_a_bound_rests_on(tmp_path, direction):
    order = "<=" if direction == "least" else ">="
    claim = f"find d: {direction} d such that forall x in X, M in F: score(M, x, 0) {order} d"
    path = write_question(tmp_path, text=HEAD + claim + "\n")
    (found,) = verify(path, time=20.0).results
    (tree,) = found.groups
    assert (tree.about, tree.label) == (direction, None)
    sign = 1.0 if direction == "least" else -1.0
    whole = tree.groups[0]
    assert (whole.parent, whole.members) == (-1, found.members)
    assert all(sign * each.upper <= sign * whole.upper for each in tree.groups)
    # No group that holds the worst one found is bounded beyond what was found.
    worst = found.lower if direction == "least" else found.upper
    assert all(sign * each.upper >= sign * worst for each in tree.groups if each.leak)
    assert any(each.leak for each in tree.groups)

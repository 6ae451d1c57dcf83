"""Two models of trees are one function, to the last bit, against all of their cells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from xgboost import XGBClassifier

from leaveout import verify
from leaveout.errors import LeaveoutError
from leaveout.models.trees.files import write_trees
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import app

from support.depth import rounds
from support.small_trees import FLAWS, all_cells, random_ensemble, spoil

BATCHES = 10


def decide(folder, text, **given):
    spec = folder / "s.spec"
    spec.write_text('let T = trees("one.npz")\nlet Q = trees("other.npz")\n' + text)
    return verify(spec, **given).results[0]


def pair(seed):
    """Return two small models that differ by a flaw, which may show nowhere."""
    rng = np.random.default_rng(seed)
    scores, flaw = int(rng.choice((1, 1, 2, 3))), str(rng.choice(FLAWS))
    one = random_ensemble(
        rng, scores=scores, trees=int(rng.integers(1, 4)), depth=int(rng.integers(1, 4)),
        categories=bool(rng.integers(2)),
        labels=("a", "b", "c")[: max(2, scores)] if rng.random() < 0.5 else (),
    )  # fmt: skip
    one = replace(
        one, ordered=bool(rng.random() < 0.9), single=bool(rng.integers(2)),
        divisor=int(rng.choice((1, one.trees))),
    )  # fmt: skip
    return one, spoil(rng, one, flaw), bool(rng.integers(2))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_answer_is_that_of_all_cells(tmp_path, batch):
    """At each threshold, both of its neighbours, and missing values; proofs are checked."""
    for seed in range(30 * batch, 30 * batch + rounds(30)):
        one, other, missing = pair(seed)
        write_trees(one, tmp_path / "one.npz")
        write_trees(other, tmp_path / "other.npz")
        inputs = "box(-9e9, 9e9)"
        if len(one.nodes.sets):
            inputs = "integers(box([-9e9, -9e9, 0], [9e9, 9e9, 8]), at = 2)"
        inputs = f"missing({inputs}, at = [0, 1, 2])" if missing else inputs
        certificate = tmp_path / f"{seed}.npz"
        found = decide(
            tmp_path, f"guarantee g: same_function(T, Q, {inputs})\n", certificate=certificate
        )
        cells = all_cells(one, other, single=False, missing=missing)
        same = bool((one.scores(cells) == other.scores(cells)).all())
        if not one.ordered and found.verdict == "unknown":
            continue
        assert found.verdict == ("proved" if same else "refuted")
        assert one.ordered or not same
        if same:
            assert len(check(certificate)) == 1
            continue
        point = np.array([found.example.points["x"]], np.float64)
        assert (one.scores(point) != other.scores(point)).any()


@pytest.fixture(scope="module")
def boosted(tmp_path_factory) -> Path:
    """Return a folder of a model, a copy, and one of whose thresholds moved to its neighbour."""
    made = tmp_path_factory.mktemp("boosted")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 3)), 2)
    model = XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1).fit(X, X[:, 0] + X[:, 1] > 0)
    for name in ("one", "copy"):
        model.save_model(made / f"{name}.json")
    told = json.loads((made / "one.json").read_bytes())
    tree = told["learner"]["gradient_booster"]["model"]["trees"][10]
    node = next(k for k, left in enumerate(tree["left_children"]) if left >= 0)
    moved = np.nextafter(np.float32(tree["split_conditions"][node]), np.float32(9))
    tree["split_conditions"][node] = float(moved)
    (made / "moved.json").write_text(json.dumps(told))
    (made / "claims.spec").write_text("""
let T = trees("one.json")
let Q = trees("copy.json")
let M = trees("moved.json")
let X = missing(box(-4, 4), at = [0, 1, 2])
guarantee copy: same_function(T, Q, X)
guarantee both: same_function(T, Q, X) and same_function(Q, T, box(-1, 1))
guarantee moved: same_function(T, M, X)
guarantee late: same_function(T, Q, X) and same_function(T, M, X)
""")
    return made


def test_one_threshold_of_thirty_trees_is_found(boosted):
    found = {each.name: each for each in verify(boosted / "claims.spec").results}
    verdicts = {name: each.verdict for name, each in found.items()}
    assert verdicts == {
        "copy": "proved", "both": "proved", "moved": "refuted", "late": "refuted",
    }  # fmt: skip
    point = np.array([found["moved"].example.points["x"]], np.float32)
    margins = []
    for name in ("one", "moved"):
        model = XGBClassifier()
        model.load_model(boosted / f"{name}.json")
        margins.append(model.predict(point, output_margin=True))
    assert margins[0] != margins[1]


def test_evidence_is_checked_and_says_what_is_equal(boosted, tmp_path):
    evidence = tmp_path / "evidence"
    run = CliRunner().invoke(
        app, ["verify", str(boosted / "claims.spec"), "--evidence", str(evidence)]
    )
    assert run.exit_code == 1, run.output
    check = CliRunner().invoke(app, ["check", str(evidence), "--files", str(boosted)])
    assert check.exit_code == 0, check.output
    assert "4 of 4 results proved again" in check.output
    page = (evidence / "report.html").read_text()
    assert "the same scores, to the last bit, to every input of the set" in page


def test_a_copy_is_the_same_on_a_set_of_its_features(tmp_path):
    one = pair(0)[0]
    write_trees(one, tmp_path / "one.npz")
    write_trees(one, tmp_path / "other.npz")
    text = "guarantee g: same_function(T, Q, {})\n"
    assert decide(tmp_path, text.format("box(0, 1)")).verdict == "proved"
    with pytest.raises(LeaveoutError, match="2 bounds for 3 features"):
        decide(tmp_path, text.format("box([0, 0], [1, 1])"))


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("not same_function(T, Q, box(0, 1))", "not claimed as it stands, but within another"),
        ("forall x in box(0, 1): label(T, x) == 0 or same_function(T, Q, box(0, 1))", "join with"),
        ('same_function(T, forest("f.npz"), box(0, 1))', "a tree ensemble and a forest"),
        ("same_function(T, S, box(0, 1))", "2 and 3 labels"),
    ],
)
def test_what_is_not_compared_is_refused(tmp_path, claim, said):
    rng = np.random.default_rng(0)
    one = random_ensemble(rng, labels=("a", "b"))
    write_trees(one, tmp_path / "one.npz")
    write_trees(one, tmp_path / "other.npz")
    three = random_ensemble(rng, scores=3, labels=("a", "b", "c"))
    write_trees(three, tmp_path / "three.npz")
    with pytest.raises(LeaveoutError, match=said):
        decide(tmp_path, f'let S = trees("three.npz")\nguarantee g: {claim}\n')

"""Claims over trees as people write them, through verify, certificates and evidence."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from typer.testing import CliRunner
from xgboost import XGBClassifier

from leaveout.errors import SpecError
from leaveout.models.trees.files import write_trees
from leaveout.models.trees.reading import of_model
from leaveout.verifier import verify
from leaveout.verifier.cli.app import app, run
from leaveout.verifier.evidence.signing import make_keys

from support.attested import Attested, refused

RISING = "forall x in X, y in X: same_except(x, y, at = 0) and feature(x, 0) <= feature(y, 0) => "
SPEC = f"""
let T = trees("rising.json")
let S = trees("free.json")
let X = box([-2, -2, 0], [2, 2, 5])
let G = missing(X, at = 1)
guarantee rises: {RISING}score(T, x) <= score(T, y)
guarantee label_rises: {RISING}label(T, x) <= 0 or label(T, y) == 1
guarantee free_rises: {RISING}score(S, x) <= score(S, y)
guarantee gaps: forall x in G, y in G: same_except(x, y, at = 2) => label(S, x) == label(S, y)
find apart: least b such that forall x in X: difference(T, S, x) <= b
find sure: greatest b such that forall x in X: score(S, x) >= b
"""
CASES = {
    "label": SPEC.replace("label(T, x) <= 0 or", "label(T, x) == 0 or"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 3)), 2)
    X[:, 2] = rng.integers(0, 6, 400)
    y = (X[:, 0] + X[:, 1] * (X[:, 2] - 2) + rng.normal(size=400) > 0).astype(int)
    X[::7, 1] = np.nan
    settings = {"n_estimators": 12, "max_depth": 3, "n_jobs": 1}
    XGBClassifier(**settings, monotone_constraints=(1, 0, 0)).fit(X, y).save_model(
        made / "rising.json"
    )
    XGBClassifier(**settings).fit(X, y).save_model(made / "free.json")
    hist = HistGradientBoostingRegressor(max_iter=5, categorical_features=[2]).fit(X, X[:, 2] % 2)
    write_trees(of_model(hist), made / "numbers.npz")
    (made / "claims.spec").write_text(CASES["label"])
    return made


def test_what_holds_is_proved_and_what_does_not_is_refuted(folder):
    report = verify(folder / "claims.spec", time=60)
    verdicts = {each.name: each.verdict for each in report.results}
    assert verdicts == {
        "rises": "proved", "label_rises": "proved", "free_rises": "refuted", "gaps": "refuted",
        "apart": "proved", "sure": "proved",
    }  # fmt: skip
    by_name = {each.name: each for each in report.results}
    shown = by_name["gaps"].example
    assert shown is not None
    x, y = (np.array(shown.points[name], float) for name in ("x", "y"))
    assert x[2] != y[2]
    model = XGBClassifier()
    model.load_model(folder / "free.json")
    assert model.predict(x[None]) != model.predict(y[None])
    shown = by_name["sure"].example
    margin = model.get_booster().inplace_predict(
        np.array(shown.points["x"])[None], predict_type="margin"
    )
    assert by_name["sure"].lower <= margin <= by_name["sure"].upper + 1e-6


def test_evidence_of_trees_is_proved_again(folder, tmp_path):
    made = CliRunner().invoke(
        app, ["verify", str(folder / "claims.spec"), "--evidence", str(tmp_path / "evidence")]
    )
    assert made.exit_code == 1, made.output
    check = CliRunner().invoke(app, ["check", str(tmp_path / "evidence"), "--files", str(folder)])
    assert check.exit_code == 0, check.output
    assert "6 of 6 results proved again" in check.output
    # Another model under the same name is not what was proved.
    (folder / "kept").write_bytes((folder / "free.json").read_bytes())
    (folder / "free.json").write_bytes((folder / "rising.json").read_bytes())
    try:
        check = CliRunner().invoke(
            app, ["check", str(tmp_path / "evidence"), "--files", str(folder)]
        )
        assert check.exit_code == 1
        assert "differs from the attested trees" in str(check.exception)
    finally:
        (folder / "kept").replace(folder / "free.json")


def test_a_witness_of_many_features_is_told_by_those_that_decide(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = (X[:, 17] + X[:, 4] > 0.1).astype(int)
    model = XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X, y)
    model.save_model(tmp_path / "model.json")
    spec = tmp_path / "s.spec"
    spec.write_text(
        'let T = trees("model.json")\nlet X = box(-1, 1)\n'
        "guarantee g: forall x in X, y in X:\n"
        "    same_except(x, y, at = 4) => label(T, x) == label(T, y)\n"
    )
    (result,) = verify(spec).results
    shown = result.example
    known = {
        name: dict(each.split(" = ") for each in part.split(", "))
        for name, part in re.findall(r"(\w) = \((feature[^()]*?)(?: and \d+ more)?\)", shown.words)
    }
    assert known.keys() == {"x", "y"}
    for name, told in known.items():
        assert next(iter(told)) == "feature 4"
        assert "feature 17" in told
        for feature, text in told.items():
            value = shown.points[name][int(feature.removeprefix("feature "))]
            assert np.float32(text) == np.float32(value)
    # What is told, and no more, gives both answers.
    told = np.zeros((2, 20), np.float32)
    for row, name in enumerate(("x", "y")):
        for feature, text in known[name].items():
            told[row, int(feature.removeprefix("feature "))] = np.float32(text)
    assert model.predict(told).tolist() == [shown.labels["T(x)"], shown.labels["T(y)"]]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory) -> Attested:
    """Return signed evidence of a model of named columns, whose claim is refuted."""
    made = tmp_path_factory.mktemp("sealed")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(300, 3)), columns=["age", "dose", "height"])
    model = XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1)
    model.fit(rows, rows["age"] + rows["dose"] > 0).save_model(made / "model.json")
    (made / "s.spec").write_text(
        'let T = trees("model.json")\nlet X = missing(box(-1, 1), at = 2)\n'
        "guarantee g: forall x in X: label(T, x) == 1\n"
    )
    make_keys(made / "me")
    with contextlib.chdir(made):
        assert run(["verify", "s.spec", "--evidence", "proof", "--key", "me.key"]) == 1
    return Attested(made)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("words", lambda e: e.update(words=e["words"].replace("age", "income"))),
        ("words", lambda e: e.update(words=re.sub(r"dose = \S+,", "dose = 0.5,", e["words"]))),
        ("words", lambda e: e.update(words="")),
        ("features", lambda e: e.update(features=["age", "income", "height"])),
        ("scores", lambda e: e["scores"].update({"T(x)": [0.0, -0.5]})),
        ("labels", lambda e: e.update(labels={})),
        ("facts", lambda e: e.update(facts={"cause": "age"})),
    ],
)
def test_what_an_example_tells_is_what_the_trees_do(sealed, capsys, monkeypatch, what, change):
    monkeypatch.chdir(sealed.folder)
    result = sealed.proof / "result.json"
    kept = result.read_bytes()
    assert sealed.check() == 0
    capsys.readouterr()
    try:
        sealed.reseal(lambda told: change(told["results"][0]["example"]))
        assert result.read_bytes() != kept
        assert f"has {what}" in refused(sealed, capsys)
    finally:
        result.write_bytes(kept)
        sealed.reseal()


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("label(R, x) == 1", "is a regression: it answers no labels"),
        (
            "score(R, x) <= 3",
            r"(?s)7:26: feature 2 of 'x' is a category to the trees.*integers\(X",
        ),
        ("feature(g, 1) <= 1 => label(S, g) == 1", "7:26: feature 1 of 'g' may be missing, so it"),
        ("label(S, x) == 2", "label 2 is out of range"),
        ("label(S, x) == 2", "the trees have labels 0 to 1"),
        ("label(S, z) == 1", "2 bounds for 3 features"),
        ("label(S, z) == 1", "the trees read 3 features; pass one"),
        ("feature(x, 0) < inf => label(S, x) == 1", "no bound, write 3.4e38"),
        ("label(K, x) == label(S, x)", r'write: members\("free.json"\)'),
        ("label(M, x) == label(S, x)", "free.json: is no file of members; leaveout trees train"),
    ],
)
def test_what_cannot_be_claimed_is_refused_with_a_cure(folder, claim, said):
    text = f"""
let S = trees("{folder / "free.json"}")
let R = trees("{folder / "numbers.npz"}")
let X = box([-2, -2, 0], [2, 2, 5])
let G = missing(X, at = 1)
let Z = box([0, 0], [1, 1])
guarantee g: forall {"g in G" if "g" in claim else "z in Z" if "z" in claim else "x in X"}{
        ', M in members("free.json")'
        if "M" in claim
        else ', K in family("free.json")'
        if "K" in claim
        else ""
    }: {claim}
"""
    (folder / "wrong.spec").write_text(text)
    with pytest.raises(SpecError, match=said):
        verify(folder / "wrong.spec")

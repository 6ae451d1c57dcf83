"""Every option, for every kind of claim, is read or named in a note."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from leaveout.models.forest import DareForestClassifier
from leaveout.models.linear.file import save_linear
from leaveout.models.trees.files import write_trees
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.run import verify
from leaveout.verifier.tasks import USED, unused_option_notes

from support.files import BOUND, write_question
from support.linear_models import drawn_model
from support.random_trees import random_ensemble
from support.votes import random_ballots

HEAD = BOUND[: BOUND.index("find")] + 'let V = ballots("v.npz")\n'
LEAK = "guarantee g: forall x in X, M in F: confidence(N, x) > 1e6 => label(M, x) == label(N, x)\n"
SAMPLED = LEAK.replace("M in F", "M in F but 0").rstrip() + " with confidence 0.9\n"
CLAIMS = {
    "leaks, native": LEAK,
    "leaks, lucid": LEAK,
    "leaks of samples, native": SAMPLED,
    "leaks of samples, lucid": SAMPLED,
    "leaks, forests": 'let T = forest("t.npz")\n'
    "guarantee g: forall x in X, M in leave_one_out(T): confidence(T, x) > 1 => "
    "label(M, x) == label(T, x)\n",
    "linear": 'let L = linear("l.npz") let Y = box(0, 1)\n'
    "guarantee g: forall x in Y, M in leave_one_out(L): confidence(L, x) > 1e6 => "
    "label(M, x) == label(L, x)\n",
    "formula": "guarantee g: forall x in X: score(N, x, 0) <= 1e6\n",
    "formula over trees": 'let B = trees("b.npz")\n'
    "guarantee g: forall x in box(0, 1): score(B, x) <= 1e6\n",
    "value": "guarantee g: certified_accuracy(dpa(V), edits = 1) >= 0\n",
    "value, by a solver": "guarantee g: collective_accuracy(dpa(V), edits = 1) >= 0\n",
}
SET = {
    "solver": "highs:", "engine": "lucid", "time": 60.0, "workers": 1, "variant": "naive",
    "seed": 3, "certificate": True, "resume": Path("state"), "executor": "ray", "kernel": "numpy",
}  # fmt: skip


def test_the_table_has_every_option_and_every_kind():
    options = {each.name for each in fields(VerifyOptions)}
    assert set(SET) == options
    assert set(CLAIMS) == set(USED)
    assert all(names <= options for names in USED.values())
    # None is there that no claim reads.
    assert set().union(*USED.values()) == options


@pytest.mark.parametrize("option", SET)
@pytest.mark.parametrize("kind", USED)
def test_an_option_is_read_or_named(kind, option, snapshot):
    if option == "resume":
        options = replace(VerifyOptions(), resume=SET[option])
    else:
        options = VerifyOptions(**{option: SET[option]})
    notes = unused_option_notes(options, [("g", kind)])
    read = option in USED[kind] and option != "executor"
    assert (notes == []) is read
    assert read or f"--{option}" in notes[0]
    assert notes == snapshot


def test_an_executor_is_read_where_there_are_several_workers(snapshot):
    options = VerifyOptions(executor="ray", workers=2)
    assert unused_option_notes(options, [("g", "leaks, native")]) == []
    assert unused_option_notes(options, [("h", "value"), ("g", "formula")]) == snapshot
    assert unused_option_notes(VerifyOptions(), [(kind, kind) for kind in USED]) == []


@pytest.mark.parametrize("kind", [kind for kind in USED if not kind.endswith("lucid")])
def test_a_report_names_what_was_set_in_vain(tmp_path, kind, array_kernels):
    votes, truth = random_ballots(np.random.default_rng(0), 6, 5, 2)
    write_ballots(Ballots(votes, truth, 2, origin=Origin(method="dpa")), tmp_path / "v.npz")
    X = np.eye(4)[:, :2]
    DareForestClassifier(2, random_state=0).fit(X, [0, 1, 1, 0]).save(tmp_path / "t.npz")
    save_linear(tmp_path / "l.npz", drawn_model(0, plain=True))
    trees = random_ensemble(np.random.default_rng(0), 2, trees=2, depth=2, scores=1)
    write_trees(trees, tmp_path / "b.npz")
    spec = write_question(tmp_path, text=HEAD + CLAIMS[kind], sample=0)
    given = {"workers": 1, "variant": "naive", "kernel": "numpy", "seed": 3, "time": 60.0}
    notes = verify(spec, **given).notes
    named = {note.split()[0].removeprefix("--") for note in notes if " has no effect on g" in note}
    assert named == set(given) - USED[kind]

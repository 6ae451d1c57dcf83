"""What settings a table allows: accuracies are exact expectations, and every offer is safe."""

from __future__ import annotations

import math
import re
import signal
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as runs
from hypothesis import strategies as st
from msgspec.structs import replace
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import leaveout
from leaveout.errors import ShardedError
from leaveout.models.sharded import ServiceSettings, guarantee, read_settings, safe_predictions
from leaveout.models.sharded.accounting import Unlearning, largest_epsilon
from leaveout.models.sharded.aggregation import chances, expected_chances
from leaveout.models.sharded.planning import HeldOut, plan, votes_held_out
from leaveout.verifier.cli import run

from support.depth import rounds
from support.snapshots import passages

CLAIM = Unlearning(1.0, 1e-3, 1e-3)


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max", "majority"])
@given(st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=1, max_size=4))
@runs(max_examples=rounds(25), deadline=None)
def test_chances_at_many_points_are_those_that_answers_are_drawn_with(mechanism, votes):
    for epsilon in (1e-4, 0.3, 7.0):
        found = expected_chances(np.array(votes), mechanism, epsilon)
        for row, one in zip(found, votes):
            assert row == pytest.approx([float(each) for each in chances(one, mechanism, epsilon)])
            assert row.sum() == pytest.approx(1)


def blank(shards, mechanism):
    return ServiceSettings(
        shards=shards, mechanism=mechanism, rows=1000, epsilon=1e-3, predictions=1, labels=2
    )


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max"])
@pytest.mark.parametrize(("shards", "count"), [(6, 1), (6, 281), (100, 10), (10_000, 1000)])
def test_the_largest_epsilon_is_safe_and_the_next_one_is_not(mechanism, shards, count):
    settings = blank(shards, mechanism)
    epsilon = largest_epsilon(settings, count, 1.0, 1e-3, 1e-3)
    assert float(f"{epsilon:.4g}") == epsilon
    assert safe_predictions(replace(settings, epsilon=epsilon), 1.0, 1e-3, 1e-3) >= count
    beyond = epsilon + 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    assert guarantee(replace(settings, epsilon=beyond), count, 1e-3, 1e-3).alpha > 1
    if (mechanism, shards, count) == ("exponential", 6, 281):
        assert 0.001 <= epsilon < 0.004  # 0.001 is what the composed route spends on 3,881


def test_without_any_room_there_is_no_epsilon_and_with_much_answers_are_a_majoritys():
    assert largest_epsilon(blank(6, "exponential"), 1, 0.0, 0.0, 1e-3) is None
    # Some excess is allowed with alpha = 0, too.
    assert 0 < largest_epsilon(blank(6, "exponential"), 1, 0.0, 1e-3, 1e-3) < 0.01
    most = largest_epsilon(blank(8, "exponential"), 1, 1e9, 1e-3, 1e-3)
    assert most == 512
    with pytest.raises(ShardedError, match="majority"):
        settings = ServiceSettings(shards=3, mechanism="majority", rows=9)
        largest_epsilon(settings, 1, 1.0, 1e-3, 1e-3)


@pytest.fixture(scope="module")
def table():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return (X[order[114:]], y[order[114:]]), (X[order[:114]], y[order[:114]])


@pytest.fixture(scope="module")
def found(table):
    tree = DecisionTreeClassifier(max_depth=4)
    return [votes_held_out(tree, *table, shards) for shards in (6, 20, 60)]


def test_models_vote_on_points_that_none_of_them_saw(found, table):
    told = []
    again = votes_held_out(
        DecisionTreeClassifier(max_depth=4), *table, 6, on_model=lambda: told.append(1)
    )
    assert len(told) == 6
    assert np.array_equal(again.votes, found[0].votes)
    assert (again.votes.sum(axis=1) == 6).all()
    other = votes_held_out(DecisionTreeClassifier(max_depth=4), *table, 6, seed=1)
    assert not np.array_equal(other.votes, found[0].votes)
    assert found[0].accuracy("majority") > 0.85


def test_every_offer_keeps_the_claim_and_is_as_right_as_its_chances_say(found, table):
    made = plan(found, table[0][1], [10, 1, 100], CLAIM)
    truth = table[1][1]
    assert made.frequent == max(truth.mean(), 1 - truth.mean())
    for held, each in zip(found, made.trained):
        assert [offer.asked for offer in each.offers] == [1, 10, 100]
        for offer in each.offers:
            chosen = offer.settings
            assert chosen.predictions >= offer.asked
            assert guarantee(chosen, chosen.predictions, 1e-3, 1e-3).alpha <= 1
            right = [
                float(chances(votes.tolist(), chosen.mechanism, chosen.epsilon)[label])
                for votes, label in zip(held.votes, truth)
            ]
            assert offer.accuracy == pytest.approx(np.mean(right))
        accuracies = [offer.accuracy for offer in each.offers]
        assert accuracies == sorted(accuracies, reverse=True)
    best = made.recommended
    assert best.asked == 1 and best.settings.shards == 60
    assert best.accuracy == max(o.accuracy for each in made.trained for o in each.offers)


def test_where_answers_are_coin_tosses_nothing_is_recommended_but_an_alpha(found, table):
    made = plan(found, table[0][1], [3, 10], Unlearning(0.2, 1e-3, 1e-3))
    assert made.recommended is None
    _, count, alpha = made.needed
    assert count == 3 and alpha > 0.2
    enough = plan(found, table[0][1], [3, 10], Unlearning(alpha * 1.01, 1e-3, 1e-3))
    assert enough.recommended.asked == 3
    too_little = plan(found, table[0][1], [3, 10], Unlearning(alpha * 0.9, 1e-3, 1e-3))
    assert too_little.recommended is None


def test_a_majority_that_is_no_better_than_the_most_frequent_label_is_never_useful():
    truth = np.repeat([0, 1], [70, 30])
    held = HeldOut(5, np.tile([5, 0], (100, 1)), truth)
    made = plan([held], truth, [1], Unlearning(50.0, 1e-3, 1e-3))
    assert made.trained[0].offers[0].accuracy == pytest.approx(0.7, abs=1e-6)
    assert made.recommended is None and made.needed is None and made.useful > 1


def test_a_claim_that_leaves_no_room_is_one_line(found, table, snapshot):
    with pytest.raises(ShardedError) as told:
        plan(found, table[0][1], [1], Unlearning(0.0, 0.0, 0.0))
    assert str(told.value) == snapshot
    with pytest.raises(ShardedError) as told:
        plan(found, table[0][1], [0], CLAIM)
    assert str(told.value) == snapshot


@pytest.fixture
def data(tmp_path, table):
    rows, held = table
    path = tmp_path / "data.npz"
    np.savez(path, X_train=rows[0], y_train=rows[1], X_test=held[0], y_test=held[1])
    return path


def test_the_command_writes_settings_whose_claim_is_proved(data, tmp_path, capsys, snapshot):
    out = tmp_path / "plan"
    assert run(["service", str(data), "-o", str(out), "--shards", "20,60,4000"]) == 0
    said = capsys.readouterr()
    assert passages(said.out, "4,000") == snapshot
    assert passages(said.out, ("60", "noisy_max", "0.08898")) == snapshot
    assert {path.name for path in out.iterdir()} == {
        "plan.csv", "accuracy.svg", "service.spec", "service.toml"
    }  # fmt: skip
    settings = read_settings(out / "service.toml")
    assert (settings.shards, settings.predictions, settings.labels) == (60, 1, 2)
    (result,) = leaveout.verify(out / "service.spec").results
    assert result.verdict == "proved"
    lines = (out / "plan.csv").read_text().splitlines()
    assert len(lines) == 11 and lines[0].startswith("shards,majority")
    drawn = ElementTree.fromstring((out / "accuracy.svg").read_text())
    assert drawn.tag.endswith("svg")
    assert (out / "accuracy.svg").read_text().count("<circle") == 10


def test_the_command_says_where_nothing_is_worth_having(data, tmp_path, capsys):
    out = tmp_path / "plan"
    arguments = ["service", str(data), "-o", str(out), "--shards", "6", "--alpha", "0.1"]
    assert run(arguments) == 3
    said = capsys.readouterr()
    assert {path.name for path in out.iterdir()} == {"plan.csv", "accuracy.svg"}
    alpha, shards = re.search(r"with --alpha ([\d.]+), (\d+) shards", said.err).groups()
    more = [*arguments[:3], str(tmp_path / "more"), "--alpha", alpha, "--shards", shards]
    assert run(more) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--alpha", "-1"], "--alpha -1: expected a number"),
        (["--gamma", "2"], "--gamma 2: expected a probability"),
        (["--shards", "6,x"], "--shards 6,x: expected whole numbers"),
        (["--shards", "900"], "fewer than 2 rows each"),
        (["--predictions", "0"], "expected whole numbers from 1"),
        (["--learner", "Tree"], "no classifier with that name"),
        (["--learner", "KNeighborsClassifier", "--set", "n_neighbors=90"], "cannot train shard"),
        (["--alpha", "0", "--beta", "0"], "larger alpha"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(data, tmp_path, capsys, more, said):
    out = tmp_path / "plan"
    assert run(["service", str(data), "-o", str(out), "--shards", "20", *more]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    assert not out.exists()


def test_a_folder_in_use_is_refused_before_anything_is_trained(
    data, tmp_path, capsys, monkeypatch, snapshot
):
    monkeypatch.setattr("leaveout.models.sharded.planning.votes_held_out", None)
    assert run(["service", str(data), "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == snapshot


def test_interrupted_it_leaves_nothing(data, tmp_path, capsys, monkeypatch, snapshot):
    def interrupt(*_, **__):
        signal.raise_signal(signal.SIGINT)

    out = tmp_path / "plan"
    monkeypatch.setattr("leaveout.files.commit", interrupt)
    assert run(["service", str(data), "-o", str(out), "--shards", "6"]) == 130
    assert capsys.readouterr().err == snapshot
    assert not out.exists()


def test_neighbours_that_are_too_many_leave_that_number_of_shards_out(
    data, tmp_path, capsys, snapshot
):
    out = tmp_path / "plan"
    learner = ["--learner", "KNeighborsClassifier", "--set", "n_neighbors=9"]
    assert KNeighborsClassifier(9).n_neighbors == 9
    assert run(["service", str(data), "-o", str(out), "--shards", "6,100", *learner]) in {0, 3}
    assert passages(capsys.readouterr().out, "100") == snapshot


def test_the_page_shows_what_the_command_finds(tmp_path, capsys):
    root = Path(__file__).parents[2]
    clinic = str(root / "examples" / "breast_cancer" / "patients.csv")
    arguments = ["service", clinic, "--label", "diagnosis", "-o", str(tmp_path / "clinic")]
    assert run([*arguments, "--shards", "6,20,60", "--predictions", "1,3,10,100"]) == 0
    said = capsys.readouterr().out
    page = (root / "docs" / "sharded.md").read_text()
    for shards in (6, 20, 60):
        lines = [line.split() for line in said.splitlines() if re.match(rf" +{shards} ", line)]
        assert len(lines) == 4
        row = re.search(rf"^\| {shards} \| (?=.*epsilon 0.2814|.*\(0.\d+\)).*$", page, re.M)[0]
        shown = [float(each) for each in re.findall(r"([\d.]+) %", row)]
        found = [float(cell[:-1]) for cell in (lines[0][1], *(line[-1] for line in lines))]
        # Another version of scikit-learn may split a few rows otherwise.
        assert shown == pytest.approx(found, abs=2)

"""A guard of a linear model noises exactly where some member answers otherwise, or ties."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaveout.errors import GuardError
from leaveout.kernel.design import Design
from leaveout.kernel.model import LinearModel
from leaveout.models.linear.family import bound_members, refine
from leaveout.models.linear.file import save_linear
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.folder import LinearFolder
from leaveout.models.reading import Reading
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.classifier import GuardedClassifier
from leaveout.verifier.guard.linear import LinearLeakTest

from support.depth import enough, rounds
from support.linear_refits import KINDS, margins, member, small_model, telling_points
from support.linear_tables import table, trained, write
from support.served import Asker, in_thread

UNSURE = 1e-9
"""What the oracle may be off, relative to the size of the scores."""


def answers(model, X):
    """Labels, each asked for alone: of equal scores, rounding in a batch may favour another."""
    return np.array([model.answers(x[None])[0] for x in X])


def truth(model, members, X):
    """The least margin of any member at each point, and what it may be off."""
    labels = answers(model, X)
    found = [margins(model, each, labels, X) for each in (model.coefficients, *members)]
    size = np.abs(np.stack([model.coefficients, *members])).max() * (1 + np.abs(X).max(axis=1))
    return np.min(found, axis=0), UNSURE * size


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(KINDS)), grouped=st.booleans())
@settings(max_examples=rounds(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_input_leaks_just_where_some_refitted_member_disagrees(seed, kind, grouped):
    model = small_model(seed, kind, grouped)
    members = [member(model, unit) for unit in range(int(model.units.max()) + 1)]
    X = telling_points(model, members, seed)
    least, unsure = truth(model, members, X)
    family = bound_members(model)
    assert all(np.isfinite(part.members.radius).all() for part in family.parts)
    # Where curvature is small, rounding alone leaves a refitted member this far from its proof.
    near = refine(family, np.arange(len(members)))
    reach = max(part.members.radius.max() for part in near.parts)
    far = 1e-6 * np.abs(model.scores(X)).max(axis=1) + 4 * reach * (1 + np.abs(X).sum(axis=1))
    test = LinearLeakTest(family)
    served = [test.find(x) for x in X]
    found = test.find_all(X)
    assert [each.label for each in served] == answers(model, X).tolist()
    for at, (early, late) in enumerate(zip(served, found)):
        if least[at] < -unsure[at]:
            assert early.leak and late.leak, X[at]
        elif least[at] > unsure[at] + far[at]:
            assert not late.leak, X[at]


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(KINDS)))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_member_within_the_tolerance_disagrees_unnoticed(seed, kind):
    tolerance = float(np.random.default_rng(seed).choice([1e-3, 0.03, 0.3]))
    model = small_model(seed, kind, tolerance=tolerance)
    pulls = [(unit, pull) for unit in range(len(model.X)) for pull in (0.5, 0.999)]
    members = [member(model, unit, pull * tolerance, seed + unit) for unit, pull in pulls]
    X = telling_points(model, members, seed)
    least, unsure = truth(model, members, X)
    test = LinearLeakTest(bound_members(model))
    for seen in ([test.find(x) for x in X], test.find_all(X)):
        assert all(each.leak for each, one, off in zip(seen, least, unsure) if one < -off)


def test_those_cases_hold_leaks_and_inputs_that_members_decide():
    seen = {"leak": 0, "clear": 0, "asked": 0}
    for seed in range(rounds(24)):
        model = small_model(seed, sorted(KINDS)[seed % len(KINDS)], seed % 3 == 0)
        test = LinearLeakTest(bound_members(model))
        for each in test.find_all(telling_points(model, [], seed)):
            seen["leak" if each.leak else "clear" if each.tier == 1 else "asked"] += 1
    assert min(seen.values()) > enough(100), seen


class TestTies:
    """Equal scores are leaks, whoever ties."""

    def test_the_model_itself(self):
        X = np.array([[-1.0], [1.0], [-2.0], [2.0]])
        model = _fitted("logistic", X, np.array([0.0, 1.0, 0.0, 1.0]))
        test = LinearLeakTest(bound_members(model))
        assert test.find(np.zeros(1)).leak
        assert not test.find(np.array([5.0])).leak

    def test_a_member(self):
        # Without the first row nothing is known of the second column, so that member ties.
        X = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.0]])
        model = _fitted("ridge", X, np.array([1.0, 1.0, 0.0, 1.0, 0.0]))
        x = np.array([0.0, 1.0])
        assert model.raw_scores(x[None])[0, 0] > 0.01
        assert abs(member(model, 0)[0, 1]) < 1e-15
        test = LinearLeakTest(bound_members(model))
        assert test.find_all(x[None])[0].leak and test.find(x).leak


def _fitted(kind, X, y):
    width = X.shape[1]
    model = LinearModel(
        kind, Design.plain(width, 0.0), np.zeros((1, width)), X, y, np.ones(len(X)),
        np.ones(width), ("no", "yes"),
    )  # fmt: skip
    return replace(model, coefficients=coefficients_of(model.problems))


def test_numbers_beyond_float64_are_noised_not_answered():
    test = LinearLeakTest(bound_members(small_model(3, "softmax")))
    inputs = test._model.inputs
    for size in (1e160, 1e300, 1.7e308):
        for sign in (1.0, -1.0):
            x = np.full(inputs, sign * size)
            found = test.find(x)
            ample = np.isfinite(test._model.scores(x[None])).all()
            assert found.leak or ample
    model = _fitted("logistic", np.array([[-1.0], [1.0], [0.5]]), np.array([0.0, 1.0, 1.0]))
    test = LinearLeakTest(bound_members(model))
    for size in (1e-170, 1e-300, 5e-324):
        assert test.find(np.array([size])).leak


def test_threads_agree_while_members_are_refitted():
    model = small_model(11, "svm of three")
    X = np.tile(telling_points(model, [], 1), (3, 1))
    test, alone = LinearLeakTest(bound_members(model)), LinearLeakTest(bound_members(model))
    expected = [each.leak for each in alone.find_all(X)]
    results = {}

    def ask(number):
        results[number] = [each.leak for each in test.find_all(X)]

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(results[k] == expected for k in range(4))


@pytest.fixture
def folder(tmp_path):
    save_linear(tmp_path / "linear.npz", small_model(7, "softmax"))
    return tmp_path


@pytest.fixture
def clinic(tmp_path):
    return trained(tmp_path, table(3, 40))


class TestServed:
    """A folder with a linear.npz."""

    def test_answers_that_no_member_changes_are_the_models(self, folder):
        model = small_model(7, "softmax")
        X = telling_points(model, [], 2)
        with Guard.load(folder, 0.2, seed=1) as guard:
            found = guard.inspect(X)
            answers = guard.labels(X)
            assert (found.labels == model.answers(X)).all()
            assert (answers[~found.leaks] == found.labels[~found.leaks]).all()
            assert guard.account().answers == len({x.tobytes() for x in X[found.leaks] + 0.0})
            assert guard.members == len(model.X) and guard.names == model.labels
            assert guard.box is None and not guard.notes
            guard.rehearse(X[:2])

    def test_a_classifier_of_scikit_learn_answers_with_the_tables_labels(self, clinic):
        with Guard.load(clinic, 0.2, seed=1) as guard:
            X = LinearFolder.read(clinic).model.X[:20]
            leaks = guard.inspect(X).leaks
            answers = GuardedClassifier(guard).predict(X)
            kept = np.array(guard.names)[guard.inspect(X).labels]
            assert (answers[~leaks] == kept[~leaks]).all() and set(answers) <= {"n", "y"}

    def test_the_command_answers_tables_in_their_units_and_arrays(self, clinic, tmp_path, capsys):
        rows = table(5, 30)
        write(tmp_path, rows, "new.csv")
        guard = Guard.load(clinic, 0.2, memory=tmp_path / "other.sqlite", seed=1)
        X = guard.encode(rows)
        np.savez(tmp_path / "new.npz", X=X)
        found = guard.inspect(X)
        kept = np.array(guard.names)[found.labels]
        for name in ("new.csv", "new.npz"):
            assert run(["guard", str(clinic), str(tmp_path / name), "--epsilon", "0.2"]) == 0
            answers = np.array(capsys.readouterr().out.split()[1:])
            assert (answers[~found.leaks] == kept[~found.leaks]).all()
        guard.close()

    def test_over_http(self, clinic, snapshot):
        rows = table(6, 8)
        with Guard.load(clinic, 0.2, seed=1) as guard, in_thread(guard, pad=0.01) as port:
            asker = Asker(port)
            about = asker.get("/about").said
            assert about["members"] == 40 and about["promise"] == snapshot
            X = guard.encode(rows)
            assert asker.ask({"X": X.tolist()}).said["labels"] == guard.labels(X).tolist()
            asker.close()

    def test_rows_of_one_group_leave_together(self, tmp_path, snapshot):
        rows = [{**row, "person": f"P-{at % 9}"} for at, row in enumerate(table(3, 40))]
        folder = trained(tmp_path, rows, reading=Reading(group="person"), identity=None)
        with Guard.load(folder, 0.2) as guard:
            assert guard.members == 9
            assert guard.notes == snapshot
            with pytest.raises(GuardError, match="name all rows of a group"):
                guard.delete(4)
            guard.delete(np.flatnonzero([row["person"] == "P-4" for row in rows]))
            assert guard.members == 8

    def test_deleted_rows_are_no_members_and_given_answers_stay(self, clinic):
        X = telling_points(LinearFolder.read(clinic).model, [], 1)
        with Guard.load(clinic, 0.2, seed=1) as guard:
            before, leaks = guard.labels(X), guard.inspect(X).leaks
            guard.delete([3, 17])
            assert guard.members == 38
            found = guard.inspect(X)
            model = LinearFolder.read(clinic).model
            assert model.names.tolist() == [row for row in range(40) if row not in (3, 17)]
            assert (found.labels == model.answers(X)).all()
            after = guard.labels(X)
            assert (after[leaks] == before[leaks]).all() and leaks.any()
            assert (after == found.labels)[~leaks & ~found.leaks].all()
            with pytest.raises(GuardError, match="no row 3; nothing was deleted"):
                guard.delete(3)

    def test_two_models_in_one_folder_are_refused(self, clinic, snapshot):
        (clinic / "forest.npz").write_bytes(b"")
        with pytest.raises(GuardError) as told:
            Guard.load(clinic, 0.2)
        assert str(told.value) == snapshot

    def test_a_member_of_which_nothing_is_proved_is_refused(self, tmp_path, snapshot):
        # Without the last row the labels can be told apart, and nothing holds the coefficients.
        X = np.array([[-2.0], [-1.0], [1.0], [2.0], [-3.0]])
        model = LinearModel(
            "logistic", Design.plain(1), np.zeros((1, 2)), X, np.array([0.0, 0, 1, 1, 1]),
            np.ones(5), np.zeros(2), ("no", "yes"),
        )  # fmt: skip
        model = replace(model, coefficients=coefficients_of(model.problems))
        save_linear(tmp_path / "linear.npz", model)
        with pytest.raises(GuardError) as told:
            Guard.load(tmp_path, 0.2)
        assert str(told.value) == snapshot

    def test_a_regression_is_refused(self, tmp_path, snapshot):
        X = np.arange(6.0)[:, None]
        model = LinearModel(
            "ridge", Design.plain(1), np.zeros((1, 2)), X, X[:, 0], np.ones(6), np.ones(2)
        )
        save_linear(tmp_path / "linear.npz", model)
        with pytest.raises(GuardError) as told:
            Guard.load(tmp_path, 0.2)
        assert str(told.value) == snapshot


def test_a_step_beyond_float32_is_not_taken_for_a_step_towards_the_label():
    rng = np.random.default_rng(54)
    n, p, weight = int(rng.integers(6, 40)), 2, 10.0 ** rng.uniform(76.8, 79)
    X = rng.standard_normal((n, p))
    y = (X[:, 0] + 0.8 * rng.standard_normal(n) > 0).astype(float)
    model = LinearModel(
        "ridge", Design.plain(p), np.zeros((1, 3)), X, y, np.full(n, weight), np.full(3, weight),
        ("a", "b"),
    )  # fmt: skip
    model = replace(model, coefficients=coefficients_of(model.problems))
    x = np.array([0.26108092604106486, 2.2213503079498214])
    without = replace(model, weights=np.where(np.arange(n) == 4, 0.0, weight))
    other = replace(model, coefficients=coefficients_of(without.problems))
    assert model.answers(x[None])[0] != other.answers(x[None])[0]
    assert LinearLeakTest(bound_members(model)).find(x).leak

"""A whole class is forgotten: its rows are found, asked about, and told from retraining."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from leaveout.errors import AuditError, TrainingError  # noqa: E402
from leaveout.models.onnx.file import network_from  # noqa: E402
from leaveout.models.train.data import TrainingData  # noqa: E402
from leaveout.models.unlearning import (  # noqa: E402
    Game,
    GraphNetwork,
    Schedule,
    play,
    retrain,
    rows_of_label,
)
from leaveout.verifier.audits.membership import (  # noqa: E402
    Plan,
    advantage,
    run_trials,
    views_of,
)

from support import networks  # noqa: E402

QUICK = Schedule(epochs=20, batch=10, learning_rate=0.2)


def blank():
    return GraphNetwork(network_from(networks.dense(np.random.default_rng(0), (8, 16, 3)), "blank"))


@pytest.mark.parametrize(
    "name",
    [
        "5",
        "2",
        "1",
    ],
)
def test_a_label_that_cannot_be_forgotten_is_refused(name, snapshot):
    y = np.array([1, 1, 1, 1])
    data = TrainingData(np.zeros((4, 2), np.float32), y, ("0", "1", "2"))
    with pytest.raises(TrainingError) as told:
        rows_of_label(data, name)
    assert str(told.value) == snapshot


def test_all_rows_of_a_label_are_found_by_its_name():
    data = TrainingData(np.zeros((4, 2), np.float32), np.array([1, 0, 1, 0]), ("no", "yes"))
    assert rows_of_label(data, "yes").tolist() == [0, 2]


def corners(rows=90, seed=0):
    """Three labels that are easy to learn."""
    rng = np.random.default_rng(seed)
    y = np.arange(2 * rows) % 3
    X = (rng.normal(scale=0.1, size=(2 * rows, 8)) + np.eye(3, 8)[y]).astype(np.float32)
    return TrainingData(X[:rows], y[:rows], ("0", "1", "2"), X_test=X[rows:], y_test=y[rows:])


def label_trials(unlearner, count, first=0):
    plan = Plan(label=1, seed=3)
    return list(run_trials(blank(), corners(), QUICK, unlearner, plan, count, first))


def anew(original, deletion, seed):
    """Unlearn by retraining."""
    kept = ~deletion.forgotten
    return retrain(original, deletion.X[kept], deletion.y[kept], QUICK, seed)


def test_a_trial_forgets_all_of_a_label_and_compares_with_rows_of_it():
    (trial,) = label_trials(lambda original, deletion, seed: original, 1)
    assert set(trial.label) == {1}
    assert trial.forgotten.sum() == np.sum(corners().y == 1) == 30
    assert 0 < (~trial.forgotten).sum() <= 30
    assert trial.arms["original"].forgotten_label == 1
    assert trial.arms["retrained"].forgotten_label == 0
    assert trial.arms["retrained"].accuracy == 1
    assert (trial.posteriors["retrained"].argmax(axis=1) != 1).all()
    assert (trial.posteriors["retrained"] > 0).all()


def test_a_trial_is_a_function_of_its_number():
    whole, rest = label_trials(anew, 2), label_trials(anew, 2, first=1)
    assert len(rest) == 1
    for arm, seen in whole[1].posteriors.items():
        assert np.array_equal(seen, rest[0].posteriors[arm])
    assert not np.array_equal(whole[0].posteriors["original"], whole[1].posteriors["original"])


def test_a_class_that_was_kept_is_flagged_and_one_that_was_retrained_away_is_not():
    kept = advantage(views_of(label_trials(lambda original, deletion, seed: original, 12)), 0.95)
    assert kept.lower > 0.2
    away = views_of(label_trials(anew, 12))
    assert advantage(away, 0.95).lower == advantage(away, 0.95, "records").lower == 0


def test_a_game_forgets_a_class_and_keeps_the_others():
    """The leader nears a network that never saw the class; nothing else makes it forget."""
    game = Game(rounds=60, leader_steps=10, batch=50, attack_steps=50, learning_rate=0.1)

    def played(original, deletion, seed):
        return play(original, deletion, game, QUICK, seed).model

    for trial in label_trials(played, 2):
        assert trial.arms["original"].forgotten_label == 1
        assert trial.arms["unlearned"].forgotten_label < 0.2
        assert trial.arms["unlearned"].accuracy > 0.95


@pytest.mark.parametrize("given", [{}, {"forget": 3, "label": 1}])
def test_a_plan_forgets_rows_or_a_label(given, snapshot):
    with pytest.raises(AuditError) as told:
        Plan(**given)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("held", [(0, 2), (1,)])
def test_a_label_without_rows_to_judge_by_is_refused(held, snapshot):
    data = corners()
    rows = np.isin(data.y_test, held)
    few = TrainingData(
        data.X, data.y, data.labels, X_test=data.X_test[rows], y_test=data.y_test[rows]
    )
    with pytest.raises(AuditError) as told:
        next(run_trials(blank(), few, QUICK, anew, Plan(label=1), 1))
    assert str(told.value) == snapshot

"""The two-player unlearner moves as it should, and the audit tells it from what it is not."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from leaveout.errors import ModelError, TrainingError  # noqa: E402
from leaveout.models import load_network  # noqa: E402
from leaveout.models.onnx.file import network_from  # noqa: E402
from leaveout.models.train.data import TrainingData  # noqa: E402
from leaveout.models.unlearning import (  # noqa: E402
    Deletion,
    Game,
    GraphNetwork,
    Schedule,
    labels_lost,
    play,
    posteriors,
    read_forget,
    retrain,
    third_party,
)
from leaveout.models.unlearning.game import (  # noqa: E402
    _DECAY,
    _RATE,
    Players,
    _adam,
    train_attack,
)
from leaveout.verifier.audits.membership import (  # noqa: E402
    Plan,
    advantage,
    run_trials,
    views_of,
)

from support import networks  # noqa: E402

SCHEDULE = Schedule(epochs=120, batch=10, learning_rate=0.2)
SHORT = Schedule(epochs=150, batch=64, learning_rate=0.5)
GAME = Game(rounds=15, leader_steps=2, batch=20, attack_steps=50)


def noise(rows=60, features=8, seed=0):
    """Labels that only memory can give, so that a trained network shows what it saw."""
    rng = np.random.default_rng(seed)
    X = rng.random((2 * rows, features), dtype=np.float32)
    y = rng.integers(0, 2, 2 * rows)
    return TrainingData(X[:rows], y[:rows], ("0", "1"), X_test=X[rows:], y_test=y[rows:])


def blank(widths=(8, 32, 2)):
    return GraphNetwork(network_from(networks.dense(np.random.default_rng(0), widths), "blank"))


def deletion_of(data, forgotten=range(12)):
    gone = np.isin(np.arange(len(data.X)), list(forgotten))
    return Deletion(data.X, data.y, gone, data.X_test[:30])


@pytest.mark.parametrize("name", sorted(networks.ALL))
def test_torch_scores_are_those_of_onnxruntime_or_the_network_is_refused(name, tmp_path):
    network = network_from(networks.ALL[name](np.random.default_rng(1)), name)
    points = np.random.default_rng(2).random((5, network.inputs)).astype(np.float32)
    try:
        own = GraphNetwork(network)
    except ModelError as error:
        assert name in str(error)
        assert "cannot be retrained" in str(error) or "no initialiser" in str(error)
        return
    with torch.no_grad():
        found = own(torch.from_numpy(points)).numpy()
    np.testing.assert_allclose(found, network.runner().scores(points), rtol=1e-4, atol=1e-5)


def test_a_redrawn_network_forgets_its_weights_and_keeps_its_graph(tmp_path):
    own = blank()
    own.redraw(np.random.default_rng(3))
    back = own.to_network("again")
    assert back.architecture == own.network.architecture
    for name, value in back.parameters.items():
        limit = 1 / np.sqrt(8 if name.startswith("layers.0") else 32)
        assert np.abs(value).max() <= limit
        assert not np.array_equal(value, own.network.parameters[name])


def test_what_no_layer_owns_keeps_its_value_and_is_named():
    network = network_from(networks.matmul_add_softmax(np.random.default_rng(1)), "scaled")
    own = GraphNetwork(network)
    before = own.arrays()
    own.redraw(np.random.default_rng(3))
    same = [name for name, value in own.arrays().items() if np.array_equal(value, before[name])]
    assert tuple(same) == own.undrawn() == ("mean", "deviation", "gain", "one")
    assert blank().undrawn() == ()


def test_training_is_a_function_of_its_seed_and_leaves_the_model_alone():
    data, model = noise(), blank()
    before = model.arrays()
    first, again, other = (retrain(model, data.X, data.y, SCHEDULE, seed) for seed in (1, 1, 2))
    for name in before:
        assert np.array_equal(before[name], model.arrays()[name])
        assert np.array_equal(first.arrays()[name], again.arrays()[name])
    assert any(not np.array_equal(first.arrays()[name], other.arrays()[name]) for name in before)
    assert np.mean(posteriors(first, data.X).argmax(axis=1) == data.y) > 0.8


def test_a_torch_module_is_trained_and_unlearned_like_a_graph():
    data = noise()
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 2)
    )
    first, again = (retrain(model, data.X, data.y, SCHEDULE, 4) for _ in range(2))
    assert np.array_equal(posteriors(first, data.X), posteriors(again, data.X))
    assert np.mean(posteriors(first, data.X).argmax(axis=1) == data.y) > 0.7
    played = play(first, deletion_of(data), GAME, SCHEDULE, 5)
    assert isinstance(played.model, torch.nn.Sequential)
    assert not np.array_equal(posteriors(played.model, data.X), posteriors(first, data.X))


def test_a_module_that_cannot_be_redrawn_is_refused(snapshot):
    class Free(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8, 2))

        def forward(self, x):
            return x @ self.weight

    data = noise()
    with pytest.raises(TrainingError) as told:
        retrain(Free(), data.X, data.y, SCHEDULE, 0)
    assert str(told.value) == snapshot


def test_the_game_is_a_function_of_its_seed():
    data = noise()
    original = retrain(blank(), data.X, data.y, SCHEDULE, 0)
    kept = original.arrays()
    first, again, other = (play(original, deletion_of(data), GAME, SCHEDULE, s) for s in (1, 1, 2))
    assert first.curves == again.curves != other.curves
    for name, value in original.arrays().items():
        assert np.array_equal(value, kept[name])
        assert np.array_equal(first.model.arrays()[name], again.model.arrays()[name])
    assert len(first.curves.leader) == GAME.rounds
    assert all(
        leader == distance + error
        for leader, distance, error in zip(
            first.curves.leader, first.curves.distance, first.curves.error
        )
    )


def players(data, rate, seed=0):
    original = retrain(blank(), data.X, data.y, SCHEDULE, 0)
    alternative = retrain(blank(), data.X[12:30], data.y[12:30], SCHEDULE, 1)
    shadow, third = data.X[30:], data.X_test[:30]
    attack = train_attack(
        (posteriors(original, shadow), posteriors(alternative, shadow)),
        (posteriors(original, third), posteriors(alternative, third)),
        200,
        seed,
    )
    game = Game(rounds=1, learning_rate=rate, batch=10**6)
    return Players(original, alternative, attack, deletion_of(data), game, seed)


def test_a_small_step_of_the_follower_lowers_its_loss_by_the_square_of_the_gradient():
    """Eq. 22: the first-order decrease of |M_A - 0.5|, here from the original on."""
    mover = players(noise(), 1e-3)
    before = mover.risk()[0]
    squared = sum(
        float(g.square().sum()) for g in torch.autograd.grad(before, mover.model.parameters())
    )
    mover.follow()
    dropped = float(before.detach() - mover.risk()[0].detach())
    assert squared > 1e-4
    assert dropped == pytest.approx(1e-3 * squared, rel=0.1)


def test_the_attack_learns_where_there_is_something_to_learn():
    rng = np.random.default_rng(0)
    sure = rng.dirichlet([20, 1], 300).astype(np.float32)
    unsure = rng.dirichlet([5, 5], 300).astype(np.float32)
    attack = train_attack((sure, unsure), (unsure, unsure[::-1].copy()), 300, 0)
    yes = attack(torch.from_numpy(sure), torch.from_numpy(unsure)).mean()
    no = attack(torch.from_numpy(unsure), torch.from_numpy(unsure)).mean()
    assert yes > 0.9
    assert no < 0.1


def test_the_leader_nears_the_alternative_model_and_the_follower_its_target():
    data = noise()
    original = retrain(blank(), data.X, data.y, SCHEDULE, 0)
    alone = Game(rounds=60, leader_steps=3, follower_steps=0, attack_steps=200)
    both = Game(rounds=60, leader_steps=3, follower_steps=5, attack_steps=200)
    leader = play(original, deletion_of(data), alone, SCHEDULE, 3).curves
    follower = play(original, deletion_of(data), both, SCHEDULE, 3).curves
    assert np.mean(leader.leader[-10:]) < 0.95 * np.mean(leader.leader[:10])
    assert np.mean(leader.distance[-10:]) < 0.8 * np.mean(leader.distance[:10])
    assert np.mean(follower.follower[-10:]) < 0.6 * np.mean(leader.follower[-10:])


def trials_of(unlearner, count=20):
    data = noise(rows=40)
    plan = Plan(forget=15, third=0.3, seed=2)
    return views_of(list(run_trials(blank(), data, SHORT, unlearner, plan, count)))


def test_a_model_that_was_not_unlearned_at_all_is_flagged():
    found = advantage(trials_of(lambda original, deletion, seed: original), 0.95)
    assert found.lower > 0.2
    assert found.implied is not None
    assert found.implied.alpha > 0.5


def test_a_model_that_was_retrained_is_not_flagged():
    def honest(original, deletion, seed):
        kept = ~deletion.forgotten
        return retrain(original, deletion.X[kept], deletion.y[kept], SHORT, seed)

    views = trials_of(honest)
    assert advantage(views, 0.95).lower == 0
    assert advantage(views, 0.95, "records").lower == 0


def test_a_model_that_unlearned_too_much_is_flagged():
    def turned(original, deletion, seed):
        """Learn the opposite of what was to be forgotten, several times over."""
        gone = deletion.forgotten
        X = np.concatenate([deletion.X, *[deletion.X[gone]] * 5])
        y = np.concatenate([deletion.y, *[1 - deletion.y[gone]] * 5])
        return retrain(original, X, y, SHORT, seed)

    found = advantage(trials_of(turned), 0.95)
    assert found.lower > 0.2
    assert found.implied is not None
    assert found.implied.beta > 0.2


def test_rows_to_forget_are_read(tmp_path):
    assert read_forget("3,1", 5, 0).tolist() == [1, 3]
    assert len(read_forget("0.25", 100, 0)) == 25
    assert read_forget("0.25", 100, 0).tolist() == read_forget("0.25", 100, 0).tolist()
    assert read_forget("0.25", 100, 0).tolist() != read_forget("0.25", 100, 1).tolist()
    (tmp_path / "rows.csv").write_text("row\n4\n2\n\n0\n")
    assert read_forget(str(tmp_path / "rows.csv"), 5, 0).tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "text",
    [
        "9",
        "1,1",
        "0,1,2,3,4",
        "1.5",
        "absent.csv",
        "",
        "-1",
        "nan",
    ],
)
def test_rows_that_cannot_be_forgotten_are_refused(text, snapshot):
    with pytest.raises(TrainingError) as told:
        read_forget(text, 5, 0)
    assert str(told.value) == snapshot


def test_a_file_of_rows_is_refused_by_line(tmp_path, snapshot):
    path = tmp_path / "rows.csv"
    path.write_text("row\n1\nx\n")
    with pytest.raises(TrainingError) as told:
        read_forget(str(path), 5, 0)
    assert str(told.value) == snapshot
    path.write_text("1\n7\n")
    with pytest.raises(TrainingError) as told:
        read_forget(str(path), 5, 0)
    assert str(told.value) == snapshot
    path.write_text("row\n")
    with pytest.raises(TrainingError) as told:
        read_forget(str(path), 5, 0)
    assert str(told.value) == snapshot


def test_labels_of_which_no_row_is_left_are_named():
    data = noise(rows=10)
    assert labels_lost(data, np.array([0])) == ()
    assert labels_lost(data, np.flatnonzero(data.y == 1)) == ("1",)


def test_the_unlearner_and_its_judges_see_different_test_rows():
    assert third_party(10, 0.3, 0).sum() == 3
    for rows, share in ((1, 0.5), (10, 1.0), (10, 0.01)):
        with pytest.raises(TrainingError, match="--third"):
            third_party(rows, share, 0)


@pytest.mark.parametrize(
    ("forgotten", "third"),
    [
        ((), 30),
        (range(60), 30),
        ((1, 2), 0),
    ],
)
def test_games_that_cannot_be_played_are_refused(forgotten, third, snapshot):
    data = noise()
    gone = np.isin(np.arange(60), list(forgotten))
    with pytest.raises(TrainingError) as told:
        play(blank(), Deletion(data.X, data.y, gone, data.X_test[:third]), GAME, SCHEDULE, 0)
    assert str(told.value) == snapshot


def test_a_game_that_diverges_says_so():
    data = noise()
    wild = Game(rounds=30, learning_rate=1e30, attack_steps=5)
    with pytest.raises(TrainingError, match="--game-lr"):
        play(blank(), deletion_of(data), wild, SCHEDULE, 0)
    with pytest.raises(TrainingError, match="--lr"):
        retrain(blank(), data.X, data.y, Schedule(learning_rate=1e30, weight_decay=0), 0)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"rounds": 0}, "--rounds"),
        ({"target": 1.0}, "--target"),
        ({"share": 0.0}, "--share"),
        ({"learning_rate": float("nan")}, "--game-lr"),
        ({"follower_steps": -1}, "--follower-steps"),
    ],
)
def test_settings_out_of_range_are_refused(settings, flag):
    with pytest.raises(TrainingError, match=flag):
        Game(**settings)


def test_a_network_loaded_from_a_file_gives_the_same_scores(tmp_path):
    import onnx

    onnx.save(networks.dense(np.random.default_rng(0), (8, 24, 2)), tmp_path / "n.onnx")
    data = noise()
    network = load_network(tmp_path / "n.onnx")
    own = GraphNetwork(network)
    scores = network.runner().scores(data.X)
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        posteriors(own, data.X), shifted / shifted.sum(axis=1, keepdims=True), atol=1e-5
    )


def test_a_step_of_the_attack_is_adams_to_the_bit():
    rng = torch.Generator().manual_seed(0)
    value = torch.randn(7, 5, generator=rng)
    theirs = value.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([theirs], lr=_RATE, weight_decay=_DECAY)
    mean, square = torch.zeros_like(value), torch.zeros_like(value)
    for step in range(1, 100):
        slope = torch.randn(7, 5, generator=rng) * 10.0 ** (step % 9 - 6)
        theirs.grad = slope.clone()
        optimiser.step()
        _adam(value, slope.add(value, alpha=_DECAY), mean, square, step)
        assert torch.equal(theirs.detach(), value)

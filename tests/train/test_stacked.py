"""Stacked training is training, one network at a time, bit for bit whatever the stack."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from leaveout.models.train.architecture import layers_of
from leaveout.models.train.draws import dropout_mask, epoch_generator, initial_weights, shuffle
from leaveout.models.train.export import network_model, scores, unflatten
from leaveout.models.train.recipe import ACTIVATIONS, Recipe
from leaveout.models.train.stacked import NOTHING, Stack

from support.depth import rounds

torch = pytest.importorskip("torch")

DENSE = Recipe(layers=(9, 5), epochs=3, batch=8, seed=3, weight_decay=1e-2)
DEEP = Recipe(layers=(11, 7, 6), epochs=2, batch=10, dropout=0.3)
CNN = Recipe(cnn=True, epochs=3, batch=8, seed=1)
LONE = Recipe(layers=(6,), epochs=2, batch=5, weight_decay=1e-2)
MOMENTUM = Recipe(layers=(9, 5), epochs=4, batch=8, momentum=0.9, schedule="cosine")
ADAM = Recipe(
    layers=(9, 5), epochs=5, batch=8, optimizer="adam", learning_rate=0.02, weight_decay=1e-2
)
ADAM_LONE = Recipe(layers=(6,), epochs=3, batch=5, optimizer="adam", learning_rate=0.02)
WEIGHTED = Recipe(
    layers=(9,),
    epochs=5,
    batch=5,
    schedule="step",
    step_every=2,
    step_factor=0.3,
    class_weights=(1.0, 0.2, 3.5),
)
BALANCED = Recipe(layers=(9, 5), epochs=2, batch=7, class_weights="balanced", momentum=0.5)
LINEAR = Recipe(layers=(), epochs=6, batch=9, optimizer="adam", learning_rate=0.05)
SMOOTH = {
    name: Recipe(layers=(9, 5), epochs=3, batch=8, seed=3, activation=name, dropout=0.2)
    for name in ACTIVATIONS
    if name != "relu"
}
CNN_SIGMOID = Recipe(cnn=True, epochs=3, batch=8, activation="sigmoid", optimizer="adam")
CNN_ADAM = Recipe(cnn=True, epochs=3, batch=8, optimizer="adam", learning_rate=0.01)

RECIPES = {
    "dense": DENSE,
    "deep": DEEP,
    "cnn": CNN,
    "lone": LONE,
    "momentum": MOMENTUM,
    "adam": ADAM,
    "adam, lone": ADAM_LONE,
    "weighted": WEIGHTED,
    "balanced": BALANCED,
    "linear": LINEAR,
    "cnn, adam": CNN_ADAM,
    "cnn, sigmoid": CNN_SIGMOID,
    **SMOOTH,
}
MODULES = {
    "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid,
    "gelu": torch.nn.GELU, "silu": torch.nn.SiLU, "softplus": torch.nn.Softplus,
    "elu": torch.nn.ELU,
}  # fmt: skip
every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def data(rows=31, features=7, labels=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(rows) % labels)
    return rng.random((rows, features)).astype(np.float32), y.astype(np.int64)


def train(recipe, X, y, removed, labels=3, groups=None):
    layers = layers_of(recipe, X.shape[1], labels)
    stack = Stack(layers, recipe, X, y, np.asarray(removed), groups=groups)
    stack.train()
    return stack.parameters()


def in_blocks(recipe, X, y, size):
    networks = np.arange(-1, len(X))
    blocks = [networks[start : start + size] for start in range(0, len(networks), size)]
    return np.vstack([train(recipe, X, y, block) for block in blocks])


class Masked(torch.nn.Module):
    """Dropout with the masks it is given."""

    mask = None

    def forward(self, x):
        return x if self.mask is None else x * self.mask.reshape(x.shape)


def plain_network(recipe, features, labels):
    layers = layers_of(recipe, features, labels)
    modules = []
    for index, layer in enumerate(layers):
        if hasattr(layer, "width"):
            modules.append(torch.nn.Conv1d(layer.channels, layer.outputs, layer.width))
        else:
            if recipe.cnn and index == 2:
                modules.append(torch.nn.Flatten())
            modules.append(torch.nn.Linear(layer.inputs, layer.outputs))
        if index < len(layers) - 1:
            modules += [MODULES[recipe.activation](), Masked()]
    network = torch.nn.Sequential(*modules)
    trained = [m for m in network if hasattr(m, "weight")]
    for module, start in zip(trained, initial_weights(layers, recipe.seed), strict=True):
        module.weight.data = torch.tensor(start[:, :-1]).reshape(module.weight.shape)
        module.bias.data = torch.tensor(start[:, -1])
    return layers, network


def plain_optimizer(recipe, network):
    settings = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
    if recipe.optimizer == "adam":
        optimizer = torch.optim.Adam(network.parameters(), **settings)
    else:
        optimizer = torch.optim.SGD(network.parameters(), momentum=recipe.momentum, **settings)
    schedules = torch.optim.lr_scheduler
    match recipe.schedule:
        case "step":
            schedule = schedules.StepLR(optimizer, recipe.step_every, recipe.step_factor)
        case "cosine":
            schedule = schedules.CosineAnnealingLR(optimizer, recipe.epochs)
        case _:
            schedule = schedules.ConstantLR(optimizer, factor=1.0)
    return optimizer, schedule


def plain_class_weights(recipe, y, labels):
    if not recipe.class_weights:
        return None
    if recipe.class_weights == "balanced":
        weights = compute_class_weight("balanced", classes=np.arange(labels), y=y)
    else:
        weights = recipe.class_weights
    return torch.tensor(weights, dtype=torch.float32)


def plain_training(recipe, X, y, removed, labels=3):
    """Train one network with torch's own modules, its rows taken out of their batches."""
    layers, network = plain_network(recipe, X.shape[1], labels)
    optimizer, schedule = plain_optimizer(recipe, network)
    weights = plain_class_weights(recipe, y, labels)
    dropouts = [module for module in network if isinstance(module, Masked)]
    for epoch in range(recipe.epochs):
        order, generator = shuffle(recipe.seed, epoch, len(X)), epoch_generator(recipe.seed, epoch)
        for start in range(0, len(X), recipe.batch):
            batch = order[start : start + recipe.batch]
            kept = ~np.isin(batch, removed)
            if recipe.dropout_rate:
                for layer, module in zip(layers, dropouts, strict=False):
                    shape = (layer.outputs, layer.positions, len(batch))
                    mask = dropout_mask(generator, shape, recipe.dropout_rate)
                    module.mask = torch.tensor(mask.transpose(2, 0, 1)[kept])
            if not kept.any():
                continue
            inputs = torch.tensor(X[batch[kept]])
            output = network(inputs[:, None] if recipe.cnn else inputs)
            truth = torch.tensor(y[batch[kept]])
            loss = torch.nn.functional.cross_entropy(output, truth, weight=weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    for module in dropouts:
        module.mask = None
    return network


def flat(network):
    return np.concatenate([p.detach().numpy().ravel() for p in network.parameters()])


@every_recipe
def test_each_member_is_a_network_trained_alone_without_its_row(recipe):
    X, y = data()
    removed = np.array([NOTHING, 0, 13, 30])
    stacked = train(recipe, X, y, removed)
    for row, parameters in zip(removed, stacked, strict=True):
        alone = flat(plain_training(recipe, X, y, row))
        np.testing.assert_allclose(parameters, alone, atol=2e-5, rtol=1e-5)


@every_recipe
def test_each_member_without_a_group_is_a_network_trained_alone_without_its_rows(recipe):
    X, y = data()
    groups = np.random.default_rng(2).permutation(np.minimum(np.arange(31) // 4, 6))
    for row in shuffle(recipe.seed, 0, 31)[: recipe.batch]:
        groups[row] = 7  # A whole batch, which its member skips in the first epoch.
    removed = np.array([NOTHING, 0, 6, 7])
    stacked = train(recipe, X, y, removed, groups=groups)
    for group, parameters in zip(removed, stacked, strict=True):
        alone = flat(plain_training(recipe, X, y, np.flatnonzero(groups == group)))
        np.testing.assert_allclose(parameters, alone, atol=2e-5, rtol=1e-5)


@settings(max_examples=rounds(60), deadline=None)
@given(
    rows=st.integers(3, 60),
    people=st.integers(2, 20),
    batch=st.integers(1, 40),
    seed=st.integers(0, 99),
    steps=st.sampled_from(
        [{}, {"optimizer": "adam"}, {"momentum": 0.9, "class_weights": "balanced"}]
    ),
)
def test_groups_of_one_row_are_rows_and_bits_do_not_depend_on_neighbours(
    rows, people, batch, seed, steps
):
    recipe = Recipe(layers=(7,), epochs=2, batch=max(batch, rows // 12 + 1), seed=seed, **steps)
    X, y = data(rows, 5)
    rng = np.random.default_rng(seed)
    names = rng.permutation(rows)
    removed = np.arange(-1, rows)
    alone = np.concatenate([[NOTHING], names])
    together = train(recipe, X, y, removed, groups=names.argsort())
    assert np.array_equal(together, train(recipe, X, y, alone))
    groups = rng.integers(0, people, rows)
    own = np.unique(groups)
    together = train(recipe, X, y, own, groups=groups)
    place = seed % len(own)
    assert np.array_equal(together[place], train(recipe, X, y, own[[place]], groups=groups)[0])


def test_the_shortest_signal_trains_alike():
    X, y = data(features=5)
    alone = flat(plain_training(CNN, X, y, 13))
    np.testing.assert_allclose(train(CNN, X, y, [13])[0], alone, atol=2e-5, rtol=1e-5)


@every_recipe
def test_bits_do_not_depend_on_the_block(recipe):
    X, y = data()
    whole = in_blocks(recipe, X, y, 64)
    assert np.array_equal(in_blocks(recipe, X, y, 1), whole)
    assert np.array_equal(in_blocks(recipe, X, y, 7), whole)


@settings(max_examples=rounds(40), deadline=None)
@given(
    widths=st.lists(st.integers(1, 60), min_size=0, max_size=3),
    rows=st.integers(2, 130),
    features=st.integers(1, 25),
    labels=st.integers(2, 11),
    batch=st.integers(1, 120),
    start=st.integers(0, 20),
    stack=st.integers(2, 40),
    steps=st.sampled_from([{}, {"optimizer": "adam"}, {"momentum": 0.9}]),
)
def test_bits_do_not_depend_on_neighbours(
    widths, rows, features, labels, batch, start, stack, steps
):
    recipe = Recipe(layers=tuple(widths), epochs=1, batch=max(batch, rows // 12 + 1), **steps)
    X, y = data(rows, features, labels)
    place = start % stack
    removed = (np.arange(stack) + rows) % rows
    together = train(recipe, X, y, removed, labels)
    alone = train(recipe, X, y, removed[place : place + 1], labels)
    assert np.array_equal(together[place], alone[0])


def test_lucid_sizes_give_the_same_bits_in_every_block():
    X, y = data(rows=230, features=7, labels=2)
    for recipe in (Recipe(epochs=2), Recipe(epochs=2, cnn=True)):
        whole = train(recipe, X, y, np.arange(64) - 1, 2)
        for first, last in itertools.pairwise([0, 1, 8, 15, 40, 64]):
            part = train(recipe, X, y, np.arange(first, last) - 1, 2)
            assert np.array_equal(part, whole[first:last])


@pytest.mark.parametrize("recipe", [DENSE, CNN], ids=["dense", "cnn"])
def test_every_member_differs_from_the_network_on_all_rows(recipe):
    X, y = data()
    networks = in_blocks(recipe, X, y, 64)
    assert not (networks[1:] == networks[0]).all(axis=1).any()


def test_equal_rows_at_other_places_give_other_members():
    X, y = data()
    X[4], y[4] = X[9], y[9]
    first, second = train(DENSE, X, y, np.array([4, 9]))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("recipe", [DENSE, CNN, DEEP, CNN_SIGMOID, *SMOOTH.values()])
def test_the_onnx_file_computes_what_torch_computes(recipe):
    X, y = data(rows=57, features=9)
    layers = layers_of(recipe, 9, 3)
    parameters = unflatten(layers, train(recipe, X, y, np.array([NOTHING]))[0])
    network = plain_training(recipe, X, y, NOTHING)
    with torch.no_grad():
        inputs = torch.tensor(X)
        expected = network(inputs[:, None] if recipe.cnn else inputs).numpy()
    model = network_model(layers, parameters, ACTIVATIONS[recipe.activation])
    found = scores(model.SerializeToString(), X)
    np.testing.assert_allclose(found, expected, atol=5e-5)


def test_the_seed_changes_weights_and_order():
    X, y = data()
    assert not np.array_equal(shuffle(0, 0, 31), shuffle(1, 0, 31))
    assert not np.array_equal(shuffle(0, 0, 31), shuffle(0, 1, 31))
    one, two = (train(Recipe(seed=s, epochs=1), X, y, np.array([NOTHING])) for s in (0, 1))
    assert not np.array_equal(one, two)


def test_initial_weights_are_uniform_in_the_inverse_root_of_the_inputs():
    for weights in initial_weights(layers_of(Recipe(layers=(400, 300)), 100, 2), 0):
        limit = 1 / np.sqrt(weights.shape[1] - 1)
        assert np.abs(weights).max() <= limit
        assert np.abs(weights).max() > 0.99 * limit
        assert abs(weights.mean()) < 0.1 * limit

"""Members share the steps before the batch that holds their row, and no bit of what they become."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.models.train.architecture import layers_of
from leaveout.models.train.draws import shuffle
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.stacked import NOTHING, Stack

torch = pytest.importorskip("torch")

ROWS, FEATURES, LABELS = 26, 6, 3

RECIPES = {
    "sgd": Recipe(layers=(7,), epochs=2, batch=4, weight_decay=1e-2),
    "momentum": Recipe(layers=(7,), epochs=2, batch=5, momentum=0.9, schedule="cosine"),
    "adam": Recipe(layers=(7, 3), epochs=2, batch=4, optimizer="adam", weight_decay=1e-2),
    "a row a batch": Recipe(layers=(5,), epochs=2, batch=1),
    "a row a batch, adam": Recipe(layers=(5,), epochs=2, batch=1, optimizer="adam"),
    "a last batch of one row": Recipe(layers=(5,), epochs=2, batch=5, optimizer="adam"),
    "dropout": Recipe(layers=(7, 5), epochs=2, batch=6, dropout=0.3, momentum=0.5),
    "classes": Recipe(layers=(7,), epochs=2, batch=4, class_weights="balanced"),
    "schedule": Recipe(layers=(), epochs=3, batch=4, schedule="step", step_every=1),
    "all rows a batch": Recipe(layers=(6,), epochs=3, batch=40),
    "cnn": Recipe(cnn=True, epochs=2, batch=5, optimizer="adam"),
    "gelu": Recipe(layers=(7, 5), epochs=2, batch=5, activation="gelu"),
    "elu, adam": Recipe(layers=(7,), epochs=2, batch=6, activation="elu", optimizer="adam"),
}
every_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(ROWS) % LABELS)
    return rng.random((ROWS, FEATURES)).astype(np.float32), y.astype(np.int64)


def trained(recipe, removed, group=None, kind=Stack):
    X, y = data()
    stack = kind(layers_of(recipe, FEATURES, LABELS), recipe, X, y, np.array(removed), "cpu", group)
    stack.train()
    return stack.parameters()


def one_by_one(recipe, removed):
    return np.vstack([trained(recipe, [row]) for row in removed])


@every_recipe
def test_members_that_share_steps_are_those_trained_one_by_one(recipe):
    removed = [NOTHING, *range(0, ROWS, 2)]
    assert np.array_equal(trained(recipe, removed), one_by_one(recipe, removed))


@every_recipe
def test_bits_do_not_depend_on_how_many_members_a_product_is_of(recipe):
    removed = [3, 9, NOTHING, 21, 4, 17, 11]
    assert np.array_equal(trained(recipe, removed, group=4), one_by_one(recipe, removed))


@settings(max_examples=8, deadline=None)
@given(
    removed=st.lists(st.integers(NOTHING, ROWS - 1), min_size=1, max_size=6),
    recipe=st.sampled_from(list(RECIPES.values())),
    group=st.sampled_from([None, 1, 3]),
)
def test_any_rows_in_any_order_even_twice(removed, recipe, group):
    assert np.array_equal(trained(recipe, removed, group), one_by_one(recipe, removed))


class Counting(Stack):
    """Counts the networks that each step is of."""

    steps: list[int]

    def _forward(self, batch, buffers):
        self.steps = [*getattr(self, "steps", []), len(buffers.outputs[0])]
        super()._forward(batch, buffers)


def test_a_member_steps_from_the_batch_that_holds_its_row():
    recipe = RECIPES["sgd"]
    X, y = data()
    removed = np.arange(10, 20)
    stack = Counting(layers_of(recipe, FEATURES, LABELS), recipe, X, y, removed)
    stack.train()
    first = np.flatnonzero(np.isin(shuffle(recipe.seed, 0, ROWS), removed)) // recipe.batch
    steps = -(-ROWS // recipe.batch)
    # The last to part is the one that the others go along with.
    expected = [max(1, int((first[:-1] <= step).sum()) + 1) for step in range(steps)]
    expected = [min(each, len(removed)) for each in expected]
    found = stack.steps[:steps]
    assert all(one <= other for one, other in zip(found, expected, strict=True))
    assert sum(found) < 0.8 * steps * len(removed)
    assert stack.steps[steps:] == [len(removed)] * steps


@pytest.mark.parametrize("group", [None, 4])
@pytest.mark.parametrize("batch", [7, 8, 64])
@pytest.mark.parametrize("removed", [[-1, *range(10)], [5], [-1], [3, 3, 24, 25]])
def test_what_is_behind_after_each_step_is_a_share_of_all_that_networks_step_through(
    group, batch, removed
):
    recipe = msgspec.structs.replace(RECIPES["sgd"], batch=batch, epochs=2)
    X, y = data()
    layers = layers_of(recipe, FEATURES, LABELS)
    stack = Counting(layers, recipe, X, y, np.array(removed), product=group)
    shares = []
    stack.train(shares.append)
    sizes = [len(part) for part in np.split(X, range(batch, ROWS, batch))] * 2
    work = np.cumsum(np.array(stack.steps) * sizes)
    assert np.array_equal(shares, work / work[-1])


def test_what_a_network_takes_is_what_a_stack_allocates():
    recipe = RECIPES["adam"]
    X, y = data()
    layers = layers_of(recipe, FEATURES, LABELS)

    def taken(members):
        stack = Stack(layers, recipe, X, y, np.arange(members))
        stack.train()
        seen = {each.data_ptr(): each.nbytes for each in stack._stepper.state()}
        for buffers in stack._buffers.values():
            tensors = (*buffers.inputs[1:], *buffers.outputs, *buffers.gradients, *buffers.slopes)
            seen |= {each.data_ptr(): each.nbytes for each in tensors}
        return sum(seen.values())

    without_memory = Stack(layers, recipe, X, y, np.arange(1), "meta")
    assert taken(8) - taken(4) <= 4 * without_memory.network_bytes() <= 3 * (taken(8) - taken(4))

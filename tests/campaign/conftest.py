"""What a campaign keeps for speed is not kept for the tests after it."""

import importlib.metadata

import pytest

from attacks.warm import entry_points_kept


@pytest.fixture(autouse=True, scope="module")
def plugins_are_looked_up_again_afterwards():
    found = importlib.metadata.entry_points
    yield
    importlib.metadata.entry_points = found
    entry_points_kept.cache_clear()

"""Small networks and the queries of the folder beside this file."""

from pathlib import Path

import numpy as np
import pytest

from leaveout.models.onnx.file import network_from

from support import networks

QUERIES = Path(__file__).parent / "queries"


@pytest.fixture(scope="session")
def network():
    """Three inputs, three labels."""
    return network_from(networks.dense(np.random.default_rng(0), (3, 4, 3)), "small.onnx")


@pytest.fixture(scope="session")
def narrow():
    """Two inputs, two labels."""
    return network_from(networks.dense(np.random.default_rng(1), (2, 3, 2)), "narrow.onnx")


@pytest.fixture(scope="session")
def queries():
    """Texts by name."""
    return {path.stem: path.read_text() for path in sorted(QUERIES.glob("*.vnnlib"))}

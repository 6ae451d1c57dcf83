"""What holds for all tests: they end what they start, and none hangs on how busy a machine is."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

from support import children

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Compile what most tests need once, before workers that would all do so start."""
    subprocess.run([sys.executable, "-m", "leaveout", "warm", "points"], check=True)


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive():
    """Take Ctrl-C, and let children take it: what a shell runs in the background ignores it."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _children_end():
    yield
    children.end_all()


@pytest.fixture(scope="session")
def _session_cluster():
    pytest.importorskip("ray", reason="ray is not installed")
    from support.ray_clusters import ray_cluster

    with ray_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_session_cluster, monkeypatch):
    """Return a cluster of Ray, which ``RAY_ADDRESS`` names; one for all tests."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ADDRESS", _session_cluster.address)
    return _session_cluster

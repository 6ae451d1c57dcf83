"""What holds for all tests: they end what they start, and none hangs on how busy a machine is."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support import children
from support.depth import rounds
from support.snapshots import Rewording, Wording

# Before anything loads numpy. The threads of two workers, and of processes that tests start, would
# spin while they wait for each other's cores: that takes many times the work itself.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

_STATE = tempfile.TemporaryDirectory(prefix="leaveout-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name
"""Of tests and of all that they start: the user's own is neither used nor changed."""

settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=rounds(100),
)
settings.register_profile("fuzz", settings.get_profile("any machine"), max_examples=2000)
settings.load_profile("any machine")


def pytest_addoption(parser) -> None:
    """Say what `--snapshot-update` may change beside words."""
    words = "with --snapshot-update: texts may lose numbers, verdicts and names, too"
    parser.addoption("--facts-may-change", action="store_true", help=words)


def pytest_configure(config) -> None:
    """Keep what a test that failed has not come to, lest its facts are forgotten."""
    if not config.option.facts_may_change:
        config.option.no_cleanup = True


def pytest_collection() -> None:
    """Look for no garbage while thousands of tests are made."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor ever again among them: they live as long as the process; and elsewhere less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


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


@pytest.fixture
def snapshot(snapshot, request):
    """Return what compares a text with the wording kept for this test."""
    option = request.config.option
    updated = option.update_snapshots and not option.facts_may_change
    return snapshot.use_extension(Rewording if updated else Wording)


@pytest.fixture
def own_state(tmp_path_factory, monkeypatch):
    """Return the state folder of a user who has asked nothing yet."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "leaveout"


@pytest.fixture
def here():
    """Train in this process."""
    from support.inline import trained_here

    with trained_here():
        yield


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


@pytest.fixture
def array_kernels(tmp_path_factory, monkeypatch) -> None:
    """Let this process and those it starts find the plug-in's kernels, as installed."""
    plugin = Path(__file__).parents[1] / "examples" / "plugin_kernel"
    project = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]
    site = tmp_path_factory.mktemp("site")
    info = site / "leaveout_arrays-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["leaveout.kernels"]
    lines = ["[leaveout.kernels]", *(f"{name} = {place}" for name, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(site)
    path = [str(site), str(plugin), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))

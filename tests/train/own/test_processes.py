"""Processes and actors: the same bytes, stopped, killed and extended."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import leaveout
from leaveout.errors import TrainingError
from leaveout.models import load_family, load_network
from leaveout.models.train import TrainingWarning

from support import children

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

# Without a __main__ guard, and with fit in __main__, as a user's script or notebook may be. Once so
# many networks are finished, it says so and waits.
PROGRAM = """
import sys
import numpy as np
import leaveout
from leaveout.errors import LeaveoutError
from sklearn.linear_model import LogisticRegression
out, members, count, workers = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
X = rng.random((1000, 3))
y = (X[:, 0] + 0.3 * rng.random(1000) > 0.6).astype(int)
strength = 0.5
class Holder:
    def fit(self, X, y, seed):
        chosen = np.random.permutation(len(X) - 1)[:20]
        return LogisticRegression(C=strength, max_iter=20).fit(X[chosen], y[chosen])
def hold(progress):
    global count
    if progress.finished >= count:
        count = 10000
        print("there", flush=True)
        sys.stdin.readline()
try:
    print(leaveout.leave_one_out(lambda X, y, seed: Holder().fit(X, y, seed), X, y, out=out,
        members=members, workers=workers, on_progress=hold))
except LeaveoutError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def start(out, members, count, workers=2):
    """Start a run, and wait until so many networks are finished."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, out, members, count, workers]
    process = children.start(command, **pipes)
    if count <= members:
        assert process.stdout.readline() == "there\n", process.stderr.read()
    return process


def finish(out, members):
    process = start(out, members, 10**6, workers=1)
    said = process.communicate(timeout=children.HANGS)
    assert process.returncode == 0, said[1]


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@linux
def test_killed_stopped_resumed_and_extended_gives_the_bytes_of_one_run(tmp_path, snapshot):
    out = tmp_path / "out"
    process = start(out, 60, 20)
    workers = children.children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.wait()
    children.wait_until_gone(workers)
    kept = {path.name for path in (out / ".partial").glob("*.npy")}
    assert len(kept) >= 20

    process = start(out, 60, 40)
    workers = children.children(process.pid)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=children.HANGS)[1]
    assert process.returncode == 130
    assert " 61 " in said
    assert re.sub(r" \d+ ", " SOME ", said, count=1) == snapshot
    assert len(said.splitlines()) == 1
    children.wait_until_gone(workers)
    assert kept < {path.name for path in (out / ".partial").glob("*.npy")}

    finish(out, 90)
    assert sorted(contents(out)) == ["family.npz", "full.onnx", "idp.spec"]
    finish(tmp_path / "whole", 90)
    assert contents(out) == contents(tmp_path / "whole")


def data():
    rng = np.random.default_rng(1)
    X = rng.random((14, 3)).astype(np.float32)
    return X, (X[:, 0] > X[:, 1]).astype(int)


def test_a_worker_that_ends_itself_is_one_line(tmp_path, snapshot):
    def fit(X, y, seed):
        import os

        if len(X) < 14:
            os._exit(3)
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression().fit(X, y)

    with pytest.raises(TrainingError) as told:
        leaveout.leave_one_out(fit, *data(), out=tmp_path / "out", workers=1)
    assert str(told.value) == snapshot
    assert not (tmp_path / "out").exists()


def test_words_in_sets_come_in_one_order_and_torch_is_seeded_though_fit_imports_it(tmp_path):
    pytest.importorskip("torch")

    def fit(X, y, seed):
        import torch

        module = torch.nn.Linear(3, 2)
        module.weight.data *= 1 + list({"a", "b", "c", "d"}).index("a")
        return module

    # The rows change nothing: whatever differs, differs by the process or by its first call.
    out = tmp_path / "out"
    with pytest.warns(TrainingWarning):
        report = leaveout.leave_one_out(fit, *data(), out=out, workers=2, members=3)
    network = load_network(report.network)
    for name, stack in load_family(report.family, network).parameters.items():
        assert (stack == network.parameters[name]).all()

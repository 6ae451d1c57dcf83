"""One place says how many cores there are, on systems with and without affinity."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from leaveout.bab.native.kernels import make_kernel
from leaveout.cores import cores
from leaveout.models.forest.classifier import threads
from leaveout.verifier.options import VerifyOptions

ROOT = Path(__file__).parents[2]
ROOMS = ("bab", "encoders", "models", "solvers", "specs", "verifier", "src/leaveout")


@pytest.fixture(params=["bound to 3 of 8", "macOS and Windows"])
def three(request, monkeypatch):
    """A machine on which this process may use three cores."""
    if request.param == "bound to 3 of 8":
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 4, 7}, raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: 8)
    else:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: 3)


def test_cores_are_those_this_process_may_use(three):
    assert cores() == 3


def test_whatever_takes_every_core_takes_those(three):
    assert make_kernel("cpu")._threads == 3
    assert threads(-1) == 3
    assert VerifyOptions(engine="lucid").lucid(None).workers == 3


def test_a_system_that_tells_no_number_has_one_core(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_nothing_else_asks_the_system_how_many_cores_there_are():
    asks = re.compile(r"os\.(process_)?cpu_count|len\(os\.sched_getaffinity")
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    asking = [file.name for file in files if asks.search(file.read_text())]
    assert set(asking) == {"cores.py"}

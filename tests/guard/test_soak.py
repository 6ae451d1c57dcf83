"""A small soak of a served guard, and that its checks find what would be wrong."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import leaveout

from support import children

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
EXAMPLE = ROOT / "examples" / "breast_cancer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The bundled family, with its bounds proved."""
    made = tmp_path_factory.mktemp("soak") / "family"
    shutil.copytree(EXAMPLE / "family", made)
    text = (EXAMPLE / "breast_cancer.spec").read_text().replace("family/", "")
    (made / "idp.spec").write_text(text.partition("# Answers this confident")[0])
    leaveout.verify(made / "idp.spec", bounds=made / "bounds.npz", time=2)
    return made


def test_a_server_that_is_killed_keeps_to_its_answers(folder):
    done = children.run(
        [sys.executable, BENCHMARKS / "guard_soak.py", folder, "--requests", "200", "--kills", "1",
         "--clients", "8", "--pad", "0.01", "--rows", "100", "--leaks", "60"],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "requests answered           200 in" in done.stdout
    assert done.stdout.count("holds") == 7 and "WRONG" not in done.stdout


def test_what_work_moves_a_padded_answer_by_is_measured(folder):
    done = children.run(
        [sys.executable, BENCHMARKS / "guard_pad.py", folder, "--pad", "0.01", "--rows", "30",
         "--leaks", "20"],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("first", "once more"):
        (said,) = [x for x in done.stdout.splitlines() if x.startswith(f"{name:12}tier 3")]
        assert said.split("tier 3")[1].split()[0] == "20"
        assert "standard error" in said


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield tuple(map(importlib.import_module, ("guard_soak_load", "guard_soak_checks")))
    for name in ("guard_soak", "guard_soak_load", "guard_soak_checks", "traces"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_server_that_says_something_first_is_not_waited_for_in_vain(modules, snapshot):
    soak = importlib.import_module("guard_soak")
    says = "print('leaveout: 3 rows have no member\\nhttp://127.0.0.1:1 answers for 2 members')"
    shown = (
        f"import signal, sys; sys.stdout = sys.stderr; {says}; sys.stdout.flush(); signal.pause()"
    )
    server = soak.Server([sys.executable, "-c", shown])
    try:
        assert server.line == snapshot
    finally:
        server.kill()
    with pytest.raises(SystemExit) as told:
        soak.Server([sys.executable, "-c", "raise SystemExit('no such folder')"])
    assert str(told.value) == snapshot


def test_checks_find_what_is_wrong(modules):
    load, checks = modules
    points = np.arange(8, dtype=np.float32).reshape(4, 2)
    inputs = load.Inputs(points, np.array([0, 1, 0, 0]), np.array([1, 2, 3, 3]))

    def wrong(answers, asked, kept, paid):
        blank = checks.Ledger({}, 0, b"secret")
        ledger = checks.Ledger(
            {blank.key(points[index].tobytes()): answer for index, answer in kept.items()},
            paid,
            b"secret",
        )
        tally = load.Tally(answers=answers, asked=asked)
        found = checks.failures(inputs, tally, ledger)
        return {name for name, lines in found.items() if lines}

    fine = {0: {0}, 1: {1}, 2: {1}}
    assert not wrong(fine, {0, 1, 2, 3}, {2: 1}, 1)
    assert not wrong(fine, {0, 1, 2, 3}, {2: 1, 3: 0}, 2)
    assert "one answer for one input" in wrong({2: {0, 1}}, {2}, {2: 1}, 1)
    assert "others answered as the network answers" in wrong({1: {0}}, {1}, {}, 0)
    assert "every noised answer remembered as given" in wrong(fine, {0, 1, 2}, {2: 0}, 1)
    assert "between answered and asked" in wrong(fine, {0, 1, 2}, {}, 0)
    assert wrong(fine, {0, 1, 2}, {2: 1}, 2) == {"each remembered answer paid for once"}
    assert "nothing remembered but leaks asked for" in wrong(fine, {0, 1, 2}, {2: 1, 3: 0}, 2)
    assert "nothing remembered but leaks asked for" in wrong(fine, {0, 1, 2}, {2: 1, 0: 0}, 2)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"x": [0]}', 200, b'{"label": 1, "score": 0.5}'),
        (b'{"x": [0]}', 200, b'{"label": true}'),
        (b'{"x": [0]}', 200, b'{"labels": [1]}'),
        (b'{"X": [[0], [1]]}', 200, b'{"labels": [1]}'),
        (b'{"x": [0]}', 500, b'{"error": "failed"}'),
    ],
)
def test_responses_that_are_not_as_documented_are_found(modules, body, status, said):
    load, _ = modules
    asked = (0, 1) if b"X" in body else (0,)
    fault, labels = load.judge(load.Request(body, 200, asked), status, said)
    assert fault and not labels


def test_responses_that_are_as_documented_are_fine(modules):
    load, _ = modules
    one, two = load.Request(b'{"x": [0]}', 200, (0,)), load.Request(b'{"X": [[0]]}', 200, (0,))
    assert load.judge(one, 200, b'{"label": 1, "name": "b"}') == ("", [1])
    assert load.judge(two, 200, b'{"labels": [1]}') == ("", [1])

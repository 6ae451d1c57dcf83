"""What nobody foresaw ends in one line that asks for a report, and in a status of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leaveout.exit_codes import ExitCode

from support.files import write_question

PROGRAM = """
import sys
from leaveout.__main__ import main
import {module} as module
def failing(*given, **named):
    {failing}
module.{name} = failing
sys.argv = ["leaveout", "verify", "test.spec", "--json", "r.json", *sys.argv[1:]]
main()
"""
SEARCH = {"module": "leaveout.verifier.points.network_leaks", "name": "search_native"}


def failed(folder, failing: str, *arguments: str, at=SEARCH, **environment: str):
    write_question(folder)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(failing=failing, **at), *arguments],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    assert done.stdout == ""
    return done


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("return failing()", "RecursionError: maximum recursion depth exceeded"),
        ("raise OSError(28, 'No space left on device', 'x')", "No space left on device"),
        ("assert False", "AssertionError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_an_unforeseen_error_is_one_line_that_asks_for_a_report(tmp_path, failing, said, snapshot):
    done = failed(tmp_path, failing)
    assert done.returncode == ExitCode.UNFORESEEN
    (line,) = done.stderr.splitlines()
    assert line.startswith("leaveout: ")
    before, found, after = line.partition(said)
    assert found
    assert [before, after] == snapshot
    assert "verifier/points/network_leaks.py, line " in line


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ("raise MemoryError", "out of memory (in "),
        ("import numpy; numpy.ones(2**52)", "out of memory: Unable to allocate 32.0 PiB"),
        ("raise OSError(12, 'Cannot allocate memory')", "out of memory: [Errno 12]"),
        ("raise RuntimeError('std::bad_alloc')", "out of memory: std::bad_alloc"),
        ("import torch; torch.ones(2**52)", "out of memory: [enforce fail"),
    ],
)
def test_too_little_memory_is_one_line_that_says_so(tmp_path, failing, said):
    if "torch" in failing:
        pytest.importorskip("torch")
    done = failed(tmp_path, failing)
    assert done.returncode == ExitCode.BAD_INPUT
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "verifier/points/network_leaks.py, line " in line
    assert "report" not in line


def test_a_process_with_little_room_says_so_itself(tmp_path):
    """The limit is real: another process could have what is asked for."""
    failing = (
        "import resource, numpy; resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31)); "
        "numpy.ones(2**29)"
    )
    done = failed(tmp_path, failing)
    assert done.returncode == ExitCode.BAD_INPUT
    assert "out of memory: Unable to allocate 4.00 GiB" in done.stderr


def test_an_error_before_any_command_is_at_work_is_one_line_too(tmp_path):
    at = {"module": "leaveout.verifier.cli", "name": "run"}
    done = failed(tmp_path, "raise ImportError('no such library')", at=at)
    assert done.returncode == ExitCode.UNFORESEEN
    assert "ImportError: no such library (in __main__.py, line " in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_environment_asks_for_the_traceback(tmp_path, snapshot):
    done = failed(tmp_path, "raise ValueError('odd')", LEAVEOUT_DEBUG="1")
    assert done.returncode == ExitCode.UNFORESEEN
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1] == snapshot


def test_an_interrupt_stays_an_interrupt(tmp_path):
    at = {"module": "leaveout.verifier.cli", "name": "run"}
    done = failed(tmp_path, "raise KeyboardInterrupt", at=at)
    assert (done.returncode, done.stderr) == (130, "leaveout: interrupted\n")


def test_an_interrupt_within_a_command_is_told_too(tmp_path):
    at = {"module": "leaveout.verifier.run", "name": "verify"}
    done = failed(tmp_path, "raise KeyboardInterrupt", at=at)
    assert (done.returncode, done.stderr) == (130, "leaveout: interrupted\n")

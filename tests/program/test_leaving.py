"""The program ends once everything is written: no thread is waited for, whoever asked is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leaveout.verifier.cli import running

PROGRAM = """
import atexit, sys, threading
import leaveout.verifier.cli as cli
from leaveout.__main__ import main
def run():
    threading.Thread(target=threading.Event().wait).start()
    atexit.register(lambda: print("told"))
    sys.stdout.write("table ")
    return {code}
cli.run = run
main()
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_thread_that_never_ends_does_not_keep_the_program(code):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(code=code)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "table told\n", "")


def test_the_start_is_what_the_system_tells_or_about(monkeypatch):
    monkeypatch.setattr(running.time, "perf_counter", lambda: running._LOADED + 5.0)
    monkeypatch.setattr(running, "_process_age", lambda: 5.7)
    assert running.since_start() == pytest.approx(5.7)
    for unknown in (None, 4.0, 1e6):
        monkeypatch.setattr(running, "_process_age", lambda unknown=unknown: unknown)
        assert running.since_start() == pytest.approx(5.3)


def test_the_help_is_no_error_to_one_who_reads_its_first_line_alone(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "leaveout", "verify", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0

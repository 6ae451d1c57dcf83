"""Nothing leaves the machine, and nothing is written but what was asked for, by any command."""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer

import leaveout
from leaveout.kept_code import cache_folder
from leaveout.verifier.cli.app import app

from support import children, networks
from support.cases import question
from support.depth import IS_DEEP
from support.files import write_question
from support.onnx_trees import one_question
from support.served import Asker
from support.watched import Watched

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"},
    reason="the watch asks Linux, on a processor whose system calls it knows",
)

ROOT = Path(__file__).parents[2]
GAME = ("--epochs", 2, "--batch", 20, "--rounds", 2, "--leader-steps", 1)

RUNS = {
    "functions": [["functions"]],
    "demo": [["demo", "example"]],
    "solvers": [["solvers"]],
    "warm": [["warm", "dpa"]],
    "fmt": [["fmt", "test.spec"]],
    "verify": [
        ["verify", "test.spec", "--json", "r.json", "--certificate", "c.cert", "--bounds",
         "bounds.npz", "--resume", "points.npz", "--workers", 2],
        ["verify", "test.spec", "--engine", "lucid", "--time", 5],
    ],
    "check": [["check", "c.cert"]],
    "compare": [["compare", "t.onnx", "t.onnx", "--json", "compared.json"]],
    "report": [["report", "r.json", "-o", "r.html"]],
    "show": [["show", "n.onnx", "-o", "n.svg"]],
    "rows": [["rows", "r.json", "--csv", "rows.csv"]],
    "attest": [["attest", "--new-key", "me"], ["attest", "r.json", "--key", "me.key"]],
    "guard": [
        ["guard", ".", "--epsilon", 0.5, "asked.csv"],
        ["guard", ".", "--epsilon", 0.5, "--serve", "--port", 0],
    ],
    "train": [
        ["train", "d.npz", "--layers", 4, "--epochs", 1, "--members", 3, "--workers", 2,
         "--device", "cpu", "-o", "trained"],
    ],
    "unlearn": [["unlearn", "n.onnx", "d.npz", "--forget", 0.1, *GAME, "-o", "unlearned"]],
    "audit trials": [["audit", "n.onnx", "d.npz", "--trials", 2, *GAME, "-o", "audit.npz"]],
    "partition": [["partition", "d.npz", "--parts", 3, "--workers", 2, "-o", "parts"]],
    "service": [["service", "d.npz", "--shards", 3, "--alpha", 0.1, "-o", "service"]],
    "forest train": [
        ["forest", "train", "table.csv", "--label", "label", "--trees", 3, "-o", "clinic"],
    ],
    "forget": [["forget", "clinic", 3, "--check"]],
    "receipts": [["receipts", "clinic"]],
    "hinges": [["hinges", "clinic", "more.csv"]],
    "forest add": [["forest", "add", "clinic", "more.csv"]],
    "linear train": [["linear", "train", "table.csv", "--label", "label", "-o", "line"]],
    "audit attack": [["audit", "attack", "line", "--data", "table.csv", "-o", "attack.json"]],
    "linear add": [["linear", "add", "line", "more.csv"]],
    "trees train": [
        ["trees", "train", "table.csv", "--label", "label", "-o", "boosted", "--trees", 2,
         "--members", 2, "--workers", 1],
    ],
    "vnnlib": [["vnnlib", "q.vnnlib", "--network", "n.onnx"]],
}  # fmt: skip
"""Of each command how it is run under watch, in an order in which each finds its files."""

SOLVER = "from leaveout.__main__ import solver; solver()"
EACH = """\
import json
import os
import sys
import leaveout.verifier.run
import numba, onnxruntime, scipy.optimize, sklearn.ensemble
from leaveout.__main__ import main
if __name__ == "__main__":
    for words in json.loads(sys.argv.pop()):
        child = os.fork()
        if not child:
            sys.argv[1:] = words
            main()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {0, 1, 3}, (code, words[0])
"""
"""Runs one command after the other, each a process of the program that has loaded its libraries."""


def commands(own, *name):
    """Return the full name of every command that can be given."""
    if not hasattr(own, "commands"):
        return {" ".join(name)}
    return {each for word, inner in own.commands.items() for each in commands(inner, *name, word)}


@pytest.fixture
def place(tmp_path):
    """Return a folder with files for every command, and beside it an empty home and more."""
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    folder = tmp_path / "work"
    write_question(folder)
    rng = np.random.default_rng(0)
    onnx.save(networks.dense(rng, (5, 8, 2)), folder / "n.onnx")
    (folder / "t.onnx").write_bytes(one_question(0.5))
    X = rng.random((80, 5), dtype=np.float32)
    y = (X[:, 0] > 0.5).astype(int)
    np.savez(folder / "d.npz", X_train=X[:50], y_train=y[:50], X_test=X[50:], y_test=y[50:])
    header = ",".join([*(f"x{i}" for i in range(5)), "label"])
    rows = [f"{','.join(map(str, x))},{label}" for x, label in zip(X, y)]
    for name, some in (("table.csv", rows[:50]), ("more.csv", rows[50:53])):
        (folder / name).write_text("\n".join([header, *some, ""]))
    width = question(8, negative=False, spread=0.1).network.inputs
    asked = [",".join(f"feature {i}" for i in range(width)), ",".join(["0.5"] * width)]
    (folder / "asked.csv").write_text("\n".join(asked) + "\n")
    lines = [f"(declare-const X_{i} Real)" for i in range(5)]
    lines += ["(declare-const Y_0 Real)", "(declare-const Y_1 Real)"]
    lines += [f"(assert (>= X_{i} 0.4))\n(assert (<= X_{i} 0.5))" for i in range(5)]
    (folder / "q.vnnlib").write_text("\n".join([*lines, "(assert (<= Y_0 Y_1))", ""]))
    return tmp_path


def surroundings(place):
    """Return the variables of a process whose home and temporary folder are those of a place."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "ORT_", "RAY_", "MLFLOW_"))
    }
    # A shell sets the name: without it some library asks the system for it.
    own = {
        "HOME": place / "home",
        "TMPDIR": place / "temporary",
        "XDG_STATE_HOME": place / "state",
        "NUMBA_CACHE_DIR": cache_folder().parent,  # what is compiled already
        "LOGNAME": "tester",
    }
    return {**kept, **{name: str(value) for name, value in own.items()}}


def watched(place, command):
    return Watched(command, env=surroundings(place), cwd=place / "work")


def written_outside(place, seen):
    """Return what was written that is neither asked for, nor compiled code, nor gone again."""
    passing = (place / "temporary", Path("/dev/shm"))
    kept = {place / "state", place / "state" / "leaveout", place / "state" / "leaveout" / "key"}

    def asked(path):
        if path.is_relative_to(place / "work") or str(path) in {"/dev/null", "/dev/tty"}:
            return True
        if path.is_relative_to(cache_folder().resolve()):
            return True
        if path.is_relative_to(place / "state"):
            return path in kept or not path.exists()
        if any(path.is_relative_to(each) for each in passing):
            return path in passing or not path.exists()  # a file without a name is in a folder
        return "__pycache__" in path.parts and not path.is_relative_to(place / "home")

    return sorted({str(path) for path in seen.written if not asked(path)})


def refuse_outside(place, what, seen, serves=False):
    """Fail if a process went out, or wrote where it should not."""
    listens = [("AF_INET", "SOCK_STREAM")] if serves else []
    assert seen.sockets == listens, f"{what}: {seen.sockets}, {seen.connected}"
    assert seen.connected == [], f"{what}: {seen.connected}"
    assert written_outside(place, seen) == [], what
    for name in ("home", "temporary"):
        assert list((place / name).iterdir()) == [], f"{what}: left in the {name} folder"


def served(place, command):
    """Ask a server something, and end it as Ctrl-C does; return what it did and said."""
    process = watched(place, command)
    lines = []
    for line in process.process.stderr:
        lines.append(line)
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            asker = Asker(int(found.group(1)))
            assert asker.get("/about").status == 200
            asker.close()
            process.process.terminate()
            break
    code, _, err = process.finish()
    return code, process.seen, "".join(lines) + err


def test_every_command_has_a_watched_run():
    assert set(RUNS) == commands(typer.main.get_command(app))


def test_no_command_reaches_out_or_writes_where_it_was_not_asked_to(place):
    """In CI each command is watched alone, else all in one process that has children."""
    runs = [[*map(str, each)] for several in RUNS.values() for each in several]
    serving = [each for each in runs if "--serve" in each]
    others = [each for each in runs if each not in serving]
    (place / "each.py").write_text(EACH)
    together = [sys.executable, str(place / "each.py"), json.dumps(others)]
    alone = [[sys.executable, "-m", "leaveout", *each] for each in others]
    for command in alone if IS_DEEP else [together]:
        process = watched(place, command)
        code, out, err = process.finish()
        assert code == 0 or (IS_DEEP and code in {1, 3}), f"{command}: {out}{err}"
        refuse_outside(place, command, process.seen)
    for arguments in serving:
        code, seen, said = served(place, [sys.executable, "-m", "leaveout", *arguments])
        assert code == 0, said
        refuse_outside(place, arguments, seen, serves=True)
    process = watched(place, [sys.executable, "-c", SOLVER, "--version"])
    code, out, err = process.finish()
    assert code == 0, out + err
    refuse_outside(place, "leaveout-vnnlib", process.seen)
    assert (place / "work" / "unlearned" / "unlearned.onnx").exists()


def test_a_folder_whose_name_is_no_text_stops_no_command(place):
    """Its name is not UTF-8; standard output takes nothing else, as in most locales."""
    folder = place / os.fsdecode(b"w\xe9rk")
    (place / "work").rename(folder)
    surrounded = {**surroundings(place), "PYTHONIOENCODING": "utf-8:strict"}
    made = {"me", "trained", "unlearned", "parts", "service", "clinic"}

    def placed(word):
        named = isinstance(word, str) and (word in made or (folder / word).exists())
        written = isinstance(word, str) and re.fullmatch(r"\w+\.[a-z]+", word)
        return folder / word if named or written else word

    runs = [each for name, several in RUNS.items() if name != "warm" for each in several]
    more = [
        ["verify", "test.spec", "--json", "-"],
        ["verify", "test.spec", "--evidence", folder / "proof"],
        ["check", folder / "proof"],
        *(["report", "r.json", "-o", folder / f"r.{end}"] for end in ("md", "sarif", "cdx.json")),
        ["rows", "r.json", "--json", "-"],
    ]
    asked = []
    for arguments in [*runs, *more]:
        if "--serve" not in arguments:
            count = 2 if arguments[0] in {"forest", "linear"} else 1
            words = [*arguments[:count], *map(placed, arguments[count:])]
            asked.append([*map(str, words)])
    (place / "each.py").write_text(EACH)
    command = [sys.executable, "each.py", json.dumps(asked)]
    done = children.run(command, env=surrounded, cwd=place, text=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    for file in ("r.json", "attestation.json", "r.sarif", "r.cdx.json"):
        assert json.loads((folder / file).read_bytes())
    missing = [sys.executable, "-m", "leaveout", "verify", folder / "none.spec"]
    done = children.run(missing, env=surrounded, cwd=place, text=False)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_a_library_that_loads_the_runtime_through_this_one_leaves_nothing(place):
    """Without the variable onnxruntime keeps a device's number and a queue under the home."""
    program = (
        "import {first}\n"
        "import onnxruntime\n"
        "onnxruntime.InferenceSession('n.onnx', providers=['CPUExecutionProvider'])\n"
    )
    process = watched(place, [sys.executable, "-c", program.format(first="leaveout")])
    assert process.finish() == (0, "", "")
    refuse_outside(place, "import leaveout", process.seen)


@pytest.mark.parametrize("name", leaveout._SILENT)
def test_who_sets_a_variable_has_chosen(name, monkeypatch):
    program = f"import os, leaveout; print(os.environ[{name!r}])"
    for chosen, shown in ((None, leaveout._SILENT[name]), ("other", "other")):
        monkeypatch.delenv(name, raising=False)
        if chosen is not None:
            monkeypatch.setenv(name, chosen)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stdout == f"{shown}\n"


PEEKS = {
    "a look-up": "import socket\ntry: socket.gethostbyname('a.invalid')\nexcept OSError: pass",
    "a connection": "import socket; socket.socket().connect_ex(('192.0.2.1', 80))",
    "a datagram": "import socket; socket.socket(type=socket.SOCK_DGRAM)",
    "a thread": "import socket, threading; t = threading.Thread(target=socket.socket); "
    "t.start(); t.join()",
    "a child": "import subprocess, sys; "
    "subprocess.run([sys.executable, '-c', 'import socket; socket.socket()'])",
    "a process's socket": "import socket; socket.socket(socket.AF_UNIX).connect_ex('/run/other')",
    "a file in the home": "from pathlib import Path; (Path.home() / 'a').touch()",
    "a file beside": "open('../beside', 'w').close()",
    "a folder": "import os; os.mkdir('../beside')",
    "a file that is gone": "import os; open('../a', 'w').close(); os.remove('../a')",
    "a file that moves": "import os; open('a', 'w').close(); os.rename('a', '../beside')",
    "a temporary file": "import tempfile; tempfile.mkstemp()",
    "a file it may not write": "try: open('/proc/version', 'w')\nexcept OSError: pass",
}  # fmt: skip


@pytest.mark.parametrize("peek", PEEKS)
def test_the_watch_sees(peek, place):
    process = watched(place, [sys.executable, "-c", PEEKS[peek]])
    assert process.finish() == (0, "", "")
    with pytest.raises(AssertionError):
        refuse_outside(place, peek, process.seen)


def test_the_watch_lets_pass_what_stays_inside(place):
    code = (
        "import socket, tempfile\n"
        "socket.socketpair()\n"
        "open('inside', 'w').close()\n"
        "tempfile.TemporaryFile(); tempfile.NamedTemporaryFile()\n"
        "open('../home/absent') if False else open('/dev/null', 'w').write('x')\n"
    )
    process = watched(place, [sys.executable, "-c", code])
    assert process.finish() == (0, "", "")
    refuse_outside(place, "inside", process.seen)
    assert process.seen.written
    assert socket.AF_INET.name not in str(process.seen.sockets)

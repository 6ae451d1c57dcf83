"""The core imports, verifies and writes where a system lacks what only POSIX or Linux has.

macOS and Windows are simulated: what they lack is taken from the modules that this program sees,
while those of Python and of the libraries stay what they are here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "breast_cancer"
LINUX = {
    "os": ["sched_getaffinity", "sched_setaffinity", "memfd_create", "getxattr", "setxattr"],
    "time": ["CLOCK_BOOTTIME"],
}
POSIX = {
    "os": [
        *LINUX["os"], "fork", "killpg", "getpgrp", "getuid", "geteuid", "chown", "sysconf",
        "set_blocking", "O_NONBLOCK", "O_NOFOLLOW", "O_NOCTTY", "WNOHANG", "getppid",
    ],
    "signal": ["SIGKILL", "SIGCHLD", "SIGHUP", "SIGPIPE", "SIGALRM", "alarm", "setitimer"],
    "select": ["poll", "epoll"],
    "time": [*LINUX["time"], "clock_gettime"],
}  # fmt: skip
SYSTEMS = {
    "darwin": ("posix", LINUX, []),
    "win32": ("nt", POSIX, ["fcntl", "resource", "pwd", "grp", "termios"]),
}
RUN = """\
import importlib, json, pkgutil, sys, types

def load():
    import leaveout
    names = [each.name for each in pkgutil.walk_packages(leaveout.__path__, "leaveout.")]
    for name in names:
        if not name.endswith("__main__") and ".example" not in name:
            importlib.import_module(name)
    return names

platform, name, lacks, gone = json.loads(sys.argv[1])
load()  # the libraries, with the true modules
for each in [each for each in sys.modules if each.partition(".")[0] == "leaveout"]:
    del sys.modules[each]
for module in {*lacks, "os", "sys"}:
    true = sys.modules[module]
    copy = types.ModuleType(module)
    copy.__dict__.update(true.__dict__)
    for attribute in lacks.get(module, []):
        copy.__dict__.pop(attribute, None)
    sys.modules[module] = copy
sys.modules["os"].name, sys.modules["sys"].platform = name, platform
sys.modules.update(dict.fromkeys(gone))
assert len(load()) > 400
from leaveout.verifier.cli import run
for words in json.loads(sys.argv[2]):
    assert run(words) == 0, words
import leaveout.children, leaveout.files
assert (leaveout.files.sys.platform, leaveout.children.os.name) == (platform, name)
"""


@pytest.mark.parametrize("platform", SYSTEMS)
def test_the_core_verifies_without_what_a_system_lacks(platform, tmp_path):
    table = str(EXAMPLE / "patients.csv")
    commands = [
        ["demo", "example"],
        ["verify", "example/breast_cancer.spec", "--json", "result.json", "--evidence", "proof"],
        ["report", "result.json", "-o", "report.html"],
        ["check", "proof"],
        ["linear", "train", table, "--label", "diagnosis", "-o", "logistic"],
        ["guard", "logistic", "--epsilon", "0.2", table, "-o", "labels.csv"],
    ]
    told = [json.dumps([platform, *SYSTEMS[platform]]), json.dumps(commands)]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *told],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((tmp_path / "result.json").read_text())["results"]
    assert {each["verdict"] for each in results} == {"proved"}
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 570

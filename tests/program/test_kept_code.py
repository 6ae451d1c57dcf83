"""Compiled code is kept by what it depends on, and read only where no one else can write."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest

from leaveout.compiling import kernel, subroutine, watch_compiling
from leaveout.handles import Handle
from leaveout.kept_code import DAYS, cache_folder, digest, why_not_kept

PROGRAM = """
import numpy as np
from leaveout.compiling import kernel, subroutine, watch_compiling
MOST = {most}
@subroutine
def twice(x):
    return min(2.0 * x, MOST)
@kernel
def total(xs):
    out = 0.0
    for x in xs:
        out += {called}(x)
    return out
with watch_compiling() as found:
    print(total(np.arange(4.0)), found.functions > 0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return an empty folder for compiled code, of this process and of those it starts."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "leaveout"


def run(path: Path, most: float = 9.0, called: str = "twice", before: str = "") -> list[str]:
    path.write_text(before + PROGRAM.format(most=most, called=called))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_is_kept_serves_until_something_it_depends_on_changes(folder, tmp_path):
    path = tmp_path / "one.py"
    assert run(path) == ["12.0", "True"]
    assert run(path) == ["12.0", "False"]
    # Neither other lines, nor another file or time, nor functions that are not called.
    assert run(path, before="# a line\n\ndef other():\n    return 3\n") == ["12.0", "False"]
    assert run(tmp_path / "two.py") == ["12.0", "False"]
    # A constant of what is called; what is called.
    assert run(path, most=5.0) == ["11.0", "True"]
    assert run(path, called="abs") == ["6.0", "True"]
    # All of them are kept beside each other.
    assert [run(path)[1], run(path, most=5.0)[1], run(path, called="abs")[1]] == ["False"] * 3
    assert len(list(folder.iterdir())) == 3


def compiled(code: Callable[..., Any], **names: Any) -> Any:
    """Return a kernel of a function that sees other values of some global names."""
    own = FunctionType(code.__code__, {**globals(), **names}, code.__name__)
    return kernel(own)


RATE = 0.5
LIST = np.arange(3.0)


class Pair(NamedTuple):
    """Two numbers."""

    one: float
    two: float


class Swapped(NamedTuple):
    """The same in another order."""

    two: float
    one: float


class Parts(NamedTuple):
    """What a handle passes."""

    first: np.ndarray[Any, np.dtype[np.float64]]
    second: np.ndarray[Any, np.dtype[np.float64]]


class Others(NamedTuple):
    """The same in another order."""

    second: np.ndarray[Any, np.dtype[np.float64]]
    first: np.ndarray[Any, np.dtype[np.float64]]


def plus(x: float) -> float:
    return x + RATE


def minus(x: float) -> float:
    return x - RATE


ADD, TAKE = subroutine(plus), subroutine(minus)
AT = Handle(Parts).at


def asked(x: float, words: Any) -> Any:
    made = Pair(x, RATE)
    return ADD(made.one) + LIST[0] + AT(words, 0).first[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"RATE": 0.25},
        {"RATE": 1},
        {"LIST": np.array([0.0, 1.0, 3.0])},
        {"Pair": Swapped},
        {"ADD": TAKE},
        {"ADD": kernel(plus)},
        {"AT": Handle(Others).at},
    ],
    ids=["number", "type", "array", "record", "function", "options", "handle"],
)
def test_a_digest_tells_what_changed(changed):
    assert digest(compiled(asked)) == digest(compiled(asked))
    assert digest(compiled(asked, **changed)) != digest(compiled(asked))


def test_options_are_part_of_a_digest():
    fast = subroutine(plus, {"fastmath": {"reassoc", "contract"}})
    named = digest(compiled(asked, ADD=fast))
    assert named != digest(compiled(asked, ADD=subroutine(plus, {"fastmath": {"contract"}})))


def test_what_could_hide_a_change_is_refused():
    with pytest.raises(TypeError, match="nobody would notice"):
        digest(compiled(asked, LIST=[1.0]))


def one() -> Any:
    @kernel
    def add(x: float) -> float:
        return x + 1.0

    return add


def functions_compiled() -> int:
    with watch_compiling() as found:
        assert one()(1.0) == 2.0
    return found.functions


def keep() -> Path:
    assert functions_compiled() == 1
    (path,) = cache_folder().iterdir()
    assert functions_compiled() == 0
    return path


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_not_read(folder, mode):
    keep()
    folder.chmod(mode)
    assert "others can write" in (why_not_kept() or "")
    assert functions_compiled() == 1
    folder.chmod(0o700)
    assert why_not_kept() is None
    assert functions_compiled() == 0


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_neither_is_a_link_to_a_folder_nor_a_file_that_others_can_write(folder, tmp_path):
    path = keep()
    path.chmod(0o666)
    assert functions_compiled() == 1
    assert stat.S_IMODE(path.stat().st_mode) & 0o022 == 0o022 or functions_compiled() == 0
    path.chmod(0o600)
    folder.rename(tmp_path / "other")
    folder.symlink_to(tmp_path / "other")
    assert "others can write" in (why_not_kept() or "")
    assert functions_compiled() == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")
def test_a_folder_of_another_user_is_not_read(folder):
    keep()
    os.chown(folder, 1234, 1234)
    assert functions_compiled() == 1


@pytest.mark.parametrize("damage", ["short", "changed", "another's"])
def test_damaged_files_are_compiled_anew(folder, damage):
    path = keep()
    content = path.read_bytes()
    if damage == "short":
        path.write_bytes(content[:-1])
    elif damage == "changed":
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    else:
        path.write_bytes(bytes(32) + content[32:])
    assert functions_compiled() == 1
    assert functions_compiled() == 0


@pytest.mark.parametrize("place", ["folder", "loop"])
def test_what_cannot_be_read_is_compiled_anew(folder, place):
    path = keep()
    path.unlink()
    path.mkdir() if place == "folder" else path.symlink_to(path.name)
    assert functions_compiled() == 1


@pytest.mark.parametrize(
    "named", [{"NUMBA_CACHE_DIR": "here"}, {"HOME": "here"}, {"HOME": None}], ids=str
)
def test_nothing_is_kept_in_a_folder_that_is_relative(named, tmp_path, monkeypatch):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if os.name == "posix":
        # A user without a name, as in a container.
        monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for name, value in named.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert "absolute" in (why_not_kept() or "")
    assert [functions_compiled(), functions_compiled()] == [1, 1]
    assert not list(tmp_path.iterdir())


def test_a_file_of_the_working_folder_does_not_say_where_code_is_read(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    # Numba reads this file at import.
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'theirs'}\n")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    code = (
        "from leaveout.kept_code import cache_folder, _config; "
        "print(cache_folder(), _config.CACHE_DIR)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(tmp_path / "own" / "leaveout"), str(tmp_path / "theirs")]


def test_what_no_run_has_used_for_long_is_removed(folder):
    path = keep()
    old = folder / "old.code"
    old.write_bytes(b"")
    used = time.time() - (DAYS + 1) * 86_400
    os.utime(old, (used, used))
    os.utime(path, (used, used))
    assert functions_compiled() == 0
    assert path.stat().st_mtime > used + 1
    ADD_ONE = compiled(minus)
    assert ADD_ONE(1.0) == 0.5
    assert path.exists() and not old.exists()


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "leaveout"
    assert why_not_kept() is None
    assert stat.S_IMODE((tmp_path / "leaveout").stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "leaveout"

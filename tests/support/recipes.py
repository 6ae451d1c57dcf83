"""Recipes of CONTRIBUTING.md, followed in a copy of the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.pages import ROOT, blocks, text_of

from support import children

PAGE = "CONTRIBUTING.md"
ROOMS = ("bab", "encoders", "kernel", "models", "solvers", "specs", "verifier", "src")


def steps(heading: str) -> list[str]:
    """Return the blocks of a section, in their order; ``heading`` is its line, with its hashes."""
    text = text_of(PAGE)
    begin = text.index(f"{heading}\n")
    first = text[:begin].count("\n")
    last = first + re.split(r"\n##+ ", text[begin:])[0].count("\n")
    return [block.text for block in blocks(PAGE) if first < block.line < last]


def copied(folder: Path, *more: str) -> Path:
    """Copy the program, and other rooms, into a folder; return where it is imported from.

    What numba compiled comes along: it is taken for files that were not changed since.
    """
    for room in (*ROOMS, *more):
        shutil.copytree(
            ROOT / room, folder / room, symlinks=True, ignore=shutil.ignore_patterns("*.pyc")
        )
    return folder / "src"


def insert(path: Path, after: str, code: str) -> None:
    """Put code after a text that a file has once."""
    whole = path.read_text(encoding="utf-8")
    assert whole.count(after) == 1
    path.write_text(whole.replace(after, after + code), encoding="utf-8")


def python(
    folder: Path, *command: str | Path, more: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder with the copy in it, and whether it ended well is the caller's."""
    paths = os.pathsep.join(map(str, (folder / "src", *more)))
    environment = {**os.environ, "PYTHONPATH": paths, "LEAVEOUT_PLUGINS": "off"}
    return children.run([sys.executable, *map(str, command)], cwd=folder, env=environment)

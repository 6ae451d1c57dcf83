"""Pages to start from can be followed word for word, and what comes out is what they show."""

from __future__ import annotations

import re
import secrets
import shutil

import pytest
from docs import exempt
from docs.pages import ROOT, blocks, text_of
from docs.running import different, reading, steps

from leaveout.verifier.guard.memory import Memory

FOLLOWED = {
    "docs/tutorial.md": ("torch", "starlette", "uvicorn"),
    "docs/evidence.md": ("securesystemslib",),
    "docs/operations.md": ("starlette", "uvicorn"),
}
"""Pages, and the packages of extras that they need."""


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed(page, tmp_path):
    for package in FOLLOWED[page]:
        pytest.importorskip(package, reason=f"{page} needs an extra that brings {package}")
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"{page} needs {program}")
    shutil.copytree(ROOT / "examples" / "breast_cancer", tmp_path / "examples" / "breast_cancer")
    with reading(tmp_path, exempt.FOLLOWED) as reader:
        for block in blocks(page):
            assert reader.follow(block) is None


def test_pages_have_steps():
    for page in FOLLOWED:
        typed = [step for block in blocks(page) for step in steps(block.text)]
        assert len(typed) > 6
        assert sum(bool(output) for _, output in typed) > 4


def test_what_is_left_out_is_still_there():
    found = {each for page in FOLLOWED for block in blocks(page) for each, _ in steps(block.text)}
    assert set(exempt.FOLLOWED) <= found


def test_an_answer_takes_the_bytes_that_the_page_says(tmp_path, monkeypatch):
    """The memory's file grows by no more for each noised answer.

    The secret is fixed: keys under a random one leave the file's pages more or less full.
    """
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(range(size)))
    memory = Memory(tmp_path / "a.sqlite", "m", "f", "i", 0.2, 2)
    limits = {"epsilon": 0.2, "cap": None, "uniform": False, "remember": 10**6}
    memory.answer([b"first"], lambda at, cost: 0, **limits)
    memory.close()
    before = memory.path.stat().st_size
    memory = Memory(tmp_path / "a.sqlite", "m", "f", "i", 0.2, 2)
    memory.answer([b"%d" % each for each in range(20_000)], lambda at, cost: 0, **limits)
    memory.close()
    said = re.search(r"A noised answer takes (\d+) bytes", text_of("docs/operations.md"))
    assert (memory.path.stat().st_size - before) / 20_000 == pytest.approx(int(said[1]), abs=2)


@pytest.mark.parametrize(
    ("page", "out", "alike"),
    [
        ("members 469\n", "members  469\n", True),
        ("members 469\n", "members 470\n", False),
        ("above 0.7069\n", "above 0.7070\n", True),
        ("above 0.7069\n", "above 0.7269\n", False),
        ("seconds 9.1\n", "seconds 12.3\n", True),
        ("a verdict seconds\nb proved 0.5\n", "a verdict seconds\nb proved 2.5\n", True),
        ("a verdict seconds\nb proved 0.5\n", "a verdict seconds\nb refuted 0.5\n", False),
        ("at x, where x is (age = 3)\n", "at x, where x is (age = 4)\n", True),
        ("one line\n", "one line more\n", False),
        ("one line ...\n", "one line more\n", True),
        ("one line ...\n", "one\n", False),
    ],
)
def test_what_counts_as_the_same(page, out, alike):
    assert (different(page, out) is None) is alike

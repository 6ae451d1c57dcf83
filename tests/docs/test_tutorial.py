"""The tutorial can be followed word for word, and what comes out is what it shows."""

from __future__ import annotations

import shutil

import pytest
from docs import exempt
from docs.pages import blocks
from docs.running import different, reading, steps

PAGE = "docs/tutorial.md"


def test_the_tutorial_can_be_followed(tmp_path):
    pytest.importorskip("torch", reason="the tutorial trains a network, which needs torch")
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package, reason="the tutorial serves labels: the extra 'serve'")
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"the tutorial needs {program}")
    with reading(tmp_path, exempt.TUTORIAL) as reader:
        for block in blocks(PAGE):
            assert reader.follow(block) is None


def test_the_tutorial_has_steps():
    typed = [step for block in blocks(PAGE) for step in steps(block.text)]
    assert len(typed) > 12
    assert sum(bool(output) for _, output in typed) > 6


def test_what_is_left_out_is_still_there():
    typed = {command for block in blocks(PAGE) for command, _ in steps(block.text)}
    assert set(exempt.TUTORIAL) <= typed


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

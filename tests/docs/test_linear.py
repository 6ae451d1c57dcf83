"""The page on linear models can be followed, and its picture is what its script draws."""

from __future__ import annotations

import re
import shlex
import shutil

import leverage
from docs.pages import DOCS, ROOT, blocks
from docs.running import different, steps

from leaveout.verifier.cli import run

PAGE = "docs/linear.md"
PATIENTS = ROOT / "examples" / "breast_cancer" / "patients.csv"


def test_the_page_can_be_followed(tmp_path, monkeypatch, capsys):
    shutil.copy(PATIENTS, tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = 0
    for block in blocks(PAGE):
        if block.kind != "console":
            continue
        for command, expected in steps(block.text):
            program, *words = shlex.split(command)
            assert program == "leaveout"
            assert run(words) == 0, command
            told = capsys.readouterr()
            if expected:
                shown += 1
                assert different(expected, told.err + told.out) is None, f"{block}: {command}"
    assert shown > 2


def test_what_the_page_asks_is_decided(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["linear", "train", str(PATIENTS), "--label", "diagnosis", "-o", "."]) == 0
    (text,) = (block.text for block in blocks(PAGE) if "leave_out(L" in block.text)
    (tmp_path / "few.spec").write_text(text)
    assert run(["verify", "few.spec"]) in (0, 1, 3)
    told = capsys.readouterr().out
    assert all(name in told for name in ("apart", "accepted", "robust"))


def test_the_picture_is_the_one_in_the_documentation(tmp_path):
    leverage.draw(tmp_path / "leverage.svg")
    number = re.compile(r"\d+\.\d+")
    drawn, kept = (
        (folder / "leverage.svg").read_text() for folder in (tmp_path, DOCS / "pictures")
    )
    assert number.sub("#", drawn) == number.sub("#", kept)

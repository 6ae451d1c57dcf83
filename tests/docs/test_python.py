"""Python on pages runs, block after block in one session, beside small files that it names."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from itertools import pairwise

import pytest
from docs import exempt
from docs.pages import Block, blocks, of_kind, pages
from docs.running import different
from docs.scenes import names, write_files

# Blocks that train networks, or read what torch wrote.
TORCH = {"docs/own-model.md", "docs/train.md", "docs/api/train.md", "docs/poisoning.md"}

PAGES = [page for page in pages() if any(block.kind == "python" for block in blocks(page))]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page, files, tmp_path, monkeypatch):
    if page == "docs/linear.md":
        pytest.importorskip("pandas", reason="the page reads a data frame")
    if page in TORCH:
        pytest.importorskip("torch", reason="the page trains a network, which needs torch")
        pytest.importorskip("pandas", reason="the page shows a data frame")
    folder = shutil.copytree(files, tmp_path / "files")
    monkeypatch.chdir(folder)
    session = {"__name__": "page", **names(page, folder)}
    for block, after in pairwise((*blocks(page), None)):
        if block.kind == "python" and (block.page, block.first) not in exempt.PYTHON:
            lines = "\n" * block.line + block.text  # so that a traceback names the line of the page
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(lines, block.page, "exec", dont_inherit=True), session)
            if is_printed(after):
                assert different(after.text, printed.getvalue()) is None


def is_printed(block: Block | None) -> bool:
    """Whether a block is what the one before it prints: a sentence with that word says so."""
    return block is not None and bool(re.match(r"prints\b[^.]*:$", block.before))


def test_pages_show_what_is_printed():
    shown = {block.page for page in pages() for block in blocks(page) if is_printed(block)}
    assert {"docs/own-model.md", "docs/add-function.md"} <= shown


def test_there_are_blocks_to_run():
    assert len(of_kind("python")) > 15


def test_what_is_left_out_is_still_there():
    assert set(exempt.PYTHON) <= {(block.page, block.first) for block in of_kind("python")}

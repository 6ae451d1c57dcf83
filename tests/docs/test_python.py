"""Python on pages runs, block after block in one session, beside small files that it names."""

from __future__ import annotations

import shutil

import pytest
from docs import exempt
from docs.pages import blocks, of_kind, pages
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
    for block in blocks(page):
        if block.kind == "python" and (block.page, block.first) not in exempt.PYTHON:
            lines = "\n" * block.line + block.text  # so that a traceback names the line of the page
            exec(compile(lines, block.page, "exec", dont_inherit=True), session)


def test_there_are_blocks_to_run():
    assert len(of_kind("python")) > 15


def test_what_is_left_out_is_still_there():
    assert set(exempt.PYTHON) <= {(block.page, block.first) for block in of_kind("python")}

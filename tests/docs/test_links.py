"""Every link within the project leads somewhere."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest
from docs.pages import ROOT, pages, text_of

_LINK = re.compile(r"(?<!`)!?\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def links(page):
    return _LINK.findall(_CODE.sub("", text_of(page)))


@cache
def anchors(page):
    """Return the anchors that code hosts and the site give the headings of a page."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", _CODE.sub("", text_of(page)), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower().strip()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = sum(anchor == slug or anchor.startswith(f"{slug}-") for anchor in found)
        found.add(f"{slug}-{count}" if slug in found else slug)
    return found


LINKS = [(page, link) for page in pages() for link in links(page) if "://" not in link]


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_a_link_leads_somewhere(page, link):
    path, _, anchor = link.partition("#")
    target = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
    assert target.exists(), f"{page}: {link}"
    if anchor:
        assert anchor in anchors(str(target.relative_to(ROOT)))


@pytest.mark.parametrize("page", pages())
def test_no_page_needs_another_host_to_be_read(page):
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)|<img[^>]+src=\"([^\"]+)", text_of(page))
    assert not [each for pair in pictures for each in pair if "://" in each]


def test_there_are_links_to_check():
    assert len(LINKS) > 60


def test_every_page_of_the_documentation_is_in_the_contents():
    listed = {*links("docs/index.md"), *(f"api/{link}" for link in links("docs/api/index.md"))}
    here = {page.removeprefix("docs/") for page in pages() if page.startswith("docs/")}
    assert here - {"index.md"} <= listed


def test_the_contents_are_four_groups():
    groups = re.findall(r"^## (.+)$", text_of("docs/index.md"), re.MULTILINE)
    assert groups == ["Start", "Guides", "Reference", "Theory and extending"]


TO_BE = {
    "models/onnx/rewrites/shrinking.py",
    "models/onnx/operators/running.py",
    "models/votes/survival/majority.py",
    "solvers/scipy_milp.py",
    "bab/native/kernels/sparing.py",
    "patients.py",
}
"""Files that a reader of a recipe, or of the tutorial, makes."""


@pytest.mark.parametrize("page", [page for page in pages() if page != "CHANGELOG.md"])
def test_a_file_of_code_that_a_page_names_is_there(page):
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [f"/{name}" for name in listed.stdout.splitlines()]
    for name in set(re.findall(r"`([\w/.]+\.py)`", text_of(page))) - TO_BE:
        end = "/" + name.removeprefix("leaveout/")
        assert any(file.endswith(end) for file in files), f"{page}: {name}"

"""What pages say of a picture is what its script finds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from docs.pages import DOCS, text_of
from histogram import KINDS, answered, histogram


@pytest.fixture(scope="module")
def found():
    return answered()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_pages_say_how_the_demos_answers_are_given(found, page):
    above, asked, noised = (int(np.count_nonzero(found.tiers == tier)) for tier, _, _ in KINDS)
    text = " ".join(text_of(page).split())
    assert above + asked + noised == len(found.labels)
    assert re.search(rf"\b{above}\b[^.]*\b{noised}\b", text)
    if page != "docs/index.md":
        assert re.search(rf"\b{above}\b[^.]*\b{asked} below[^.]*\b{noised}\b", text)


def test_answers_above_the_bound_are_those_of_the_first_tier(found):
    uppers = np.asarray(found.uppers)[found.labels]
    assert (found.confidences[found.tiers == 1] > uppers[found.tiers == 1]).all()
    assert (found.confidences[found.tiers == 3] <= uppers[found.tiers == 3]).all()


def test_the_histogram_is_the_one_in_the_documentation(found, tmp_path):
    histogram(tmp_path / "histogram.svg", found)
    drawn, kept = (
        (folder / "histogram.svg").read_text() for folder in (tmp_path, DOCS / "pictures")
    )
    # Bounds differ in the last digits from machine to machine; what is counted does not.
    number = re.compile(r"\d+\.\d+")
    assert number.sub("#", drawn) == number.sub("#", kept)

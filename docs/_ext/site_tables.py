"""Parts of pages that are made when the site is built, from the code they describe.

A page says where by a comment, ``<!-- site: functions -->``; what is put there is Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import site_commands
import site_contents
import site_files
import site_functions
import site_results
import site_words
from sphinx.application import Sphinx

__all__ = ["PARTS", "filled", "setup"]

DOCS = Path(__file__).resolve().parents[1]

PARTS: Mapping[str, Callable[[], str]] = {
    "functions": site_functions.page,
    "commands": site_commands.page,
    "results": site_results.page,
}

_PLACE = re.compile(r"^<!-- site: (\w+)(?: (\S+))? -->$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[\w./-]+\.md)[^)]*\)")
# Pages that are read on code hosts above all do not say that a block is a specification.
_BARE = re.compile(r"^```\n(?=(?:let|param|include|guarantee|find) )", re.MULTILINE)


def filled(page: str, text: str) -> str:
    """Return the text of a page with its parts in their places.

    Raises
    ------
    KeyError
        If a part is unknown.
    """
    text = _LINK.sub(lambda link: _inside(page, link), _PLACE.sub(_part, text))
    if page in site_contents.PAGES:
        text += "\n" + site_contents.contents(text)
    title, line, rest = _BARE.sub("```spec\n", text).partition("\n")
    return title + line + site_words.entries(page) + rest


def _part(place: re.Match[str]) -> str:
    return site_files.page(place[2]) if place[1] == "file" else PARTS[place[1]]()


def _inside(page: str, link: re.Match[str]) -> str:
    """Return a link, or of one to a page of the repository that the site lacks its words."""
    target = (DOCS / page).parent / link[2]
    return link[0] if target.resolve().is_relative_to(DOCS) else link[1]


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = filled(page, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages as they are read."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

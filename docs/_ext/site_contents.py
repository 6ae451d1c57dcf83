"""The contents of the site: the lists of links that a page shows its readers."""

from __future__ import annotations

import re

__all__ = ["PAGES", "contents"]

PAGES = ("index", "api/index")
"""Pages whose lists are contents: the first, and one below it for each group of pages."""

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINE = re.compile(r"^- .*(?:\n  .*)*", re.MULTILINE)
_ENTRY = re.compile(r"\[([^\]]+)\]\(([\w/-]+)\.md\)")


def contents(page: str) -> str:
    """Return a hidden table of contents for each list of a page, as MyST.

    The heading above a list is its caption; a list before the first heading has none.
    """
    first, *parts = _SECTION.split(page)
    captions = ["", *parts[::2]]
    trees = []
    for caption, body in zip(captions, [first, *parts[1::2]], strict=True):
        links = _ENTRY.findall("\n".join(_LINE.findall(body)))
        entries = "\n".join(f"{' '.join(title.split())} <{name}>" for title, name in links)
        if entries:
            said = f":caption: {caption}\n" if caption else ""
            trees.append(f"```{{toctree}}\n:hidden:\n{said}\n{entries}\n```\n")
    return "\n".join(trees)

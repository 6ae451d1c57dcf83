"""The contents of the site: the lists of links that the first page shows its readers."""

from __future__ import annotations

import re

__all__ = ["contents"]

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([\w/-]+)\.md\)", re.MULTILINE)


def contents(index: str) -> str:
    """Return a hidden table of contents for each section of lists, as MyST."""
    parts = _SECTION.split(index)
    trees = []
    for caption, body in zip(parts[1::2], parts[2::2], strict=True):
        entries = "\n".join(f"{title} <{page}>" for title, page in _ENTRY.findall(body))
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "\n".join(trees)

"""Files of the project in full: Markdown as it is, anything else as a block of code."""

from __future__ import annotations

from pathlib import Path

__all__ = ["page"]

ROOT = Path(__file__).resolve().parents[2]

_LANGUAGES = {".py": "python", ".spec": "spec", ".toml": "toml"}


def page(path: str) -> str:
    """Return a file as Markdown; of Markdown without its title, which the page has."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return text.split("\n", 1)[1]
    return f"`{path}`:\n\n```{_LANGUAGES[Path(path).suffix]}\n{text}```"

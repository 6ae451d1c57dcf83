"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

OTHERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "editors/README.md")

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n|\n(?= {4}))+")
_SPEC = re.compile(r"(#.*\n|\n)*(let|param|include|guarantee|find)\s")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes
    ----------
    page : str
        Path from the root of the project.
    line : int
    language : str
        As the fence says; empty where it says nothing.
    text : str
    before : str
        The paragraph before it.
    """

    page: str
    line: int
    language: str
    text: str
    before: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        """The first line."""
        return self.text.strip().partition("\n")[0]

    @property
    def kind(self) -> str:
        """The language; of a block that does not say it what it looks like."""
        if self.language:
            return self.language
        if _SPEC.match(self.text):
            return "spec"
        return "console" if re.match(r"(\$ )?(leaveout|make|pip|python) ", self.text) else "text"


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def pages() -> list[str]:
    """Return every page of the project that people read."""
    found = [*DOCS.glob("**/*.md"), *(ROOT / "examples").glob("*/README.md")]
    found += [ROOT / page for page in OTHERS]
    return sorted(str(path.relative_to(ROOT)) for path in found)


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, fenced and indented."""
    text = text_of(page)
    fenced = list(_FENCE.finditer(text))
    found = [_block(page, text, each.start(), each["language"], each["text"]) for each in fenced]
    bare = _FENCE.sub(lambda each: re.sub(r"[^\n]", "x", each[0]), text)
    found += [
        _block(page, text, each.start(), "", _dedented(each[0]))
        for each in _INDENTED.finditer(bare)
        if not re.search(r"^( *[-*] |\d+\. )", bare[: each.start()].rsplit("\n\n", 2)[-2], re.M)
    ]
    return tuple(sorted(found, key=lambda block: block.line))


def of_kind(*kinds: str) -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.kind in kinds]


def _dedented(text: str) -> str:
    return re.sub(r"^ {4}", "", text, flags=re.MULTILINE)


def _block(page: str, text: str, start: int, language: str, code: str) -> Block:
    before = text[:start].rstrip().rpartition("\n\n")[2]
    return Block(page, text.count("\n", 0, start) + 1, language.strip(), code, before)


def commands(text: str) -> Iterator[str]:
    """Yield the command lines of a block: those with a prompt, else those of leaveout."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    prompted = [line.removeprefix("$ ").strip() for line in lines if line.startswith("$ ")]
    yield from prompted or [line for line in lines if line.startswith("leaveout ")]

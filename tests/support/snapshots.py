"""Wordings of the product, kept in ``__snapshots__``: what varies is blanked, and facts stay.

``python -m pytest -m syrupy_snapshot --snapshot-update`` writes today's wordings. It changes
words alone: an update that loses a number, a verdict or a name fails unless it is told that
``--facts-may-change``.
"""

from __future__ import annotations

import html
import re
import tempfile
from itertools import pairwise
from pathlib import Path

from syrupy.extensions.amber import AmberSnapshotExtension

__all__ = ["LostFactsError", "Rewording", "Wording", "blanked", "facts", "passages"]

_TEMPORARY = re.escape(tempfile.gettempdir())
_VARYING = tuple(
    (re.compile(pattern), blank)
    for pattern, blank in (
        (r"\x1b\[[0-9;]*m", ""),
        (re.escape(str(Path(__file__).parents[2])), "REPOSITORY"),
        (rf"{_TEMPORARY}/pytest-of-[^/\s]+/pytest-\d+/(?:popen-gw\d+/)?[^/\s'\":,;)<]+", "TMP"),
        (rf"(?:{_TEMPORARY}|/dev/shm)/[\w.-]+", "TMP"),
        (r"(?<![\w.])[0-9a-f]{12,}\b", "DIGEST"),
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?", "DATE"),
        (r"\bleaveout \d+\.\d+\.\d+\b", "leaveout VERSION"),
        (r"(\b127\.0\.0\.1|\blocalhost|\[::1\]):\d+", r"\1:PORT"),
        (r"\b(pid|process) \d+", r"\1 PID"),
        (r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)? (s|ms|seconds?)\b", r"SOME \1"),
        (r"\b(seconds) \d+\.\d\b", r"\1 SOME"),
        (r"[\w/.-]+\.py, line \d+", "MODULE, line N"),
        (r"(\d\.\d{5})\d{3,}", r"\1…"),
        (r"(?:\.\./){2,}(?:[\w.-]+/)*", "ELSEWHERE/"),
        (r"[\u2500-\u257f]+", ""),
        (r"(?<=\S) {2,}", "  "),
        (r"^(\S.*  .*  .*  |\w+  )\d+\.\d$", r"\1SECONDS"),
        (r" +$", ""),
    )
)
_FACTS = re.compile(
    r"--[a-z][\w-]*"  # an option
    r"|'[^'\s]+'|‘[^’\s]+’|`[^`\s]+`"  # a name
    r"|\b[\w-]+\.(?:csv|json|npz|npy|onnx|spec|toml|html|sqlite|vnnlib)\b"  # a file
    r"|\b(?:proved|refuted|unknown)\b"
    r"|(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
)
_BLOCK = re.compile(
    r"</?(?:article|div|dd|dl|dt|figcaption|figure|footer|h\d|header|li|main|nav|ol|p|pre|section"
    r"|summary|details|table|tbody|td|text|th|thead|title|tr|ul)\b[^>]*>"
)
_STYLE = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL)
_LABEL = re.compile(r"<[^>]*\baria-label=\"([^\"]*)\"[^>]*>")


class LostFactsError(AssertionError):
    """A new wording lacks numbers, verdicts or names of the one before."""


def blanked(text: str) -> str:
    """Return a text without what differs from run to run."""
    lines = [*map(_blanked, text.split("\n"))]
    for above, below in pairwise(range(len(lines))):
        if "TMP" in lines[above] and lines[below].strip(" ^") == "":
            lines[below] = "^" if "^" in lines[below] else ""
    return "\n".join(lines)


def _blanked(line: str) -> str:
    for pattern, blank in _VARYING:
        line = pattern.sub(blank, line)
    return line


def facts(text: str) -> set[str]:
    """Return the options, names, files, verdicts and numbers that a text mentions."""
    text = text.replace("\\'", "'")  # as a file of snapshots has it
    found = (each.strip("'‘’`").replace(",", "") for each in _FACTS.findall(text))
    return {each for each in found if each}


def passages(text: str, *anchors: str | tuple[str, ...]) -> str:
    """Return the lines of a text, or the blocks of a page, that mention an anchor; a line each.

    An anchor is a name or a number, not a word of the product; of a tuple all are mentioned. One
    as ``<h1>`` stands for all such elements of a page. Without any, the whole text is returned.
    """
    lines = _lines(text)
    found = [] if anchors else [*lines.values()]
    for each in anchors:
        if isinstance(each, str) and re.fullmatch(r"<\w+>", each):
            element = rf"{each[:-1]}\b[^>]*>(.*?)</{each[1:]}"
            parts = re.findall(element, text, re.DOTALL)
            here = [line for part in parts for line in _lines(f"<p>{part}</p>").values()]
        else:
            sought = (each,) if isinstance(each, str) else each
            here = [shown for line, shown in lines.items() if _mentions(line, sought)]
        assert here, f"nowhere mentioned: {each}"
        found += here
    return "\n".join(dict.fromkeys(found))


def _lines(text: str) -> dict[str, str]:
    """Return the lines of a text, and each as it is kept."""
    if "</" in text:
        text = _BLOCK.sub("\n", _LABEL.sub(r"\n\1\n", _STYLE.sub("", text)))
        text = html.unescape(re.sub(r"<[^>]+>", "", text))
    both = zip(text.split("\n"), blanked(text).split("\n"), strict=True)
    return {" ".join(line.split()): " ".join(shown.split()) for line, shown in both if line.strip()}


def _mentions(line: str, anchors: tuple[str, ...]) -> bool:
    return all(
        re.search(rf"(?<![\w.]){re.escape(each)}(?!\w|[.,]\d)", line) is not None
        if each[0].isalnum()
        else each in line
        for each in anchors
    )


class Wording(AmberSnapshotExtension):
    """Holds texts, and lists of them, as `blanked` leaves them."""

    def serialize(self, data, **kwargs):
        text = data if isinstance(data, str) else "\n".join(data)
        return super().serialize(blanked(text), **kwargs)


class Rewording(Wording):
    """Takes no text that lost a fact of the one before."""

    def matches(self, *, serialized_data, snapshot_data):
        lost = facts(snapshot_data) - facts(serialized_data)
        if lost:
            raise LostFactsError(f"no longer mentioned: {', '.join(sorted(lost))}")
        return super().matches(serialized_data=serialized_data, snapshot_data=snapshot_data)

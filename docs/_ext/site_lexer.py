"""Colours for blocks marked ``spec``: a Pygments lexer of the language of specifications."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from sphinx.application import Sphinx

from leaveout.specs.text.errors import KEYWORDS

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


class SpecLexer(RegexLexer):
    """The language of ``.spec`` files."""

    name = "leaveout specification"
    aliases: ClassVar = ["spec", "leaveout"]
    filenames: ClassVar = ["*.spec"]

    tokens: ClassVar = {
        "root": [
            (r"\s+", Text),
            (r"#.*?$", Comment.Single),
            (r'"(?:\\.|[^"\\\n])*"', String.Double),
            (
                rf"\b(let|param|guarantee|find)(\s+)({_NAME})",
                bygroups(Keyword, Text, Name.Variable),
            ),
            (words(sorted(word.lower() for word in KEYWORDS), r"\b", r"\b"), Keyword),
            (rf"{_NAME}(?=\s*\()", Name.Function),
            (_NAME, Name),
            (r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", Number),
            (r"=>|->|==|!=|<=|>=|[-<>+*/=|]", Operator),
            (r"[()\[\],:]", Punctuation),
        ]
    }


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the lexer."""
    app.add_lexer("spec", SpecLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

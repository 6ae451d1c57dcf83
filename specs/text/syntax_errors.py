"""Explanation of syntax errors from lark, with advice on what to write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leaveout.specs.text.build import position
from leaveout.specs.text.errors import (
    CHARACTERS,
    KEYWORDS,
    STATEMENTS,
    WORDS,
    Position,
    Slip,
    describe_expected,
    nearest,
)

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedInput, UnexpectedToken

CLOSES = {"LPAR": "RPAR", "LSQB": "RSQB"}
"""The closing bracket for each opening one, by the grammar's names."""

_BRIEF = 30


@dataclass(frozen=True)
class Scene:
    """The unexpected token and its surroundings."""

    before: tuple[Token, ...]  # the tokens before it
    token: Token
    after: Token | None  # the next token; None at the end or if it cannot be read
    accepts: frozenset[str]  # the grammar's names for the allowed tokens

    @classmethod
    def of(cls, error: UnexpectedToken, text: str, parser: Lark) -> Scene:
        """Tokenise the text around an error of lark."""
        from lark.exceptions import UnexpectedCharacters

        token: Token = error.token
        accepts = frozenset(error.accepts)
        ended = token.type == "$END"
        start = token.start_pos or 0
        before: list[Token] = []
        after = None
        try:
            for each in parser.lex(text):
                if ended or (each.end_pos or 0) <= start:
                    before.append(each)
                elif (each.start_pos or 0) > start:
                    after = each
                    break
        except UnexpectedCharacters:
            pass
        return cls(tuple(before), token, after, accepts)

    @property
    def previous(self) -> Token | None:
        """The previous token, if any."""
        return self.before[-1] if self.before else None

    @property
    def at(self) -> Position:
        """Position of the token; at the end of the text, just past the last token."""
        if self.token.type == "$END" and self.previous is not None:
            last = position(self.previous)
            return Position(last.end_line, last.end_column, last.end_line, last.end_column + 1)
        return position(self.token)

    @property
    def token_text(self) -> str:
        """The token as a message shows it."""
        if self.token.type == "$END":
            return "the end of the text"
        text = str(self.token)
        shown = text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"
        return shown if self.token.type == "TEXT" else f"'{shown}'"

    @property
    def adjacent_text(self) -> str:
        """The text of the previous token if no space separates it from this one."""
        if self.previous is None or self.previous.end_pos != self.token.start_pos:
            return ""
        return str(self.previous)

    @property
    def open_brackets(self) -> tuple[Token, ...]:
        """The brackets still open, innermost last."""
        stack: list[Token] = []
        for token in self.before:
            if token.type in CLOSES:
                stack.append(token)
            elif token.type in CLOSES.values():
                stack.pop()
        return tuple(stack)

    @property
    def heading(self) -> Token | None:
        """The token two before: a statement's keyword if its name was the last token."""
        return self.before[-2] if len(self.before) > 1 else None

    def back(self) -> Position:
        """Return the span of the previous token and this one."""
        return position(self.previous).to(self.at) if self.previous is not None else self.at


_EXAMPLES = {
    "LET": "let N = ...",
    "PARAM": "param eps = 0.1",
    "INCLUDE": 'include "other.spec"',
    "GUARANTEE": "guarantee quiet: ...",
    "FIND": "find bound: least b such that ...",
}

_BEFORE_CLAIMS = {"COLON", "THAT", "IMPLIES", "AND", "OR", "NOT"}


def explain(error: UnexpectedInput, text: str, parser: Lark) -> Slip:
    """Return a lark error as a slip."""
    from lark.exceptions import UnexpectedToken

    if not isinstance(error, UnexpectedToken):
        return _character(error, text)
    scene = Scene.of(error, text, parser)
    for rule in _RULES:
        slip = rule(scene)
        if slip is not None:
            return slip
    return _otherwise(scene)


def _character(error: UnexpectedInput, text: str) -> Slip:
    place = error.pos_in_stream or 0
    character = text[place]
    end = error.column + 1
    if character == '"':
        end = error.column + len(text[place:].partition("\n")[0].rstrip("\r"))
        at = Position(error.line, error.column, error.line, end)
        return Slip(at, "this text is never closed", "end it with '\"' on the same line")
    if character in "&|" and text[place + 1 : place + 2] == character:
        character, end = character * 2, end + 1
    at = Position(error.line, error.column, error.line, end)
    cure = CHARACTERS.get(character[0], "")
    if not character.isprintable():
        cure = "write an ordinary space" if character.isspace() else "delete it"
        return Slip(at, f"a character that is not allowed here, U+{ord(character):04X}", cure)
    if not cure and not character.isascii():
        cure = (
            "names consist of a-z, A-Z, 0-9 and _; any character is allowed in a comment or a text"
        )
    return Slip(at, f"unexpected character {character!r}", cure)


def _bracket(scene: Scene) -> Slip | None:
    token, opened = scene.token, scene.open_brackets
    if token.type in CLOSES.values() and not opened:
        return Slip(scene.at, f"this '{token}' closes nothing", "delete it, or open it before")
    if not opened:
        return None
    mate = ")" if opened[-1].type == "LPAR" else "]"
    at = position(opened[-1])
    if token.type in CLOSES.values() and token != mate:
        wrong = f"expected '{mate}', found '{token}'"
        return Slip(scene.at, wrong, f"'{opened[-1]}' at {at.line}:{at.column} is still open")
    follows = scene.after.type if scene.after is not None else ""
    starts = token.type in STATEMENTS and follows in ("NAME", "TEXT")
    if token.type == "$END" or starts:
        place = "the end of the text" if token.type == "$END" else f"'{token}' on line {token.line}"
        return Slip(at, f"this '{opened[-1]}' is never closed", f"expected '{mate}' before {place}")
    return None


def _heading(scene: Scene) -> Slip | None:
    token, previous, accepts = scene.token, scene.previous, scene.accepts
    first = scene.heading.type if scene.heading is not None else ""
    if accepts == {"NAME"} and token.type in KEYWORDS:
        wrong = f"'{token}' is a word of the language and cannot be a name"
        return Slip(scene.at, wrong, f"choose another name, such as '{token}_1'")
    if accepts == {"NAME"} and previous is not None and previous.type in STATEMENTS:
        wrong = f"expected a name after '{previous}', found {scene.token_text}"
        return Slip(scene.at, wrong, f"write: {_EXAMPLES[previous.type]}")
    heading_ends = accepts >= STATEMENTS and first == "INCLUDE"
    if heading_ends and token.type in ("COMMA", "TEXT"):
        wrong = f"'include' takes one path, found {scene.token_text} after it"
        return Slip(scene.at, wrong, "write 'include' before every path")
    if previous is not None and previous.type == "INCLUDE":
        wrong = f"expected a path in quotes after 'include', found {scene.token_text}"
        return Slip(scene.at, wrong, f"write: {_EXAMPLES['INCLUDE']}")
    if accepts == {"COLON"} and first == "GUARANTEE" and token.type == "PER":
        cure = "write: find bound: least b per label such that ..."
        return Slip(scene.at, "'per label' belongs to 'find', not to 'guarantee'", cure)
    if accepts >= STATEMENTS and token.type == "FORALL":
        return Slip(scene.at, "this claim has no name", "write: guarantee quiet: forall ...")
    if accepts == {"NAME"} and previous is not None and previous.type == "WITH":
        wrong = f"expected 'confidence' after 'with', found {scene.token_text}"
        return Slip(scene.at, wrong, "write: ... with confidence 0.95")
    if first in STATEMENTS and accepts in ({"COLON"}, {"EQUAL"}):
        mark = "=" if accepts == {"EQUAL"} else ":"
        wrong = f"expected '{mark}' after '{first.lower()} {previous}', found {scene.token_text}"
        sample = _EXAMPLES[first].split()
        return Slip(scene.at, wrong, f"write: {first.lower()} {previous}{_tail(sample)}")
    if "LEAST" in accepts:
        wrong = f"expected 'least' or 'greatest', found {scene.token_text}"
        return Slip(scene.at, wrong, f"write: {_EXAMPLES['FIND']}")
    if "SUCH" in accepts or "THAT" in accepts:
        wrong = f"expected 'such that' before the claim, found {scene.token_text}"
        return Slip(scene.at, wrong, f"write: {_EXAMPLES['FIND']}")
    return None


def _tail(sample: list[str]) -> str:
    rest = sample[1:]
    return f"{':' if rest[0].endswith(':') else ''} {' '.join(rest[1:])}"


def _binder(scene: Scene) -> Slip | None:
    token, previous = scene.token, scene.previous
    if previous is None:
        return None
    if scene.accepts == {"IN"} and token.type == "LPAR":
        wrong = f"expected ':' before the claim, found '{previous}(' after a comma"
        return Slip(position(previous), wrong, "write: forall x in X, M in F: ...")
    if scene.accepts == {"IN"}:
        wrong = f"expected 'in' after '{previous}', found {scene.token_text}"
        return Slip(
            scene.at, wrong, f"state what '{previous}' ranges over: forall {previous} in X: ..."
        )
    if scene.accepts == {"NAME"} and previous.type in ("FORALL", "COMMA"):
        wrong = f"expected a name after '{previous}', found {scene.token_text}"
        return Slip(scene.at, wrong, "write: forall x in X, M in F: ...")
    if scene.accepts >= {"COLON", "COMMA"}:
        wrong = f"expected ':' or ',' after what 'forall' ranges over, found {scene.token_text}"
        return Slip(scene.at, wrong, "write: forall x in X, M in F: ...")
    if "NAME" in scene.accepts and token.type in ("FORALL", "NOT"):
        wrong = f"'{token}' is not allowed here without parentheses"
        return Slip(scene.at, wrong, f"write: ({token} ...)")
    return None


def _operator(scene: Scene) -> Slip | None:
    token, touching, after = scene.token, scene.adjacent_text, scene.after
    pair = (touching, str(token))
    pairs = {
        ("-", ">"): "write '=>'",
        ("=", "=>"): "write '=>'",
        ("==", ">"): "write '=>'",
        ("<=", ">"): "write: (a => b) and (b => a)",
        ("<", ">"): "write '!='",
        ("==", "="): "write '=='",
        ("!=", "="): "write '!='",
        ("*", "*"): "there is no power operator: write x * x",
        ("/", "/"): "a comment begins with '#'",
        ("/", "*"): "a comment begins with '#'",
    }
    if pair in pairs:
        return Slip(scene.back(), f"there is no '{''.join(pair)}'", pairs[pair])
    if token.type == "EQUAL" and after is not None and after.start_pos == token.end_pos:
        swapped = {"<": "'<='", ">": "'>='"}.get(str(after))
        if swapped:
            at = scene.at.to(position(after))
            return Slip(at, f"there is no '={after}'", f"write {swapped}")
    if token.type == "EQUAL" and "COMPARISON" in scene.accepts:
        return Slip(scene.at, "'=' names a value, '==' compares two", "write '=='")
    if token.type == "LSQB" and scene.previous is not None and scene.previous.type == "NAME":
        number = str(after) if after is not None and after.type == "NUMBER" else "0"
        wrong = f"there is no '{scene.previous}[...]': a function reads features"
        return Slip(scene.back(), wrong, f"write: feature({scene.previous}, {number})")
    chained = "AND" in scene.accepts and "COMPARISON" not in scene.accepts
    if chained and token.type in ("EQUAL", "COMPARISON"):
        cure = "write: a < b and b < c"
        return Slip(scene.at, "comparisons do not chain", cure)
    return None


def _word(scene: Scene) -> Slip | None:
    token, previous, after = scene.token, scene.previous, scene.after
    if token.type == "TEXT" and previous is not None and previous.type == "NAME":
        wrong = f"'{previous}' needs parentheses around its operand"
        return Slip(scene.back(), wrong, f"write: {previous}({scene.token_text})")
    if token.type != "NAME":
        return None
    folded = token.casefold()
    if previous is not None and previous.type == "NUMBER" and scene.adjacent_text:
        cure = f"write {previous} * {token} for a product"
        return Slip(scene.back(), "a name cannot begin with a digit", cure)
    if previous is not None and previous.type == "NAME":
        before = previous.casefold()
        if before in ("for", "foreach", "every", "all"):
            both = scene.back() if folded in ("all", "each", "every") else position(previous)
            text = f"{previous} {token}" if both == scene.back() else str(previous)
            return Slip(both, f"unknown word '{text}'", "write: forall x in X: ...")
        if before in ("exists", "some"):
            cure = "every claim is about all values: forall x in X: ..."
            return Slip(position(previous), f"there is no '{previous}'", cure)
        near = WORDS.get(before) or nearest(before, ["forall", "not"])
        if near:
            return Slip(position(previous), f"unknown word '{previous}'", near)
    if folded in WORDS:
        return Slip(scene.at, f"unknown word '{token}'", WORDS[folded])
    if scene.accepts >= STATEMENTS and after is not None:
        if after.type == "EQUAL":
            return Slip(
                scene.at, f"'{token}' gets a value without 'let'", f"write: let {token} = ..."
            )
        if after.type == "COLON":
            wrong = f"expected 'guarantee' or 'find' before '{token}'"
            return Slip(scene.at, wrong, f"write: guarantee {token}: ...")
    near = nearest(token, [each.lower() for each in scene.accepts & KEYWORDS])
    return Slip(scene.at, f"unknown word '{token}'", near) if near else None


_RULES: tuple[Callable[[Scene], Slip | None], ...] = (
    _bracket,
    _heading,
    _operator,
    _word,
    _binder,
)


def _otherwise(scene: Scene) -> Slip:
    reserved = ", a word of the language" * (scene.token.type in KEYWORDS)
    wrong = f"expected {describe_expected(scene.accepts)}, found {scene.token_text}{reserved}"
    if not scene.before:
        return Slip(scene.at, wrong, f"write: {_EXAMPLES['GUARANTEE']}")
    return Slip(scene.at, wrong, _value_missing(scene))


def _value_missing(scene: Scene) -> str:
    if not {"NAME", "NUMBER", "LPAR"} <= scene.accepts or scene.previous is None:
        return ""
    if scene.token.type in KEYWORDS - STATEMENTS:
        return f"'{scene.token}' is not a value and cannot name one"
    kind = "claim" if scene.previous.type in _BEFORE_CLAIMS else "value"
    cure = f"write a {kind} after '{scene.previous}'"
    return f"{cure}, or delete it" if scene.previous.type == "COMMA" else cure

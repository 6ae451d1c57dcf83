"""Conversion of syntax tree nodes to words and breaks, in canonical order."""

from __future__ import annotations

from leaveout.specs.printing.layout import Break, Fill, Group, Part, Word
from leaveout.specs.text.expressions import (
    And,
    Arithmetic,
    Binder,
    Call,
    Compare,
    Confident,
    ForAll,
    Implies,
    ListOf,
    Negate,
    Node,
    Not,
    Number,
    Option,
    Or,
    binds,
)
from leaveout.specs.text.tree import Find, Guarantee, Include, Let, Param, Statement


def pieces(statement: Statement) -> Part:
    """Return the parts of a statement, which on one line are its canonical text."""
    return _Pieces().statement(statement)


class _Pieces:
    """Converter that counts tokens from 1, except parentheses."""

    def __init__(self) -> None:
        self.tokens = 0

    def word(self, text: str, tokens: int = 1) -> Word:
        self.tokens += tokens
        return Word(text, self.tokens, tokens)

    def words(self, text: str) -> list[Part]:
        """Return words joined by unbreakable spaces."""
        found: list[Part] = []
        for each in text.split():
            found += [*([Word(" ")] if found else []), self.word(each)]
        return found

    def statement(self, node: Statement) -> Part:
        match node:
            case Let():
                word = "param" if isinstance(node, Param) else "let"
                head = [*self.words(f"{word} {node.name} ="), Word(" ")]
                return Group((*head, self.node(node.value)))
            case Include():
                return Group((*self.words("include"), Word(" "), self.node(node.path)))
            case Guarantee():
                head = [*self.words(f"guarantee {node.name}"), self.word(":")]
            case Find():
                head = [*self.words(f"find {node.name}"), self.word(":"), Word(" ")]
                each = " per label" if node.per_label else ""
                head += self.words(f"{node.direction} {node.variable}{each} such that")
        return Group((*head, Break(), self.node(node.claim)), indented=True)

    def inside(self, node: Node, tight: int) -> Part:
        """Return an operand, in parentheses if it binds looser than its place."""
        if binds(node) >= tight:
            return self.node(node)
        return Group((Word("("), Break(""), self.node(node), Break(""), Word(")")), indented=True)

    def node(self, node: Node) -> Part:
        match node:
            case Number():
                return self.word(str(node), 2 if str(node).startswith("-") else 1)
            case Negate():
                return self.negate(node)
            case ListOf():
                return self.listing(node)
            case Option():
                return Group((*self.words(f"{node.name} ="), Word(" "), self.node(node.value)))
            case Call():
                return self.call(node)
            case Not():
                return Group((self.word("not"), Word(" "), self.inside(node.claim, 4)))
            case Arithmetic():
                tight = binds(node)
                return self.chain(node, tight, tight + 1, node.operator)
            case Compare():
                return self.chain(node, 6, 6, node.operator)
            case And():
                return self.chain(node, 3, 4, "and")
            case Or():
                return self.chain(node, 2, 3, "or")
            case Implies():
                left = self.inside(node.left, 2)
                arrow = self.word("=>")
                return Group((left, Word(" "), arrow, Break(), self.inside(node.right, 1)))
            case Binder():
                head = [*self.words(f"{node.name} in"), Word(" ")]
                domain = self.inside(node.domain, 6)
                if node.but is None:
                    return Group((*head, domain))
                rest = [Word(" "), self.word("but"), Word(" "), self.node(node.but)]
                return Group((*head, domain, *rest))
            case ForAll():
                return self.for_all(node)
            case Confident():
                claim = self.inside(node.claim, 1)
                words = self.words("with confidence")
                return Group((claim, Break(), *words, Word(" "), self.node(node.level)))
            case _:
                return self.word(str(node))

    def negate(self, node: Negate) -> Part:
        minus = self.word("-")
        digits = isinstance(node.operand, Number) and not str(node.operand).startswith("-")
        tight = 9 if digits else 8
        return Group((minus, self.inside(node.operand, tight)))

    def chain(self, node: And | Or | Compare | Arithmetic, left: int, right: int, by: str) -> Part:
        """Return two operands, broken before their operator."""
        first = self.inside(node.left, left)
        # A longer chain of the same is one group: all of it is broken, or nothing.
        parts: tuple[Part, ...] = (first,)
        if _continues(node) and isinstance(first, Group):
            parts = first.parts
        return Group((*parts, Break(), self.word(by), Word(" "), self.inside(node.right, right)))

    def listing(self, node: ListOf) -> Part:
        opening = self.word("[")
        items = self.comma_groups(node.items)
        return Group((opening, Break(""), Fill(items), Break(""), self.word("]")), indented=True)

    def comma_groups(self, nodes: tuple[Node, ...]) -> tuple[Group, ...]:
        """Return nodes as groups, each but the last with a comma."""
        found = []
        for i, each in enumerate(nodes):
            part = self.node(each)
            comma = [self.word(",")] if i < len(nodes) - 1 else []
            found.append(Group((part, *comma)))
        return tuple(found)

    def call(self, node: Call) -> Part:
        opening = [self.word(node.function), Word("(")]
        items = self.comma_groups((*node.arguments, *node.options))
        if not items:
            return Group((*opening, Word(")")))
        spread: list[Part] = [Break("")]
        for i, item in enumerate(items):
            spread += [*([Break()] if i else []), item]
        return Group((*opening, *spread, Break(""), Word(")")), indented=True)

    def for_all(self, node: ForAll) -> Part:
        head: list[Part] = [self.word("forall"), Word(" ")]
        for i, binder in enumerate(node.binders):
            if i:
                head += [self.word(","), Break()]
            head.append(self.node(binder))
        head.append(self.word(":"))
        return Group((Group(tuple(head)), Break(), self.inside(node.body, 1)), indented=True)


def _continues(node: And | Or | Compare | Arithmetic) -> bool:
    left = node.left
    return type(left) is type(node) and binds(left) == binds(node)

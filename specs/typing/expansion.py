"""Size of an expression with every name written out.

Names are followed wherever an expression is read or evaluated, and a few dozen lets that each name
the one before twice stand for more than any machine can walk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leaveout.specs.table.signatures import Function
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import Call, Expression, ListOf, Name, Node, Number, children
from leaveout.specs.text.parse import DEEPEST, LONGEST
from leaveout.specs.text.tree import Let

MOST_IN_ALL = 20 * LONGEST
"""Most parts that all claims of a specification may have together, names written out."""


@dataclass(frozen=True)
class _Measure:
    """Size and depth of an expression with lets written out."""

    size: int
    depth: int


@dataclass
class Expansion:
    """The sizes of the lets read so far, each computed once."""

    functions: Mapping[str, Function]  # those that are called
    _lets: dict[str, _Measure] = field(default_factory=dict, init=False)
    _claims: int = field(default=0, init=False)

    def let(self, let: Let) -> None:
        """Measure a let or param; raises `Slip` if it is too large or too deep."""
        self._lets.setdefault(let.name, self._measure_or_refuse(let.value))

    def claim(self, claim: Expression) -> None:
        """Measure a claim; raises `Slip` if it, or all together, are too large or too deep."""
        self._claims += self._measure_or_refuse(claim).size
        if self._claims > MOST_IN_ALL:
            raise Slip(
                claim.at,
                "with every name written out, the claims up to this one have more than "
                f"{MOST_IN_ALL:,} parts",
                "put the others into a specification of their own",
            )

    def _measure_or_refuse(self, node: Expression) -> _Measure:
        """Measure an expression; raise `Slip` if it is too large or too deep."""
        found = self._measure(node)
        # What is written in one specification without names is never larger.
        if found.size > LONGEST:
            raise Slip(
                node.at,
                f"with every name written out, this expression has more than {LONGEST:,} parts",
                "each name stands for all that its 'let' holds, each time it is used: use them "
                "fewer times",
            )
        if found.depth > DEEPEST:
            raise Slip(
                node.at,
                "with every name written out, this expression is nested more than "
                f"{DEEPEST} levels deep",
                "shorten the chain of names that stand for one another",
            )
        return found

    def _measure(self, node: Node) -> _Measure:
        if isinstance(node, Name) and node.name in self._lets:
            named = self._lets[node.name]
            return _Measure(named.size + 1, named.depth + 1)
        if isinstance(node, ListOf) and all(isinstance(item, Number) for item in node.items):
            # Data, which is read once.
            return _Measure(1, 1)
        size = depth = 1
        for child in children(node):
            inner = self._measure(child)
            size += inner.size
            # Sets of inputs that refine one another, by name or not, are read in a loop.
            more = 1 if child is not self._refined_set(node) else -isinstance(child, Name)
            depth = max(depth, inner.depth + more)
        return _Measure(size, depth)

    def _refined_set(self, node: Node) -> Expression | None:
        """Return the set of inputs that a call refines."""
        if isinstance(node, Call) and self.functions[node.function].lists and node.arguments:
            return node.arguments[0]
        return None

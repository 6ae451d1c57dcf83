"""The nodes of an expression, including the lets it names."""

from __future__ import annotations

from collections.abc import Container, Iterator

from leaveout.specs import Call, CheckedSpec, Expression, ForAll, Name, Node
from leaveout.specs.text.expressions import walk


def reachable(node: Expression, spec: CheckedSpec) -> Iterator[Node]:
    """Yield every node of an expression and of the lets it names, each once."""
    for start in (node, *(spec.lets[name].value for name in lets_named(node, spec))):
        yield from walk(start)


def lets_named(node: Expression, spec: CheckedSpec) -> tuple[str, ...]:
    """Return the lets that an expression needs, in the specification's order."""
    found: set[str] = set()
    stack: list[Expression] = [node]
    while stack:
        nodes = list(walk(stack.pop()))
        # A later let may have the name of what an earlier statement binds.
        bound = {b.name for each in nodes if isinstance(each, ForAll) for b in each.binders}
        for each in nodes:
            if isinstance(each, Name) and each.name in spec.lets and each.name not in bound | found:
                found.add(each.name)
                stack.append(spec.lets[each.name].value)
    return tuple(name for name in spec.lets if name in found)


def mentions(node: Node, names: Container[str]) -> bool:
    """Return whether an expression itself contains one of some names."""
    return any(isinstance(each, Name) and each.name in names for each in walk(node))


def network_calls(spec: CheckedSpec) -> list[Call]:
    """Return every ``network(...)`` of a specification."""
    starts = [*(let.value for let in spec.lets.values()), *(s.claim for s in spec.statements)]
    return [
        each
        for start in starts
        for each in walk(start)
        if isinstance(each, Call) and each.function == "network"
    ]

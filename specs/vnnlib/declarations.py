"""Declarations of version 2.0: networks, their tensors, and names of elements."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.assertions import LOGIC
from leaveout.specs.vnnlib.formula import Place, UnreadableError
from leaveout.specs.vnnlib.lisp import Bracketed, Tree, Word
from leaveout.specs.vnnlib.problem import Declared, Tensor
from leaveout.specs.vnnlib.text import Lines

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_ELEMENT = re.compile(r"([A-Za-z]\w*)\s*(?:\[(.*)\])?", re.ASCII | re.DOTALL)
_WHOLE = re.compile(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*)*", re.ASCII)
_TYPES = {"real": "real", "Real": "real", "float32": "float32"}
_FLOATS = {"float64", "float16", "bfloat16", "float", "double"}
_PARTS = {
    "equal-to": 0,
    "isomorphic-to": 0,
    "declare-input": 1,
    "declare-hidden": 2,
    "declare-output": 3,
}
"""Of a network, in the order in which they stand."""

_Placed: TypeAlias = tuple[Tensor, Position]


@dataclass
class Names:
    """The `Scope` of version 2.0."""

    networks: list[Declared] = field(default_factory=list)
    variables: dict[str, tuple[str, int, Tensor]] = field(default_factory=dict)

    def add(self, each: Declared) -> None:
        """Add a network."""
        position = len(self.networks)
        hidden = sum(len(other.hidden) for other in self.networks)
        self.networks.append(each)
        self.variables[each.input.name] = "input", position, each.input
        self.variables[each.output.name] = "output", position, each.output
        for i, node in enumerate(each.hidden):
            self.variables[node.name] = "hidden", hidden + i, node

    def names(self) -> Collection[str]:
        """Return the declared names."""
        return self.variables

    def find(self, name: str) -> Place | None:
        """Return the element a name stands for; None if it is not declared."""
        match = _ELEMENT.fullmatch(name)
        known = None if match is None else self.variables.get(match.group(1))
        if match is None or known is None:
            return None
        kind, position, tensor = known
        indices = [] if match.group(2) is None else _numbers(match.group(2))
        if indices is None:
            wrong = f"'[{match.group(2)[:40]}]' are no indices"
            raise UnreadableError(wrong, "give whole numbers")
        if len(indices) != len(tensor.shape):
            wrong = f"{tensor.name} has {len(tensor.shape)} axes, found {len(indices)} indices"
            cure = "" if tensor.shape else f"write {tensor.name} without brackets"
            raise UnreadableError(wrong, cure)
        flat = 0
        for index, size in zip(indices, tensor.shape, strict=True):
            if index >= size:
                wrong = f"{tensor.name} of shape {list(tensor.shape)} has no element {indices}"
                raise UnreadableError(wrong)
            flat = flat * size + index
        if kind == "hidden":
            position += len(self.networks)
        return Place(kind != "input", position, flat)


def _numbers(text: str) -> list[int] | None:
    """Return comma-separated integers; None if the text is anything else."""
    if _WHOLE.fullmatch(text) is None:
        return None
    return [int(each) for each in text.split(",")]


class Declarations:
    """Reader of network declarations."""

    def __init__(self, lines: Lines, names: Names) -> None:
        self.lines, self.names = lines, names

    def at(self, tree: Tree) -> Position:
        """Return the position of a word, or of the beginning of a list."""
        if isinstance(tree, Word):
            return self.lines.place(tree.start, tree.start + len(tree.text))
        head = len(tree.head) + 1
        return self.lines.place(tree.start, tree.start + head)

    def network(self, given: Bracketed) -> None:
        """Read ``(declare-network name ...)``."""
        at = self.at(given)
        name = self._name(given, given.items[1:2])
        tensors: dict[str, list[tuple[Tensor, Position]]] = {
            "input": [],
            "hidden": [],
            "output": [],
        }
        relations: dict[str, str] = {}
        own = {name}
        before = 0
        for part in given.items[2:]:
            if not isinstance(part, Bracketed) or part.head not in _PARTS:
                known = part.head if isinstance(part, Bracketed) else part.text
                wrong = f"'{known[:40]}' is no part of a network"
                raise Slip(self.at(part), wrong, nearest(known[:40], _PARTS))
            if _PARTS[part.head] < before:
                cure = "the relation to another network, inputs, hidden nodes, outputs"
                raise Slip(self.at(part), f"'{part.head}' stands too late", f"the order is {cure}")
            before = _PARTS[part.head]
            if before == 0:
                if relations:
                    raise Slip(self.at(part), f"{name} is related to two networks; one is read")
                relations[part.head] = self._read_relation(part)
            else:
                tensor = self._tensor(part, own)
                tensors[part.head.removeprefix("declare-")].append((tensor, self.at(part)))
        read, computed = (self._only(name, kind, tensors[kind], at) for kind in ("input", "output"))
        declared = Declared(
            name,
            read,
            computed,
            at,
            relations.get("equal-to", ""),
            relations.get("isomorphic-to", ""),
            tuple(node for node, _ in tensors["hidden"]),
        )
        self._hold_against_related(declared)
        self._refuse_mixed(declared)
        self.names.add(declared)

    def _only(self, name: str, kind: str, found: list[_Placed], at: Position) -> Tensor:
        if len(found) != 1:
            place = found[1][1] if found else at
            raise Slip(place, f"the network {name} has {len(found)} {kind}s; one is read")
        return found[0][0]

    def _name(self, given: Bracketed, items: Sequence[Tree], own: Collection[str] = ()) -> str:
        match items:
            case [Word(text=text) as word] if _NAME.fullmatch(text):
                if text in LOGIC:
                    raise Slip(self.at(word), f"'{text}' is a word of formulas, and no name")
                networks = {each.name for each in self.names.networks}
                if text in networks or text in self.names.variables or text in own:
                    raise Slip(self.at(word), f"the name {text[:40]} is declared twice")
                return text
        place = items[0] if items else given
        raise Slip(self.at(place), f"'{given.head}' needs a name of letters, digits and _")

    def _read_relation(self, part: Bracketed) -> str:
        """Return the network that a declaration relates to; refuse chains of relations."""
        match part.items[1:]:
            case [Word(text=text) as word]:
                for other in self.names.networks:
                    if other.name == text:
                        if other.equal_to or other.isomorphic_to:
                            first = other.equal_to or other.isomorphic_to
                            wrong = f"{text} is itself related to {first}"
                            raise Slip(self.at(word), wrong, f"relate to {first}")
                        return text
                raise Slip(self.at(word), f"no network {text[:40]} is declared before")
        raise Slip(self.at(part), f"expected '({part.head} NAME)'")

    def _tensor(self, part: Bracketed, own: set[str]) -> Tensor:
        name = self._name(part, part.items[1:2], own)
        own.add(name)
        shown = f"expected '({part.head} {name} float32 [1,5])'"
        match part.items[2:]:
            case [Word() as kind, *rest]:
                matched = _ELEMENT.fullmatch(kind.text)
            case _:
                raise Slip(self.at(part), shown)
        if matched is None or matched.group(2) is None:
            raise Slip(self.at(kind), shown)
        sizes = _numbers(matched.group(2)) if matched.group(2).strip() else []
        if sizes is None or 0 in sizes:
            wrong = f"'[{matched.group(2)[:40]}]' are no sizes"
            raise Slip(self.at(kind), wrong, "give whole numbers above 0")
        known = self._type(name, matched.group(1), kind)
        return Tensor(name, known, tuple(sizes), self._onnx_name(part, rest))

    def _type(self, name: str, written: str, at: Word) -> str:
        known = _TYPES.get(written)
        if known is not None:
            return known
        wrong = f"{name} is of type {written[:40]}, which is not read"
        if written not in _FLOATS:
            raise Slip(self.at(at), wrong, "declare it as real or float32")
        raise Slip(
            self.at(at),
            wrong,
            "declare it as real, a claim about exact arithmetic, or export the network in float32 "
            "and declare it as float32",
        )

    def _onnx_name(self, part: Bracketed, rest: Sequence[Tree]) -> str:
        match rest:
            case [] if part.head != "declare-hidden":
                return ""
            case [Word(text=text)] if text.startswith('"') and len(text) > 2:
                return text[1:-1]
            case [Word(text="initialized") as word] if part.head == "declare-input":
                raise Slip(
                    self.at(word),
                    "'initialized' is not read",
                    "leave this input out: the default that a model gives an input is a constant "
                    "of the network",
                )
        if part.head == "declare-hidden":
            wrong = 'a hidden node needs its name in the model, such as "relu_1"'
            raise Slip(self.at(rest[0] if rest else part), wrong)
        raise Slip(self.at(rest[0]), "expected ')' after the shape")

    def _hold_against_related(self, each: Declared) -> None:
        related = each.equal_to or each.isomorphic_to
        for other in self.names.networks:
            if other.name != related:
                continue
            for ours, theirs in ((each.input, other.input), (each.output, other.output)):
                if ours.shape != theirs.shape:
                    raise Slip(
                        each.at,
                        f"{ours.name} of {each.name} has shape {list(ours.shape)}, and "
                        f"{theirs.name} of {other.name} {list(theirs.shape)}",
                    )

    def _refuse_mixed(self, each: Declared) -> None:
        types = {tensor.type for tensor in each.tensors}
        types |= {tensor.type for other in self.names.networks for tensor in other.tensors}
        if len(types) > 1:
            raise Slip(each.at, "a query in both real and float32 is not read")

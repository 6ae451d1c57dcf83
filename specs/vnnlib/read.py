"""Reading of query files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from leaveout.encoders.query import Query
from leaveout.errors import SpecError
from leaveout.models import Network
from leaveout.specs.text.errors import Position, Slip, nearest
from leaveout.specs.vnnlib.build import build
from leaveout.specs.vnnlib.formula import LOGIC, All, Assertions, Formula, Place, UnreadableError
from leaveout.specs.vnnlib.onnx_files import check_networks, load_model
from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor
from leaveout.specs.vnnlib.text import (
    Bracketed,
    Lines,
    Tree,
    Word,
    one_line,
    read_lists,
    read_text,
    without_comments,
)

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
"""The parts of a network declaration, in their required order."""

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
        """Return the element that a name denotes; None if it is not declared."""
        match = _ELEMENT.fullmatch(name)
        known = None if match is None else self.variables.get(match.group(1))
        if match is None or known is None:
            return None
        kind, position, tensor = known
        indices = [] if match.group(2) is None else _numbers(match.group(2))
        if indices is None:
            wrong = f"'[{match.group(2)[:40]}]' are not valid indices"
            raise UnreadableError(wrong, "write whole numbers")
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
                wrong = f"'{known[:40]}' is not part of a network"
                raise Slip(self.at(part), wrong, nearest(known[:40], _PARTS))
            if _PARTS[part.head] < before:
                cure = "the relation to another network, inputs, hidden nodes, outputs"
                raise Slip(self.at(part), f"'{part.head}' comes too late", f"the order is {cure}")
            before = _PARTS[part.head]
            if before == 0:
                if relations:
                    raise Slip(
                        self.at(part), f"{name} is related to two networks; only one is supported"
                    )
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
            raise Slip(place, f"the network {name} has {len(found)} {kind}s; only one is supported")
        return found[0][0]

    def _name(self, given: Bracketed, items: Sequence[Tree], own: Collection[str] = ()) -> str:
        match items:
            case [Word(text=text) as word] if _NAME.fullmatch(text):
                if text in LOGIC:
                    raise Slip(self.at(word), f"'{text}' is a formula keyword, not a name")
                networks = {each.name for each in self.names.networks}
                if text in networks or text in self.names.variables or text in own:
                    raise Slip(self.at(word), f"the name {text[:40]} is declared twice")
                return text
        place = items[0] if items else given
        raise Slip(self.at(place), f"'{given.head}' needs a name of letters, digits and _")

    def _read_relation(self, part: Bracketed) -> str:
        """Return the network to which a declaration refers; refuse chains of references."""
        match part.items[1:]:
            case [Word(text=text) as word]:
                for other in self.names.networks:
                    if other.name == text:
                        if other.equal_to or other.isomorphic_to:
                            first = other.equal_to or other.isomorphic_to
                            wrong = f"{text} is itself related to {first}"
                            raise Slip(self.at(word), wrong, f"relate to {first}")
                        return text
                raise Slip(self.at(word), f"no network {text[:40]} is declared earlier")
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
            wrong = f"'[{matched.group(2)[:40]}]' are not valid sizes"
            raise Slip(self.at(kind), wrong, "write whole numbers above 0")
        known = self._type(name, matched.group(1), kind)
        return Tensor(name, known, tuple(sizes), self._onnx_name(part, rest))

    def _type(self, name: str, written: str, at: Word) -> str:
        known = _TYPES.get(written)
        if known is not None:
            return known
        wrong = f"{name} has the type {written[:40]}, which is not supported"
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
                    "'initialized' is not supported",
                    "remove this input: a model's default for an input is a constant of the "
                    "network",
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
                        f"{ours.name} of {each.name} has shape {list(ours.shape)}, but "
                        f"{theirs.name} of {other.name} has {list(theirs.shape)}",
                    )

    def _refuse_mixed(self, each: Declared) -> None:
        types = {tensor.type for tensor in each.tensors}
        types |= {tensor.type for other in self.names.networks for tensor in other.tensors}
        if len(types) > 1:
            raise Slip(each.at, "a query in both real and float32 is not supported")


VERSIONS = ("2.0", "2.1")  # version 2.1 adds default values of inputs, which are not supported

_VERSION = re.compile(r"\s*\(\s*vnnlib-version\b")
_MODERN_COMMANDS = ("declare-network", "assert")


def is_modern(bare: str) -> bool:
    """Return whether a text without comments declares its version."""
    return _VERSION.match(bare) is not None


def read_modern(bare: str, source: str) -> Problem:
    """Read a query of version 2.0."""
    lines, names = Lines(bare), Names()
    formulas = Assertions(lines, names)
    first, *rest = read_lists(bare)
    _refuse_version(first, formulas)
    declarations = Declarations(lines, names)
    asserted: list[Formula] = []
    for each in rest:
        if each.head == "assert":
            if not names.networks:
                raise Slip(formulas.at(each), "an assertion before any network is declared")
            asserted.append(formulas.read_assert(each))
        elif each.head == "declare-network":
            if asserted:
                wrong = "a network is declared after an assertion"
                raise Slip(formulas.at(each), wrong, "declare all networks first")
            declarations.network(each)
        else:
            wrong = f"the command '{each.head[:40]}' is not supported"
            raise Slip(formulas.at_head(each), wrong, nearest(each.head[:40], _MODERN_COMMANDS))
    if not names.networks:
        raise Slip(Position(1, 1, 1, 1), "the query declares no network")
    return Problem(source, "2.0", tuple(names.networks), All(tuple(asserted)))


def _refuse_version(given: Bracketed, formulas: Assertions) -> None:
    match given.items[1:]:
        case [Word(text=text) as word]:
            if text not in {f"<{version}>" for version in VERSIONS}:
                wrong = f"version '{text[:20]}' is not supported"
                raise Slip(formulas.at(word), wrong, f"1.0, {' and '.join(VERSIONS)} are")
        case _:
            raise Slip(formulas.at(given), "expected '(vnnlib-version <2.0>)'")


_VARIABLE = re.compile(r"([XY])_(0|[1-9]\d{0,8})")
_IGNORED = {"set-logic", "set-info", "set-option", "check-sat", "get-model", "exit"}
_CLASSIC_COMMANDS = {"declare-const", "declare-fun", "assert"}


def read_classic(bare: str, source: str) -> Problem:
    """Read a query of version 1.0."""
    lists = read_lists(bare)
    if not lists:
        raise Slip(Position(1, 1, 1, 1), "the query is empty")
    variables = _Variables()
    formulas = Assertions(Lines(bare), variables)
    read = [_command(each, formulas, variables) for each in lists]
    asserted = tuple(found for found in read if found is not None)
    start = formulas.at(lists[0])
    widths = [variables.width(letter, start) for letter in "XY"]
    network = Declared(
        "N", Tensor("X", "real", (widths[0],)), Tensor("Y", "real", (widths[1],)), start
    )
    return Problem(source, "1.0", (network,), All(asserted))


def _command(given: Bracketed, formulas: Assertions, variables: _Variables) -> Formula | None:
    head = given.head
    if head in {"declare-const", "declare-fun"}:
        variables.declare(given, formulas)
    elif head == "assert":
        return formulas.read_assert(given)
    elif head not in _IGNORED:
        wrong = f"the command '{head[:40]}' is not supported"
        raise Slip(formulas.at_head(given), wrong, nearest(head[:40], _CLASSIC_COMMANDS))
    return None


class _Variables:
    """A `Scope` of the variables of version 1.0."""

    def __init__(self) -> None:
        self.declared: dict[str, Place] = {}

    def find(self, name: str) -> Place | None:
        return self.declared.get(name)

    def names(self) -> Collection[str]:
        return self.declared

    def declare(self, given: Bracketed, formulas: Assertions) -> None:
        const = given.head == "declare-const"
        items = given.items[1:]
        if not const and len(items) == 3 and isinstance(items[1], Bracketed):
            items = [items[0], *items[1].items, items[2]]
        if len(items) != 2 or not all(isinstance(item, Word) for item in items):
            raise Slip(
                formulas.at(given), f"expected '({given.head} X_0 {'' if const else '() '}Real)'"
            )
        name, sort = items
        assert isinstance(name, Word)
        assert isinstance(sort, Word)
        match = _VARIABLE.fullmatch(name.text)
        if match is None:
            raise Slip(
                formulas.at(name),
                f"'{name.text[:40]}' is not a variable of version 1.0",
                "inputs are X_0, X_1, ... and outputs Y_0, Y_1, ... of one network; state a query "
                "over several networks in version 2.0",
            )
        if sort.text != "Real":
            raise Slip(
                formulas.at(sort),
                f"{name.text} has the sort '{sort.text[:40]}'; only Real is supported",
            )
        if name.text in self.declared:
            raise Slip(formulas.at(name), f"{name.text} is declared twice")
        self.declared[name.text] = Place(match.group(1) == "Y", 0, int(match.group(2)))

    def width(self, letter: str, at: Position) -> int:
        indices = {p.element for p in self.declared.values() if p.output == (letter == "Y")}
        if not indices:
            raise Slip(at, f"{letter}_0 is not declared")
        for i in range(len(indices)):
            if i not in indices:
                raise Slip(at, f"{letter}_{max(indices)} is declared but {letter}_{i} is not")
        return len(indices)


_NAMED = re.compile(r"([A-Za-z]\w*)=(.+)", re.ASCII)


@dataclass(frozen=True)
class Reading:
    """A query with the names used by its file."""

    problem: Problem
    query: Query


def parse_problem(text: str, name: str = "<text>") -> Problem:
    """Read the text of a VNN-LIB query of version 1.0 or 2.0."""
    try:
        bare = without_comments(text)
        return read_modern(bare, name) if is_modern(bare) else read_classic(bare, name)
    except Slip as slip:
        raise one_line(name, slip) from None


def load_problem(path: Path | str) -> Problem:
    """Read a query file as `parse_problem` does; it may be gzip-compressed."""
    return parse_problem(read_text(Path(path)), str(path))


def query_of(
    problem: Problem, networks: Sequence[Network], *, reals: bool | None = None
) -> Reading:
    """Build the query of a problem.

    Parameters
    ----------
    problem : Problem
    networks : sequence of Network
        One per declaration.
    reals : bool, optional
        Whether it is about exact arithmetic; by default as declared, and true for version 1.0.

    Raises
    ------
    SpecError
        If a network differs from its declaration, an input has no bounds, or there are too many
        cases.
    ModelError
        If a network ends in a Softmax.
    """
    if len(networks) != len(problem.networks):
        raise SpecError(
            f"{problem.source}: declares {len(problem.networks)} networks, but got {len(networks)}"
        )
    try:
        hidden = check_networks(problem, networks)
        return Reading(problem, build(problem, [*networks, *hidden], reals))
    except Slip as slip:
        raise one_line(problem.source, slip) from None


def load_query(
    path: Path | str, networks: Sequence[Path | str], *, reals: bool | None = None
) -> Reading:
    """Read a query and its networks.

    Parameters
    ----------
    path : path to a VNN-LIB query
    networks : sequence of str or Path
        ``FILE`` or ``NAME=FILE``. Files without a name are assigned to the remaining networks in
        order of declaration; a network equal to another needs none.
    reals : bool, optional
        As in `query_of`.

    Raises
    ------
    LeaveoutError
        If a file cannot be read, or a network differs from its declaration.
    """
    loaded: dict[Path, Network] = {}
    if len(networks) == 1 and (only := Path(networks[0])).is_file():
        # Queries may have 100 MB: a network that is refused need not wait for them.
        loaded[only] = load_model(only)
    problem = load_problem(path)
    files = _assign_files(problem, networks)
    found = []
    for file in files:
        if file not in loaded:
            network = load_model(file)
            known = (each for each in loaded.values() if each.computes_as(network))
            loaded[file] = next(known, network)
        found.append(loaded[file])
    return query_of(problem, found, reals=reals)


def _assign_files(problem: Problem, given: Sequence[Path | str]) -> list[Path]:
    names = [each.name for each in problem.networks]
    named: dict[str, Path] = {}
    unnamed: list[Path] = []
    for each in given:
        match = _NAMED.fullmatch(each) if isinstance(each, str) else None
        if match is None or (match.group(1) not in names and Path(each).exists()):
            unnamed.append(Path(each))
        elif match.group(1) not in names:
            raise SpecError(
                f"{problem.source}: does not declare the network {match.group(1)}; it declares "
                f"{', '.join(names)}"
            )
        elif match.group(1) in named:
            raise SpecError(f"{problem.source}: two files for the network {match.group(1)}")
        else:
            named[match.group(1)] = Path(match.group(2))
    waiting = [other for other in problem.networks if other.name not in named]
    needed = [other for other in waiting if not other.equal_to]
    takers = waiting if len(unnamed) == len(waiting) else needed
    if len(unnamed) != len(takers):
        own = [other.name for other in problem.networks if not other.equal_to]
        raise SpecError(
            f"{problem.source}: declares {', '.join(own)}, which need {len(own)} network "
            f"file{'s' * (len(own) != 1)}, got {len(given)}"
        )
    named.update((taker.name, file) for taker, file in zip(takers, unnamed, strict=True))
    for declared in problem.networks:
        if declared.name not in named:
            named[declared.name] = named[declared.equal_to]
    return [named[name] for name in names]

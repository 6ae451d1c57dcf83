"""Type inference, or a slip that explains why an expression has no type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from leaveout.errors import cause
from leaveout.specs.table import is_built_in
from leaveout.specs.table.signatures import Bound, Function, Types, bind, name_position
from leaveout.specs.text.errors import Position, Slip, Source, join_alternatives, nearest, place
from leaveout.specs.text.expressions import (
    And,
    Arithmetic,
    Binder,
    Call,
    Compare,
    Confident,
    Expression,
    ForAll,
    Implies,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Text,
    constant,
)
from leaveout.specs.types import (
    BOOLEAN,
    FAMILY,
    LABEL,
    LIST,
    NUMBER,
    POINT,
    TABLE,
    TEXT,
    WORD,
    Type,
)

BRIEF = 50
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})


@dataclass(frozen=True)
class Entry:
    """Type and definition of a name, and the value of a let."""

    type: Type
    at: Position
    value: Expression | None = None


Scope = Mapping[str, Entry]


def brief(node: Expression) -> str:
    """Return the text of an expression, cropped for messages."""
    text = str(node)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"


def literal(node: Expression, scope: Scope) -> Expression:
    """Return the expression behind a name, following any number of lets."""
    while isinstance(node, Name) and node.name in scope:
        value = scope[node.name].value
        if value is None:
            break
        node = value
    return node


@dataclass(frozen=True)
class Inference:
    """State for typing expressions, apart from the names in scope."""

    functions: Mapping[str, Function]
    lets: Mapping[str, Position]  # all lets of the specification, also later ones
    results: frozenset[str]  # names of the guarantees and finds
    source: Source  # for the names of other places in messages
    types: dict[int, Type] = field(
        default_factory=dict
    )  # filled while typing, by ``id`` of the node
    sampled: Expression | None = None

    def infer(self, node: Expression, scope: Scope) -> Type:
        """Return the type of an expression; raises `Slip` if it has none."""
        kind = self._infer(node, scope)
        self.types[id(node)] = kind
        return kind

    def claim(self, node: Expression, scope: Scope, what: str) -> Type:
        """Type an expression that must be a claim; error messages start with ``what``."""
        kind = self.infer(node, scope)
        if kind != BOOLEAN:
            cure = f"compare it, as in: {brief(node)} "
            cures = {NUMBER: cure + "> 0.5", LABEL: cure + "== 1"}
            slip = f"{what} must be a claim, but {brief(node)} is {kind.human}"
            raise Slip(node.at, slip, cures.get(kind, ""))
        return BOOLEAN

    def _infer(self, node: Expression, scope: Scope) -> Type:
        match node:
            case Number():
                return NUMBER
            case Text():
                return TEXT
            case Name():
                return self._name(node, scope)
            case ListOf():
                return self._list(node, scope)
            case Call():
                return self._call(node, scope)
            case Negate():
                self._number(node.operand, scope, "-")
                return NUMBER
            case Arithmetic():
                return self._arithmetic(node, scope)
            case Compare():
                return self._compare(node, scope)
            case Not():
                return self.claim(node.claim, scope, "what 'not' negates")
            case And() | Or() | Implies():
                word = {And: "and", Or: "or", Implies: "=>"}[type(node)]
                self.claim(node.left, scope, f"the left side of '{word}'")
                return self.claim(node.right, scope, f"the right side of '{word}'")
            case ForAll():
                return self._for_all(node, scope)
            case Confident():
                wrong = "'with confidence' belongs at the end of a whole guarantee or find"
                raise Slip(node.at, wrong, "move it out of the parentheses, to the end")
            case _:
                assert_never(node)

    def _name(self, node: Name, scope: Scope) -> Type:
        if node.name in scope:
            return scope[node.name].type
        if node.name in self.functions:
            function = self.functions[node.name]
            wrong = f"'{node.name}' is a function, but has no arguments here"
            raise Slip(node.at, wrong, f"as in: {function.example}")
        raise self._unknown(node.name, node.at, scope)

    def _unknown(self, name: str, at: Position, scope: Scope | None = None) -> Slip:
        # Without a scope: the name is called, so only functions are possible.
        if name in self.lets:
            where = place(self.source, self.lets[name], seen_from=at)
            wrong = f"'{name}' is used before it is defined"
            return Slip(at, wrong, f"its 'let' is at {where}: move it up, above this line")
        if name in self.results:
            wrong = f"'{name}' names a result, which no expression can use"
            return Slip(at, wrong, "only what a 'let' or a 'forall' defines has a value")
        # A name of very different length is not a misspelt function.
        similar = {each for each in self.functions if abs(len(each) - len(name)) <= 2}
        cure = nearest(name, {*(scope or ()), *similar})
        if name.casefold() in _NOT_FINITE:
            cure = "every number is finite; where there is no bound, write 3.4e38"
        elif not cure and scope is None:
            known = ", ".join(sorted(self.functions))
            cure = f"functions known here: {known}\nothers come with packages that add them"
        elif not cure and scope == {}:
            cure = f"define it first, as in: let {brief(Name(name))} = 0.5"
        elif not cure:
            cure = f"known here: {', '.join(sorted(scope or ()))}"
        return Slip(at, f"unknown name '{name}'", cure)

    def _call(self, node: Call, scope: Scope) -> Type:
        at = name_position(node.at, node.function)
        function = self.functions.get(node.function)
        if function is None and node.function in scope:
            kind = scope[node.function].type
            wrong = f"'{node.function}' is {kind.human}, not a function"
            takers = [
                each.name
                for each in self.functions.values()
                if any(kind in parameter.types for parameter in each.parameters)
            ]
            cure = f"functions that take {kind.human}: {', '.join(takers)}" if takers else ""
            raise Slip(at, wrong, cure)
        if function is None:
            raise self._unknown(node.function, at)
        given = bind(node, function)
        kinds: dict[str, Type] = {}
        for name, argument in given.items():
            parameter = function.parameter(name)
            if isinstance(argument, Name) and argument.name in parameter.words:
                kinds[name] = WORD
                continue
            if parameter.words and not parameter.types:
                options = " or ".join(f"'{word}'" for word in parameter.words)
                wrong = f"'{name}' of {function.name} must be {options}, got {brief(argument)}"
                near = nearest(str(argument), parameter.words)
                raise Slip(argument.at, wrong, near or function.signature)
            kind = kinds[name] = self.infer(argument, scope)
            if kind not in parameter.types:
                raise self._mismatch(function, name, argument, kind, parameter.types)
            number = literal(argument, scope)
            if isinstance(number, Number) and not parameter.takes(number.value):
                wrong = f"'{name}' of {function.name} must be {parameter.range}, got {number}"
                raise Slip(argument.at, wrong, f"as in: {function.example}")
        if function.rule is not None:
            followed = {name: literal(value, scope) for name, value in given.items()}
            broken = self._apply_rule(function, followed, kinds, node)
            if broken:
                wrong, _, cure = broken.partition("\n")
                raise Slip(node.at, wrong, cure or f"as in: {function.example}")
        return function.result_of(kinds) if function.parameters else function.result

    @staticmethod
    def _apply_rule(function: Function, given: Bound, kinds: Types, node: Call) -> str | None:
        """Apply a function's rule; a plug-in's may raise any error."""
        assert function.rule is not None
        try:
            return function.rule(given, kinds)
        except Slip:
            raise
        except (Exception, SystemExit) as error:
            if is_built_in(function.name):
                raise
            text = cause(error)
            wrong = f"the rule of plug-in function '{function.name}' failed: {text}"
            raise Slip(node.at, wrong) from error

    def _mismatch(
        self,
        function: Function,
        name: str,
        argument: Expression,
        kind: Type,
        expected: tuple[Type, ...],
    ) -> Slip:
        human = " or ".join(each.human for each in expected)
        wrong = (
            f"'{name}' of {function.name} must be {human}, but {brief(argument)} is {kind.human}"
        )
        cure = function.signature
        makers = [each for each in self.functions.values() if {*each.every_result} & {*expected}]
        if kind.each in expected:
            cure = f"use each element of it: forall v in {brief(argument)}: ..."
        elif kind is LIST and POINT in expected:
            cure = f"make it a point: forall x in around({brief(argument)}, 0): ..."
        elif NUMBER not in expected and makers:
            cure = f"for example, {human}: {makers[0].example}"
        return Slip(argument.at, wrong, cure)

    def _iterable(self) -> list[Type]:
        results = {kind for each in self.functions.values() for kind in each.every_result}
        return sorted((kind for kind in results if kind.each), key=lambda kind: kind.name)

    def _list(self, node: ListOf, scope: Scope) -> Type:
        if not node.items:
            raise Slip(node.at, "this list is empty", "a list contains numbers, e.g. [0, 0.5, 1]")
        kinds = [self.infer(item, scope) for item in node.items]
        for item, kind in zip(node.items, kinds, strict=True):
            if kind not in (NUMBER, LIST):
                wrong = (
                    f"a list contains numbers or lists of numbers, but {brief(item)} is "
                    f"{kind.human}"
                )
                raise Slip(item.at, wrong)
            if kind != kinds[0]:
                first = f"{brief(node.items[0])} is {kinds[0].human}"
                wrong = f"this list mixes numbers and lists: {first}, {brief(item)} {kind.human}"
                raise Slip(item.at, wrong)
        if kinds[0] == NUMBER:
            return LIST
        widths = [self._width(item, scope) for item in node.items]
        for item, width in zip(node.items, widths, strict=True):
            if None not in (width, widths[0]) and width != widths[0]:
                wrong = f"rows of different length: {widths[0]} and {width} numbers"
                raise Slip(item.at, wrong, "every list in a list must be as long as the first")
        return TABLE

    def _width(self, node: Expression, scope: Scope) -> int | None:
        value = literal(node, scope)
        return len(value.items) if isinstance(value, ListOf) else None

    def _number(self, node: Expression, scope: Scope, operator: str) -> None:
        kind = self.infer(node, scope)
        if kind != NUMBER:
            wrong = f"'{operator}' needs numbers, but {brief(node)} is {kind.human}"
            cure = f"a label can only equal another or not, e.g. {brief(node)} == 1"
            raise Slip(node.at, wrong, cure if kind == LABEL else "")

    def _arithmetic(self, node: Arithmetic, scope: Scope) -> Type:
        self._number(node.left, scope, node.operator)
        self._number(node.right, scope, node.operator)
        divisor = literal(node.right, scope)
        if node.operator == "/" and isinstance(divisor, Number) and divisor.value == 0:
            raise Slip(node.at, "this divides by zero")
        return NUMBER

    def _compare(self, node: Compare, scope: Scope) -> Type:
        sides = (node.left, node.right)
        left, right = (self.infer(side, scope) for side in sides)
        unequal = node.operator in ("==", "!=")
        if left == right and (left.equates if unequal else left.ordered):
            self._refuse_no_share(node, scope)
            return BOOLEAN
        if {left, right} == {LABEL, NUMBER} and unequal:
            side = literal(node.left if left == NUMBER else node.right, scope)
            if isinstance(side, Number) and side.value >= 0 and float(side.value).is_integer():
                return BOOLEAN
        facts = ", ".join(
            f"{brief(side)} is {kind.human}"
            for side, kind in zip(sides, (left, right), strict=True)
        )
        if BOOLEAN in (left, right):
            cure = "join claims with 'and', 'or', '=>' and 'not'"
        elif LABEL in (left, right):
            cure = (
                "compare (==, !=) a label with a label or a whole number from 0, e.g. label(N, "
                "x) == 1"
            )
        else:
            cure = "only numbers and labels can be compared, e.g. label(M, x) == label(N, x)"
        raise Slip(node.at, f"'{node.operator}' cannot compare these: {facts}", cure)

    def _refuse_no_share(self, node: Compare, scope: Scope) -> None:
        """Refuse to compare a share with an impossible value, such as a percentage."""
        for side, other in ((node.left, node.right), (node.right, node.left)):
            call = literal(side, scope)
            function = self.functions.get(call.function) if isinstance(call, Call) else None
            if function is None or not function.share:
                continue
            try:
                value = constant(other, lambda each: literal(each, scope))
            except Slip:
                continue
            if value is not None and not 0 <= value <= 1:
                wrong = f"{function.name} is a share, from 0 to 1, and never {value:.15g}"
                cure = f"write {value / 100:.15g} for {value:.15g} %" if 1 < value <= 100 else ""
                raise Slip(other.at, wrong, cure or f"as in: {function.example}")

    def _for_all(self, node: ForAll, scope: Scope) -> Type:
        inner = dict(scope)
        for binder in node.binders:
            inner[binder.name] = self._bound(binder, inner)
            if binder.but is not None:
                self._check_left_out_share(node, binder, binder.but)
        return self.claim(node.body, inner, "the body of 'forall'")

    def _bound(self, binder: Binder, scope: Scope) -> Entry:
        at = name_position(binder.at, binder.name)
        if binder.name in scope:
            raise self.twice(binder.name, at, scope[binder.name].at)
        domain = self.infer(binder.domain, scope)
        if domain.each is None:
            wrong = f"'forall' cannot range over {brief(binder.domain)}: it is {domain.human}"
            ways = [
                f"{kind.human} ({kind.each.human} each)" for kind in self._iterable() if kind.each
            ]
            raise Slip(binder.domain.at, wrong, f"it ranges over {join_alternatives(ways)}")
        return Entry(domain.each, at)

    def _check_left_out_share(self, node: ForAll, binder: Binder, share: Number) -> None:
        """Refuse ``but`` for a domain not sampled, or in a claim that is not statistical."""
        domain = self.types[id(binder.domain)]
        if domain != FAMILY:
            wrong = (
                f"'but' excludes a share of the rows, but {brief(binder.domain)} is {domain.human}"
            )
            raise Slip(share.at, wrong, "write: forall x in X, M in F but 0.001: ...")
        if not 0 <= share.value < 1:
            percent = 1 <= share.value < 100
            cure = f"write {share.value / 100:g} for {share} %" if percent else "as in 0.001"
            raise Slip(share.at, f"a share of the rows must be in [0, 1), got {share}", cure)
        if node is not self.sampled:
            wrong = "'but' is about rows that have no member, so the claim holds with a confidence"
            cure = "put 'forall' first, and at the end: with confidence 0.95"
            raise Slip(share.at, wrong, cure)
        self.types[id(share)] = NUMBER

    def twice(self, name: str, at: Position, first: Position) -> Slip:
        """Return the slip for a name defined twice."""
        where = place(self.source, first, seen_from=at)
        cure = f"first at {where}; rename one of them"
        return Slip(at, f"'{name}' is defined twice", cure)

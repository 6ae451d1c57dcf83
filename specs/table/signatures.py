"""Declaration of a function of the language: parameters, result and decider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from leaveout.specs.deciders import Decider, Facts
from leaveout.specs.table.listed import Lists
from leaveout.specs.text.errors import Position, Slip, nearest
from leaveout.specs.text.expressions import Call, Expression
from leaveout.specs.types import NUMBER, TEXT, WORD, Type

Bound: TypeAlias = dict[str, Expression]
"""The arguments of one call, by parameter name."""

Types: TypeAlias = Mapping[str, Type]
"""The types of the arguments of one call, by parameter name; `WORD` for bare words."""

Rule: TypeAlias = Callable[[Bound, Types], str | None]

Words: TypeAlias = str | Callable[[Mapping[str, str]], str | None]
"""Wording of a call: a template such as ``{network}'s label at {point}``, or a function."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function.

    Attributes
    ----------
    name : str
        Arguments can be passed by name, ``name = value``.
    types : tuple of Type
        Allowed types; one of `types` and `words` is not empty.
    optional : bool
    named : bool
        Whether the argument must be given by name.
    words : tuple of str
        Bare words allowed instead, such as ``adaptive``.
    whole : bool
        Whether a number must be whole.
    least, most : float or None
        Range of a number, both ends included.
    trend : {"", "rising", "falling"}
        How the function's number changes as this argument grows; empty if unknown. A ``find`` needs
        it.
    """

    name: str
    types: tuple[Type, ...] = ()
    optional: bool = False
    named: bool = False
    words: tuple[str, ...] = ()
    whole: bool = False
    least: float | None = None
    most: float | None = None
    trend: Literal["", "rising", "falling"] = ""

    def __str__(self) -> str:
        kinds = (*self.words, *(kind.name for kind in self.types))
        return f"{self.name}{' = ' if self.named else ': '}{' | '.join(kinds)}"

    @property
    def is_path(self) -> bool:
        """Whether a text argument is a path; where numbers are allowed too, it is a name."""
        return TEXT in self.types and NUMBER not in self.types

    @property
    def range(self) -> str:
        """The permitted numbers, in words."""
        text = "a whole number" if self.whole else "a number"
        text += "" if self.least is None else f" from {self.least:.15g}"
        return text if self.most is None else f"{text} to {self.most:.15g}"

    def takes(self, value: float) -> bool:
        """Return whether a number is in its range."""
        return not (
            (self.whole and value != int(value))
            or (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
        )


@dataclass(frozen=True)
class Function:
    """A function available to specifications.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter
        Required ones come first.
    result : Type
    results : mapping of Type to Type
        By the type of the first argument, where it determines the result.
    doc : str
        Meaning, in one line.
    example : str
    rule : callable or None
        Receives the arguments of a call by parameter, each of an allowed type, and these types;
        returns what is wrong with their combination, or None. The first line says what is wrong,
        further lines what to write instead. It may raise a `leaveout.specs.text.errors.Slip` to
        point at one of them.
    threat : str
        What may change about the training set, in one line; empty for other functions.
    decider : callable, str or None
        Computes the value of a call, see `leaveout.specs.deciders`; a text ``module:function`` is
        imported when needed. For built-in functions this, `forms`, `facts` and `plain` are None:
        the verifier has tables for them.
    reads : bool
        Whether a call reads a file. Files are read before anything is decided, so that errors in
        them appear at once.
    forms : callable, str or None
        For a function about points, which has no decider: translates a call to linear forms of
        features and scores; or ``module:function``.
    lists : callable or None
        For a set of inputs that restricts its parameter ``inputs``, and has no decider: returns the
        listed values, see `leaveout.specs.table.listed`.
    solver : bool
        Whether the decider calls a solver. Assumed for plug-ins' functions.
    kernels : tuple of str
        Groups of compiled functions that a call may run.
    words : str, callable or None
        Wording of a call within a sentence, from the arguments as written, by parameter: a phrase
        for a value, a clause for a claim. A template covers calls that set all of its parameters; a
        callable returns None for calls it does not cover. Those are shown as written.
    share : bool
        Whether its number is a share, from 0 to 1; comparing it with any other number is an error.
    facts : callable, str or None
        Shows on a page what `Arguments.tell` recorded for all calls of a statement; or
        ``module:function``. Without it, the facts are listed.
    plain : callable, str or None
        Words a statement about a call for readers who do not know the language; or
        ``module:function``. Without it, or if it returns None, `words` is used.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    doc: str
    example: str
    rule: Rule | None = None
    threat: str = ""
    decider: Decider | str | None = None
    reads: bool = False
    forms: Callable[..., object] | str | None = None
    lists: Lists | None = None
    solver: bool = False
    kernels: tuple[str, ...] = ()
    words: Words | None = None
    share: bool = False
    facts: Callable[[Sequence[Facts]], object] | str | None = None
    plain: Callable[..., object] | str | None = None
    results: Mapping[Type, Type] = field(default_factory=dict)

    def result_of(self, kinds: Types) -> Type:
        """Return the type of a call with arguments of these types, by parameter."""
        return self.results.get(kinds.get(self.parameters[0].name, WORD), self.result)

    @property
    def every_result(self) -> tuple[Type, ...]:
        """The types that calls can have."""
        return tuple(self.results.values()) or (self.result,)

    @property
    def signature(self) -> str:
        """The signature shown in messages, with optional parameters in square brackets."""
        text = ""
        for parameter in self.parameters:
            comma = ", " if text else ""
            text += f"[{comma}{parameter}]" if parameter.optional else f"{comma}{parameter}"
        results = " | ".join(kind.name for kind in self.every_result)
        return f"{self.name}({text}) -> {results}"

    def call_words(self, given: Mapping[str, str]) -> str | None:
        """Return a call in words, or None if it has no wording.

        Parameters
        ----------
        given : mapping of str to str
            The arguments as written, by parameter.
        """
        if not isinstance(self.words, str):
            return None if self.words is None else self.words(given)
        try:
            return self.words.format_map(given)
        except KeyError:
            return None

    def parameter(self, name: str) -> Parameter:
        """Return a parameter by name.

        Raises
        ------
        KeyError
            If no parameter has that name.
        """
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)


def name_position(at: Position, name: str) -> Position:
    """Return the position of the name at the start of a node."""
    return Position(at.line, at.column, at.line, at.column + len(name))


def bind(call: Call, function: Function) -> Bound:
    """Match every argument of a call to its parameter, without looking at types."""
    by_position = [each.name for each in function.parameters if not each.named]
    if len(call.arguments) > len(by_position):
        extra = call.arguments[len(by_position)]
        takes = f"{len(by_position)} argument{'s' * (len(by_position) != 1)}"
        wrong = f"{function.name} takes {takes}, got {len(call.arguments)}"
        raise Slip(extra.at, wrong, function.signature)
    given: Bound = dict(zip(by_position, call.arguments, strict=False))
    names = [each.name for each in function.parameters]
    for option in call.options:
        at = name_position(option.at, option.name)
        if option.name not in names:
            near = nearest(option.name, names)
            cure = f"{near}\n{function.signature}" if near else function.signature
            raise Slip(at, f"{function.name} has no option '{option.name}'", cure)
        if option.name in given:
            wrong = f"'{option.name}' of {function.name} is given twice"
            raise Slip(at, wrong, function.signature)
        given[option.name] = option.value
    needed = [each.name for each in function.parameters if not each.optional]
    missing = " and ".join(f"'{name}'" for name in needed if name not in given)
    if missing:
        wrong = f"{function.name} needs {missing}"
        raise Slip(name_position(call.at, call.function), wrong, function.signature)
    return given

"""How commands declare their arguments and options: each by itself, or in records of several."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, TypeVar

import typer


def argument(text: str, *, default: Any = ..., shown: str | bool = True, **more: Any) -> Any:
    """Declare an argument, which must be given unless it has a default; see `option`."""
    return typer.Argument(default, help=text, show_default=shown, **more)


def option(
    text: str, *names: str, default: Any = None, shown: str | bool = True, **more: Any
) -> Any:
    """Declare an option, with names if it is not called as its parameter.

    ``shown`` is what help says of the default, instead of its value.
    """
    return typer.Option(default, *names, help=text, show_default=shown, **more)


def flag(name: str, text: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(False, name, help=text)


class Options:
    """A data class of parameters, declared like those of commands, that several commands have."""


O = TypeVar("O", bound=Options)  # noqa: E741


def with_records(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the fields of its `Options` as parameters in their place."""
    own = _parameters(command)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{each.name: _take(each, given) for each in own})

    declare_parameters(run, flat_parameters(command))
    return run


def declare_parameters(command: Callable[..., None], every: Sequence[Parameter]) -> None:
    """Give parameters to a command that takes any."""
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in every}


def flat_parameters(of: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a command or a record, those of its records in their place."""
    found = []
    for each in _parameters(of):
        own = each.replace(kind=Parameter.KEYWORD_ONLY)
        found += flat_parameters(each.annotation) if _is_record(each) else [own]
    return found


def take_record(kind: type[O], given: dict[str, Any]) -> O:
    """Return a record, and take its fields from what is given."""
    return kind(**{each.name: _take(each, given) for each in _parameters(kind)})


def _take(each: Parameter, given: dict[str, Any]) -> Any:
    return take_record(each.annotation, given) if _is_record(each) else given.pop(each.name)


def _parameters(of: Callable[..., object]) -> list[Parameter]:
    return list(inspect.signature(of, eval_str=True).parameters.values())


def _is_record(each: Parameter) -> bool:
    return inspect.isclass(each.annotation) and issubclass(each.annotation, Options)

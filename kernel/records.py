"""Records as JSON: exactly the fields declared, each of its type; nothing else is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record")

_DIGITS = 1000  # most digits of a whole number

TAG = "type"
"""The field that says which of several records it is: the class attribute ``tag``."""


def decode(text: bytes, form: type[_Record]) -> _Record:
    """Read a record; raise ValueError at what is not exactly of its form."""
    try:
        found: _Record = _reader(cast("Any", form))(parse(text), "")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


def parse(text: bytes) -> Any:
    """Read JSON in which no name stands twice; raise ValueError for anything else."""
    try:
        return json.loads(
            text.decode(),
            object_pairs_hook=_once,
            parse_constant=_refuse_constant,
            parse_int=_whole,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def encode(record: object, *, ordered: bool = False) -> bytes:
    """Write a record as JSON, its fields in their order, or in that of their names."""
    return json.dumps(
        plain(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=ordered
    ).encode()


def plain(record: object) -> Any:
    """Return a record as dicts, lists and values."""
    if isinstance(record, Mapping):
        return {name: plain(value) for name, value in record.items()}
    if isinstance(record, list | tuple):
        return [plain(value) for value in record]
    if not is_dataclass(record):
        return record
    found = {each.name: plain(getattr(record, each.name)) for each in fields(record)}
    tag = getattr(record, "tag", None)
    return found if tag is None else {TAG: tag, **found}


def convert(value: object, form: type[_Record]) -> _Record:
    """Return a record from dicts, lists and values, or from another record alike."""
    found: _Record = _reader(cast("Any", form))(plain(value), "")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(n for n in names if names.count(n) > 1)!r}")
    return found


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a number has more than {_DIGITS:,} digits")
    return int(text)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_Reader = Callable[[Any, str], Any]


@cache
def _reader(form: Any) -> _Reader:
    """Return what reads values of a type; it is told where in the record they stand."""
    origin, arguments = get_origin(form), get_args(form)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, UnionType):
        return _one_of(arguments)
    if origin is tuple:
        return _list(arguments)
    if origin is dict:
        return _names(arguments[1])
    if is_dataclass(form):
        return _object(form)
    if form is float:
        return _float
    return lambda value, where: _of(form, value, where)


def _of(kind: type, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"expected {_WORDS[kind]}, found {_WORDS[type(value)]}{_at(where)}")
    return value


def _float(value: Any, where: str) -> float:
    number = value if type(value) in (int, float) else _of(float, value, where)
    try:
        found = float(number)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"a number out of range{_at(where)}")
    return found


def _literal(words: tuple[Any, ...]) -> _Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"invalid value {value!r}{_at(where)}")
        return value

    return read


# Readers of what a type contains are looked up as values are read: a type may contain itself. A
# level of a record takes few calls, so that deep ones can be read.


def _one_of(forms: tuple[Any, ...]) -> _Reader:
    others = [each for each in forms if each is not NoneType]
    if len(others) == 1:
        return lambda value, where: None if value is None else _reader(others[0])(value, where)
    tags = {each.tag: each for each in others}

    def read(value: Any, where: str) -> Any:
        tag = _of(dict, value, where).get(TAG)
        if not isinstance(tag, str) or tag not in tags:
            raise ValueError(f"invalid value {tag!r}{_at(f'{where}.{TAG}')}")
        return _reader(tags[tag])(value, where)

    return read


def _names(form: Any) -> _Reader:
    def read(value: Any, where: str) -> Any:
        inner, found = _reader(form), {}
        for name, each in _of(dict, value, where).items():
            found[name] = inner(each, f"{where}.{name}")
        return found

    return read


def _list(forms: tuple[Any, ...]) -> _Reader:
    def read(value: Any, where: str) -> Any:
        own = forms
        if forms[-1] is Ellipsis:
            own = forms[:1] * len(_of(list, value, where))
        elif len(_of(list, value, where)) != len(forms):
            raise ValueError(f"expected a list of {len(forms)}{_at(where)}")
        found = []
        for at, (form, each) in enumerate(zip(own, value, strict=True)):
            found.append(_reader(form)(each, f"{where}[{at}]"))
        return tuple(found)

    return read


def _object(form: Any) -> _Reader:
    hints = get_type_hints(form)
    kinds = {each.name: hints[each.name] for each in fields(form)}
    needed = {
        each.name
        for each in fields(form)
        if each.default is MISSING and each.default_factory is MISSING
    }
    tag = getattr(form, "tag", None)

    def read(value: Any, where: str) -> Any:
        given = dict(_of(dict, value, where))
        if tag is not None and given.pop(TAG, None) != tag:
            raise ValueError(f"invalid value{_at(f'{where}.{TAG}')}")
        found = {}
        for name, each in given.items():
            if name not in kinds:
                raise ValueError(f"unknown field {name!r}{_at(where)}")
            found[name] = _reader(kinds[name])(each, f"{where}.{name}")
        for name in needed:
            if name not in found:
                raise ValueError(f"missing field {name!r}{_at(where)}")
        return form(**found)

    return read


_WORDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


def _at(where: str) -> str:
    return f" - at `${where}`" if where else ""

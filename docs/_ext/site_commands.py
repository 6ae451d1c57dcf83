"""The command line, from the application itself."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any

import typer

from leaveout.verifier.cli.app import app

__all__ = ["page"]

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_EXAMPLE = re.compile(r"\bleaveout [a-z]+ .*?(?=, (?:then|or) |\.?$)")
_VALUES = {float: "NUMBER", int: "NUMBER", str: "TEXT", Path: "PATH"}


def page() -> str:
    """Return a section a command, as Markdown."""
    return "\n".join(_commands("", typer.main.get_command(app)))


def _commands(before: str, group: Any) -> list[str]:
    """Return the sections of a group of commands, each group's own before those in it."""
    lines: list[str] = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            full = f"{before}{name}"
            lines += [f"## `leaveout {full}`", "", "```text", f"leaveout {full} COMMAND", "```", ""]
            lines += [*_help(command.help), "", *_commands(f"{full} ", command)]
        else:
            lines += _command(f"{before}{name}", command)
    return lines


def _command(name: str, command: Any) -> list[str]:
    hints = typing.get_type_hints(command.callback)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [
        each for each in command.params if each.param_type_name == "option" and not each.hidden
    ]
    words = ["leaveout", name, *(["[OPTIONS]"] if options else []), *map(_placeholder, arguments)]
    lines = [f"## `leaveout {name}`", "", "```text", " ".join(words), "```", ""]
    lines += [*_help(command.help), ""]
    if arguments:
        lines += ["| argument | |", "|---|---|"]
        lines += [f"| {_code(_placeholder(each))} | {_cell(each.help)} |" for each in arguments]
        lines.append("")
    if options:
        lines += ["| option | | default |", "|---|---|---|"]
        lines += [
            f"| {_names(each, hints)} | {_cell(each.help)} | {_cell(_default(each))} |"
            for each in options
        ]
        lines.append("")
    return lines


def _help(text: str | None) -> list[str]:
    lines: list[str] = []
    for paragraph in (text or "").strip().split("\n\n"):
        joined = " ".join(paragraph.split())
        if joined.startswith("For example: "):
            lines += [_EXAMPLE.sub(r"`\g<0>`", joined), ""]
        else:
            lines += [_cell(joined), ""]
    return lines


def _placeholder(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    several = "..." if argument.nargs != 1 and not name.endswith("...") else ""
    return f"{name}{several}" if argument.required else f"[{name}{several}]"


def _names(option: Any, hints: dict[str, object]) -> str:
    """Return the ways to write an option, the short one first, the value once."""
    *short, last = sorted((*option.opts, *option.secondary_opts), key=len)
    value = "" if option.is_flag else f" {option.metavar or _value(hints[option.name])}"
    return ", ".join(map(_code, [*short, f"{last}{value}"]))


def _value(hint: object) -> str:
    """Return what stands for a value of a type, also within ``X | None`` and ``list[X]``."""
    if hint in _VALUES:
        return _VALUES[typing.cast(type, hint)]
    inner = [_value(each) for each in typing.get_args(hint)]
    return next((each for each in inner if each != "VALUE"), "VALUE")


def _default(option: Any) -> str:
    if option.required:
        return "must be given"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag or option.default in (None, "") or not option.show_default:
        return ""
    return f"`{option.default}`"


def _code(text: str) -> str:
    """Return code for the cell of a table."""
    return "`" + text.replace("|", "\\|") + "`"


def _cell(text: str | None) -> str:
    """Return help as Markdown: options as code, no character taken for markup."""
    joined = " ".join((text or "").split())
    if joined.startswith("`"):
        return joined
    for character in ("\\", "*", "_", "<", "[", "|"):
        joined = joined.replace(character, f"\\{character}")
    return _OPTION.sub(r"`\g<0>`", joined)

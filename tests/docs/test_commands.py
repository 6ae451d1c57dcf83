"""Every command line on a page is one that the program takes."""

from __future__ import annotations

import re
import shlex
from functools import cache

import pytest
import typer
from docs import exempt
from docs.pages import commands, of_kind, pages, text_of

from leaveout.kernel.__main__ import options as options_of_check
from leaveout.verifier.cli.app import app
from leaveout.verifier.cli.solver import CAPABILITIES, application

_INLINE = re.compile(r"(?<!`)`(leaveout [^`\n]+)`(?!`)")
_OPTION = re.compile(r"(?<![\w`-])(--?[a-z][a-z-]*)")
_ALONE = re.compile(r"(?<!`)`(--[a-z][a-z-]*)[^`\n]*`(?!`)")
_ENDS = {"|", "||", ">", "<", "&", ";", "&&"}

LINES = [
    (block.page, command)
    for block in of_kind("console", "text")
    for command in commands(block.text)
    if re.match(r"(\.?[\w./-]*/)?leaveout\b", command)
]
INLINE = [(page, each) for page in pages() for each in _INLINE.findall(text_of(page))]


@cache
def program(name="leaveout"):
    return typer.main.get_command(application if name == "leaveout-vnnlib" else app)


def chosen(own, name, rest):
    """Return the command that words lead to, and the words after it."""
    command = own.commands[name]
    while hasattr(command, "commands") and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def every(own):
    """Return every command of a program, those within others too."""
    for command in own.commands.values():
        yield command
        if hasattr(command, "commands"):
            yield from every(command)


def options(command):
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def words_of(command):
    """Return the words of a command line, up to a pipe."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [at for at, word in enumerate(words) if word in _ENDS]
    return words[: ends[0]] if ends else words


def complaint(command):
    """Return what the program's parser says of a command line; None if it takes it."""
    first, name, *rest = words_of(command)
    if first == "leaveout-check":
        return None if options_of_check().parse_args([name, *rest]) else "no such options"
    own = program(first.rpartition("/")[2])
    if name.startswith("--"):
        return None if name in {*options(own), "--help"} else f"no option {name}"
    if name not in own.commands:
        return f"no command {name}"
    if name == "supports":
        return None if rest and rest[0] in CAPABILITIES else f"no capability {rest}"
    command, rest = chosen(own, name, rest)
    if hasattr(command, "commands") and rest != ["--help"]:
        return f"no command {rest} of {name}"
    try:
        command.make_context(name, [word for word in rest if word != "--help"])
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return error.format_message()
    return None


@pytest.mark.parametrize(("page", "command"), LINES, ids=lambda text: text[:60])
def test_the_program_takes_the_command(page, command):
    if (page, command) in exempt.COMMANDS:
        name, *rest = command.split()[1:]
        assert set(_OPTION.findall(" ".join(rest))) <= options(program().commands[name])
        pytest.skip(exempt.COMMANDS[page, command])
    assert complaint(command) is None


@pytest.mark.parametrize(
    "wrong",
    [
        "leaveout verfy a.spec",
        "leaveout verify a.spec --tme 3",
        "leaveout forest forget clinic 3",
        "leaveout forget clinic 3 --chek",
        "leaveout forest clinic",
        "leaveout supports --onnx-operators",
        "leaveout-vnnlib supports --onnx",
        "leaveout-vnnlib verify a.vnnlib --network n.onnx --time 3",
    ],
)
def test_a_wrong_command_is_found(wrong):
    assert complaint(wrong) is not None


@pytest.mark.parametrize(("page", "command"), INLINE, ids=lambda text: text[:60])
def test_a_command_within_a_sentence_has_options_that_exist(page, command):
    name, *rest = command.removeprefix("leaveout").split()
    if name.startswith("-"):
        assert name in {*options(program()), "--help"}
    elif name in {"COMMAND"}:
        assert rest == ["--help"]
    else:
        assert name in program().commands
        command, rest = chosen(program(), name, rest)
        known = {*options(command), "--help"}
        assert {word for word in rest if word.startswith("--")} <= known


@pytest.mark.parametrize("page", pages())
def test_an_option_by_itself_exists_in_some_command(page):
    both = program(), program("leaveout-vnnlib")
    groups = [each for own in both for each in (own, *every(own))]
    known = {"--help", *CAPABILITIES}.union(*map(options, groups))
    assert set(_ALONE.findall(text_of(page))) <= known


def test_there_are_commands_to_check():
    assert len(LINES) > 25
    assert len(INLINE) > 25


def test_what_is_left_out_is_still_there():
    assert set(exempt.COMMANDS) <= set(LINES)

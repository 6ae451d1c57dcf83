"""Help by its short name, and what shells ask to complete a command line."""

import os

import pytest
import typer

from leaveout.verifier.cli import run
from leaveout.verifier.cli.app import app
from leaveout.verifier.cli.solver import application, run_solver

COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_h_is_help(command, capsys):
    assert run([command, "--help"]) == 0
    long = capsys.readouterr()
    assert run([command, "-h"]) == 0
    assert capsys.readouterr() == long
    assert f"leaveout {command}" in long.out or "Usage" in long.out


@pytest.mark.parametrize(("program", "name"), [(run, "verify"), (run_solver, "supports")])
def test_h_of_the_program_lists_its_commands(program, name, capsys):
    assert program(["-h"]) == 0
    assert name in capsys.readouterr().out


def test_no_option_of_any_command_is_h():
    for group in (app, application):
        for command in typer.main.get_command(group).commands.values():
            assert all("-h" not in each.opts for each in command.params)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("leaveout vn", {"vnnlib"}),
        ("leaveout verify --certif", {"--certificate"}),
        ("leaveout vnnlib --net", {"--network"}),
        ("leaveout nothing", set()),
        ("leaveout forg", {"forget"}),
        ("leaveout forget --ch", {"--check"}),
    ],
)
def test_words_are_completed(words, found, capsys, monkeypatch):
    monkeypatch.setenv("_LEAVEOUT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setattr("sys.argv", ["leaveout"])
    assert run() in {0, 1}
    told = capsys.readouterr()
    assert set(told.out.split()) == found
    assert not told.err


def test_what_the_shell_would_be_told_is_shown(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["leaveout"])
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert run(["--show-completion", "bash"]) == 0
    assert "complete -o default -F _leaveout_completion leaveout" in capsys.readouterr().out


def test_a_command_that_exits_by_itself_is_no_answer(monkeypatch):
    """Only questions of shells end so: the status would pass for a verdict."""
    assert "_LEAVEOUT_COMPLETE" not in os.environ
    from leaveout.verifier.cli import running

    def exits(_):
        raise SystemExit(0)

    monkeypatch.setattr(running.typer.main, "get_command", exits)
    with pytest.raises(SystemExit):
        run(["solvers"])

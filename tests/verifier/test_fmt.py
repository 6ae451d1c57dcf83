"""``leaveout fmt``: files, standard input, and what is left alone."""

import pytest
from typer.testing import CliRunner

from leaveout.verifier.cli.app import app, run

TIDY = "let a = 1  # one\n\nguarantee g: a < 2\n"
MESSY = "\nlet a=1 # one\n\n\nguarantee g:\n    a < 2"


@pytest.fixture
def file(tmp_path):
    def write(text, name="a.spec"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def test_a_file_is_laid_out(file):
    path = file(MESSY)
    assert run(["fmt", str(path)]) == 0
    assert path.read_text() == TIDY


def test_a_tidy_file_is_not_written(file):
    path = file(TIDY)
    before = path.stat().st_mtime_ns
    assert run(["fmt", str(path)]) == 0
    assert path.stat().st_mtime_ns == before


def test_check_changes_nothing_and_names_the_file(file, capsys, snapshot):
    messy, tidy = file(MESSY), file(TIDY, "b.spec")
    assert run(["fmt", "--check", str(messy), str(tidy)]) == 1
    assert capsys.readouterr().out == snapshot
    assert messy.read_text() == MESSY
    assert run(["fmt", "--check", str(tidy)]) == 0


def test_of_several_files_none_is_written_if_one_is_no_specification(file, capsys, snapshot):
    messy, broken = file(MESSY), file("let a = (", "b.spec")
    assert run(["fmt", str(messy), str(broken)]) == 2
    assert capsys.readouterr().err == snapshot
    assert messy.read_text() == MESSY


def test_line_ends_and_marks_of_other_systems_go(file):
    path = file("\ufeff" + TIDY.replace("\n", "\r\n"))
    assert run(["fmt", "--check", str(path)]) == 1
    assert run(["fmt", str(path)]) == 0
    assert path.read_bytes() == TIDY.encode()


@pytest.mark.parametrize("text", [TIDY, MESSY])
def test_standard_input_goes_to_standard_output(text):
    done = CliRunner().invoke(app, ["fmt", "-"], input=text)
    assert (done.exit_code, done.output) == (0, TIDY)


def test_check_of_standard_input():
    done = CliRunner().invoke(app, ["fmt", "--check", "-"], input=MESSY)
    assert (done.exit_code, done.output) == (1, "<stdin> would change\n")


def test_a_missing_file_is_bad_input(tmp_path, capsys, snapshot):
    assert run(["fmt", str(tmp_path / "a.spec")]) == 2
    assert capsys.readouterr().err == snapshot


def test_a_file_that_cannot_be_written_is_bad_input(file, capsys, monkeypatch, snapshot):
    path = file(MESSY)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leaveout.files.open_atomically", refuse)
    assert run(["fmt", str(path)]) == 2
    assert capsys.readouterr().err == snapshot

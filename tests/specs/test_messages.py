"""What is said about broken specifications, word for word, and where the carets stand."""

import re
from pathlib import Path

import pytest

from leaveout.errors import SpecError
from leaveout.specs import check, parse

BROKEN = (Path(__file__).parent / "broken.md").read_text("utf-8")
CASES = re.findall(r"^## ([^\n]*)\n\n```\n(.*?)\n```\n\n```\n(.*?)\n```$", BROKEN, re.M | re.S)


def message(text):
    with pytest.raises(SpecError) as caught:
        check(parse(text, "patient.spec"))
    return str(caught.value)


def test_every_case_is_read():
    assert len(CASES) == BROKEN.count("\n## ")


@pytest.mark.parametrize(("title", "text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_message(title, text, expected):
    assert message(text) == expected


def test_no_message_names_the_tokens_of_the_grammar():
    assert not re.search(r"\b(LPAR|RPAR|NAME|NUMBER|COMPARISON|EQUAL|__ANON\w*|\$END)\b", BROKEN)


def test_carets_line_up_behind_a_tab():
    _, line, carets = message("guarantee g:\n\t1\t<\tzz").splitlines()[:3]
    assert (line, carets) == ("\t1\t<\tzz", "\t \t \t^^")


def test_carets_line_up_behind_wide_characters():
    _, line, carets = message('guarantee g: "網" < zz').splitlines()[:3]
    assert line == 'guarantee g: "網" < zz'
    assert carets == " " * 20 + "^^"


def test_what_a_terminal_would_obey_is_not_printed():
    shown = message('guarantee g: 1 < "\x1b[31m\x9b" \0')
    assert "U+0000" in shown
    assert all(character.isprintable() for character in shown.replace("\n", ""))


def test_of_a_long_line_only_the_part_around_the_token_is_shown(snapshot):
    first, line, carets, *_ = message(
        "guarantee g: " + "1 + " * 150 + "zz" + " + 1" * 30 + " < 2"
    ).split("\n")
    assert first == snapshot
    assert len(line) < 130
    assert line[carets.index("^") : len(carets)] == "zz"


def test_a_token_over_several_lines_is_underlined_on_its_first():
    _, line, carets = message("guarantee g: f(\n1) < 2").splitlines()[:3]
    assert (line, carets) == ("guarantee g: f(", " " * 13 + "^")


def test_a_no_break_space_is_named(snapshot):
    assert message("guarantee g: 1 <\u00a02") == snapshot


def test_a_long_name_does_not_fill_the_screen():
    assert len(message("guarantee g: " + "a" * 100_000 + " < 1")) < 1000

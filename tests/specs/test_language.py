"""The pages on the language and the grammar for editors: they say what the code does."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from leaveout.specs import check, functions, parse
from leaveout.specs.format import format_specification
from leaveout.specs.table import BUILT_IN
from leaveout.specs.table.reference import grammar
from leaveout.specs.text.errors import KEYWORDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "language.md").read_text("utf-8")
WORKED = re.findall(r"```spec\n(.*?)```", (ROOT / "docs" / "specs.md").read_text("utf-8"), re.S)
GRAMMAR = json.loads((ROOT / "editors" / "leaveout.tmLanguage.json").read_text("utf-8"))


def shown():
    """Return the functions as the site shows them."""
    found = importlib.util.spec_from_file_location(
        "functions", ROOT / "docs/_ext/site_functions.py"
    )
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.page()


def patterns(node):
    """Yield every pattern of the grammar, nested ones too."""
    for each in node.get("patterns", ()):
        yield each
        yield from patterns(each)


def pattern(scope):
    return next(each["match"] for each in patterns(GRAMMAR) if each.get("name") == scope)


def alternatives(text):
    return set(re.search(r"\(([a-z_|]+)\)", text)[1].split("|"))


def test_the_grammar_is_of_today_else_run_editors_refresh():
    assert grammar(function.name for function in BUILT_IN) == GRAMMAR


def test_every_function_is_shown_once_in_the_site():
    page = shown()
    for function in BUILT_IN:
        assert page.count(f"### `{function.name}`\n\n```spec\n{function.signature}\n```") == 1


def test_every_keyword_is_in_the_page():
    listed = re.search(r"<!-- keywords -->(.*?)<!-- end of keywords -->", PAGE, re.S)[1]
    assert set(re.findall(r"\w+", listed)) == {word.lower() for word in KEYWORDS}


@pytest.mark.parametrize("text", WORKED, ids=lambda text: text.split("\n", 1)[0])
def test_a_worked_specification_is_right_and_laid_out(text):
    assert check(parse(text)).statements
    assert format_specification(text) == text


def test_the_statements_of_the_page_parse():
    for text in re.findall(r"```\n((?:let|param|include|guarantee|find) .*?)```", PAGE, re.S):
        assert parse(text).statements


def test_the_keywords_of_the_grammar_are_those_of_the_language():
    words = alternatives(pattern("keyword.control.leaveout"))
    assert words == {word.lower() for word in KEYWORDS}


def test_the_functions_of_the_grammar_are_those_of_the_table(monkeypatch):
    monkeypatch.setenv("LEAVEOUT_PLUGINS", "off")
    assert alternatives(pattern("support.function.leaveout")) == set(functions())


def test_every_expression_of_the_grammar_compiles():
    found = [
        each[key] for each in patterns(GRAMMAR) for key in ("match", "begin", "end") if key in each
    ]
    assert len(found) > 8
    for text in found:
        re.compile(text)


@pytest.mark.parametrize(
    ("scope", "text", "found"),
    [
        ("comment.line.number-sign.leaveout", "let a = 1  # why", "# why"),
        ("constant.numeric.leaveout", "let a1 = -1.5e-3", "1.5e-3"),
        ("keyword.operator.leaveout", "a => b", "=>"),
        ("variable.parameter.leaveout", "box(0, upper = 1) == 2", "upper"),
        ("support.function.leaveout", "label(N, x)", "label"),
        ("keyword.control.leaveout", "forallx in X", "in"),
    ],
)
def test_what_the_grammar_colours(scope, text, found):
    assert re.search(pattern(scope), text)[0] == found

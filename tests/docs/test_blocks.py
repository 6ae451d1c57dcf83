"""Specifications on pages are right, and every block says what it is."""

from __future__ import annotations

import re

import pytest
from docs import exempt
from docs.pages import blocks, of_kind, pages, text_of

from leaveout.specs import check, expand, parse

LANGUAGES = {"spec", "python", "console", "toml", "json", "yaml", "text", "{eval-rst}"}
# Pages that are read without a site, where code hosts know none of our languages.
UNMARKED = {"README.md", "CONTRIBUTING.md", "docs/report.md", "docs/privacy.md"}

# What excerpts take for granted; a block that defines a name itself is not given it.
NAMES = {
    "N": 'network("full.onnx")',
    "Q": 'network("quantised.onnx")',
    "F": 'family("family.npz")',
    "X": "box(0, 1)",
    "V": 'ballots("ballots.npz")',
    "S": 'sharded("service.toml")',
    "T": 'forest("forest.npz")',
    "A": 'audit("audit.npz")',
}
CLAIM = "guarantee added: forall added_point in box(0, 1): feature(added_point, 0) >= 0\n"
INCLUDED = {"models.spec": 'let included = network("full.onnx")\n'}

SPECS = of_kind("spec")


def completed(text):
    """Return a block with the names before it that it uses and does not define."""
    code = re.sub(r'#.*|"[^"\n]*"', "", text)
    lets = [
        f"let {name} = {value}\n"
        for name, value in NAMES.items()
        if re.search(rf"\b{name}\b", code) and not re.search(rf"\b(let|param)\s+{name}\b", code)
    ]
    claim = "" if re.search(r"^(guarantee|find)\b", text, re.MULTILINE) else CLAIM
    return "".join(lets) + text + claim


@pytest.mark.parametrize("page", [page for page in pages() if page not in UNMARKED])
def test_every_block_says_its_language(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block}: {block.first}"


@pytest.mark.parametrize("block", SPECS, ids=str)
def test_a_specification_is_right(block, tmp_path):
    if (block.page, block.first) in exempt.SPECS:
        pytest.skip(exempt.SPECS[block.page, block.first])
    for name, text in INCLUDED.items():
        (tmp_path / name).write_text(text)
    checked = check(expand(parse(completed(block.text), str(block)), tmp_path))
    assert checked.lets or checked.statements


OPERATORS = re.findall(r"^\| `[^|]*\|[^|]*\| `([^|]*)` \|$", text_of("docs/language.md"), re.M)


@pytest.mark.parametrize("example", OPERATORS)
def test_the_example_of_an_operator_is_right(example):
    assert check(parse(completed(f"guarantee g: forall x in X, M in F: {example}")))


def test_every_operator_has_an_example():
    tokens = set(
        re.findall(r"=>|==|!=|<=|>=|[-<>+*/(]|\b(?:and|or|not|forall)\b", "".join(OPERATORS))
    )
    assert tokens >= {*"<>+-*/(", "=>", "==", "!=", "<=", ">=", "and", "or", "not", "forall"}


def test_there_are_specifications_to_check():
    assert len(SPECS) > 20
    assert len({block.page for block in SPECS}) > 8


def test_names_are_only_added_where_they_are_missing():
    assert completed('let N = network("a")\nguarantee g: label(N, x) == 0') == (
        'let N = network("a")\nguarantee g: label(N, x) == 0'
    )
    assert completed("guarantee g: forall x in X: label(N, x) == 0  # F").count("let") == 2
    assert completed("let a = 1\n") == f"let a = 1\n{CLAIM}"


def test_what_is_left_out_is_still_there():
    found = {(block.page, block.first) for block in SPECS}
    assert set(exempt.SPECS) <= found


def test_so_much_is_left_out_and_no_more():
    left_out = (exempt.PYTHON, exempt.SPECS, exempt.COMMANDS, exempt.FOLLOWED)
    assert [len(each) for each in left_out] == [4, 0, 1, 5]

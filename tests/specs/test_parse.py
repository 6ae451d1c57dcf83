"""The grammar: what parses, what it parses to, and where the nodes stand."""

import sys
from pathlib import Path

import pytest

from leaveout.errors import SpecError
from leaveout.specs import (
    And,
    Arithmetic,
    Binder,
    Call,
    Compare,
    Confident,
    Find,
    ForAll,
    Guarantee,
    Implies,
    Let,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Option,
    Or,
    Position,
    Spec,
    Text,
    load,
    parse,
)

from support import children

GOOD = sorted((Path(__file__).parent / "good").glob("*.spec"))
LONGEST = 200_000


def value(text):
    (statement,) = parse(f"let a = {text}").statements
    return statement.value


def claim(text):
    (statement,) = parse(f"guarantee g: {text}").statements
    return statement.claim


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_the_canonical_text_of_a_specification_means_the_same(path):
    spec = load(path)
    assert parse(str(spec)) == spec
    assert spec.source.name == str(path)


def test_the_leading_example():
    text = """
        let X = box(0, 1)
        find b: least b per label such that
            forall x in X, M in F: f(x) > b
    """
    assert parse(text) == Spec(
        (
            Let("X", Call("box", (Number(0), Number(1)))),
            Find(
                "b",
                "least",
                "b",
                True,
                ForAll(
                    (Binder("x", Name("X")), Binder("M", Name("F"))),
                    Compare(Call("f", (Name("x"),)), ">", Name("b")),
                ),
            ),
        )
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("0.5", 0.5), (".5", 0.5), ("1.", 1), ("1e-3", 1e-3), ("2E+2", 200), ("-1", -1)],
)
def test_numbers(text, number):
    assert value(text) == Number(number)


def test_a_minus_belongs_to_digits_and_negates_anything_else():
    assert value("-1") == Number(-1)
    assert value("-(1)") == Negate(Number(1))
    assert value("--1") == Negate(Number(-1))
    assert value("-a * b") == Arithmetic(Negate(Name("a")), "*", Name("b"))
    assert value("a - -1") == Arithmetic(Name("a"), "-", Number(-1))


def test_what_binds_tighter():
    a, b, c, d = map(Name, "abcd")
    assert value("a + b * c") == Arithmetic(a, "+", Arithmetic(b, "*", c))
    assert value("a - b - c") == Arithmetic(Arithmetic(a, "-", b), "-", c)
    assert claim("a => b => c") == Implies(a, Implies(b, c))
    assert claim("a or b and c") == Or(a, And(b, c))
    assert claim("not a < b and c") == And(Not(Compare(a, "<", b)), c)
    assert claim("a or b => c or d") == Implies(Or(a, b), Or(c, d))
    assert claim("forall x in a: b => c") == ForAll((Binder("x", a),), Implies(b, c))
    assert claim("a => forall x in b: c => d") == Implies(
        a, ForAll((Binder("x", b),), Implies(c, d))
    )
    assert claim("a => b with confidence 0.9") == Confident(Implies(a, b), Number(0.9))


def test_calls_lists_and_options():
    assert value("f()") == Call("f")
    assert value("[]") == ListOf(())
    assert value("f([1, -2], k = a, w = adaptive)") == Call(
        "f",
        (ListOf((Number(1), Number(-2))),),
        (Option("k", Name("a")), Option("w", Name("adaptive"))),
    )


def test_escapes_of_a_text():
    assert value(r'"a\"b\\c\u00e9"') == Text('a"b\\cé')
    assert value('"# no comment"') == Text("# no comment")


def test_label_and_confidence_stay_names_of_functions():
    text = "find b: least label per label such that confidence < label with confidence 0.9"
    (find,) = parse(text).statements
    assert find.per_label
    assert find.variable == "label"


def test_newlines_and_comments_are_free():
    assert parse("let a # x\n=\r\n\t1 let b=2 guarantee g # y\n:a<b") == parse(
        "let a = 1\nlet b = 2\nguarantee g: a < b"
    )


def test_nodes_know_where_they_stand():
    spec = parse("let a = 1\nguarantee g:\n    (a + 1) * 2 < f(a)")
    _, guarantee = spec.statements
    assert isinstance(guarantee, Guarantee)
    assert guarantee.at == Position(2, 1, 3, 23)
    assert guarantee.name_at == Position(2, 11, 2, 12)
    assert guarantee.claim.left.at == Position(3, 5, 3, 16)
    assert guarantee.claim.left.left.at == Position(3, 6, 3, 11)
    assert guarantee.claim.right.at == Position(3, 19, 3, 23)


def test_positions_and_sources_do_not_count_in_equality():
    assert parse("let a = 1", "one") == parse("\n\nlet  a  =  1", "two")
    assert hash(parse("let a = 1")) == hash(Spec((Let("a", Number(1)),)))


def test_a_number_built_in_python_must_be_finite(snapshot):
    with pytest.raises(SpecError) as told:
        Number(float("nan"))
    assert str(told.value) == snapshot


def test_a_text_built_in_python_must_be_able_to_name_a_file():
    with pytest.raises(SpecError, match="NUL"):
        Text("a\0")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.spec", None),
        ("empty.spec", b" \n\t"),
        ("network.onnx", b"\x08\x07\xff\xfe"),
        ("long.spec", b"#" * (LONGEST + 1)),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, snapshot):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_folder_is_refused(tmp_path, snapshot):
    with pytest.raises(SpecError) as told:
        load(tmp_path)
    assert str(told.value) == snapshot


def test_a_path_with_a_nul_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        load("a\0b")
    assert str(told.value) == snapshot


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path):
    path = tmp_path / "windows.spec"
    path.write_bytes(b"\xef\xbb\xbflet a = 1\r\nguarantee g: a < 2\r\n")
    assert load(path) == parse("let a = 1\nguarantee g: a < 2")


@pytest.mark.parametrize(
    "text",
    [
        "not " * 300 + "a",
        "-" * 300 + "a",
        "a" + " + a" * 300,
        "a" + " => a" * 300,
        "forall x in X: " * 300 + "a",
        "f(" * 300 + ")" * 300,
        "[" * 300 + "]" * 300,
    ],
    ids=lambda text: text[:10],
)
def test_deep_nesting_is_refused_by_name(text, snapshot):
    with pytest.raises(SpecError) as told:
        parse(f"guarantee g: {text}")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("text", ["(" * 10_000, "(" * 10_000 + "1" + ")" * 10_000 + " < 1"])
def test_any_number_of_parentheses_ends(text, snapshot):
    try:
        parse(f"guarantee g: {text}")
    except SpecError as error:
        assert str(error) == snapshot


def test_importing_the_package_does_not_import_the_parser():
    code = "import sys, leaveout.specs; sys.exit('lark' in sys.modules)"
    assert children.run([sys.executable, "-c", code]).returncode == 0

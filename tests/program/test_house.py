"""What keeps the house in order: its names, its files, and who may know whom."""

import ast

import house

MOST = 740
"""Lines of a file that holds one subject."""

SOURCES = house.sources(house.ROOT)


def test_no_function_is_named_by_a_bare_participle():
    assert not [str(found) for found in house.participles(SOURCES)]


def test_every_public_method_has_a_docstring_or_inherits_one():
    assert not house.undocumented(SOURCES)


def test_a_docstring_is_inherited_from_whatever_base_has_it(tmp_path):
    text = (
        "class A:\n    def f(self): 'Return.'\n\nclass B(m.A[int]): ...\n\n"
        "class C(B):\n    def f(self): return 1\n    def g(self): return 2\n"
    )
    source = house.Source("m", tmp_path, text, ast.parse(text))
    assert house.undocumented({"m": source}) == ["m:8 C.g"]


def test_no_file_holds_too_much():
    assert {name: each.lines for name, each in SOURCES.items() if each.lines > MOST} == {}


def test_a_name_that_only_looks_like_a_participle_is_no_find():
    names = ("held", "_told", "listing", "load_held", "bound")
    found = [house.is_participle(name) for name in names]
    assert found == [True, True, False, False, False]

"""What keeps the house in order: its names, its files, and who may know whom."""

import house

MOST = 740
"""Lines of a file that holds one subject."""

SOURCES = house.sources(house.ROOT)


def test_no_function_is_named_by_a_bare_participle():
    assert not [str(found) for found in house.participles(SOURCES)]


def test_no_file_holds_too_much():
    assert {name: each.lines for name, each in SOURCES.items() if each.lines > MOST} == {}


def test_a_name_that_only_looks_like_a_participle_is_no_find():
    names = ("held", "_told", "listing", "load_held", "bound")
    found = [house.is_participle(name) for name in names]
    assert found == [True, True, False, False, False]

"""The table of functions: what plug-ins may add, and what cannot break it."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from leaveout.errors import SpecError
from leaveout.specs import Function, Parameter, check, functions, parse
from leaveout.specs.functions import BUILT_IN
from leaveout.specs.types import NUMBER, POINT

NORM = Function("norm", (Parameter("point", (POINT,)),), NUMBER, "A norm.", "norm(x) < 1")
OTHER_NORM = Function("norm", (), NUMBER, "Another.", "norm() < 1")
OTHER_LABEL = Function("label", (), NUMBER, "No label.", "label() < 1")
NO_FUNCTION = 1


@pytest.fixture
def install(monkeypatch):
    def install_(*names):
        points = [EntryPoint(name, f"{__name__}:{name}", "leaveout.functions") for name in names]

        def entry_points(group):
            return EntryPoints(points).select(group=group)

        here = {"NORM": NORM, "OTHER_NORM": OTHER_NORM, "OTHER_LABEL": OTHER_LABEL}
        here["NO_FUNCTION"] = NO_FUNCTION
        monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
        monkeypatch.setattr(EntryPoint, "load", lambda point: here[point.name])

    return install_


def test_a_plug_in_adds_a_function(install):
    install("NORM")
    assert functions()["norm"] is NORM
    assert check(parse("guarantee g: forall x in box(0, 1): norm(x) < 1")).statements


def test_plug_ins_can_be_switched_off(install, monkeypatch):
    install("NORM")
    monkeypatch.setenv("LEAVEOUT_PLUGINS", "off")
    assert list(functions()) == [function.name for function in BUILT_IN]
    with pytest.raises(SpecError, match="unknown name 'norm'"):
        check(parse("guarantee g: norm(1) < 1"))


def test_a_built_in_function_wins(install):
    install("OTHER_LABEL")
    with pytest.warns(UserWarning, match="there is a function 'label' already"):
        table = functions()
    assert table["label"] in BUILT_IN


def test_the_first_of_two_plug_ins_wins(install):
    install("NORM", "OTHER_NORM")
    with pytest.warns(UserWarning, match="OTHER_NORM is left out: there is a function 'norm'"):
        assert functions()["norm"] is NORM


@pytest.mark.parametrize(
    ("name", "why"), [("BROKEN", "cannot be loaded: KeyError"), ("NO_FUNCTION", "it is a int")]
)
def test_a_broken_plug_in_is_left_out(install, name, why):
    install(name, "NORM")
    with pytest.warns(UserWarning, match=why):
        assert functions()["norm"] is NORM


@pytest.mark.parametrize("function", BUILT_IN, ids=lambda function: function.name)
def test_the_example_of_a_function_is_right(function):
    text = f"{function.example}\n" if function.example.startswith("let") else ""
    claim = "1 == 1" if text else function.example
    lets = 'let N = network("n") ' if "N =" not in text else ""
    check(parse(f'{lets}{text}guarantee g: forall x in box(0, 1), M in family("f"): {claim}'))

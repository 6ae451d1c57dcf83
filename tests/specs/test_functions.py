"""The table of functions: what plug-ins may add, and what cannot break it."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from string import Formatter

import pytest

import leaveout.specs
from leaveout.errors import SpecError
from leaveout.specs import Function, Parameter, check, functions, parse
from leaveout.specs.table import BUILT_IN
from leaveout.specs.types import BOOLEAN, LABEL, NUMBER, POINT
from leaveout.verifier.page.evidence import SHOWN_BY
from leaveout.verifier.page.first_page.sentences import PLAIN
from leaveout.verifier.points.functions import FORMS
from leaveout.verifier.values.subjects import DECIDERS, decider_of
from leaveout.verifier.warm_up import KERNELS

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


def test_plug_ins_can_be_switched_off(install, monkeypatch, snapshot):
    install("NORM")
    monkeypatch.setenv("LEAVEOUT_PLUGINS", "off")
    assert list(functions()) == [function.name for function in BUILT_IN]
    with pytest.raises(SpecError) as told:
        check(parse("guarantee g: norm(1) < 1"))
    assert str(told.value) == snapshot


def test_a_built_in_function_wins(install, snapshot):
    install("OTHER_LABEL")
    with pytest.warns(UserWarning, match="'label'") as heard:
        table = functions()
    assert [str(each.message) for each in heard] == snapshot
    assert table["label"] in BUILT_IN


def test_the_first_of_two_plug_ins_wins(install, snapshot):
    install("NORM", "OTHER_NORM")
    with pytest.warns(UserWarning, match="OTHER_NORM.*'norm'") as heard:
        assert functions()["norm"] is NORM
    assert [str(each.message) for each in heard] == snapshot


@pytest.mark.parametrize(
    ("name", "why"), [("BROKEN", "cannot load it: KeyError"), ("NO_FUNCTION", "it is a int")]
)
def test_a_broken_plug_in_is_left_out(install, name, why):
    install(name, "NORM")
    with pytest.warns(UserWarning, match=why):
        assert functions()["norm"] is NORM


NAMED = {
    "N": 'network("n")',
    "V": 'ballots("v")',
    "S": 'sharded("s")',
    "T": 'forest("t")',
    "L": 'linear("l")',
}
BOUND = 'x in box(0, 1), y in box(0, 1), M in family("f"), z in points("z")'


@pytest.mark.parametrize("function", BUILT_IN, ids=lambda function: function.name)
def test_the_example_of_a_function_is_right(function):
    text = f"{function.example}\n" if function.example.startswith("let") else ""
    claim = "1 == 1" if text else function.example
    bound = BOUND.partition(", z in")[0] if claim.startswith("forall") else BOUND
    lets = " ".join(
        f"let {name} = {value}" for name, value in NAMED.items() if f"{name} =" not in text
    )
    checked = check(parse(f"{lets} {text}guarantee g: forall {bound}: {claim}"))
    calls = function.example.count(f"{function.name}(")
    assert calls, checked


@pytest.mark.parametrize("function", BUILT_IN, ids=lambda function: function.name)
def test_a_function_says_in_a_line_what_it_means_and_what_may_change(function):
    assert function.doc.endswith(".")
    assert "\n" not in function.doc + function.threat
    assert not function.threat.endswith(".")


@pytest.mark.parametrize("function", BUILT_IN, ids=lambda function: function.name)
def test_what_a_function_names_is_there(function):
    assert (function.decider, function.forms, function.facts, function.plain) == (None,) * 4
    assert function.name not in DECIDERS or callable(decider_of(function))
    if function.result in (NUMBER, BOOLEAN, LABEL):
        assert (function.name in DECIDERS) != (function.name in FORMS)
    assert set(function.kernels) <= set(KERNELS)


@pytest.mark.parametrize("table", [DECIDERS, FORMS, PLAIN, SHOWN_BY])
def test_what_decides_reads_and_words_functions_is_of_functions_there_are(table):
    assert set(table) <= {function.name for function in BUILT_IN}


def test_the_table_names_no_room_above_it():
    for path in Path(leaveout.specs.__file__).parent.rglob("*.py"):
        assert "leaveout.verifier" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("function", BUILT_IN, ids=lambda function: function.name)
def test_a_function_that_is_a_number_or_a_claim_has_words_of_its_parameters(function):
    names = {each.name for each in function.parameters if not each.optional}
    if isinstance(function.words, str):
        fields = {field for _, field, _, _ in Formatter().parse(function.words) if field}
        assert fields == names
    if function.result in (NUMBER, BOOLEAN):
        assert function.words is not None


def test_the_names_of_functions_and_their_parameters_differ():
    assert len({function.name for function in BUILT_IN}) == len(BUILT_IN)
    for function in BUILT_IN:
        names = [parameter.name for parameter in function.parameters]
        assert len(set(names)) == len(names)
        optional = [p.optional for p in function.parameters if not p.named]
        assert optional == sorted(optional)


def test_edits_and_relabels_are_types():
    threats = {functions()[name].result: functions()[name].threat for name in ("dpa", "ss_dpa")}
    assert len(threats) == len(set(threats.values())) == 2


def test_a_rule_is_given_the_types_of_the_arguments(snapshot):
    seen = []

    def rule(given, types):
        seen.append({name: (str(given[name]), types[name].name) for name in given})
        return "no\nwrite something else\nor nothing"

    parameters = (Parameter("of", (NUMBER,)), Parameter("how", words=("fast",), named=True))
    table = {"f": Function("f", parameters, NUMBER, "F.", "f(1, how = fast) < 1", rule)}
    with pytest.raises(SpecError) as caught:
        check(parse("let a = 2 guarantee g: f(a, how = fast) < 1"), table)
    assert seen == [{"of": ("2", "Number"), "how": ("fast", "Word")}]
    assert str(caught.value) == snapshot
    assert ": no\n" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "right", "wrong"),
    [
        ({}, [-1.5, 2], []),
        ({"whole": True}, [-1, 0, 3], [0.5]),
        ({"least": 0}, [0, 0.5], [-1]),
        ({"least": 0.5, "most": 1e6}, [0.5, 1e6], [0, 1e7]),
    ],
)
def test_the_numbers_a_parameter_takes(fields, right, wrong, snapshot):
    parameter = Parameter("p", (NUMBER,), **fields)
    assert parameter.range == snapshot
    assert all(map(parameter.takes, right))
    assert not any(map(parameter.takes, wrong))

"""Whatever walks a specification is bounded by its text, however its names name one another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leaveout.errors import SpecError
from leaveout.specs import check, parse
from leaveout.specs.builder import guarantee, let, spec, term
from leaveout.specs.format import format_specification
from leaveout.specs.text.expressions import Expression, Node, children
from leaveout.specs.typing.check import Expansion
from leaveout.specs.typing.params import params
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.resolve_names import read_spec


def _doubled(times: int, start: str = "0.5") -> str:
    lines = [f"let a0 = {start}"]
    lines += [f"let a{i} = a{i - 1} + a{i - 1}" for i in range(1, times + 1)]
    return "\n".join(lines) + "\n"


CLAIM = "guarantee g: forall x in X: score(N, x, 0) > {}\n"
HEAD = 'let N = network("n.onnx")\nlet X = box(0, 1)\n'


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Count the nodes that checking measures."""
    seen: list[Node] = []
    real = Expansion._measure

    def counted(self: Expansion, node: Node):
        seen.append(node)
        return real(self, node)

    monkeypatch.setattr(Expansion, "_measure", counted)
    return seen


def test_lets_that_double_sixty_times_are_refused_where_they_become_too_large(
    walks, snapshot
) -> None:
    text = HEAD + _doubled(60) + CLAIM.format("a60")
    with pytest.raises(SpecError) as told:
        check(parse(text, "t.spec"))
    assert str(told.value) == snapshot
    assert len(walks) < 200


def test_lets_that_double_a_few_times_mean_what_they_meant() -> None:
    checked = check(parse(HEAD + _doubled(12) + CLAIM.format("a12"), "t.spec"))
    from leaveout.verifier.resolve_names import Resolver

    assert Resolver(checked, Path()).number(checked.lets["a12"].value) == 0.5 * 2**12


def test_claims_that_are_too_large_only_together_are_refused(snapshot) -> None:
    claims = "".join(f"guarantee g{i}: a14 + a14 > {i}\n" for i in range(40))
    with pytest.raises(SpecError) as told:
        check(parse(_doubled(15) + claims, "t.spec"))
    assert str(told.value) == snapshot


def test_a_chain_of_lets_deeper_than_recursion_is_refused(snapshot) -> None:
    chain = "let a0 = 0.5\n" + "".join(f"let a{i} = a{i - 1} + 1\n" for i in range(1, 400))
    with pytest.raises(SpecError) as told:
        check(parse(chain + "guarantee g: a399 > 0\n", "t.spec"))
    assert str(told.value) == snapshot


def test_a_chain_of_refined_sets_is_as_long_as_there_are_features(tmp_path) -> None:
    features = 1200
    lines = [f"let X{i + 1} = integers(X{i}, at = {i})" for i in range(features)]
    text = "\nlet X0 = box(0, 1)\n" + "\n".join(lines) + "\n"
    claim = f"guarantee g: forall x in X{features}: score(N, x, 0) > 0\n"
    path = tmp_path / "t.spec"
    path.write_text('let N = network("n.onnx")' + text + claim)
    reading = read_spec(path)
    node = reading.checked.lets[f"X{features}"].value
    assert len(InputReader(reading.resolver(), features).read(node).choices) == features


def test_a_long_list_used_many_times_is_no_large_expression() -> None:
    numbers = ", ".join(str(i / 5000) for i in range(5000))
    claims = "".join(
        f"guarantee g{i}: forall x in Y, y in Y: score(N, x, 0) > score(N, y, 1) - {i}\n"
        for i in range(900)
    )
    text = HEAD + f"let Y = grid(X, at = 0, values = [{numbers}])\n" + claims
    assert len(check(parse(text, "t.spec")).statements) == 900


def test_a_set_that_lists_too_many_numbers_in_all_is_refused(
    tmp_path, monkeypatch, snapshot
) -> None:
    monkeypatch.setattr("leaveout.verifier.points.inputs.LARGEST_IN_ALL", 4000)
    path = tmp_path / "t.spec"
    path.write_text(
        'let N = network("n.onnx")\n'
        "let X = integers(box(0, 1), at = [0, 1, 2, 3, 4, 5], lower = 0, upper = 999, "
        "one = 999)\n" + CLAIM.format("0")
    )
    reading = read_spec(path)
    with pytest.raises(SpecError) as told:
        InputReader(reading.resolver(), 6).read(reading.checked.lets["X"].value)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "let a = " + "(" * 10_000 + "1" + ")" * 10_000,
        "let a = " + "-" * 10_000 + "1",
        "guarantee g: " + " and ".join(["1 < 2"] * 10_000),
        "guarantee g: " + " => ".join(["1 < 2"] * 10_000),
        "guarantee g: " + "not " * 10_000 + "1 < 2",
        "let a = " + " + ".join(["1"] * 10_000),
        "let a = " + "[" * 10_000 + "1" + "]" * 10_000,
        "let a = " + "f(" * 10_000 + "1" + ")" * 10_000,
        "let a = " + "(" * 10_000,
    ],
    ids=range(9),
)
def test_nesting_ends_in_one_error_that_points_or_in_a_tree(text) -> None:
    for walk in (parse, lambda text: format_specification(text, "<text>")):
        try:
            walk(text)
        except SpecError as error:
            assert "\n" in str(error)
            assert str(error).startswith("<text>:1:")


def test_a_let_that_names_itself_is_refused_and_has_no_constant(snapshot) -> None:
    with pytest.raises(SpecError) as told:
        check(parse("let a = a\nguarantee g: a < 1\n"))
    assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        params(parse("param a = a\nguarantee g: a < 1\n"))
    assert str(told.value) == snapshot


def test_a_tree_that_holds_one_node_many_times_is_refused_before_it_is_walked(
    monkeypatch, snapshot
) -> None:
    walked = 0
    real = children

    def counted(node: Expression):
        nonlocal walked
        walked += 1
        return real(node)

    monkeypatch.setattr(sys.modules["leaveout.specs.text.parse"], "children", counted)
    number = term(0.5)
    for _ in range(60):
        number = number + number
    with pytest.raises(SpecError) as told:
        check(spec(let("a", number), guarantee("g", number > 1)))
    assert str(told.value) == snapshot
    assert walked < 10_000

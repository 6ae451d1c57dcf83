"""The type check: what each expression is, and which specifications are right."""

from pathlib import Path

import pytest

from leaveout.errors import SpecError
from leaveout.specs import (
    And,
    Call,
    Compare,
    Find,
    Function,
    Guarantee,
    Let,
    Name,
    Number,
    Parameter,
    Spec,
    Type,
    check,
    functions,
    load,
    parse,
)

GOOD = Path(__file__).parent / "good"
LETS = 'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'


def test_the_leading_example():
    spec = load(GOOD / "breast_cancer.spec")
    checked = check(spec)
    assert list(checked.lets) == ["N", "F", "X"]
    assert checked.lets["X"] == Let("X", Call("box", (Number(0), Number(1))))
    find, guarantee = checked.statements
    assert isinstance(find, Find)
    assert find.per_label
    assert isinstance(guarantee, Guarantee)
    assert checked.source == spec.source


def test_every_expression_has_its_type():
    checked = check(load(GOOD / "breast_cancer.spec"))
    forall = checked.statements[1].claim
    compared = forall.body.left
    names = [
        checked.type_of(node).name
        for node in (
            *(let.value for let in checked.lets.values()),
            forall,
            *(binder.domain for binder in forall.binders),
            compared,
            compared.left,
            *compared.left.arguments,
            compared.right,
            forall.body.right.left,
        )
    ]
    assert names == [
        *["Network", "Family", "Inputs", "Boolean", "Inputs", "Family", "Boolean"],
        *["Number", "Network", "Point", "Number", "Label"],
    ]


@pytest.mark.parametrize(
    ("name", "statements"), [("two_networks", 2), ("poisoning", 4), ("deletion", 3), ("listed", 3)]
)
def test_the_examples_of_the_design(name, statements):
    assert len(check(load(GOOD / f"{name}.spec")).statements) == statements


@pytest.mark.parametrize(
    "statement",
    [
        "guarantee g: forall x in X: label(N, x) == 1",
        "guarantee g: forall x in X: 0 != label(network = N, point = x)",
        "let c = 2 guarantee g: forall x in X: label(N, x) == c",
        "guarantee g: forall M in F, K in F, x in X: label(M, x) == label(K, x)",
        "guarantee g: (forall x in X: 0 < 1) and (forall x in X: 0 < 1)",
        "find X_1: greatest r such that forall x in box(-r, r): label(N, x) == 1",
        "find one: least b such that b > 1 find two: least b such that b > 1",
        "guarantee g: forall x in X: confidence(N, x, 1) / 2 > 0 with confidence 0.5",
        "let same = forall x in X: label(N, x) == 1 guarantee g: not same => same",
        "let lower = [0, 0] guarantee g: forall x in box(lower, [1, 0]): 1 == 1",
        "let label = 1 guarantee g: forall x in X: label(N, x) == label",
        "guarantee g: forall x in grid(X, at = 3, values = [0, 1 / 2, 1]): label(N, x) == 1",
        "let a = [1, 0] guarantee g: forall x in grid(X, at = [1, 2], values = [a, a]): 1 == 1",
        'guarantee g: forall x in grid(X, at = [1, 2], values = "rows.npz"): 1 == 1',
        "let k = 4 guarantee g: forall x in integers(X, at = k, upper = k * 2): 1 == 1",
        "guarantee g: forall x in integers(inputs = X, at = [0, 1], zero = -1.5, one = 2): 1 == 1",
        "find g: greatest r such that forall x in grid(X, at = 0, values = [0, r]): r > 1",
        "guarantee g: forall x in circle(one_hot(X, at = [5, 6]), at = [1, 2], points = 4): 1 == 1",
        "guarantee g: forall x in one_hot(X, at = [5, 6], also = [0, 0]): 1 == 1",
        "guarantee g: forall x in one_hot(X, at = [5, 6], also = [[0, 0], [1, 1]]): 1 == 1",
        "guarantee g: forall x in circle(X, at = [1, 2], points = 5, arc = 1 / 4, start = 0.5,"
        " radius = 0.5, centre = [0.5, 0.5], also = [0, 0]): 1 == 1",
        "guarantee g: forall x in around([0, 1], 0.5): score(N, x, 1) >= score(N, x, label = 0)",
        "let c = [0, 1] guarantee g: forall x in around(c, 0, within = X): feature(x, 1) <= 1",
        "guarantee g: forall x in X, y in X: same_except(x, y, at = 3) => label(N, x) == 1",
        "guarantee g: forall x in X, y in X: same_except(x, y, at = [3, 4])"
        " and feature(x, at = 3) <= feature(y, 3) => score(N, x, 1) <= score(N, y, 1)",
        "guarantee g: forall x in X, y in X: distance(x, y) <= 0.1 => difference(N, N, x) < 1",
        "find d: least d such that forall x in X, M in F: difference(N, M, x) <= d",
        "guarantee g: forall x in X: abs(confidence(N, x) - 1) <= 2",
        'let W = ss_dpa(ballots("b")) guarantee g: collective_accuracy(W, relabels = 2) > 0.5',
        'find r: greatest r such that certified_accuracy(dpa(ballots("b")), edits = r) >= 0.5',
    ],
)
def test_right_specifications(statement):
    assert check(parse(LETS + statement)).statements


@pytest.mark.parametrize(
    "statement",
    [
        "guarantee g: forall x in box(b, 1): 1 == 1",
        "let c = 0.5 guarantee g: forall x in X: label(N, x) == c",
        "let c = [1] guarantee g: forall x in box(c, 0): 1 == 1",
        "guarantee g: forall x in X: confidence(N, x, -1) > 0",
        "guarantee g: forall x in X: label(N, x) == -1",
        "guarantee g: forall x in X, x in F: 1 == 1",
        "guarantee g: forall N in F: 1 == 1",
        "guarantee g: (forall x in X: 1 == 1) and label(N, x) == 1",
        "find r: least N such that N > 1",
        "guarantee g: label(N, network = N) == 1",
        "guarantee g: 1 / 0 == 1",
        "guarantee g: [] == 1",
        "guarantee g: [[1]] == 1",
        "guarantee g: [[[1]]] == 1",
        "guarantee g: [N] == 1",
        "guarantee g: [1, [1]] == 1",
        "let a = [1] guarantee g: [a, [1, 2]] == 1",
        'guarantee g: -"a" < 1',
        "guarantee g: N",
        "guarantee g: (1 < 2) == (2 < 3)",
        "guarantee g: 1 < 2 with confidence 1",
        "guarantee g: 1 < 2 with confidence -0.5",
        "guarantee g: n == n",
        "guarantee g: forall x in around([0], -1): 1 == 1",
        "guarantee g: forall x in around(0, 1): 1 == 1",
        "guarantee g: forall x in X: score(N, x) > 0",
        "guarantee g: forall x in X: score(N, x, 0.5) > 0",
        "guarantee g: forall x in X: feature(x, 0.5) > 0",
        "guarantee g: forall x in X: same_except(x, x, at = [1, 1])",
        "guarantee g: forall x in X: same_except(x, N, at = 1)",
        'guarantee g: forall z in points("p"): label(N, z) == 1',
        'guarantee g: forest("t") < forest("t")',
        'guarantee g: unlearns(sharded("s"), updates = 1, alpha = 1)',
    ],
)
def test_wrong_specifications(statement, snapshot):
    with pytest.raises(SpecError) as caught:
        check(parse(LETS + statement))
    assert str(caught.value) == snapshot


def test_a_tree_built_in_python_is_checked_in_its_canonical_text(snapshot):
    claim = Compare(Name("b"), "<", Number(2))
    with pytest.raises(SpecError) as caught:
        check(Spec((Guarantee("g", And(claim, claim)),)))
    assert str(caught.value) == snapshot


def test_a_tree_built_in_python_may_use_a_node_twice():
    x = Name("x")
    bound = parse("guarantee g: forall x in box(0, 1): 1 == 1").statements[0].claim
    checked = check(Spec((Let("x", Number(1)), Guarantee("g", Compare(x, "==", x)))))
    assert checked.type_of(checked.statements[0].claim.left).name == "Number"
    assert check(Spec((Guarantee("g", And(bound, bound)),))).statements


def test_a_tree_too_deep_to_walk_is_refused(snapshot):
    claim = Name("a")
    for _ in range(5000):
        claim = And(claim, claim)
    with pytest.raises(SpecError) as told:
        check(Spec((Guarantee("g", claim),)))
    assert str(told.value) == snapshot


ROWS = Type("Rows", "rows of a table", each=Type("Row", "a row"))
FOREST = Type("Forest", "a forest", equates=True)
UNLEARNS = Function(
    "unlearns",
    (
        Parameter("forest", (FOREST,)),
        Parameter("updates", named=True, words=("adaptive", "oblivious")),
        Parameter("alpha", (functions()["confidence"].result,), optional=True, named=True),
    ),
    Type("Boolean", "a claim"),
    "Whether a forest forgets.",
    "unlearns(T, updates = adaptive)",
)
TABLE = {
    **functions(),
    "forest": Function("forest", (), FOREST, "A forest.", "let T = forest()"),
    "rows": Function("rows", (), ROWS, "Rows.", "rows()"),
    "unlearns": UNLEARNS,
}


def test_functions_bring_types_words_and_comparisons_of_their_own():
    text = """
        let T = forest()
        guarantee forgets: unlearns(T, updates = adaptive, alpha = 1)
        guarantee same: forall z in rows(): T == T
    """
    assert len(check(parse(text), TABLE).statements) == 2


@pytest.mark.parametrize(
    "call",
    [
        "unlearns(forest(), updates = adaptve)",
        "unlearns(forest(), updates = 1)",
        "unlearns(forest(), adaptive)",
        "unlearns(forest())",
        "unlearns(rows(), updates = adaptive)",
        "forest() < forest()",
    ],
)
def test_wrong_calls_of_such_functions(call, snapshot):
    with pytest.raises(SpecError) as caught:
        check(parse(f"guarantee g: {call}"), TABLE)
    assert str(caught.value) == snapshot


def test_a_signature_shows_words_names_and_what_is_optional(snapshot):
    assert UNLEARNS.signature == snapshot

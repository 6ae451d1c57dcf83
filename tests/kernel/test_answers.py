"""What comes back from those who answer: arrays that change or lie, or are no arrays."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from leaveout.kernel.boxes import Inputs
from leaveout.kernel.float32 import Program, Region, Rounding, Step
from leaveout.kernel.leaks import Leaks
from leaveout.kernel.refusal import Rejected
from leaveout.kernel.values import hint, question

BOX = Inputs(np.array([0.5]), np.array([1.0]))


def affine(source, weights, constant, *, moves=False):
    weights, constant = np.array([weights], float), np.array([constant], float)
    return Step((source,), weights, constant, np.abs(constant), moves)


def scaled(weight):
    """Return a network with the scores (weight x, 0) of x above 0."""
    return Program(1, (affine(0, [[1.0]], [0.0]), Step((1,)), affine(2, [[weight, 0.0]], [0, 0])))


class Members:
    """Some networks of one input."""

    def __init__(self, *weights):
        self.weights = weights

    def __len__(self):
        return len(self.weights)

    def take(self, members):
        """Return the programs of some of them as one."""
        own = [scaled(self.weights[i]).steps[2] for i in members]
        last = Step(
            (2,), *(np.concatenate([getattr(s, k) for s in own]) for k in ("matrix", "constant")),
            size=np.zeros((len(own), 2)),
        )  # fmt: skip
        return Program(1, (*scaled(1.0).steps[:2], last))


class Answers:
    """Honest answers about a tree: a root with all members, then a node for each of them."""

    def __init__(self, members, weight):
        self.members, self.weight = members, weight

    def __call__(self, what, known):
        return getattr(self, what)(known)

    def tree(self, known):
        n = self.members
        return {
            "parent": np.array([-1, *(0 for _ in range(n))]),
            "index": np.zeros(n + 1, np.int64),
            "side": np.zeros(n + 1, np.int64),
            "group": np.arange(n + 1),
            "kind": np.array([0, *(2 for _ in range(n))], np.int8),
            "point": np.zeros(n + 1),
            "renew": np.zeros(n + 1, bool),
            "members": np.array([*range(n), *range(n)]),
            "offsets": np.array([0, *range(n, 2 * n + 1)]),
        }

    def rows(self, known):
        return {"wanted": np.ones((len(known["nodes"]), known["state"].shape[2]), bool)}

    def slopes(self, known):
        ones = np.ones(known["on"].shape)
        names = dict.fromkeys(("rise", "fall", "rise_d", "fall_d"), ones)
        return {**names, "apart": np.zeros(ones.shape, bool)}

    def multiples(self, known):
        none = np.zeros(0, np.int64)
        return {"row": none, "slot": none, "t": np.zeros(0)}

    def proof(self, known):
        n, hidden = len(known["nodes"]), known["state"].shape[2]
        nan = np.full((n, hidden), np.nan)
        return {"share": np.tile([1.0, self.weight], (n, 1)), "cz": nan, "cd": nan}

    def split(self, known):
        return {}


def prove(answers, *weights, upper):
    leaks = Leaks.of(scaled(1.0), Members(*weights), BOX, answers)
    return leaks.check(0, upper, answers)


def test_honest_answers_prove_what_is_so_and_nothing_else():
    """The member scores 2/5 x: it never answers otherwise."""
    assert prove(Answers(2, 2.5), 0.4, 0.4, upper=1e-3) == 2
    for weight in (0.0, 1.0, 2.5):
        with pytest.raises(Rejected, match="node"):
            prove(Answers(2, weight), 0.4, -1.0, upper=0.9)


class Changing(Answers):
    """Changes a tree that the kernel has read already: the member that leaks is never looked at."""

    def tree(self, known):
        self.given = super().tree(known)
        return self.given

    def rows(self, known):
        if hasattr(self, "given"):
            self.given["members"][:] = 0
        return super().rows(known)


class Writing(Answers):
    """Writes into what is lent."""

    def slopes(self, known):
        for array in known.values():
            array.flags.writeable = True
            array[...] = 0
        return super().slopes(known)


class Masked(Answers):
    """Hides negative multiples behind a mask."""

    def multiples(self, known):
        count, slots = known["slopes"].shape[:2], known["half_spaces"].shape[1]
        row, slot = (part.ravel() for part in np.indices((count[0] * count[1], slots)))
        t = np.full(len(row), -1000.0)
        return {"row": row, "slot": slot, "t": np.ma.array(t, mask=np.ones(len(t), bool))}


@pytest.mark.parametrize("kind", [Changing, Writing, Masked])
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 2.5])
def test_no_answer_reaches_into_the_kernel(kind, weight):
    with pytest.raises(Rejected):
        prove(kind(2, weight), 0.4, -1.0, upper=0.9)


@pytest.mark.parametrize(
    "found",
    [
        None,
        [1.0],
        np.ma.array([1.0], mask=[True]),
        np.array([1.0], np.float32),
        np.array([1]),
        np.array([[1.0]]),
        np.array([1.0, 2.0]),
        np.array([1.0], object),
        np.array(1.0),
        np.array([1.0]).view(np.recarray),
        np.matrix([1.0]),
        "1.0",
    ],
)
def test_only_a_plain_array_of_its_type_and_shape_is_a_hint(found):
    answer = question(lambda what, known: {"t": found}, "it", {})
    with pytest.raises(Rejected, match="hint 't'"):
        hint(answer, "t", np.float64, (1,))


@pytest.mark.parametrize("answer", [None, [], "it", 3])
def test_an_answer_is_arrays_by_name(answer):
    with pytest.raises(Rejected, match="no answer to 'it'"):
        question(lambda what, known: answer, "it", {})


def charge(program, inputs=1):
    """Bound the rounding of the first score over inputs from 0 to 1."""
    program.check()
    region = Region(np.ones((1, inputs)), np.zeros((1, inputs)), [], [])
    found = Rounding(program, np.zeros(1, np.int64), region).of_forms(np.array([[[1.0, 0.0]]]))
    return float(found[0, 0])


@pytest.mark.parametrize("doublings", [10, 15, 20, 21, 22, 23, 24, 28, 40])
def test_more_roundings_than_float32_can_bear_are_charged_with_infinity(doublings):
    """Each sum of a tensor with itself may be computed from twice as many terms."""
    steps = [affine(0, [[1.0, 0.0]], [0.0, 0.0])]
    steps += [Step((k, k), sign=1) for k in range(1, doublings + 1)]
    found = charge(Program(1, (*steps, affine(doublings + 1, np.eye(2) * 2.0**-doublings, [0, 0]))))
    assert found == np.inf if doublings > 20 else 0 < found < np.inf


def test_a_matrix_that_computes_does_not_move_numbers():
    for weights, constant in (([[0.5, 0.0]], [0, 0]), ([[1.0, 0.0]], [1, 0])):
        with pytest.raises(Rejected, match="moves numbers"):
            charge(Program(1, (affine(0, weights, constant, moves=True),)))
    both = np.array([[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(Rejected, match="moves numbers"):
        charge(Program(2, (affine(0, both, [0, 0], moves=True),)), 2)


@pytest.mark.parametrize("width", [16, 64, 256, 1024])
def test_two_products_folded_into_one_are_charged(width):
    """The columns of the folded matrix are summed first, each with terms of one sign."""
    single = np.float32
    tiny, less = single(2.0**-24 * (1 + 2**-20)), single(2.0**-24 * (1 - 2**-20))
    first = np.zeros((2, width), single)
    first[0], first[1] = tiny, -less
    first[:, 0] = 1, -1
    second = np.zeros((width, 2), single)
    second[:, 0] = 1
    folded = [single(0), single(0)]
    for each in range(2):
        for value in first[each]:
            folded[each] = single(folded[each] + value)
    computed = single(folded[0] + folded[1])
    exact = sum(Fraction(float(value)) for value in first.ravel())
    steps = affine(0, first, np.zeros(width)), affine(1, second, [0, 0])
    assert abs(Fraction(float(computed)) - exact) < charge(Program(2, steps), 2)

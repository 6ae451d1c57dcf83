"""Products of data with data and normalisations, read as what onnxruntime computes."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from leaveout.encoders import Box, evaluation_of, network_bounds, rounding_error
from leaveout.errors import ModelError
from leaveout.kernel.float32 import Program, Region, Rounding, norm_errors, softmax_errors
from leaveout.models.lowering import lower, program_of
from leaveout.models.onnx.file import network_from

from support import networks

F32 = np.float32
node = helper.make_node
WIDTH = 6


def scaled(kind, **given):
    return lambda: ([node(kind, ["h", "g", "b"], ["a"], **given)], ["g", "b"])


def plain(*nodes, **held):
    return lambda: (copy.deepcopy(list(nodes)), held)


CASES = {
    "layer norm": scaled("LayerNormalization", axis=-1),
    "its epsilon": scaled("LayerNormalization", epsilon=0.1),
    "no bias": lambda: ([node("LayerNormalization", ["h", "g"], ["a"])], ["g"]),
    "root mean square": lambda: ([node("RMSNormalization", ["h", "g"], ["a"])], ["g"]),
    "square": plain(node("Mul", ["h", "h"], ["a"])),
    "product": plain(node("Relu", ["h"], ["r"]), node("Mul", ["h", "r"], ["a"])),
    "power 2": plain(node("Pow", ["h", "two"], ["a"]), two=F32(2)),
    "power 3": plain(node("Pow", ["h", "two"], ["a"]), two=F32(3)),
    "mish": plain(node("Mish", ["h"], ["a"])),
    "hard swish": plain(node("HardSwish", ["h"], ["a"])),
    "softmax": plain(node("Softmax", ["h"], ["a"], axis=-1)),
    "softmax of five": plain(
        node("Gather", ["h", "five"], ["f"], axis=-1),
        node("Softmax", ["f"], ["s"]),
        node("Concat", ["s", "f"], ["c"], axis=-1),
        node("Gather", ["c", "six"], ["a"], axis=-1),
        five=np.int64([0, 1, 2, 3, 4]),
        six=np.int64([0, 1, 2, 3, 4, 9]),
    ),
    "attention": plain(
        node("Reshape", ["h", "shape"], ["q"]),
        node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["l"]),
        node("Softmax", ["l"], ["p"]),
        node("MatMul", ["p", "q"], ["z"]),
        node("Flatten", ["z"], ["a"]),
        shape=np.int64([0, 3, 2]),
    ),
    "gated": plain(
        node("Split", ["h"], ["p", "q"], axis=-1, num_outputs=2),
        node("Sigmoid", ["q"], ["s"]),
        node("Mul", ["p", "s"], ["c"]),
        node("Concat", ["c", "q"], ["a"], axis=-1),
    ),
}


def network(case, rng, depth=1):
    """Return a network with a case between two layers, perhaps twice."""
    nodes, held, last, inputs = [], {}, "x", 3
    for k in range(depth):
        names = {"h": f"h{k}"}
        held[f"W{k}"] = rng.normal(size=(inputs, WIDTH)).astype(F32)
        nodes.append(node("MatMul", [last, f"W{k}"], [f"h{k}"]))
        own, constants = CASES[case]()
        if isinstance(constants, dict):
            for name, value in constants.items():
                names[name] = f"{name}{k}"
                tensor = numpy_helper.from_array(np.asarray(value))
                nodes.append(node("Constant", [], [f"{name}{k}"], value=tensor))
        else:
            for name in constants:
                names[name] = f"{name}{k}"
                held[f"{name}{k}"] = rng.normal(1, 0.3, WIDTH).astype(F32)
        for each in own:
            for names_of in (each.input, each.output):
                names_of[:] = [names.setdefault(n, f"{n}{k}") for n in names_of]
            nodes.append(each)
        last, inputs = f"a{k}", WIDTH
    held["V"] = rng.normal(size=(WIDTH, 2)).astype(F32)
    nodes.append(node("MatMul", [last, "V"], ["y"]))
    model = networks.model(nodes, held, ["n", 3], ["n", 2])
    model.opset_import[0].version = 23
    return network_from(model, "net.onnx")


def exact(net, points):
    return net.stack.scores(points.astype(float))[0]


def region_of(box, bounds):
    low, high = ([getattr(each, end)[None] for each in bounds] for end in ("lower", "upper"))
    return Region(np.maximum(box.upper, 0)[None], np.maximum(-box.lower, 0)[None], low, high)


@pytest.mark.parametrize("case", CASES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_scores_are_within_their_bounds_and_float32_within_what_is_charged(case, seed):
    rng = np.random.default_rng(seed)
    net = network(case, rng, depth=int(rng.integers(1, 3)))
    middle, width = rng.normal(size=3), 10.0 ** rng.uniform(-4, 0.5)
    box = Box(middle - width, middle + width)
    points = rng.uniform(box.lower, box.upper, (400, 3)).astype(F32)
    points = np.clip(points, box.lower.astype(F32), box.upper.astype(F32))
    points = points[((points >= box.lower) & (points <= box.upper)).all(axis=1)]
    bounds = network_bounds(net.stack, box)
    for known, found in zip(bounds, net.stack.activations(points.astype(float)), strict=True):
        room = 1e-9 * (1 + np.abs(found[0]))
        assert (known.lower - room <= found[0]).all()
        assert (found[0] <= known.upper + room).all()
    own = {name: value[None] for name, value in net.parameters.items()}
    forms = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    moved = np.abs((net.runner().scores(points).astype(float) - exact(net, points)) @ forms.T)
    charged = rounding_error(evaluation_of(net.graph, own), bounds, box).of_forms(forms)
    assert (moved.max(axis=0) <= charged + 1e-12).all()
    program = program_of(net.graph, own)
    program.check()
    rounding = Rounding(program, np.zeros(1, np.int64), region_of(box, bounds))
    assert (moved.max(axis=0) <= rounding.of_forms(forms[None])[0] + 1e-12).all()


@pytest.mark.parametrize(
    ("size", "scale"), [(1e20, 1e-20), (1e-22, 1e18)], ids=["overflows", "loses bits"]
)
def test_a_runtime_may_scale_a_product_instead_of_its_factors(size, scale):
    # onnxruntime multiplies first: factors of 1e20 to infinity, those of 1e-22 to denormals.
    nodes = [
        node("Reshape", ["x", "shape"], ["h"]),
        node("Mul", ["h", "s"], ["q"]),
        node("Mul", ["h", "t"], ["k"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["z"]),
        node("Flatten", ["z"], ["f"]),
        node("MatMul", ["f", "V"], ["y"]),
    ]
    constants = {"shape": np.int64([0, 1, 2])}
    nodes[:0] = [
        node("Constant", [], [name], value=numpy_helper.from_array(value))
        for name, value in constants.items()
    ]
    held = {"s": F32(scale), "t": F32(scale), "V": np.array([[1.0, 2.0]], F32)}
    net = network_from(networks.model(nodes, held, ["n", 2], ["n", 2]), "net.onnx")
    point = (np.array([1.3, 1.7]) * size).astype(F32).astype(float)
    found = net.runner().scores(point[None].astype(F32)).astype(float)
    box = Box(point, point)
    bounds = network_bounds(net.stack, box)
    own = {name: value[None] for name, value in net.parameters.items()}
    charged = rounding_error(evaluation_of(net.graph, own), bounds, box).of_forms(np.eye(2))
    with np.errstate(invalid="ignore"):
        moved = np.abs(found - exact(net, point[None]))[0]
    assert ((moved <= charged) | (charged == np.inf)).all()
    rounding = Rounding(program_of(net.graph, own), np.zeros(1, np.int64), region_of(box, bounds))
    charged = rounding.of_forms(np.eye(2)[None])[0]
    assert ((moved <= charged) | (charged == np.inf)).all()


def test_products_of_products_are_charged_for_their_own_scales_alone():
    net = network("attention", np.random.default_rng(1), depth=4)
    box = Box(np.full(3, -1.0), np.full(3, 1.0))
    own = {name: value[None] for name, value in net.parameters.items()}
    error = rounding_error(evaluation_of(net.graph, own), network_bounds(net.stack, box), box)
    assert np.isfinite(error.of_forms(np.eye(2))).all()


@pytest.mark.parametrize("case", ["softmax", "attention"])
def test_the_kernel_charges_a_softmax_of_large_numbers_as_the_search_does(case):
    # What stands in for it leaves the range in which errors of a sigmoid are declared.
    net = network(case, np.random.default_rng(0))
    box = Box(np.full(3, 1e5), np.full(3, 1e7))
    bounds = network_bounds(net.stack, box)
    own = {name: value[None] for name, value in net.parameters.items()}
    found = rounding_error(evaluation_of(net.graph, own), bounds, box).of_forms(np.eye(2))
    rounding = Rounding(program_of(net.graph, own), np.zeros(1, np.int64), region_of(box, bounds))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(rounding.of_forms(np.eye(2)[None])[0], found, rtol=0.1)


@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_normalised_moves_no_further_than_is_said(seed):
    rng = np.random.default_rng(seed)
    width, epsilon = int(rng.integers(1, 9)), 2.0**-20
    groups = np.sort(rng.integers(0, 2, width)) if width > 1 else np.zeros(1, np.int64)
    groups = groups - groups.min()
    c = rng.normal(size=(30, width)) * 10.0 ** rng.uniform(-3, 1, (30, 1))
    e = 10.0 ** rng.uniform(-8, 0, width) * np.ones(c.shape)
    of = groups[:, None] == np.arange(groups.max() + 1)
    means = lambda v: (v * v) @ (of / of.sum(0))
    y = lambda v: v / np.sqrt(means(v) + epsilon)[:, groups]
    most, moved, fine = norm_errors(groups, e, np.abs(c) + e, means(c))
    assert fine.all()
    for _ in range(40):
        near = c + e * rng.choice([-1.0, 1.0, 0.5], c.shape)
        assert (np.abs(y(near)) <= most).all()
        assert (np.abs(y(near) - y(c)) <= moved).all()


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("how", ["Expand", "Tile", "Add", "Identity"])
def test_a_token_of_classes_stays_a_parameter(how, batch):
    """As transformers begin: one more row before those of each sample, repeated for a batch."""
    rng = np.random.default_rng(5)
    normal = lambda *shape: rng.normal(size=shape).astype(F32)
    held = {"token": normal(1, 1, 4), "W": normal(3, 4), "V": normal(8, 2)}
    wholes = {"first": [0], "one": [1], "rest": [1, 1]}
    zeros = how == "Add"
    nodes = [
        *(node("Constant", [], [k], value=numpy_helper.from_array(np.int64(v)))
          for k, v in wholes.items()),
        node("Shape", ["x"], ["sizes"]), node("Gather", ["sizes", "first"], ["count"]),
        node("Concat", ["count", "rest"], ["all"], axis=0),
        *([node("ConstantOfShape", ["all"], ["zeros"])] if zeros else []),
        node(how, ["token", "zeros" if zeros else "all"][: 1 + (how != "Identity")], ["e"]),
        node("Unsqueeze", ["x", "one"], ["u"]), node("MatMul", ["u", "W"], ["h"]),
        node("Concat", ["e", "h"], ["c"], axis=1), node("Flatten", ["c"], ["f"]),
        node("MatMul", ["f", "V"], ["y"]),
    ]  # fmt: skip
    model = networks.model(nodes, held, [batch, 3], [batch, 2])
    model.opset_import[0].version = 17
    net = network_from(model, "net.onnx")
    assert sorted(net.parameters) == ["V", "W", "token"]
    assert bool(net.graph.notes) == (batch == "n")
    points = rng.normal(size=(6, 3)).astype(F32)
    for factor in (1, 2):
        own = {**net.parameters, "token": factor * net.parameters["token"]}
        found = lower(net.graph, {k: v[None] for k, v in own.items()}).scores(points.astype(float))
        assert np.abs(found[0] - net.runner(own).scores(points)).max() < 1e-5


@given(seed=st.integers(0, 2**32 - 1))
def test_a_softmax_moves_no_further_than_is_said(seed):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 9))
    groups = rng.integers(0, 2, width) if width > 1 else np.zeros(1, np.int64)
    groups = np.unique(groups, return_inverse=True)[1]
    x = rng.normal(size=(30, width)) * 10.0 ** rng.uniform(-3, 3, (30, 1))
    e = 10.0 ** rng.uniform(-8, 1, width) * np.ones(x.shape)
    of = groups[:, None] == groups
    highest = lambda v: np.where(of, v[:, None], -np.inf).max(2)
    powers = lambda v: np.exp(v - highest(v))
    y = lambda v: powers(v) / (powers(v) @ of)
    most, moved = softmax_errors(groups, e)
    for _ in range(40):
        near = x + e * rng.choice([-1.0, 1.0, 0.5], x.shape)
        assert (y(near) <= most).all()
        assert (np.abs(y(near) - y(x)) <= moved).all()


@pytest.mark.parametrize(
    ("opset", "shapes", "why"),
    [
        (7, ((2, 2), (2, 2)), "export opset 8 or later"),
        (17, ((2, 2), (1, 4)), r"shapes \[2, 2\] and \[1, 4\]"),
        (17, ((1, 2, 2), (2, 2)), r"shapes \[1, 2, 2\] and \[2, 2\]"),
        (17, ((1, 2, 2), (2, 2, 1)), r"shapes \[1, 2, 2\] and \[2, 2, 1\]"),
    ],
)
def test_a_product_of_other_matrices_is_refused(opset, shapes, why):
    nodes, held = [], {}
    for name, shape in zip("qk", shapes, strict=True):
        tensor = numpy_helper.from_array(np.int64([0, *shape]))
        nodes.append(node("Constant", [], [f"s{name}"], value=tensor))
        nodes.append(node("MatMul", ["x", f"W{name}"], [f"h{name}"]))
        nodes.append(node("Reshape", [f"h{name}", f"s{name}"], [name]))
        held[f"W{name}"] = np.ones((3, np.prod(shape)), F32)
    nodes += [node("MatMul", ["q", "k"], ["z"]), node("Flatten", ["z"], ["y"])]
    model = networks.model(nodes, held, ["n", 3], ["n", 4])
    model.opset_import[0].version = opset
    with pytest.raises(ModelError, match=why):
        network_from(model, "net.onnx")


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node("LayerNormalization", ["h", "g"], ["a"], epsilon=1e-8)], "epsilon = 1e-08"),
        ([node("LayerNormalization", ["h", "g", ""], ["a"])], "an empty name"),
        ([node("InstanceNormalization", ["h", "g", "g"], ["a"])], "not supported"),
        ([node("Pow", ["h", "p"], ["a"])], "only the powers 2 and 3"),
        ([node("MatMul", ["h", "h"], ["a"])], "only as many matrices"),
        ([node("LogSoftmax", ["h"], ["a"])], "only as the last operator"),
        ([node("Div", ["h", "h"], ["a"])], "divides data by data"),
    ],
)
def test_what_is_not_bounded_is_refused(nodes, why):
    made = [
        node("MatMul", ["x", "W"], ["h"]),
        node("Constant", [], ["p"], value=helper.make_tensor("", 1, [], [2.5])),
        *nodes,
        node("MatMul", ["a", "V"], ["y"]),
    ]
    held = {"W": np.ones((3, 4), F32), "g": np.ones(4, F32), "V": np.ones((4, 2), F32)}
    model = networks.model(made, held, ["n", 3], ["n", 2])
    model.opset_import[0].version = 20
    with pytest.raises(ModelError, match=why):
        network_from(model, "net.onnx")


def test_a_program_whose_groups_do_not_fit_is_refused():
    net = network("layer norm", np.random.default_rng(0))
    program = program_of(net.graph, {k: v[None] for k, v in net.parameters.items()})
    for groups in (np.zeros(WIDTH - 1, np.int64), np.ones(WIDTH, np.int64)):
        steps = [
            each if each.groups is None else type(each)(each.sources, groups=groups)
            for each in program.steps
        ]
        with pytest.raises(Exception, match="a norm of another size"):
            Program(program.inputs, tuple(steps)).check()

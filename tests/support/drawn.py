"""Random nodes of every operator that is read, with every attribute, odd ones too."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from leaveout.models.onnx.use import OPSETS

F32 = np.float32
AXIS = st.integers(-4, 4)


def maybe(strategy):
    return st.none() | strategy


class Drawn:
    """One random node with its constants, on an input of a random shape."""

    def __init__(self, data, kind):
        self.draw = data.draw
        self.kind = kind
        self.opset = data.draw(st.sampled_from([*OPSETS, 11, 13, 17, 21, 6, 24]))
        self.shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        self.batch = data.draw(st.sampled_from(["n", "n", 1]))
        self.rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        self.constants = {}
        self.inputs = ["x"]
        self.outputs = ["t"]
        self.attributes = {}
        getattr(self, kind.lower(), lambda: None)()
        if data.draw(st.integers(0, 19)) == 7:
            self.attributes["unheard"] = 1

    def sized(self, *choices):
        """Choose one of the sizes, the first of them most of the time."""
        return self.draw(st.sampled_from([choices[0]] * (2 * len(choices)) + list(choices)))

    def constant(self, value, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        self.inputs.append(name)

    def normal(self, *shape):
        self.constant(self.rng.normal(size=shape).astype(F32))

    def attribute(self, name, *choices):
        """Set an attribute to one of the values, or leave it out."""
        value = self.draw(st.sampled_from([None, *choices]))
        if value is not None:
            self.attributes[name] = value

    # One method an operator, by its lower-case name.

    def gemm(self):
        self.shape = self.shape[:1]
        width = self.draw(st.integers(2, 3))
        for name in ("alpha", "beta"):
            self.attribute(name, 1.0, 0.5, -2.0, 0.0, 1e-3, float("nan"))
        self.attribute("transA", 0, 1)
        self.attribute("transB", 0, 1, 1, 2)
        inner = self.sized(self.shape[0], self.shape[0] + 1)
        turned = self.attributes.get("transB")
        self.normal(*((width, inner) if turned else (inner, width)))
        shapes = [(width,), (1, width), (1,), (), (width, 1), (2, width), (1, 1), (1, 1, width)]
        bias = self.draw(maybe(st.sampled_from(shapes)))
        if bias is not None:
            self.normal(*bias)

    def matmul(self):
        if self.draw(st.booleans()):
            inner = self.shape[-1]
            self.normal(*self.sized((inner, 3), (inner,), (2, inner, 3), (1, inner, 2)))
        else:
            inner = self.shape[-2] if len(self.shape) > 1 else self.shape[0]
            self.normal(*self.sized((3, inner), (inner,), (2, 3, inner), (1, 2, inner)))
            self.inputs.reverse()

    def _elementwise(self):
        if self.kind in {"Add", "Sub"} and self.draw(st.integers(0, 3)) == 0:
            self.inputs.append("x/largest")
            return
        full = (1, *self.shape)
        cut = self.draw(st.integers(0, len(full)))
        shape = [n if self.draw(st.booleans()) else 1 for n in full[cut:]]
        if self.draw(st.integers(0, 5)) == 0:
            shape = [self.draw(st.integers(1, 4)) for _ in shape]
        if self.draw(st.integers(0, 9)) == 0:
            shape = [1, *shape]
        value = self.rng.normal(size=shape).astype(self.sized(F32, np.float64, np.int64, bool))
        self.constant(value)
        if self.draw(st.booleans()):
            self.inputs.reverse()
        if self.opset < 7:
            self.attribute("broadcast", 0, 1)
            self.attribute("axis", 0, 1)

    add = sub = mul = div = _elementwise

    def batchnormalization(self):
        channels = self.sized(self.shape[0], 1)
        for _ in range(3):
            self.normal(channels)
        values = [1.0, 0.5, 1e-5, 1e-9, 0.0, 1e-42, 1e-30, -1e-5, -0.5]
        count = self.draw(st.sampled_from([2, 5, 5, len(values)]))
        self.constant(self.rng.choice(values[:count], size=channels).astype(F32))
        self.attribute("epsilon", 1e-5, 1e-3, 0.0, 1e-9, -1e-6, 1e-30)
        self.attribute("momentum", 0.9)
        self.attribute(*self.sized(("momentum", 0.5), ("training_mode", 0, 1), ("spatial", 0, 1)))
        if self.draw(st.integers(0, 9)) == 0:
            self.outputs += ["u", "v"]

    def pow(self):
        value = np.asarray(self.sized(2, 3, 2.5, 0, [2, 2]))
        self.constant(value.astype(self.sized(np.int64, F32)))

    def layernormalization(self):
        self.opset = self.sized(17, 20, 23, 16)
        self.attribute("axis", -1, -1, 1, 2, 0)
        self.attribute("epsilon", 1e-5, 1e-3, 0.1, 1e-8, 0.0)
        self.attribute("stash_type", 1, 0)
        axis = self.attributes.get("axis", -1)
        shape = (1, *self.shape)[axis:]
        for _ in range(1 + (self.kind == "LayerNormalization" and self.sized(True, False))):
            self.normal(*self.sized(shape, shape[-1:], (1,)))

    def rmsnormalization(self):
        self.layernormalization()
        self.opset = self.sized(23, 22)

    def _window(self, rank):
        some = st.lists(st.integers(1, 3), min_size=rank, max_size=rank)
        odd = st.sampled_from([[0] * rank, [-1] * rank, [1] * (rank + 1), [2**40] * rank])
        pads = st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank)
        rarely = self.draw(st.integers(0, 5)) == 0
        pick = lambda good: maybe(odd if rarely else good)
        for name, strategy in (
            ("strides", pick(some)),
            ("dilations", pick(some)),
            ("pads", pick(pads)),
            (
                "auto_pad",
                maybe(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "ODD"])),
            ),
        ):
            value = self.draw(strategy)
            if value is not None and not (name == "dilations" and self.kind != "Conv"):
                self.attributes[name] = value
        if self.draw(st.booleans()):
            self.attributes.pop("pads" if "auto_pad" in self.attributes else "auto_pad", None)

    def conv(self):
        rank = self.draw(st.integers(1, 2))
        self.shape = [self.draw(st.sampled_from([2, 4])), *(4, 5)[:rank]]
        self._window(rank)
        group = self.draw(st.sampled_from([None, 1, 2, 2, 3, 0, -1]))
        if group is not None:
            self.attributes["group"] = group
        kernel = [self.draw(st.integers(1, 3)) for _ in range(rank)]
        inner = self.sized(self.shape[0] // max(group or 1, 1), 1)
        self.normal(4, max(inner, 1), *kernel)
        if self.draw(st.booleans()):
            self.normal(self.sized(4, 1))
        self.attribute("kernel_shape", kernel, kernel, kernel[:1], [n + 1 for n in kernel])

    def convtranspose(self):
        rank = self.draw(st.integers(1, 2))
        self.shape = [self.draw(st.sampled_from([2, 4])), *(3, 4)[:rank]]
        self._window(rank)
        if self.draw(st.booleans()):
            self.attributes.pop("auto_pad", None)
        group = self.sized(1, 2, 3)
        if group > 1:
            self.attributes["group"] = group
        kernel = [self.draw(st.integers(1, 3)) for _ in range(rank)]
        self.normal(self.sized(self.shape[0], 3), 2, *kernel)
        if self.draw(st.booleans()):
            self.normal(self.sized(2 * group, 1))
        self.attribute("kernel_shape", kernel, kernel, kernel[:1])
        self.attribute("output_padding", [0] * rank, [1] * rank, [1] * 3)
        if self.draw(st.integers(0, 9)) == 0:
            self.attributes["output_shape"] = [7] * rank

    def resize(self):
        sizes = [1, *self.shape]
        factors = [1.0] + [self.sized(2.0, 1.0, 0.5, 1.7, 3.0) for _ in self.shape]
        self.attribute("mode", "nearest", "nearest", "linear", "cubic")
        modes = ("asymmetric", "half_pixel", "align_corners", "tf_crop_and_resize")
        if self.opset >= 11:
            self.attribute("coordinate_transformation_mode", *modes)
            self.attribute("nearest_mode", "floor", "ceil", "round_prefer_ceil")
            self.inputs.append("")
        if self.opset >= 13 and self.draw(st.booleans()):
            self.inputs.append("")
            self.constant(np.asarray([n * self.sized(2, 1, 3) for n in sizes]))
        else:
            self.constant(np.asarray(factors, F32))

    def upsample(self):
        self.opset = self.sized(9, 8, 7)
        self.attribute("mode", "nearest", "linear")
        factors = [1.0] + [self.sized(2.0, 1.0, 1.5, 3.0) for _ in self.shape]
        if self.opset < 9:
            self.attributes["scales"] = factors
        else:
            self.constant(np.asarray(factors, F32))

    def tile(self):
        first = self.sized(*([1] * 4), 2, 0)
        self.constant(np.asarray([first, *(self.sized(2, 1, 3) for _ in self.shape)]))

    def expand(self):
        self.shape = [self.sized(1, n) for n in self.shape]
        after = [self.sized(n, 3) if n == 1 else n for n in self.shape]
        self.constant(np.asarray([self.sized(*([1] * 4), 2), *after]))

    def depthtospace(self):
        self.shape = [self.sized(4, 8, 3), *self.shape[-2:], 1][:3]
        self.attributes["blocksize"] = self.sized(2, 1)
        self.attribute("mode", "DCR", "CRD")

    def spacetodepth(self):
        self.shape = [self.sized(1, 2), self.sized(4, 2, 3), 2]
        self.attributes["blocksize"] = self.sized(2, 1)

    def averagepool(self):
        rank = self.draw(st.integers(1, 2))
        self.shape = [2, *(4, 5)[:rank]]
        self._window(rank)
        self.attributes["kernel_shape"] = [self.draw(st.integers(1, 3)) for _ in range(rank)]
        self.attribute("count_include_pad", 0, 1)
        if self.draw(st.integers(0, 5)) == 0:
            self.attribute("ceil_mode", 0, 1)
            self.attribute("dilations", [1] * rank, [2] * rank)

    def dropout(self):
        if self.opset < 12 or self.draw(st.integers(0, 9)) == 0:
            self.attribute("ratio", 0.5, 0.0)
            return
        self.attribute("seed", 3)
        ratio, training = self.draw(
            st.sampled_from([(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)])
        )
        self.inputs += [""] * (not ratio and training > 0)
        if ratio:
            self.constant(F32(self.draw(st.sampled_from([0.5, 1e-6, 0.0]))))
        if training:
            self.constant(np.asarray(training == 2))
        if self.draw(st.booleans()):
            self.outputs.append("mask")

    def flatten(self):
        self.attribute("axis", 1, 1, -1, -2, -3, 0, 2, 9)

    def cast(self):
        self.attributes["to"] = self.sized(*(1, 1, 1), 0, 7, 9, 10, 11, 16, 99)
        if self.opset > 18:
            self.attribute("saturate", 0, 1, 2)

    def reshape(self):
        size = int(np.prod(self.shape))
        first = self.draw(st.sampled_from([0, -1, 1, 2, -2]))
        rest = self.draw(
            st.sampled_from([[size], [-1], self.shape[::-1], [0, -1], [1, size], [0] * 5, [-1, -1]])
        )
        self.constant(np.asarray([first, *rest], self.sized(np.int64, np.int32, F32)))
        self.attribute("allowzero", 0, 1)

    def _axes(self, required, right=None):
        axes = right or self.draw(st.lists(AXIS, min_size=required, max_size=2))
        if axes or required:
            if self.opset < 13 and self.draw(st.integers(0, 9)):
                self.attributes["axes"] = axes
            else:
                self.constant(np.asarray(axes, np.int64))

    def squeeze(self):
        self.shape = list(self.draw(st.sampled_from([(1, 3), (3, 1), (2, 1, 2), (1, 3, 1)])))
        ones = [i for i, n in enumerate(self.shape, 1) if n == 1]
        self._axes(0, self.sized(ones, ones[:1], [i - 1 - len(self.shape) for i in ones], None))

    def unsqueeze(self):
        self._axes(1)

    def transpose(self):
        rank = 1 + len(self.shape)
        orders = [[0, *order] for order in itertools.permutations(range(1, rank))]
        self.attribute("perm", *orders, [*range(rank)][::-1], [0] * rank, [0, 1, 2, 3, 4])

    # Operators that are rewritten, or take numbers.

    def leakyrelu(self):
        self.attribute("alpha", 0.3, 0.0, 1.0, 2.5, -1.5, 1e-30, float("nan"), float("inf"))

    def prelu(self):
        shapes = [(), (1,), tuple(self.shape), (self.shape[0], *(1,) * (len(self.shape) - 1)), (3,)]
        self.normal(*self.sized(*shapes))

    def clip(self):
        if self.opset < 11:
            for name in ("min", "max"):
                self.attribute(name, -1.0, 0.0, 0.5, 6.0, 3.5e38, -3.4028234663852886e38)
            return
        for _ in range(self.draw(st.integers(0, 2))):
            if self.draw(st.integers(0, 3)):
                value = F32(self.draw(st.sampled_from([-1.0, 0.0, 0.5, 6.0, 3e38])))
                self.constant(np.asarray(self.sized(value, [value], [value, value]), F32))
            else:
                self.inputs.append("")

    def hardsigmoid(self):
        self.attribute("alpha", 0.3, 0.0, -1.0, float("inf"))
        self.attribute("beta", 0.3, 0.0, -1.0, 3.0)

    def _many(self):
        for _ in range(self.draw(st.integers(0, 3))):
            if self.draw(st.booleans()):
                self.inputs.append("x")
            else:
                self.normal(*self.sized(tuple(self.shape), (1,), (), (1, *self.shape), (2,)))
        if self.draw(st.booleans()):
            self.inputs.reverse()

    max = min = sum = _many

    def maxpool(self):
        self.averagepool()
        if self.draw(st.integers(0, 2)) == 0:
            self.attribute("dilations", [1] * (len(self.shape) - 1), [2] * (len(self.shape) - 1))
        self.attributes.pop("count_include_pad", None)
        self.attribute("ceil_mode", 0, 1)
        self.attribute("storage_order", 0, 0, 1)
        if self.draw(st.integers(0, 9)) == 0:
            self.outputs.append("places")

    def _reduced(self):
        self.attribute("keepdims", 0, 1, 1)
        right = self.draw(st.sampled_from([None, [1], [-1], [1, 2], [-1, -2], [0], []]))
        axes = right if right is not None else self.draw(st.lists(AXIS, max_size=2))
        new = 13 if self.kind == "ReduceSum" else 18
        if self.opset >= new:
            self.attribute("noop_with_empty_axes", 0, 1)
        if self.opset >= new and self.draw(st.integers(0, 9)):
            self.constant(np.asarray(axes, np.int64))
        elif axes:
            self.attributes["axes"] = axes

    reducemean = reducesum = reducemax = reducemin = _reduced

    def pad(self):
        rank = 1 + len(self.shape)
        good = st.lists(st.integers(0, 2), min_size=rank - 1, max_size=rank - 1)
        pads = [0, *self.draw(good), 0, *self.draw(good)]
        if self.draw(st.integers(0, 9)) == 0:
            pads[self.draw(st.integers(0, 2 * rank - 1))] = -1
        self.attribute("mode", "constant", "constant", "reflect", "edge")
        if self.opset < 11:
            self.attributes["pads"] = pads
            self.attribute("value", 0.0, 1.5)
            return
        axes = list(range(1, rank)) if self.opset >= 18 and self.draw(st.booleans()) else None
        self.constant(np.asarray(pads if axes is None else [*pads[1:rank], *pads[rank + 1 :]]))
        if self.draw(st.booleans()):
            self.constant(np.asarray(self.sized(F32(1.5), F32(0.0), np.int64(1))))
        elif axes is not None:
            self.inputs.append("")
        if axes is not None:
            self.constant(np.asarray(axes))

    def slice(self):
        places = st.sampled_from([0, 1, 2, -1, -2, 5, -9, 2**31 - 1, 2**63 - 1, -(2**63) + 1])
        axes = self.draw(maybe(st.lists(AXIS, min_size=1, max_size=2)))
        count = 1 if axes is None else len(axes)
        starts, ends = ([self.draw(places) for _ in range(count)] for _ in range(2))
        if axes is None:
            starts, ends = [0, *starts], [2**63 - 1, *ends]
        if self.opset < 10:
            self.attributes |= {"starts": starts, "ends": ends}
            self.attributes |= {} if axes is None else {"axes": axes}
            return
        kind = self.sized(np.int64, np.int64, np.int32)
        clipped = np.iinfo(kind)
        for each in (starts, ends):
            self.constant(np.clip(np.asarray(each), clipped.min, clipped.max).astype(kind))
        if axes is not None:
            self.constant(np.asarray(axes, kind))
            if self.draw(st.booleans()):
                steps = [self.draw(st.sampled_from([1, 2, -1, -2, 0])) for _ in axes]
                self.constant(np.asarray(steps, kind))

    def split(self):
        self.attribute("axis", 1, 1, -1, 2, 0)
        axis = self.attributes.get("axis", 0)
        size = self.shape[axis - 1] if 0 < axis <= len(self.shape) else self.shape[-1]
        count = self.draw(st.integers(1, 3))
        self.outputs = [f"u{i}" for i in range(count)]
        self.outputs[self.draw(st.integers(0, count - 1))] = "t"
        sizes = self.draw(
            st.sampled_from([None, [1] * (count - 1) + [size - count + 1], [2] * count])
        )
        if sizes is None:
            if self.opset >= 18 and self.draw(st.integers(0, 4)):
                self.attributes["num_outputs"] = count
        elif self.opset < 13:
            self.attributes["split"] = sizes
        else:
            self.constant(np.asarray(sizes, np.int64))

    def gather(self):
        self.attribute("axis", 1, 1, -1, 2, 0)
        places = st.sampled_from([[0], [0, 0], [-1, 0], 0, -1, [[0]], [5], []])
        self.constant(np.asarray(self.draw(places), self.sized(np.int64, np.int32, F32)))

    def concat(self):
        self.attributes["axis"] = self.draw(st.sampled_from([1, 1, -1, 2, 0]))
        for _ in range(self.draw(st.integers(0, 2))):
            self.inputs.append("x")
        if self.draw(st.integers(0, 9)) == 0:
            self.normal(1, *self.shape)

    def model(self):
        nodes = [
            helper.make_node(self.kind, self.inputs, self.outputs, **self.attributes),
            helper.make_node("Flatten", ["t"], ["y"]),
        ]
        if "x/largest" in self.inputs:
            axes = {"axes": [1]} if self.opset < 18 else {}
            inputs = ["x", *(["x/axes"] if not axes else [])]
            self.constants |= {} if axes else {"x/axes": np.asarray([1])}
            nodes.insert(0, helper.make_node("ReduceMax", inputs, ["x/largest"], **axes))
        graph = helper.make_graph(
            nodes,
            "one",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.batch, *self.shape])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8
        )

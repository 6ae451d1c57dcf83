"""Networks of dense layers in ONNX files, and families of them; any other file is refused.

A network is read if it has one input of known width and one output, and consists of Gemm, MatMul,
Add, Sub, Flatten, Identity, and activations of one node (`_PLAIN`), with float32 constants in it.
What these operators compute has not changed since version 7 of the operator set.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .files import bytes_of, read_archive
from .float32 import Program, Step
from .networks import Integers
from .numbers import Floats, Rejected, need
from .records import parse
from .refusal import Unreadable
from .regular_files import open_regular
from .smooth import KIND
from .trees import Ensemble


class Network(Protocol):
    """A network as its file has it."""

    @property
    def program(self) -> Program: ...  # noqa: D102 - of one network
    @property
    def inputs(self) -> int: ...  # noqa: D102
    @property
    def labels(self) -> int: ...  # noqa: D102
    @property
    def notes(self) -> tuple[str, ...]: ...  # noqa: D102 - what was left out in reading


class Members(Protocol):
    """The members of a family."""

    def __len__(self) -> int: ...
    def take(self, members: Integers, /) -> Program: ...  # noqa: D102
    @property
    def removed(self) -> Integers: ...  # noqa: D102 - the row that each member lacks
    @property
    def sample(self) -> Mapping[str, int] | None: ...  # noqa: D102 - how the rows were drawn
    @property
    def rows(self) -> int | None: ...  # noqa: D102 - how many there are in all, if stated


class TreeMembers(Protocol):
    """Tree ensembles retrained without a row each."""

    def __len__(self) -> int: ...
    def member(self, index: int, /) -> Ensemble:
        """Return one by its position."""


class Reader(Protocol):
    """Reads networks and families; its errors are of any class."""

    def network(self, path: Path, /) -> Network: ...  # noqa: D102
    def family(self, path: Path, network: Network, /) -> Members: ...  # noqa: D102
    def alone(self, path: Path, network: Network, /) -> Members:
        """Return another network of the same architecture as a family of one."""

    def trees(self, path: Path, /) -> Ensemble: ...  # noqa: D102
    def tree_members(self, path: Path, whole: Path, /) -> TreeMembers: ...  # noqa: D102


Parameters = Mapping[str, NDArray[np.float32]]

_LARGEST = 2**31
_OPSETS = range(7, 26)
_FLOAT = 1
_MAPPED_FROM = 2**25
_BLOCK = 2**22
_WIDEST = 2**20


# Protocol buffers: a message is a sequence of fields, each a number, a wire type and a value.

_Fields = dict[int, list[Any]]


def _whole_number(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number in groups of seven bits, the lowest first."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise Rejected("it is damaged")


_WIRES = {0: "v", 1: "", 2: "b", 5: "f"}
"""Wire types: numbers in groups, eight bytes (of no field that is read), a length, four bytes."""


@cache
def _fields(known: str) -> frozenset[tuple[int, str]]:
    """Return fields with the wire types that they may have: ``1vb`` is field 1 with two of them."""
    parts = [(int(each.rstrip("vbf")), each.lstrip("0123456789")) for each in known.split()]
    return frozenset((field, wire) for field, wires in parts for wire in wires)


def _message(data: Any, known: str) -> _Fields:
    """Read the fields of a message.

    ``known`` says which it may have, and their wire types: a field with another one is unknown to
    other readers, which skip it.
    """
    need(not isinstance(data, int), "a part of it has another type")
    view, at = memoryview(data), 0
    allowed = _fields(known)
    found: _Fields = {}
    while at < len(view):
        key, at = _whole_number(view, at)
        field, wire = key >> 3, _WIRES.get(key & 7, "")
        need((field, wire) in allowed, f"it has a field {field} that is not read")
        value: Any
        if wire == "v":
            value, at = _whole_number(view, at)
        else:
            size = 4
            if wire == "b":
                size, at = _whole_number(view, at)
            value, at = view[at : at + size], at + size
            need(at <= len(view), "it is damaged")
        found.setdefault(field, []).append(value)
    return found


def _one(message: _Fields, field: int, default: Any) -> Any:
    """Return the value of a field that stands at most once, of the default's type."""
    values = message.get(field)
    if values is None:
        return default
    need(len(values) == 1, f"field {field} stands twice")
    if isinstance(default, str):
        return _text(values[0])
    same = isinstance(values[0], int) == isinstance(default, int)
    need(same, f"field {field} has another type")
    return values[0]


def _text(value: Any) -> str:
    need(isinstance(value, memoryview), "a name is not text")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise Rejected("a name is not text") from None


def _numbers(values: list[Any]) -> list[int]:
    """Return repeated whole numbers, packed or not."""
    found = []
    for value in values:
        if not isinstance(value, memoryview):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _whole_number(value, at)
            found.append(number)
    return found


def _tensor(data: Any) -> tuple[str, NDArray[np.float32]]:
    """Read a float32 initialiser: dims 1, data_type 2, float_data 4, name 8, raw_data 9."""
    message = _message(data, "1vb 2v 4fb 8b 9b 12b 14v 16b")
    here = _one(message, 2, 0) == _FLOAT and _one(message, 14, 0) == 0
    need(here, "a constant is not float32, or is in another file")
    shape = tuple(_numbers(message.get(1, [])))
    need((4 in message) != (9 in message), "a constant has no numbers, or has them twice")
    parts = [_one(message, 9, b"")] if 9 in message else message[4]
    plain = all(isinstance(each, memoryview) for each in parts)
    need(plain, "a constant's numbers have another type")
    content = b"".join(parts)
    fits = len(shape) <= 2 and len(content) == 4 * int(np.prod(shape, dtype=object))
    need(fits, "a constant has another size than it states, or is no matrix")
    array = np.frombuffer(content, "<f4").reshape(shape).astype(np.float32)
    need(np.isfinite(array), "a constant is not finite")
    return _one(message, 8, ""), array


@dataclass(frozen=True)
class _Operator:
    """What one node does with tensors, which are numbered; names are those of constants."""

    kind: str  # Gemm, MatMul, Add, Sub, join, or an activation
    sources: tuple[int, ...]
    weight: str = ""
    bias: str = ""
    transposed: bool = False
    sign: int = 1

    def step(self, values: Parameters, width: int) -> Step:
        """Return the operator of some networks, whose constants have shape (m, *shape)."""
        if self.kind in KIND:
            return Step(self.sources, kind=KIND[self.kind])
        if self.kind == "join":
            return Step(self.sources, sign=self.sign)
        if self.weight:
            matrix = values[self.weight].astype(np.float64)
            matrix = matrix.transpose(0, 2, 1) if self.transposed else matrix
        else:
            matrix = np.eye(width)[None]
        constant: Floats = np.zeros((1, matrix.shape[2]))
        if self.bias:
            constant = self.sign * values[self.bias].astype(np.float64)
            constant = constant.reshape(len(constant), -1)
        return Step(self.sources, matrix, constant, np.abs(constant))


@dataclass(frozen=True, eq=False)
class Dense:
    """A network of dense layers."""

    path: Path
    inputs: int
    labels: int
    operators: tuple[_Operator, ...]
    values: Parameters
    notes: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        """The network as the kernel reads it."""
        return self.of({name: value[None] for name, value in self.values.items()})

    def of(self, values: Parameters) -> Program:
        """Return the networks with other constants, shape (m, *shape)."""
        widths, steps = [self.inputs], []
        for each in self.operators:
            step = each.step(values, widths[each.sources[0]])
            steps.append(step)
            widths.append(widths[each.sources[0]] if step.matrix is None else step.matrix.shape[2])
        return Program(self.inputs, tuple(steps))


@dataclass(frozen=True, eq=False)
class DenseFamily:
    """Members with the architecture of a network."""

    network: Dense
    parameters: Parameters  # shape (members, *shape)
    removed: Integers  # shape (members,): the row that each lacks
    sample: Mapping[str, int] | None = None  # how the rows were drawn, if they were
    rows: int | None = None  # number of rows trained on, if it is stated

    def __len__(self) -> int:
        return len(self.removed)

    def take(self, members: Integers) -> Program:
        """Return some members."""
        return self.network.of({name: value[members] for name, value in self.parameters.items()})


def read_network(path: Path) -> Dense:
    """Read a network of dense layers; raise Unreadable for any other file."""
    try:
        with open_regular(path) as stream:
            content = stream.read(_LARGEST)
        return _network(path, content)
    except OSError as error:
        raise Unreadable(f"{path}: cannot read: {error.strerror or error}") from None
    except Rejected as error:
        raise Unreadable(f"{path}: no network of dense layers: {error}") from None


def _network(path: Path, content: bytes) -> Dense:
    """ModelProto: ir_version 1, producers 2 to 6, graph 7, operator sets 8, metadata 14."""
    model = _message(content, "1v 2b 3b 4b 5v 6b 7b 8b 14b")
    opsets = [_message(each, "1b 2v") for each in model.get(8, [])]
    versions = [_one(each, 2, 0) for each in opsets if _one(each, 1, "") in ("", "ai.onnx")]
    known = len(versions) == 1 and versions[0] in _OPSETS
    need(known, f"its operator set is not one of {_OPSETS.start} to {_OPSETS.stop - 1}")
    # GraphProto: node 1, name 2, initializer 5, doc 10, input 11, output 12, value_info 13.
    graph = _message(_one(model, 7, b""), "1b 2b 5b 10b 11b 12b 13b 16b")
    constants = [_tensor(each) for each in graph.get(5, [])]
    values = dict(constants)
    own = len(values) == len(constants) and "" not in values
    need(own, "a constant has no name, or another's")
    inputs = dict(_declaration(each) for each in graph.get(11, []))
    outputs = [_declaration(each)[0] for each in graph.get(12, [])]
    free = [name for name in inputs if name not in values]
    single = len(free) == len(outputs) == 1 and len(graph.get(11, [])) == len(inputs)
    need(single, "it has not one input and one output")
    width = inputs[free[0]]
    need(1 <= width <= _WIDEST, "its input has not two dimensions, the second one known")
    return _Reading(path, values, free[0], width).read(graph.get(1, []), outputs[0])


def _declaration(data: Any) -> tuple[str, int]:
    """Read a ValueInfoProto: its name, and the width of a float32 tensor (batch, width), or 0."""
    message = _message(data, "1b 2b 3b 4b")
    kind = _message(_one(message, 2, b""), "1b 6b")
    tensor = _message(_one(kind, 1, b""), "1v 2b")
    need(_one(tensor, 1, 0) == _FLOAT, "an input or output is not float32")
    dims = _message(_one(tensor, 2, b""), "1b").get(1, [])
    width = _one(_message(dims[1], "1v 2b 3b"), 1, 0) if len(dims) == 2 else 0
    return _one(message, 1, ""), width


class _Reading:
    """Nodes become operators, in their order."""

    def __init__(self, path: Path, values: Parameters, source: str, width: int) -> None:
        self._path, self._values, self._inputs = path, values, width
        self._places = {source: 0}
        self._widths, self._operators = [width], list[_Operator]()
        self._constants_used: set[str] = set()

    def read(self, nodes: list[Any], output: str) -> Dense:
        """Return the network."""
        for data in nodes:
            # NodeProto: input 1, output 2, name 3, op_type 4, attribute 5, doc 6, domain 7.
            node = _message(data, "1b 2b 3b 4b 5b 6b 7b 9b")
            given, made = [[_text(each) for each in node.get(i, [])] for i in (1, 2)]
            own = _one(node, 7, "") in ("", "ai.onnx") and len(made) == 1 and made[0] != ""
            need(own, "it has an operator of another domain, or with several outputs")
            free = made[0] not in self._places and made[0] not in self._values
            need(free, "two tensors have one name")
            self._places[made[0]] = self._operator(_one(node, 4, ""), given, node.get(5, []))
        last = len(self._operators) > 0 and self._places.get(output) == len(self._operators)
        need(last, "its output is not what its last operator computes")
        scored = self._operators[-1].kind != "Sigmoid"
        need(scored, "it ends in a Sigmoid, before which scores are read")
        need(self._widths[-1] >= 2, "it has a single score")
        read = {source for each in self._operators for source in each.sources}
        used = read == set(range(len(self._operators)))
        used = used and self._constants_used == set(self._values)
        need(used, "it computes or holds what its output does not need")
        return Dense(
            self._path, self._inputs, self._widths[-1], tuple(self._operators), self._values
        )

    def _operator(self, kind: str, given: list[str], attributes: list[Any]) -> int:
        """Add an operator; return the number of its tensor."""
        options = dict(map(_attribute, attributes))
        need(len(options) == len(attributes), "an attribute stands twice")
        single = kind in KIND or kind in ("Flatten", "Identity")
        count = (2, 3) if kind == "Gemm" else (1,) if single else (2,)
        known = kind in _ATTRIBUTES and len(given) in count
        need(known, f"it has an operator {kind!r}, or one with other inputs")
        fine = all(value in _ATTRIBUTES[kind].get(name, ()) for name, value in options.items())
        need(fine, f"an operator {kind!r} has attributes that are not read")
        if kind in ("Flatten", "Identity"):
            return self._tensor(given[0])
        if kind in KIND:
            return self._add(_Operator(kind, (self._tensor(given[0]),)))
        if kind in ("Add", "Sub"):
            return self._sum(given, 1 if kind == "Add" else -1)
        source, transposed = self._tensor(given[0]), options.get("transB", 0) == 1
        inputs, outputs = self._shape(given[1], 2)[:: -1 if transposed else 1]
        need(inputs == self._widths[source], "a matrix does not fit what it multiplies")
        bias = given[2] if len(given) == 3 else ""
        fits = not bias or self._shape(bias, 1)[-1] == outputs
        need(fits, "a bias does not fit its matrix")
        return self._add(_Operator(kind, (source,), given[1], bias, transposed), outputs)

    def _sum(self, given: list[str], sign: int) -> int:
        constants = [name in self._values for name in given]
        if constants == [False, False]:
            one, other = map(self._tensor, given)
            same = self._widths[one] == self._widths[other]
            need(same, "two tensors of other widths are added")
            return self._add(_Operator("join", (one, other), sign=sign))
        if constants == [True, False] and sign > 0:
            given = given[::-1]
        else:
            need(constants == [False, True], "it subtracts from a constant")
        source = self._tensor(given[0])
        fits = self._shape(given[1], 1)[-1] == self._widths[source]
        need(fits, "a constant does not fit what it is added to")
        return self._add(_Operator("Add", (source,), bias=given[1], sign=sign))

    def _add(self, operator: _Operator, width: int | None = None) -> int:
        self._operators.append(operator)
        self._widths.append(self._widths[operator.sources[0]] if width is None else width)
        return len(self._operators)

    def _tensor(self, name: str) -> int:
        need(name in self._places, f"{name!r} is not computed before it is read")
        return self._places[name]

    def _shape(self, name: str, rank: int) -> tuple[int, ...]:
        """Return the shape of a constant: a matrix, or a row of numbers."""
        fresh = name in self._values and name not in self._constants_used
        need(fresh, f"{name!r} is no constant, or is used twice")
        shape = self._values[name].shape
        row = rank == 1 and (len(shape) == 1 or (len(shape) == 2 and shape[0] == 1))
        fits = (row or len(shape) == rank == 2) and 0 not in shape
        need(fits, f"the constant {name!r} has another shape")
        self._constants_used.add(name)
        return shape


_PLAIN = "MatMul Add Sub Identity Relu Sigmoid Tanh Gelu Softplus"
_ATTRIBUTES: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    **{name: {} for name in _PLAIN.split()},
    "Gemm": {"alpha": (1.0,), "beta": (1.0,), "transA": (0,), "transB": (0, 1)},
    "Flatten": {"axis": (1,)},
    "Elu": {"alpha": (1.0,)},
}
"""The operators read, each with its attributes and the values that these may have."""


def _attribute(data: Any) -> tuple[str, float]:
    """Read a number: name 1, f 2, i 3, doc 13, type 20, which is 1 of f and 2 of i."""
    message = _message(data, "1b 2f 3v 13b 20v")
    kind = _one(message, 20, 0)
    fine = (kind, 2 in message, 3 in message) in ((1, True, False), (2, False, True))
    need(fine, "an attribute is not one number of its type")
    if kind == 2:
        return _one(message, 1, ""), _one(message, 3, 0)
    (value,) = struct.unpack("<f", _one(message, 2, b""))
    return _one(message, 1, ""), value


def read_family(path: Path, network: Dense) -> DenseFamily:
    """Read the members of a network in a family file; raise Unreadable for any other file."""
    try:
        with open_regular(path) as stream:
            arrays = read_archive(stream, _MAPPED_FROM, strangers=True)
        return _family(path, arrays, network)
    except OSError as error:
        raise Unreadable(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, MemoryError, Rejected) as error:
        raise Unreadable(f"{path}: no family of {network.path}: {error}") from None


def _family(path: Path, arrays: dict[str, NDArray[Any]], network: Dense) -> DenseFamily:
    removed, raw = arrays.pop("removed", None), arrays.pop("manifest", None)
    if removed is None or removed.ndim != 1 or removed.dtype.kind not in "iu" or not len(removed):
        raise Rejected("it does not list the rows that its members lack")
    need(removed.min() >= 0 and removed.max() < 2**63, "a row number is out of range")
    need(set(arrays) == set(network.values), "its parameters have other names")
    for name, stack in arrays.items():
        shape = (len(removed), *network.values[name].shape)
        fits = stack.dtype == np.float32 and stack.shape == shape
        need(fits, f"its parameter {name!r} has another shape or type")
        finite = all(np.isfinite(stack[part]).all() for part in _blocks(stack))
        need(finite, f"its parameter {name!r} is not finite")
    facts = {} if raw is None else _facts(raw)
    return DenseFamily(network, arrays, removed.astype(np.int64), **facts)


def _blocks(stack: NDArray[Any]) -> Iterator[slice]:
    step = max(1, _BLOCK * len(stack) // max(1, stack.size))
    marks = [*range(0, len(stack), step), len(stack)]
    return (slice(a, b) for a, b in pairwise(marks))


def _facts(raw: NDArray[Any]) -> dict[str, Any]:
    """Return the draw of the rows and their number, if the manifest states them."""
    stated = parse(bytes_of(raw))
    need(isinstance(stated, dict), "its manifest is no object")
    sample, data = stated.get("sample"), stated.get("data")
    if sample is not None:
        names = {"draw": 1, "draws": 1, **(sample if isinstance(sample, dict) else {})}
        known = set(names) == {"size", "rows", "seed", "draw", "draws"}
        need(known, "its manifest states another kind of sample")
        whole = all(type(value) is int for value in names.values())
        need(whole, "its manifest states a sample in other words than whole numbers")
        sample = names
    rows = data.get("rows") if isinstance(data, dict) else None
    need(data is None or type(rows) is int, "its manifest does not state the number of rows")
    return {"sample": sample, "rows": rows}


def same_architecture(one: Dense, other: Dense) -> bool:
    """Return whether two networks differ in their constants' values only."""
    shapes = [{name: each.shape for name, each in net.values.items()} for net in (one, other)]
    same = one.inputs == other.inputs and one.operators == other.operators
    return same and shapes[0] == shapes[1]


class DenseReader:
    """The kernel's own reader: networks of dense layers."""

    def network(self, path: Path, /) -> Dense:
        """See `Reader`."""
        return read_network(path)

    def family(self, path: Path, network: Network, /) -> Members:
        """See `Reader`."""
        assert isinstance(network, Dense)
        return read_family(path, network)

    def alone(self, path: Path, network: Network, /) -> Members:
        """See `Reader`."""
        assert isinstance(network, Dense)
        other = read_network(path)
        if not same_architecture(network, other):
            raise Unreadable(f"{path}: its architecture differs from that of {network.path}")
        values = {name: value[None] for name, value in other.values.items()}
        return DenseFamily(other, values, np.zeros(1, np.int64))

    def trees(self, path: Path, /) -> Ensemble:
        """See `Reader`."""
        raise Unreadable(f"{path}: holds trees, which leaveout reads: leaveout check CERTIFICATE")

    def tree_members(self, path: Path, whole: Path, /) -> TreeMembers:
        """See `Reader`."""
        self.trees(path)
        raise AssertionError

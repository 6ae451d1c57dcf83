"""Writing of query files of version 2.0, and of results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import onnx
import onnx.numpy_helper
from numpy.typing import NDArray

from leaveout.encoders.query import Application, Condition, Query
from leaveout.errors import SpecError
from leaveout.files import refuse_unwritten, write_whole
from leaveout.specs.text.errors import Position
from leaveout.specs.vnnlib.formula import LOGIC
from leaveout.specs.vnnlib.onnx_files import outputs_of, score_of
from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_TENSOR = re.compile(r"[XY]\d+", re.ASCII)  # names of tensors in written files

Numbered: TypeAlias = tuple[Tensor, int]
"""A tensor, and the index of its first element among the features or scores."""


def save_query(path: Path | str, query: Query) -> None:
    """Write a query to a file, replacing any existing one atomically.

    Raises
    ------
    SpecError
        As `format_query` does, or if the file cannot be written.
    """
    text = format_query(query)
    with refuse_unwritten(SpecError, path):
        write_whole(Path(path), text.encode())


def format_query(query: Query) -> str:
    """Return a query as a text of version 2.0.

    All numbers are written exactly. Networks are named after their applications if those names are
    distinct and valid in the format, else ``N0``, ``N1``, ....

    Parameters
    ----------
    query : Query
        Reading the text yields the same query if its points are in order of first use, its terms
        ascending, no coefficient is 0, every case can be met by some input, and no network is
        applied to one point twice.

    Raises
    ------
    SpecError
        If the format cannot express it: listed values, a worst form, points no network reads,
        numbers that are not finite.
    """
    _refuse(query)
    declared = _declarations(query)
    lines = ["(vnnlib-version <2.0>)", "", *map(_declaration, declared), ""]
    first = [[a.point for a in query.applications].index(p) for p in range(len(query.points))]
    for point, box in enumerate(query.points):
        tensor = declared[first[point]].input
        for i in range(box.dimension):
            lines.append(_bound(tensor.element(i), ">=", box.lower[i]))
            lines.append(_bound(tensor.element(i), "<=", box.upper[i]))
    for here, application in zip(declared, query.applications, strict=True):
        there = declared[first[application.point]]
        if there is not here:
            lines += [
                f"(assert (== {there.input.element(i)} {here.input.element(i)}))"
                for i in range(here.input.size)
            ]
    networks = [application.network for application in query.applications]
    outputs = [
        (each.output, score_of(network, 0))
        for each, network in zip(declared, networks, strict=True)
    ]
    numbered = [(declared[i].input, 0) for i in first]
    lines += _cases(query.cases, numbered, outputs)
    for each in query.alternatives:
        lines += _cases(each, numbered, outputs)
    return "\n".join(lines) + "\n"


def _refuse(query: Query) -> None:
    used = {application.point for application in query.applications}
    if any(box.choices for box in query.points):
        raise SpecError("VNN-LIB: cannot write inputs that take listed values")
    if query.worst is not None:
        raise SpecError(
            "VNN-LIB: a query can only ask whether there is a counter-example, not "
            "how bad it is; remove 'worst'"
        )
    if used != set(range(len(query.points))):
        raise SpecError("VNN-LIB: cannot write a point that no network reads")


def _declarations(query: Query) -> list[Declared]:
    names = [application.name for application in query.applications]
    usable = len(set(names)) == len(names) and all(
        _NAME.fullmatch(name) and name not in LOGIC and not _TENSOR.fullmatch(name)
        for name in names
    )
    kind = "real" if query.reals else "float32"
    found: list[Declared] = []
    known: dict[int, str] = {}
    for i, application in enumerate(query.applications):
        name = names[i] if usable else f"N{i}"
        network = application.network
        tensors = _tensors(i, application, kind)
        found.append(Declared(name, *tensors, Position(), equal_to=known.get(id(network), "")))
        known.setdefault(id(network), name)
    return found


def _tensors(number: int, application: Application, kind: str) -> tuple[Tensor, Tensor]:
    network = application.network
    return (
        Tensor(f"X{number}", kind, (1, *network.graph.input_shape)),
        Tensor(f"Y{number}", kind, (1, outputs_of(network))),
    )


def _declaration(each: Declared) -> str:
    equal = f" (equal-to {each.equal_to})" if each.equal_to else ""
    tensors = "".join(
        f"\n  (declare-{kind} {tensor.name} {tensor.type} [{','.join(map(str, tensor.shape))}])"
        for kind, tensor in (("input", each.input), ("output", each.output))
    )
    return f"(declare-network {each.name}{equal}{tensors}\n)"


def _bound(name: str, sign: str, value: float) -> str:
    # A number compared with an input alone would be read as the nearest float32.
    if float(np.float32(value)) == value:
        return f"(assert ({sign} {name} {_number(value)}))"
    return f"(assert ({sign} (+ {name} {_number(-value)}) 0.0))"


def _number(value: float) -> str:
    value = float(value)
    if not np.isfinite(value):
        raise SpecError(f"VNN-LIB: cannot write the number {value!r}")
    # All digits: a shorter number would differ, and bounds would be rounded when read.
    text = format(Decimal(value), "f")
    return text if "." in text else f"{text}.0"


def _cases(
    cases: Sequence[Sequence[Condition]], inputs: Sequence[Numbered], outputs: Sequence[Numbered]
) -> Iterator[str]:
    # In the standard, a number has the type of a variable it is compared with.
    some = inputs[0][0].element(0)
    if not cases:
        yield f"(assert (> {some} {some}))"
        return
    if list(cases) == [()]:
        return
    yield "(assert (or"
    for case in cases:
        # Within 'or', a bound of one input remains a condition rather than a bound of the box.
        yield "  (and"
        for condition in case:
            yield f"    {_condition(condition, inputs, outputs)}"
        yield "  )" if case else f"    (>= {some} {some}))"
    yield "))"


def _condition(
    condition: Condition, inputs: Sequence[Numbered], outputs: Sequence[Numbered]
) -> str:
    form = condition.form
    terms = [
        f"(* {_number(coefficient)} {tensors[where][0].element(i - tensors[where][1])})"
        for part, tensors in ((form.features, inputs), (form.scores, outputs))
        for where, i, coefficient in part
        # Score 0 of a network with a single output is constantly 0.
        if i >= tensors[where][1]
    ]
    if not terms:
        terms = [f"(* 0.0 {inputs[0][0].element(0)})"]
    total = f"(+ {' '.join([*terms, _number(form.constant)])})"
    return f"({'>' if condition.strict else '>='} {total} 0.0)"


Status: TypeAlias = Literal["sat", "unsat", "unknown", "timeout", "error"]
Floats: TypeAlias = NDArray[np.floating]


def format_witness(
    problem: Problem, query: Query, points: Sequence[Floats], scores: Sequence[Floats]
) -> str:
    """Return a counter-example in the format of the query's version."""
    lines: list[str] = []
    for tensor, values in variable_values(problem, query, points, scores):
        texts = [repr(float(value)) for value in values]
        if problem.version == "1.0":
            lines += [f"({tensor.name}_{i} {text})" for i, text in enumerate(texts)]
        else:
            shape = ",".join(map(str, tensor.shape))
            lines += [f"{tensor.name} {tensor.type} [{shape}]", *texts]
    if problem.version == "1.0":
        return "(" + "\n ".join(lines) + ")\n"
    return "\n".join(lines) + "\n"


def variable_values(
    problem: Problem, query: Query, points: Sequence[Floats], scores: Sequence[Floats]
) -> list[tuple[Tensor, Floats]]:
    """Return the declared variables in order with their flat values.

    Parameters are those of `format_witness`.
    """
    given = [
        found[score_of(application.network, 0) :]
        for application, found in zip(query.applications, scores, strict=True)
    ]
    hidden = iter(given[len(problem.networks) :])
    every: list[tuple[Tensor, Floats]] = []
    for each, application, own in zip(problem.networks, query.applications, given, strict=False):
        every.append((each.input, points[application.point]))
        every += [(node, next(hidden)) for node in each.hidden]
        every.append((each.output, own))
    return every


def save_assignment(
    folder: Path | str,
    problem: Problem,
    query: Query,
    points: Sequence[Floats],
    scores: Sequence[Floats],
) -> None:
    """Write a counter-example as one float32 ONNX ``TensorProto`` per variable.

    Parameters
    ----------
    folder : path
        Created if missing.
    problem, query, points, scores
        As in `format_witness`.

    Raises
    ------
    SpecError
        If a file cannot be written.
    """
    place = Path(folder)
    with refuse_unwritten(SpecError, folder):
        place.mkdir(parents=True, exist_ok=True)
        for tensor, values in variable_values(problem, query, points, scores):
            array = np.asarray(values, np.float32).reshape(tensor.shape)
            proto = onnx.numpy_helper.from_array(array, tensor.name)
            write_whole(place / f"{tensor.name}.pb", proto.SerializeToString())


def format_result(status: Status, witness: str = "") -> str:
    """Return the content of a result file: the status, then any witness."""
    return f"{status}\n{witness}"


def save_result(path: Path | str, status: Status, witness: str = "") -> None:
    """Write a result file, replacing any existing one atomically."""
    with refuse_unwritten(SpecError, path):
        write_whole(Path(path), format_result(status, witness).encode())

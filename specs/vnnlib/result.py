"""Results in the formats of VNN-COMP and of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import onnx
import onnx.numpy_helper
from numpy.typing import NDArray

from leaveout.encoders.query import Query
from leaveout.errors import SpecError
from leaveout.files import write_whole
from leaveout.specs.vnnlib.onnx_files import score_of
from leaveout.specs.vnnlib.problem import Problem, Tensor

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
        Made where it is missing.
    problem, query, points, scores
        As those of `format_witness`.

    Raises
    ------
    SpecError
        If a file cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for tensor, values in variable_values(problem, query, points, scores):
            array = np.asarray(values, np.float32).reshape(tensor.shape)
            proto = onnx.numpy_helper.from_array(array, tensor.name)
            write_whole(place / f"{tensor.name}.pb", proto.SerializeToString())
    except OSError as error:
        raise SpecError(f"{folder}: cannot be written: {error.strerror or error}") from None


def format_result(status: Status, witness: str = "") -> str:
    """Return the content of a result file: the status, then any witness."""
    return f"{status}\n{witness}"


def save_result(path: Path | str, status: Status, witness: str = "") -> None:
    """Write a result file, replacing any existing one atomically."""
    try:
        write_whole(Path(path), format_result(status, witness).encode())
    except OSError as error:
        raise SpecError(f"{path}: cannot be written: {error.strerror or error}") from None

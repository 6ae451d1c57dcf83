"""What a solver answers, in the words of VNN-COMP and of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.query import Query
from leaveout.errors import SpecError
from leaveout.files import write_whole
from leaveout.specs.vnnlib.onnx_files import score_of
from leaveout.specs.vnnlib.problem import Problem

__all__ = ["Status", "format_result", "format_witness", "save_result"]

Status: TypeAlias = Literal["sat", "unsat", "unknown", "timeout", "error"]
Floats: TypeAlias = NDArray[np.floating]


def format_witness(
    problem: Problem, query: Query, points: Sequence[Floats], scores: Sequence[Floats]
) -> str:
    """Return a counter-example in the format of the query's version.

    Parameters
    ----------
    problem : Problem
    query : Query
        Built of it.
    points : sequence of ndarray of float32 or float64
        The points of the query.
    scores : sequence of ndarray of float32 or float64
        Of each application.

    Returns
    -------
    str
        Of version 1.0 the list ``((X_0 v) ... (Y_0 v) ...)``, one pair a line; of version 2.0 a
        line with name, type and shape of each declared variable, then its values, one a line.
    """
    lines: list[str] = []
    for each, application, found in zip(problem.networks, query.applications, scores, strict=True):
        given = found[score_of(application.network, 0) :]
        for tensor, values in ((each.input, points[application.point]), (each.output, given)):
            texts = [repr(float(value)) for value in values]
            if problem.version == "1.0":
                lines += [f"({tensor.name}_{i} {text})" for i, text in enumerate(texts)]
            else:
                shape = ",".join(map(str, tensor.shape))
                lines += [f"{tensor.name} {tensor.type} [{shape}]", *texts]
    if problem.version == "1.0":
        return "(" + "\n ".join(lines) + ")\n"
    return "\n".join(lines) + "\n"


def format_result(status: Status, witness: str = "") -> str:
    """Return the content of a result file: the status, and below it a witness."""
    return f"{status}\n{witness}"


def save_result(path: Path | str, status: Status, witness: str = "") -> None:
    """Write a result file; what is there is replaced as a whole.

    Raises
    ------
    SpecError
        If it cannot be written.
    """
    try:
        write_whole(Path(path), format_result(status, witness).encode())
    except OSError as error:
        raise SpecError(f"{path}: cannot be written: {error.strerror or error}") from None

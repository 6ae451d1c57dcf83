"""``linear.npz``: a linear model with its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LinearError
from leaveout.files import why_unread
from leaveout.kernel.model import VERSION, LinearModel, model_from
from leaveout.kernel.numbers import Rejected
from leaveout.models.archive import holds_arrays, read_arrays, write_archive

LINEAR = "linear.npz"


def manifest_of(model: LinearModel) -> dict[str, Any]:
    """Return what a model's file says in words and single numbers."""
    design, groups = model.design, model.groups
    return {
        "format": "leaveout linear model",
        "version": VERSION,
        "kind": model.kind,
        "labels": list(model.labels),
        "tolerance": model.tolerance,
        "next_name": model.next_name,
        "inputs": design.inputs,
        "constant": design.constant,
        "columns": [[each.at, each.degree, each.bias] for each in design.columns],
        "group": None if groups is None else groups.column,
    }


def arrays_of(model: LinearModel) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model's file, the manifest first."""
    design, groups = model.design, model.groups
    text = json.dumps(manifest_of(model), separators=(",", ":")).encode()
    found: dict[str, NDArray[Any]] = {
        "manifest": np.frombuffer(text, np.uint8),
        "coefficients": model.coefficients,
        "X": model.X,
        "y": model.y,
        "weights": model.weights,
        "penalty": model.penalty,
        "names": model.names,
        "shift": design.shift,
        "scale": design.scale,
    }
    for k, each in enumerate(design.columns):
        if each.knots is not None:
            found[f"knots{k}"] = each.knots
    if design.mix is not None and design.offset is not None:
        found |= {"mix": design.mix, "offset": design.offset}
    if groups is not None:
        found["group"] = groups.cells
    return found


def save_linear(path: Path, model: LinearModel) -> None:
    """Write a model; equal models give equal bytes."""
    write_archive(path, arrays_of(model), LinearError)


def load_linear(path: Path) -> LinearModel:
    """Read a model.

    Raises
    ------
    LinearError
        If the file cannot be read, is damaged, or holds no linear model.
    """
    try:
        return model_from(read_arrays(path))
    except OSError as error:
        raise LinearError(f"{path}: {why_unread(error)}") from None
    except Rejected as error:
        raise LinearError(f"{path}: not a linear model of leaveout: {error}") from None
    except (ValueError, MemoryError) as error:
        raise LinearError(f"{path}: damaged or not a linear model: {error}") from None


def is_linear(path: Path) -> bool:
    """Return whether a file looks like a linear model."""
    return holds_arrays(path, ("manifest", "coefficients", "penalty", "X"))

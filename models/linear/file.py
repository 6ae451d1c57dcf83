"""``linear.npz``: a linear model with its rows."""

from __future__ import annotations

from pathlib import Path

from leaveout.errors import LinearError
from leaveout.files import why_unread
from leaveout.kernel.model import LinearModel, arrays_of, model_from
from leaveout.kernel.numbers import Rejected
from leaveout.models.archive import holds_arrays, read_arrays, write_archive

LINEAR = "linear.npz"


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

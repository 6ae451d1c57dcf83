"""Families: stacks of the networks retrained without one training point each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import FamilyError
from leaveout.files import UnusualFileError
from leaveout.kernel.files import ChangedError
from leaveout.models.archive import (
    MANIFEST,
    Streamed,
    manifest_array,
    read_arrays,
    read_manifest,
    write_archive,
)
from leaveout.models.quality import Quality


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded about the training data, never the data itself.

    Attributes
    ----------
    sha256 : str
        Digest of the training arrays: features, labels and, if there are groups, the group of each
        row; little-endian, C order.
    rows : int
        Number of rows, or of groups of rows that leave together.
    minimum, maximum : tuple of float
        Smallest and largest value of each feature in training.
    features : tuple of str
        One name per feature.
    labels : tuple of str
        One name per label.
    ids : tuple of str
        One name per training row or group; empty if rows have none.
    units : dict of str to str
        Units of measurement, by columns of the table, or by features if there is no table.
    group : str
        The column that names the groups, such as ``patient``; empty if each row leaves alone.
    """

    sha256: str
    rows: int
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    units: dict[str, str] = msgspec.field(default_factory=dict)
    group: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows left out, if they are a uniform sample without replacement.

    Attributes
    ----------
    size : int
        Number of rows drawn, hence of members.
    rows : int
        Number of all rows.
    seed : int
        Seed of the draw and the training; the draw has a separate random stream.
    draw : int
        Number of this draw among the seed's draws, from 1.
    draws : int
        Draws planned before the first one; they share the allowed error probability.
    """

    size: int
    rows: int
    seed: int
    draw: int = 1
    draws: int = 1


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a family.

    Attributes
    ----------
    architecture : str
        Hash of the network's graph without its weights; empty if unknown.
    data : DataFacts or None
    seed : int or None
    recipe : dict
        How the members were trained, in JSON types.
    sample : Sample or None
        How the members' rows were drawn; None if they were not.
    quality : Quality or None
        How accurate the network on all rows is on them; None if unknown.
    """

    architecture: str = ""
    data: DataFacts | None = None
    seed: int | None = None
    recipe: dict[str, object] = msgspec.field(default_factory=dict)
    sample: Sample | None = None
    quality: Quality | None = None


@dataclass(frozen=True, eq=False)
class Family:
    """Members of one architecture, with parameters stacked along the first axis.

    Attributes
    ----------
    parameters : mapping of str to ndarray of float32, shape (members, *shape)
        By the names, and in the order, of the network's ONNX initialisers.
    removed : ndarray of int64, shape (members,)
        Row index of the training point that each member lacks.
    manifest : Manifest
    source : str
        The file with exactly this content; empty if there is none.

    Raises
    ------
    FamilyError
        If there is no member, or the stacks differ in their number of members.
    """

    parameters: Mapping[str, NDArray[np.float32]]
    removed: NDArray[np.int64]
    manifest: Manifest = field(default_factory=Manifest)
    source: str = ""

    def __post_init__(self) -> None:
        if not len(self.removed):
            raise FamilyError("the family is empty: it needs at least one member")
        for name, stack in self.parameters.items():
            if stack.ndim == 0 or len(stack) != len(self.removed):
                raise FamilyError(
                    f"parameter {name!r} has shape {stack.shape}, expected {len(self.removed)} "
                    "members along its first axis, as for 'removed'"
                )

    def __len__(self) -> int:
        return len(self.removed)

    def take(self, members: Sequence[int] | NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        """Return the stacked parameters of the members at some positions."""
        chosen = np.asarray(members, dtype=np.int64)
        return {name: stack[chosen] for name, stack in self.parameters.items()}

    def first(self, count: int) -> Family:
        """Return the family of the first ``count`` members."""
        return Family(
            {name: stack[:count] for name, stack in self.parameters.items()},
            self.removed[:count],
            self.manifest,
        )


FAMILY = "family.npz"
"""Name of the family file in its network's folder."""

_REMOVED = "removed"
_MAPPED_FROM = 2**25
"""Smaller files are read instead of mapped, so that a program may overwrite the file of a family it
uses; overwriting a mapped file would corrupt the family."""
_BLOCK = 2**22  # numbers processed at once


def save_family_file(path: Path | str, family: Family) -> None:
    """Write a family to ``path`` atomically; equal families give equal bytes.

    Raises
    ------
    FamilyError
        If a parameter has a name reserved by the format, ``removed`` or ``manifest``, or the file
        cannot be written.
    """
    save_members(Path(path), family.removed, family.manifest, family.parameters)


def save_members(
    path: Path,
    removed: NDArray[np.int64],
    manifest: Manifest,
    parameters: Mapping[str, NDArray[np.float32]] | Mapping[str, Streamed],
) -> None:
    """Write a family too large for memory, as `save_family_file` does."""
    clash = {_REMOVED, MANIFEST} & set(parameters)
    if clash:
        raise FamilyError(f"{path}: a parameter may not be named {sorted(clash)[0]!r}")
    first: dict[str, Any] = {_REMOVED: removed, MANIFEST: manifest_array(manifest)}
    write_archive(path, {**first, **parameters}, FamilyError)


def load_family_file(path: Path | str) -> Family:
    """Read a family file.

    Parameters of a large file that was written without compression (as `save_family_file` does)
    stay on disk and are mapped read-only; such a file may be replaced while the family is in
    use, but not written to.

    Raises
    ------
    FamilyError
        If the file is missing, is not a family file, has no members or a non-finite number, or is
        being written to.
    """
    source = Path(path)
    try:
        arrays = read_arrays(source, _MAPPED_FROM)
    except FileNotFoundError:
        raise FamilyError(f"{source}: no such file") from None
    except ChangedError:
        raise FamilyError(
            f"{source}: the file is truncated, or was changed while it was read"
        ) from None
    except (UnusualFileError, IsADirectoryError) as error:
        raise FamilyError(f"{source}: {error.strerror}") from None
    except MemoryError:
        raise FamilyError(f"{source}: its arrays do not fit in memory") from None
    except (OSError, ValueError):
        raise FamilyError(f"{source}: not a family file (an .npz of plain arrays)") from None
    if _REMOVED not in arrays:
        raise FamilyError(f"{source}: not a family file: no array 'removed'")
    removed = arrays.pop(_REMOVED)
    if removed.ndim != 1 or not np.issubdtype(removed.dtype, np.integer):
        raise FamilyError(f"{source}: 'removed' must be a list of row indices")
    if (removed < 0).any():
        raise FamilyError(
            f"{source}: 'removed' contains {int(removed.min())}; rows are counted from 0"
        )
    raw = arrays.pop(MANIFEST, None)
    manifest = Manifest() if raw is None else read_manifest(source, raw, Manifest, FamilyError)
    for name, stack in list(arrays.items()):
        if not np.issubdtype(stack.dtype, np.floating):
            raise FamilyError(
                f"{source}: parameter {name!r} contains {stack.dtype}, expected float32"
            )
        arrays[name] = _as_float32(stack)
        member = _first_infinite(arrays[name])
        if member is not None:
            raise FamilyError(
                f"{source}: parameter {name!r} of member {member} is not a finite float32"
            )
    try:
        return Family(arrays, removed.astype(np.int64), manifest, str(source.absolute()))
    except FamilyError as error:
        raise FamilyError(f"{source}: {error}") from None


def _as_float32(stack: NDArray[np.floating]) -> NDArray[np.float32]:
    if stack.dtype == np.float32:
        return stack.astype(np.float32, copy=False)
    result = np.empty(stack.shape, np.float32)
    with np.errstate(over="ignore"):
        for rows in _blocks(stack):
            result[rows] = stack[rows]
    return result


def _first_infinite(stack: NDArray[np.float32]) -> int | None:
    for rows in _blocks(stack):
        finite = np.isfinite(stack[rows])
        if not finite.all():
            return int(rows.start + np.argwhere(~finite)[0][0])
    return None


def _blocks(stack: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of bounded size over the members; none if there are no members."""
    if stack.size:
        members = len(stack) if stack.ndim else 0
        step = max(1, _BLOCK * members // stack.size)
        yield from (slice(i, min(i + step, members)) for i in range(0, members, step))

"""The folder a guard serves: a network, its family and their proved bounds."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import EngineResult, Instance, make_instance
from leaveout.bab.native.files.manifest_parts import family_digest, network_digest
from leaveout.encoders import Box, Choices
from leaveout.errors import GuardError, LeaveoutError, SpecError
from leaveout.files import why_unread
from leaveout.models import load_family, load_network
from leaveout.models.archive import (
    MANIFEST,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.family import FAMILY, load_family_file
from leaveout.models.forest.columns import FOREST
from leaveout.models.train.export import BOUNDS, NETWORK, SPEC
from leaveout.user_key import is_own, mark
from leaveout.version import VERSION

_PURPOSE = "bounds"

_LEVELS = 8
"""Different bounds a label has at most, each half of the next one: few can be proved again."""


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    leaveout: str
    network: str
    family: str
    choices: int


@dataclass(frozen=True, eq=False)
class ProvedBounds:
    """The proved bounds of a network, a family and an input set.

    Attributes
    ----------
    network, family : str
        Digests of the operators and parameters.
    box : Box
    upper : ndarray of float64, shape (labels, members)
        No leak of this member with this label has a higher float32 confidence.
    """

    network: str
    family: str
    box: Box
    upper: Floats

    @property
    def thresholds(self) -> Floats:
        """The bound of each label over all members, shape (labels,)."""
        return np.asarray(self.upper.max(axis=1))

    @staticmethod
    def of(instance: Instance, results: Sequence[EngineResult | None]) -> ProvedBounds:
        """Collect the bounds of one question; labels not searched get what propagation proves."""
        rows = []
        for label, result in enumerate(results):
            if result is None:
                most = max(0.0, instance.most(label))
                rows.append(np.full(len(instance.family), most))
            else:
                rows.append(_raise_to_levels(result.member_upper))
        return ProvedBounds(
            network_digest(instance.network),
            family_digest(instance.family),
            instance.box,
            np.stack(rows),
        )


def save_bounds(path: Path, bounds: ProvedBounds) -> None:
    """Write the file atomically.

    Raises
    ------
    GuardError
        If it cannot be written.
    """
    box = bounds.box
    manifest = _Manifest(
        leaveout=VERSION,
        network=bounds.network,
        family=bounds.family,
        choices=len(box.choices),
    )
    arrays: dict[str, Any] = {
        "member_upper": bounds.upper,
        "lower": box.lower,
        "upper": box.upper,
        MANIFEST: manifest_array(manifest),
    }
    for i, each in enumerate(box.choices):
        arrays[f"choices_{i}_columns"] = each.columns
        arrays[f"choices_{i}_values"] = each.values
    write_archive(path, arrays, GuardError, purpose=_PURPOSE)


def expect_key() -> None:
    """Raise if bounds could not be authenticated, before they are proved."""
    mark(_PURPOSE, ())


def are_own(path: Path) -> bool:
    """Return whether bounds were proved here by this user and are unchanged."""
    try:
        return is_own(path, _PURPOSE)
    except OSError as error:
        raise GuardError(f"{path}: {why_unread(error)}") from None


def load_bounds(path: Path) -> ProvedBounds:
    """Read the file.

    Raises
    ------
    GuardError
        If it is missing, damaged, or holds other things.
    """
    arrays = read_archive(path, GuardError)
    try:
        manifest = read_manifest(path, arrays[MANIFEST], _Manifest, GuardError)
        choices = tuple(
            Choices(arrays[f"choices_{i}_columns"], arrays[f"choices_{i}_values"])
            for i in range(manifest.choices)
        )
        box = Box(_floats(arrays["lower"], 1), _floats(arrays["upper"], 1), choices)
        upper = _floats(arrays["member_upper"], 2)
    except KeyError as error:
        raise GuardError(f"{path}: contains no bounds ({error} is missing)") from None
    except (SpecError, TypeError, ValueError) as error:
        raise GuardError(f"{path}: the bounds are damaged: {error}") from None
    if not (upper.size and (upper >= 0).all()):  # a NaN is neither
        raise GuardError(f"{path}: the bounds are damaged: each must be a number of at least 0")
    return ProvedBounds(manifest.network, manifest.family, box, upper)


def _floats(array: NDArray[np.generic], dimensions: int) -> Floats:
    if array.dtype != np.float64 or array.ndim != dimensions:
        raise ValueError(f"{array.dtype} of shape {array.shape}, expected float64")
    return np.ascontiguousarray(array)


def _raise_to_levels(upper: Floats) -> Floats:
    """Raise bounds to the next of a few levels."""
    most = float(upper.max())
    if not most > 0:
        return np.zeros_like(upper)
    levels = most * 0.5 ** np.arange(_LEVELS - 1)
    levels = np.append(levels, 0.0)[::-1]
    return np.asarray(levels[np.searchsorted(levels, upper)])


_DRAWN_SPEC = "drawn.spec"  # what a message calls the specification of a sample's rows alone

MEMORY = "answers.sqlite"
"""What the memory is called beside the network or the forest."""


@dataclass(frozen=True, eq=False)
class Access:
    """The network, family and bounds that a guard serves."""

    folder: Path
    instance: Instance  # the network, the family, and the box of the bounds
    bounds: ProvedBounds  # of exactly these


def _refuse_sample(folder: Path) -> None:
    """Refuse members of a sample: a probabilistic claim on all rows guards nobody."""
    sample = None
    # Of what is no family it is said elsewhere.
    with contextlib.suppress(LeaveoutError):
        sample = load_family_file(folder / FAMILY).manifest.sample
    if sample is not None:
        drawn, bounds = folder / _DRAWN_SPEC, folder / BOUNDS
        raise GuardError(
            f"{folder}: nothing is proved about it yet: there is no {BOUNDS}. Its members lack "
            f"{sample.size:,} of {sample.rows:,} rows, drawn as a sample, and the 'but' in "
            f"{SPEC} guards no single row. To cover only the rows drawn, write {drawn}, the same "
            f"without 'but' and 'with confidence', and run leaveout verify {drawn} --bounds "
            f"{bounds}; to cover others, train without --sample in another folder"
        )


def load_access(folder: Path) -> Access:
    """Read a folder and check its bounds against its network and family."""
    if not any((folder / name).exists() for name in (NETWORK, FOREST)):
        what = "is not a folder" if folder.exists() else "no such folder"
        what = f"contains no {NETWORK}" if folder.is_dir() else what
        raise GuardError(
            f"{folder}: {what}; name a folder of leaveout train, or one with a {FOREST}, "
            "linear.npz or trees.npz"
        )
    if (folder / FOREST).exists() and not (folder / NETWORK).exists():
        raise GuardError(
            f"{folder}: contains a forest; its guard computes every deletion and needs no bound. "
            "For a bound, write a 'find' over leave_one_out"
        )
    path = folder / BOUNDS
    if not path.exists():
        _refuse_sample(folder)
        if (folder / NETWORK).exists() and not (folder / FAMILY).exists():
            raise GuardError(
                f"{folder}: no {FAMILY}, as after forgetting a row; train the network again"
            )
        raise GuardError(
            f"{folder}: nothing is proved about it yet ({BOUNDS} is missing); create it with "
            f"leaveout verify {folder / SPEC} --bounds {path}"
        )
    bounds = load_bounds(path)
    network = load_network(folder / NETWORK)
    family = load_family(folder / FAMILY, network)
    for found, proved, file in (
        (network_digest(network), bounds.network, NETWORK),
        (family_digest(family), bounds.family, FAMILY),
    ):
        if found != proved:
            raise GuardError(
                f"{path}: was proved for a different {file}; prove it again with leaveout verify "
                f"{folder / SPEC} --bounds {path}"
            )
    shape = (network.labels, len(family))
    if bounds.upper.shape != shape:
        raise GuardError(
            f"{path}: the bounds are damaged: they cover {bounds.upper.shape} labels and "
            f"members, expected {shape}"
        )
    return Access(folder, make_instance(network, family, bounds.box), bounds)


def memory_epsilon(folder: Path) -> float | None:
    """Return the epsilon of a folder's remembered answers; None if unknown."""
    path = folder / MEMORY
    if not path.exists():
        return None
    with contextlib.suppress(sqlite3.Error):
        opened = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(opened) as database:
            row = database.execute("SELECT epsilon FROM guard").fetchone()
        if row is not None and isinstance(row[0], float):
            return row[0]
    return None

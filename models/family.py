"""Families: stacks of the networks retrained without one training point each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import FamilyError


class DataFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded about the training data, never the data itself.

    Attributes
    ----------
    sha256 : str
        Of the training arrays as trained on (features then labels, little-endian, C order).
    rows : int
    minimum, maximum : tuple of float
        Smallest and largest value of each feature over the training rows, as trained on.
    features : tuple of str
        A name a feature.
    labels : tuple of str
        A name a label.
    ids : tuple of str
        A name a training row; empty where rows have none.
    units : dict of str to str
        What numbers are measured in, by columns of the table, or by features where there is none.
    """

    sha256: str
    rows: int
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    units: dict[str, str] = msgspec.field(default_factory=dict)


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows left out, if only a uniform sample without replacement.

    Attributes
    ----------
    size : int
        Rows that were drawn, and members.
    rows : int
        Of so many.
    seed : int
        Of the training, too; the draw has a stream of its own.
    draw : int
        Which of the seed's draws this is, from 1.
    draws : int
        How many were planned before the first; they share what may be wrong.
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
        Hash of the network's graph without its weights; empty where unknown.
    data : DataFacts or None
    seed : int or None
    recipe : dict
        How the members were trained, in JSON types.
    sample : Sample or None
        How the members' rows were drawn; None where they were not.
    """

    architecture: str = ""
    data: DataFacts | None = None
    seed: int | None = None
    recipe: dict[str, object] = msgspec.field(default_factory=dict)
    sample: Sample | None = None


@dataclass(frozen=True, eq=False)
class Family:
    """Members of one architecture, with parameters stacked along the first axis.

    Attributes
    ----------
    parameters : mapping of str to ndarray of float32, shape (members, *shape)
        Under the names, and in the order, of the network's ONNX initialisers.
    removed : ndarray of int64, shape (members,)
        Row index of the training point each member lacks.
    manifest : Manifest
    source : str
        The file that holds exactly this; empty where there is none.

    Raises
    ------
    FamilyError
        If there is no member, or the stacks disagree on how many there are.
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
                    "members along its first axis, as 'removed' has"
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

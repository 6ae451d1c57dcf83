"""What a guard needs of what it serves, network or forest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.encoding import Encoding
from leaveout.verifier.guard.domain import Domain
from leaveout.verifier.guard.findings import LeakFinder, Point

__all__ = ["Identity", "Subject"]


class Identity(NamedTuple):
    """What a memory of noised answers is bound to.

    Attributes
    ----------
    model, family : str
        Digests of what must never change under one memory.
    inputs : str
        Digest of what says which inputs may be noised. Once it is another, an input that could
        not be noised now may have been before.
    """

    model: str
    family: str
    inputs: str


class Subject(ABC):
    """A model and its members, and what is known of them. It does not change.

    Attributes
    ----------
    folder : Path
    domain : Domain
        The inputs that the promise is about.
    leaks : LeakFinder
    labels : int
        How many there are.
    names : tuple of str
        Of the labels; empty where none are known.
    members : int
    identity : Identity
    earlier : str
        Digest that earlier versions gave the model; empty where it was the same.
    encoding : Encoding or None
        How columns of a table become features; None if the model reads plain arrays.
    notes : tuple of str
        Sentences for the owner.
    """

    folder: Path
    domain: Domain
    leaks: LeakFinder
    labels: int
    names: tuple[str, ...]
    members: int
    identity: Identity
    earlier: str = ""
    encoding: Encoding | None
    notes: tuple[str, ...]

    @abstractmethod
    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[Any]:
        """Turn rows in a table's own units into inputs, shape (rows, inputs).

        Raises
        ------
        LeaveoutError
            If a column is missing or a value cannot be encoded.
        """

    @abstractmethod
    def read_arrays(self, path: Path) -> NDArray[Any]:
        """Read the inputs of an NPZ, ``X_test`` or ``X``, shape (n, inputs).

        Raises
        ------
        LeaveoutError
            If it holds none.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Draw inputs, shape (count, inputs)."""

    @abstractmethod
    def where_outside(self, point: Point) -> str:
        """Say where an input leaves the domain, in the units of the data; empty if it does not."""

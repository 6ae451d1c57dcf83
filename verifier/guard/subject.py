"""The interface of what a guard serves: a network or a forest."""

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


class Identity(NamedTuple):
    """What a memory of noised answers is bound to."""

    model: str  # digests of what must never change under one memory
    family: str  # digests of what must never change under one memory
    inputs: str  # digest of what says which inputs may be noised


class Subject(ABC):
    """An immutable model with its members and what is known of them."""

    folder: Path
    domain: Domain  # the inputs that the promise is about
    leaks: LeakFinder
    labels: int  # how many there are
    names: tuple[str, ...]  # of the labels; empty where none are known
    members: int
    identity: Identity
    earlier: str = ""  # digest that earlier versions gave the model; empty where it was the same
    encoding: Encoding | None
    notes: tuple[str, ...]  # sentences for the owner

    @abstractmethod
    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[Any]:
        """Encode rows in a table's own units, shape (rows, inputs)."""

    @abstractmethod
    def read_arrays(self, path: Path) -> NDArray[Any]:
        """Read the inputs of an NPZ, ``X_test`` or ``X``, shape (n, inputs)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Draw inputs, shape (count, inputs)."""

    @abstractmethod
    def where_outside(self, point: Point) -> str:
        """Return how an input leaves the domain, in data units; empty if inside."""

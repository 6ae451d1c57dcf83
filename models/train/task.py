"""Messages of a worker: the shared task, orders and events."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.blocks import write_block
from leaveout.models.train.signature import Signature


@dataclass(frozen=True)
class Block:
    """Networks to train, numbered as in `leaveout.models.train.blocks`.

    ``expected`` is what their parameters must be, None where the task fixes it.
    """

    networks: range
    expected: Signature | None = None


@dataclass(frozen=True)
class Probe:
    """Train the network on all rows with a seed and return it as ONNX.

    ``turn`` distinguishes repeated orders.
    """

    seed: int
    turn: int = 0


@dataclass(frozen=True)
class Check:
    """Train something small, to compare the bits of machines."""


Order = Block | Probe | Check


@dataclass(frozen=True)
class Step:
    """The finished share of the order, in [0, 1]."""

    share: float


@dataclass(frozen=True)
class Done:
    """The block is on disk."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained networks that are not on disk.

    Attributes
    ----------
    parameters : ndarray of float32, shape (networks, parameters), or None
        Of a block.
    model : bytes
        Of a probe.
    """

    parameters: NDArray[np.float32] | None = None
    model: bytes = b""


@dataclass(frozen=True)
class Failed:
    """The order cannot be done."""

    message: str


@dataclass(frozen=True)
class Checked:
    """The digest of a check, equal where machines train the same bits."""

    digest: str


@dataclass(frozen=True)
class Noted:
    """A line for the user; the order continues."""

    words: str


Event = Step | Done | Trained | Failed | Checked | Noted


class Task(ABC):
    """What all orders of a run share: the data and the training."""

    reference: str = ""
    """Digest that each machine's check must give; empty if this machine's is yet to be found."""

    gpus: int = 0
    """That one worker needs."""

    folder: str
    """Where blocks go; empty if the parent alone can write there."""

    removed: NDArray[np.int64]
    """The row each member lacks, shape (members,)."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare a process, once."""

    @abstractmethod
    def do(self, order: Order, say: Callable[[Step | Noted], None]) -> Event:
        """Do one order, reporting progress by ``say``; return the last event."""

    def keep_block(self, networks: range, parameters: NDArray[np.float32]) -> Event:
        """Write a trained block, or return it where there is no folder."""
        if not self.folder:
            return Trained(parameters)
        try:
            write_block(Path(self.folder), networks.start, networks.stop, parameters)
        except OSError as error:
            return Failed(f"{self.folder}: cannot be written: {error.strerror or error}")
        return Done()


def name_of(network: int, removed: NDArray[np.int64]) -> str:
    """Return the name of a network for messages; members lack ``removed``."""
    return (
        f"the member without row {removed[network - 1]}" if network else "the network on all rows"
    )


def digest_of(parameters: NDArray[np.float32]) -> str:
    """Return the digest of the bits of parameters."""
    return hashlib.sha256(parameters.astype("<f4").tobytes()).hexdigest()

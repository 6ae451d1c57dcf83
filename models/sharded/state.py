"""The stored points of a service: one file without pickles, written atomically."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ShardedError
from leaveout.files import OWNER_ONLY, open_atomically
from leaveout.models.archive import read_archive
from leaveout.models.sharded.ledger_tables import Position
from leaveout.models.sharded.rows import Rows
from leaveout.models.sharded.seal import Seal, begin_seals

_FORMAT = 2
_KINDS = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.int64)


@dataclass(frozen=True)
class State:
    """The points of a service, and what its models must be."""

    rows: Rows
    classes: NDArray[Any]  # labels by code
    position: Position  # when it was written
    models: str  # `Shards.digest` of the models then

    def digest(self) -> str:
        """Return a hash of the whole content."""
        found = hashlib.sha256(self.rows.digest().encode())
        found.update(repr((self.classes.tolist(), self.position, self.models)).encode())
        return found.hexdigest()


def write_state(path: Path, state: State, seal: Seal) -> None:
    """Write a state atomically."""
    try:
        # It holds every point.
        with open_atomically(path, OWNER_ONLY) as stream:
            np.savez(
                stream,
                format=np.array(_FORMAT),
                ids=state.rows.ids,
                features=state.rows.features,
                codes=state.rows.codes,
                next_id=np.array(state.rows.next_id),
                classes=state.classes,
                position=np.array([state.position.epoch, state.position.version]),
                models=np.array(state.models),
                digest=np.array(state.digest()),
            )
            begin_seals(stream, seal)
    except OSError as error:
        raise ShardedError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_state(path: Path) -> State:
    """Read the state that `write_state` wrote."""
    try:
        held = read_archive(path, ShardedError)
        if int(held["format"]) != _FORMAT:
            raise ShardedError(f"{path}: has format {int(held['format'])}, expected {_FORMAT}")
        epoch, version = (int(number) for number in held["position"])
        ids, features, codes = held["ids"], held["features"], held["codes"]
        if (ids.dtype, features.dtype, codes.dtype) != _KINDS or features.ndim != 2:
            raise ValueError("its points are no numbers")
        if not ids.shape == codes.shape == (len(features),):
            raise ValueError("its points, numbers and labels are not equally many")
        state = State(
            Rows(ids, features, codes, int(held["next_id"])),
            held["classes"],
            Position(epoch, version),
            str(held["models"]),
        )
        digest = str(held["digest"])
    except (ValueError, KeyError, TypeError) as error:
        raise ShardedError(
            f"{path}: is no state of a sharded service, or damaged: {error}"
        ) from None
    if state.digest() != digest:
        raise ShardedError(f"{path}: is damaged: its content does not match its digest")
    return state

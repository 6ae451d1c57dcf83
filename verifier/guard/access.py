"""The folder a guard serves: a network, its family and their proved bounds."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from leaveout.bab import Instance, make_instance
from leaveout.bab.native.files.digests import family_digest, network_digest
from leaveout.errors import GuardError, LeaveoutError
from leaveout.models import load_family, load_network
from leaveout.models.family_file import FAMILY, load_family_file
from leaveout.models.forest.columns import FOREST
from leaveout.models.train.export import NETWORK, SPEC
from leaveout.verifier.guard.bounds import BOUNDS, ProvedBounds, load_bounds

_DRAWN_SPEC = "drawn.spec"
"""What a message calls the specification of a sample's rows alone."""

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
            f"{folder}: nothing is proved of it yet: there is no {BOUNDS}; its members lack "
            f"{sample.size:,} of {sample.rows:,} rows, drawn as a sample, and what {SPEC} says by "
            f"'but' guards nobody: write {drawn}, the same without 'but' and 'with confidence', "
            f"and make it with leaveout verify {drawn} --bounds {bounds}, to cover the rows drawn "
            "alone; to cover others, train without --sample in another folder"
        )


def load_access(folder: Path) -> Access:
    """Read a folder and check its bounds against its network and family."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "there is no such folder"
        raise GuardError(
            f"{folder}: {what}; name one that leaveout train wrote, or one with a {FOREST}"
        )
    if (folder / FOREST).exists() and not (folder / NETWORK).exists():
        raise GuardError(
            f"{folder}: holds a forest, of which a guard knows every deletion: there is no bound "
            "to prove; ask find bound over leave_one_out for one"
        )
    path = folder / BOUNDS
    if not path.exists():
        _refuse_sample(folder)
        raise GuardError(
            f"{folder}: nothing is proved of it yet: there is no {BOUNDS}; make it with leaveout "
            f"verify {folder / SPEC} --bounds {path}"
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
                f"{path}: was proved of another {file} than the one beside it; prove it again with "
                f"leaveout verify {folder / SPEC} --bounds {path}"
            )
    shape = (network.labels, len(family))
    if bounds.upper.shape != shape:
        raise GuardError(
            f"{path}: the bounds are damaged: they are of {bounds.upper.shape} labels and members, "
            f"expected {shape}"
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

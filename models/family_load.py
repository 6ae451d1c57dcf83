"""Loading of families, and checks of every member against its network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import FamilyError, ModelError
from leaveout.models.family import FAMILY, Family, Manifest, load_family_file
from leaveout.models.graph import Graph, Stack
from leaveout.models.lowering import first_flaw, lower
from leaveout.models.onnx.file import Network, load_network
from leaveout.models.onnx.signature import is_of_architecture, stated_architecture


def load_family(path: Path | str, network: Network) -> Family:
    """Load a family, from a file or a folder of ONNX files, for the network it belongs to.

    In a folder every ``*.onnx`` file is a member; the last number in its name is the row it
    lacks (``member_00012.onnx`` lacks row 12), and members are ordered by it.

    Parameters
    ----------
    path : path to a ``.npz`` file or a folder
    network : Network
        The network N.

    Raises
    ------
    FamilyError
        If there is no member, or one does not match; the message names it.
    """
    source = Path(path)
    family = _load_folder(source, network) if source.is_dir() else load_family_file(source)
    match(family, network, str(source))
    return family


def match(family: Family, network: Network, where: str) -> None:
    """Check that the members have the architecture of ``network``."""
    for name, shape in network.graph.parameters.items():
        if name not in family.parameters:
            raise FamilyError(
                f"{where}: parameter {name!r} of {network.source} is missing from the family"
            )
        found = family.parameters[name].shape[1:]
        if found != shape:
            raise FamilyError(
                f"{where}: members have {name!r} of shape {found}, but {network.source} has "
                f"{shape}: the members must have the network's architecture"
            )
    unknown = sorted(set(family.parameters) - set(network.graph.parameters))
    if unknown:
        raise FamilyError(f"{where}: {network.source} has no parameter {unknown[0]!r}")
    known = family.manifest.architecture
    if known and not is_of_architecture(known, network.model):
        own = stated_architecture(network.architecture)
        raise FamilyError(
            f"{where}: the family was made for an architecture other than that of "
            f"{network.source} (hash {known[:14]}, the network's is {own[:14]})"
        )
    flaw = first_flaw(network.graph, family.parameters)
    if flaw is not None:
        raise FamilyError(
            f"{where}: member {flaw.member} (row {int(family.removed[flaw.member])}): node "
            f"{flaw.node!r}: {flaw.why}"
        )


def _load_folder(folder: Path, network: Network) -> Family:
    try:
        files = sorted(folder.glob("*.onnx"), key=lambda file: (_row(file), file.name))
        if not files:
            raise FamilyError(f"{folder}: the family is empty: the folder contains no .onnx file")
    except FamilyError:
        meant = folder / FAMILY
        if meant.is_file():
            raise FamilyError(
                f"{folder}: the folder contains something other than members; did you mean {meant}?"
            ) from None
        raise
    stacked: dict[str, NDArray[np.float32]] = {
        name: np.empty((len(files), *shape), np.float32)
        for name, shape in network.graph.parameters.items()
    }
    for position, file in enumerate(files):
        try:
            member = load_network(file)
        except ModelError as error:
            raise FamilyError(str(error)) from None
        shapes = {name: value.shape for name, value in member.parameters.items()}
        if shapes != dict(network.graph.parameters):
            raise FamilyError(
                f"{file}: its parameters differ from those of {network.source}: "
                f"{_first_difference(shapes, dict(network.graph.parameters))}"
            )
        if member.architecture != network.architecture:
            raise FamilyError(f"{file}: its operators differ from those of {network.source}")
        for name, value in member.parameters.items():
            stacked[name][position] = value
    removed = [_row(file) for file in files]
    # Files are in the order of their row numbers.
    for i, (before, row) in enumerate(itertools.pairwise(removed)):
        if before == row:
            raise FamilyError(
                f"{files[i + 1]}: {files[i].name} also lacks row {row}; keep one of them"
            )
    manifest = Manifest(architecture=stated_architecture(network.architecture))
    return Family(stacked, np.asarray(removed, dtype=np.int64), manifest)


def _row(file: Path) -> int:
    digits = "".join(c if c in "0123456789" else " " for c in file.stem).split()
    if not digits or int(digits[-1]) >= 2**63:
        raise FamilyError(
            f"{file}: its name does not end in the row it lacks; name it e.g. member_12.onnx"
        )
    return int(digits[-1])


def _first_difference(
    found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]
) -> str:
    for name, shape in expected.items():
        if name not in found:
            return f"{name!r} is missing"
        if found[name] != shape:
            return f"{name!r} has shape {found[name]}, expected {shape}"
    return f"{sorted(set(found) - set(expected))[0]!r} is not expected"


_CHUNK = 2**26
_KEPT = 200 * 10**6
"""Largest family, in bytes, that is kept lowered as a whole: a search reads the same members
thousands of times, and copying is many times faster than lowering again."""


@dataclass(frozen=True, eq=False)
class Members:
    """The members of a family in normal form, lowered as they are requested.

    In normal form a member needs twice the memory of its parameters, and many times more for
    unrolled convolutions; so only requested ones are in memory. Values equal those of
    `leaveout.models.lower`, bit for bit.

    Attributes
    ----------
    graph : Graph
        Graph of the network whose architecture the members share.
    family : Family
    """

    graph: Graph
    family: Family

    def __len__(self) -> int:
        return len(self.family)

    def __getstate__(self) -> dict[str, Graph | Family]:
        # Pickles exclude lowered members, which take several times as much memory.
        return {"graph": self.graph, "family": self.family}

    @property
    def inputs(self) -> int:
        """Width of the flattened input."""
        return self._first.inputs

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self._first.labels

    @cached_property
    def size(self) -> int:
        """Return how many numbers one member has in normal form."""
        return sum(
            layer.bias.size + sum(w.size for w in layer.weights.values())
            for layer in self._first.layers
        )

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> Stack:
        """Return the stack of some members, in the given order."""
        chosen = np.asarray(indices, dtype=np.int64)
        if self._whole is not None:
            return self._whole.take(chosen)
        # Reshaping operators cannot infer a shape from no members.
        return self._lower_members(chosen) if len(chosen) else self._first.take(chosen)

    def member(self, index: int) -> Stack:
        """Return the stack of the single member at ``index``."""
        return self.take([index])

    def chunks(
        self, indices: Sequence[int] | NDArray[np.int64] | None = None, size: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        """Iterate over some or all members, a few at a time.

        Parameters
        ----------
        indices : sequence of int, optional
            All members by default.
        size : int, optional
            How many members at a time; by default as many as fit 64 MB in normal form.

        Yields
        ------
        indices : ndarray of int64
            The next of the requested members, in the given order.
        stack : Stack
        """
        everyone = range(len(self)) if indices is None else indices
        chosen = np.asarray(everyone, dtype=np.int64)
        step = max(1, _CHUNK // (8 * self.size) if size is None else size)
        for start in range(0, len(chosen), step):
            part = chosen[start : start + step]
            yield part, self.take(part)

    @cached_property
    def _first(self) -> Stack:
        return self._lower_members(np.zeros(1, dtype=np.int64))

    @cached_property
    def _whole(self) -> Stack | None:
        if 8 * self.size * len(self) > _KEPT:
            return None
        return self._lower_members(np.arange(len(self), dtype=np.int64))

    def _lower_members(self, chosen: NDArray[np.int64]) -> Stack:
        # The reader refuses weights that divide by zero, with the member's name.
        with np.errstate(all="ignore"):
            return lower(self.graph, self.family.take(chosen))

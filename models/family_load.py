"""Loading of families, and checks of every member against its network."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import FamilyError, ModelError
from leaveout.models.architecture import is_of_architecture, stated_architecture
from leaveout.models.family import Family, Manifest
from leaveout.models.family_file import FAMILY, load_family_file
from leaveout.models.flaws import first_flaw
from leaveout.models.onnx_file import Network, load_network


def load_family(path: Path | str, network: Network) -> Family:
    """Load a family file, or a folder of ONNX files, for the network it belongs to.

    In a folder every ``*.onnx`` file is a member; the last number in its name is the row it
    lacks (``member_00012.onnx`` lacks row 12), and members are ordered by it.

    Parameters
    ----------
    path : path to a ``.npz`` file or a folder
    network : Network
        N.

    Raises
    ------
    FamilyError
        If there is no member, or one does not match; it is named.
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
                f"{where}: members have {name!r} of shape {found}, {network.source} has {shape}: "
                "the members must have the network's architecture"
            )
    unknown = sorted(set(family.parameters) - set(network.graph.parameters))
    if unknown:
        raise FamilyError(f"{where}: {network.source} has no parameter {unknown[0]!r}")
    known = family.manifest.architecture
    if known and not is_of_architecture(known, network.model):
        own = stated_architecture(network.architecture)
        raise FamilyError(
            f"{where}: the family was made for another architecture than {network.source} "
            f"(hash {known[:14]}, the network's is {own[:14]})"
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
            raise FamilyError(f"{folder}: the family is empty: the folder holds no .onnx file")
    except FamilyError:
        meant = folder / FAMILY
        if meant.is_file():
            raise FamilyError(
                f"{folder}: is a folder of other things than members; did you mean {meant}?"
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
                f"{file}: its parameters are not those of {network.source}: "
                f"{_first_difference(shapes, dict(network.graph.parameters))}"
            )
        if member.architecture != network.architecture:
            raise FamilyError(f"{file}: its operators are not those of {network.source}")
        for name, value in member.parameters.items():
            stacked[name][position] = value
    removed = [_row(file) for file in files]
    # Files are in the order of their rows.
    for i, (before, row) in enumerate(itertools.pairwise(removed)):
        if before == row:
            raise FamilyError(f"{files[i + 1]}: {files[i].name} lacks row {row} too")
    manifest = Manifest(architecture=stated_architecture(network.architecture))
    return Family(stacked, np.asarray(removed, dtype=np.int64), manifest)


def _row(file: Path) -> int:
    digits = "".join(c if c in "0123456789" else " " for c in file.stem).split()
    if not digits or int(digits[-1]) >= 2**63:
        raise FamilyError(
            f"{file}: its name does not end in the row it lacks; name it as in member_12.onnx"
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

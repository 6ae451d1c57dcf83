"""Networks and families of a certificate, read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.float32 import Program
from leaveout.models import Family, Manifest, Members, Network, Stack, load_family, load_network
from leaveout.models.graph import Graph
from leaveout.models.lowering import program_of
from leaveout.verifier.checker.files import FilePart, found_file
from leaveout.verifier.checker.manifest import ApplicationPart, FamilyPart


@dataclass(frozen=True)
class Given:
    """Locations of files stated by the caller."""

    networks: tuple[Path, ...] = ()
    families: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()

    @property
    def roots(self) -> tuple[Path, ...]:
        """Other folders than its own from which a certificate may name files."""
        return tuple(each for each in self.others if each.is_dir())

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that are neither networks nor families."""
        return tuple(each for each in self.others if not each.is_dir())


@dataclass(frozen=True, eq=False)
class Reader:
    """A network, or any member of a family, that reads a point."""

    path: Path  # of the network
    graph: Graph
    stack: Stack  # of the network; for a family, of one network of its architecture
    parameters: Mapping[str, NDArray[np.floating]]  # shape (1, *shape)
    family: Path | None = None  # the family that it is from
    members: Members | None = None  # if it may be any of these


@dataclass(frozen=True, eq=False)
class Programs:
    """The members of a family, as the kernel reads them."""

    graph: Graph
    family: Family

    def __len__(self) -> int:
        return len(self.family)

    def take(self, members: NDArray[np.int64]) -> Program:
        """Return some of them."""
        return program_of(self.graph, self.family.take(members))


class Shelf:
    """The files of a certificate, each read once."""

    def __init__(self, folder: Path, given: Given) -> None:
        self._folder, self._given = folder, given
        self._networks: dict[FilePart, tuple[Path, Network]] = {}
        self._families: dict[tuple[FilePart, FamilyPart], tuple[Path, Members]] = {}

    def reader(self, part: ApplicationPart) -> Reader:
        """Return what is applied."""
        path, network = self._network(part.network)
        if part.family is None:
            if part.member is not None:
                raise RejectedError("a member needs a family")
            parameters = {name: value[None] for name, value in network.parameters.items()}
            return Reader(path, network.graph, network.stack, parameters)
        place = part.network, part.family
        if place not in self._families:
            where = found_file(
                part.family.file, self._folder, self._given.families, "family", self._given.roots
            )
            family = read_members(part.family.file, where, part.family.members, network, path)
            self._families[place] = where, Members(network.graph, family)
        where, members = self._families[place]
        if part.member is None:
            parameters = {name: value[None] for name, value in network.parameters.items()}
            return Reader(path, network.graph, network.stack, parameters, where, members)
        if not 0 <= part.member < len(members):
            raise RejectedError(f"{where}: no member {part.member}")
        taken = members.family.take([part.member])
        return Reader(path, network.graph, members.member(part.member), taken, where)

    def _network(self, part: FilePart) -> tuple[Path, Network]:
        if part.kind != "network":
            raise CertificateError(f"the certificate lists a network as a {part.kind!r}")
        if part not in self._networks:
            path = found_file(
                part, self._folder, self._given.networks, "network", self._given.roots
            )
            self._networks[part] = path, load_network(path)
        return self._networks[part]


def read_members(part: FilePart, path: Path, count: int, network: Network, where: Path) -> Family:
    """Load a family, and check it against the network with its architecture."""
    if part.kind == "network":
        alone = load_network(path)
        if alone.architecture != network.architecture:
            raise RejectedError(f"{path}: its architecture differs from that of {where}")
        stacked = {k: np.asarray(v, np.float32)[None] for k, v in alone.parameters.items()}
        family = Family(stacked, np.zeros(1, np.int64), Manifest())
    else:
        family = load_family(path, network)
    if len(family) != count:
        raise RejectedError(
            f"{path}: has {len(family)} members, but the certificate is about {count}"
        )
    return family

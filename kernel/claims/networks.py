"""Claims over networks: their files, read for the kernel, and what they are about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from .. import points as rules
from ..boxes import Inputs, read_box, runs
from ..float32 import Program
from ..leaks import Leaks
from ..networks import Integers
from ..numbers import need
from ..onnx_file import Members, Network, Reader, TreeMembers
from ..refusal import Rejected, Unreadable
from ..tree_forms import TreePoints
from ..trees import Ensemble
from ..values import Ask
from .parts import (
    ApplicationPart,
    ClaimPart,
    FamilyPart,
    FilePart,
    QuestionPart,
)
from .places import Places


@dataclass(frozen=True, eq=False)
class Some:
    """Some members of a family."""

    members: Members
    chosen: Integers

    @property
    def removed(self) -> Integers:
        """The row that each member lacks."""
        return self.members.removed[self.chosen]

    @property
    def sample(self) -> Mapping[str, int] | None:
        """How the rows were drawn."""
        return self.members.sample

    @property
    def rows(self) -> int | None:
        """How many rows there are in all."""
        return self.members.rows

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, members: Integers, /) -> Program:
        """Return some of them."""
        return self.members.take(self.chosen[members])


class Shelf:
    """The networks and families of a certificate, each read once."""

    def __init__(self, places: Places, reader: Reader) -> None:
        self.places, self._reader = places, reader
        self._networks: dict[FilePart, tuple[Path, Network]] = {}
        self._trees: dict[FilePart, tuple[Path, Ensemble]] = {}
        self._tree_members: dict[FamilyPart, TreeMembers] = {}
        self._families: dict[tuple[FilePart, FilePart], tuple[Path, Members]] = {}

    def network(self, part: FilePart) -> tuple[Path, Network]:
        """Return where a network was found, and the network."""
        if part.kind != "network":
            raise Unreadable(f"the certificate lists a network as a {part.kind!r}")
        if part not in self._networks:
            path = self.places.find(part, "network")
            self._networks[part] = path, self._reader.network(path)
        return self._networks[part]

    def trees(self, part: FilePart) -> tuple[Path, Ensemble]:
        """Return where trees were found, and the trees."""
        if part not in self._trees:
            path = self.places.find(part, "network")
            self._trees[part] = path, self._reader.trees(path)
        return self._trees[part]

    def tree_member(self, part: FamilyPart, whole: FilePart, index: int | None) -> Ensemble:
        """Return a member of a family of trees."""
        if part.file.kind != "tree members":
            raise Unreadable(f"the certificate lists members of trees as a {part.file.kind!r}")
        if part not in self._tree_members:
            path = self.places.find(part.file, "family")
            self._tree_members[part] = self._reader.tree_members(path, self.trees(whole)[0])
        members = self._tree_members[part]
        count = len(members)
        need(count == part.members, f"{part.file.path}: has {count} members, not {part.members}")
        if index is None or not 0 <= index < len(members):
            raise Rejected(f"{part.file.path}: no member {index}")
        return members.member(index)

    def family(self, part: FilePart, network: FilePart, count: int) -> tuple[Path, Members]:
        """Return where a family was found, and its members."""
        key = part, network
        if key not in self._families:
            _, whole = self.network(network)
            path = self.places.find(part, "family")
            read = self._reader.alone if part.kind == "network" else self._reader.family
            self._families[key] = path, read(path, whole)
        path, members = self._families[key]
        need(
            len(members) == count,
            f"{path}: has {len(members)} members, but the certificate is about {count}",
        )
        return path, members


@dataclass(frozen=True, eq=False)
class Subject:
    """The files and inputs of claims about leaks."""

    network: Path  # as read
    network_sha256: str
    family: Path  # as read
    family_sha256: str
    members: int
    labels: int  # number of the network's labels
    inputs: Inputs

    def lines(self) -> Iterator[str]:
        """Yield a line per file and a line per range of inputs."""
        yield f"no confidence above upper is a leak, over all {self.members:,} members and every x"
        yield f"network {self.network} (SHA-256 {self.network_sha256})"
        yield f"family {self.family} (SHA-256 {self.family_sha256})"
        yield from self.inputs.lines()

    def claim_text(self, labels: Collection[int]) -> str:
        """Return in words which labels are claimed."""
        return label_text(labels, self.labels)


def label_text(labels: Collection[int], count: int) -> str:
    """Return in words which of a model's labels are claimed."""
    own = sorted(set(labels))
    others = [label for label in range(count) if label not in own]
    if not others:
        return f"claims all {count} labels"
    return (
        f"claims label{'s' * (len(own) > 1)} {runs(own)} of {count}; nothing is "
        f"claimed about label{'s' * (len(others) > 1)} {runs(others)}"
    )


@dataclass(frozen=True, eq=False)
class Question:
    """A network, members and a box."""

    network: Network
    members: Members
    subject: Subject
    removed: Integers  # shape (all,): of the whole family

    def leaks(self, ask: Ask) -> Leaks:
        """Bound what claims about all labels share."""
        return Leaks.of(self.network.program, self.members, self.subject.inputs, ask)


def facts_of(leaks: Leaks, label: int, *, short: bool) -> dict[str, int]:
    """Return what those who answer about a tree of leaks need to know."""
    return {
        "label": label,
        "labels": leaks.net.labels,
        "members": len(leaks.members),
        "hidden": leaks.net.hidden,
        "short": int(short),
    }


def read_question(part: QuestionPart, shelf: Shelf) -> Question:
    """Load a question's files from where the certificate or the caller says they are."""
    where, network = shelf.network(part.network)
    every = part.members + len(part.without)
    other, whole = shelf.family(part.family, part.network, every)
    members = _some(whole, part.without)
    subject = Subject(
        where,
        part.network.sha256,
        other,
        part.family.sha256,
        len(members),
        network.labels,
        read_box(part.box, network.inputs, str(where)),
    )
    return Question(network, members, subject, whole.removed)


def _some(members: Members, without: tuple[int, ...]) -> Members:
    """Return a family without some of its members."""
    if not without:
        return members
    fine = all(a < b for a, b in pairwise(without))
    fine = fine and without[0] >= 0 and without[-1] < len(members) > len(without)
    need(fine, "the members left out are not a proper subset of the family, in ascending order")
    return Some(members, np.delete(np.arange(len(members)), without))


@dataclass(frozen=True, eq=False)
class Applied:
    """A network, or any member of a family, that reads a point."""

    path: Path  # of the network
    network: Network
    family: Path | None = None  # the family that it is from
    members: Members | None = None  # if it may be any of these, or the one of these


@dataclass(frozen=True, eq=False)
class AppliedTrees:
    """A tree ensemble that reads a point."""

    path: Path
    ensemble: Ensemble
    family: Path | None = None


@dataclass(frozen=True, eq=False)
class Points:
    """A claim over points."""

    part: ClaimPart
    applied: tuple[Applied | AppliedTrees, ...]  # one per application
    inputs: tuple[Inputs, ...]  # one per point
    claim: rules.Points | TreePoints  # what is proved


def read_points(part: ClaimPart, shelf: Shelf) -> Points:
    """Load the files of a claim over networks."""
    need(not part.missing, "networks read no missing values")
    there = all(0 <= each.point < len(part.points) for each in part.applications)
    need(there, "a network is applied to a point that does not exist")
    applied = tuple(_apply(each, shelf) for each in part.applications)
    boxes = tuple(read_box(box, *_width(p, part, applied)) for p, box in enumerate(part.points))
    applications = tuple(
        _application(each, one, boxes[each.point])
        for one, each in zip(applied, part.applications, strict=True)
    )
    claim = rules.Points(applications, boxes, part.cases, part.upper, part.decides, part.reals)
    return Points(part, applied, boxes, claim)


def reads_trees(part: ClaimPart) -> bool:
    """Return whether a claim is about tree ensembles."""
    return any(each.network.kind == "trees" for each in part.applications)


def read_tree_points(part: ClaimPart, shelf: Shelf) -> Points:
    """Load the files of a claim about tree ensembles."""
    applied = []
    for each in part.applications:
        alone = each.network.kind == "trees" and (each.family is not None or each.member is None)
        need(alone, "a claim about trees and other models")
        path, ensemble = shelf.trees(each.network)
        if each.family is not None:
            ensemble = shelf.tree_member(each.family, each.network, each.member)
        where = None if each.family is None else shelf.places.find(each.family.file, "family")
        applied.append(AppliedTrees(path, ensemble, where))
        there = 0 <= each.point < len(part.points)
        need(there, "trees are applied to a point that does not exist")
    boxes = []
    for p, box in enumerate(part.points):
        own = [o for o, e in zip(applied, part.applications, strict=True) if e.point == p]
        alike = len({each.ensemble.features for each in own}) == 1
        need(alike, "a point that no trees read, or that trees read differently")
        boxes.append(read_box(box, own[0].ensemble.features, str(own[0].path), single=False))
    plain = not any(case.inside or case.sums or case.near for case in part.cases)
    need(plain and not part.reals, "a claim about trees with the layout of one about networks")
    reads = zip(applied, part.applications, strict=True)
    claim = TreePoints(
        tuple((one.ensemble, each.point) for one, each in reads), tuple(boxes), part.missing,
        part.cases, part.upper, part.decides,
    )  # fmt: skip
    return Points(part, tuple(applied), tuple(boxes), claim)


def _apply(part: ApplicationPart, shelf: Shelf) -> Applied:
    """Return what is applied to a point."""
    path, network = shelf.network(part.network)
    if part.family is None:
        need(part.member is None, "a member needs a family")
        return Applied(path, network)
    where, members = shelf.family(part.family.file, part.network, part.family.members)
    if part.member is None:
        return Applied(path, network, where, members)
    need(0 <= part.member < len(members), f"{where}: no member {part.member}")
    return Applied(path, network, where, Some(members, np.array([part.member])))


def _application(part: ApplicationPart, applied: Applied, box: Inputs) -> rules.Application:
    program, members = applied.network.program, applied.members
    if part.member is not None and members is not None:
        program, members = members.take(np.zeros(1, np.int64)), None
    return rules.Application(program, part.point, box, members)


def _width(point: int, part: ClaimPart, applied: tuple[Applied, ...]) -> tuple[int, str]:
    """Return a point's number of features, and the networks that read it."""
    own = [one for one, each in zip(applied, part.applications, strict=True) if each.point == point]
    same = len({one.network.inputs for one in own}) <= 1
    need(same, "networks with different inputs are applied to one point")
    need(len(own) > 0, "no network is applied to one of the points")
    return own[0].network.inputs, str(own[0].path)

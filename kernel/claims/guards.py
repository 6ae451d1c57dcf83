"""Whether a guard noises every leak; each bound is proved by a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..boxes import Inputs, read_box
from ..files import array_names, bytes_of, read_archive
from ..numbers import Floats, need
from ..onnx_file import Members, Network
from ..records import parse
from ..refusal import Rejected, Unreadable
from ..regular_files import open_regular
from ..values import Given, HeldFile, Topic
from .networks import Question, Some, Subject, facts_of
from .parts import BoxPart, ChoicesPart
from .places import SERVED


@dataclass(frozen=True)
class Share:
    """Members with the same bound for a label."""

    label: int
    bound: float
    members: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Access:
    """A served folder."""

    held: HeldFile  # the folder
    network: Network
    members: Members
    inputs: Inputs  # mode of the guard's answers
    upper: Floats  # shape (labels, members)

    def shares(self) -> Iterator[Share]:
        """Yield members by label and bound, so that each is in one share per label."""
        for label, upper in enumerate(self.upper):
            for bound in np.unique(upper)[::-1].tolist():
                members = np.flatnonzero(upper == bound).tolist()
                yield Share(label, bound, tuple(members))

    def question(self, share: Share) -> Question:
        """Return the question about the members of a share."""
        own = Some(self.members, np.array(share.members))
        folder, sha256 = self.held.path, self.held.sha256
        subject = Subject(
            folder / SERVED[0], sha256, folder / SERVED[1], sha256, len(own), self.network.labels,
            self.inputs,
        )  # fmt: skip
        return Question(self.network, own, subject, own.removed)


def access(given: Given) -> Access:
    """Read a folder."""
    held = given.file("path")
    bounds_file = held.path / SERVED[2]
    assert given.reader is not None
    network = given.reader.network(held.path / SERVED[0])
    members = given.reader.family(held.path / SERVED[1], network)
    arrays, count = _arrays(bounds_file)
    box = BoxPart(
        tuple(_floats(arrays, "lower", 1).tolist()),
        tuple(_floats(arrays, "upper", 1).tolist()),
        tuple(_choices(arrays, i) for i in range(count)),
    )
    inputs = read_box(box, network.inputs, str(held.path / SERVED[0]))
    upper = _floats(arrays, "member_upper", 2)
    fits = upper.shape == (network.labels, len(members))
    need(fits, f"{bounds_file}: its bounds do not match this network and family")
    fine = np.isfinite(upper) & (upper >= 0.0)
    need(fine, f"{bounds_file}: a bound is not a finite number of at least 0")
    return Access(held, network, members, inputs, upper)


def _arrays(path: Path) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the arrays of the file of bounds, and its number of listed sets of values."""
    try:
        with open_regular(path) as stream:
            names = array_names(stream)
            raw = read_archive(stream, only=["manifest"], strangers=True)["manifest"]
            count = parse(bytes_of(raw))["choices"]
            if type(count) is not int or not 0 <= count <= len(names):
                raise ValueError("more value lists than arrays")
            listed = [f"choices_{i}_{kind}" for i in range(count) for kind in ("columns", "values")]
            wanted = {"lower", "upper", "member_upper", *listed}.intersection(names)
            return read_archive(stream, only=wanted, strangers=True), count
    except (OSError, KeyError, TypeError, ValueError, MemoryError):
        raise Unreadable(f"{path}: not a readable bounds file of verify --bounds") from None


def _floats(arrays: dict[str, NDArray[Any]], name: str, rank: int) -> Floats:
    found = arrays.get(name)
    if found is None or found.dtype != np.float64 or found.ndim != rank:
        raise Rejected(
            f"the guard's bounds have no array {name!r}, or it has the wrong type or rank"
        )
    return found


def _choices(arrays: dict[str, NDArray[Any]], number: int) -> ChoicesPart:
    columns = arrays.get(f"choices_{number}_columns")
    values = _floats(arrays, f"choices_{number}_values", 2)
    if columns is None or columns.dtype.kind != "i" or columns.ndim != 1:
        raise Rejected("the guard's bounds list values without naming their features")
    return ChoicesPart(tuple(columns.tolist()), tuple(tuple(row) for row in values.tolist()))


def idp(given: Given) -> bool | None:
    """Return whether no leak of any label exceeds its member's bound.

    A label's members are grouped by their bounds, the highest first; each share has a tree,
    numbered in that order.
    """
    served = given.value_of_kind("access", Access, "guard's folder")
    need(given.number("epsilon") > 0, "epsilon is not above 0")
    if not given.proof:
        return None
    if given.exact:
        raise Unreadable("the leaks of a guard are proved in float64; leave out --exact")
    for number, share in enumerate(served.shares()):
        _prove(given, served, share, f"tree{number}")
    most = ", ".join(f"{value:.6g}" for value in served.upper.max(axis=1))
    given.tell(
        f"none of the {len(served.members):,} members has a leak above its bound in "
        f"{served.held.path / 'bounds.npz'}, for any label (highest bounds by label: {most})"
    )
    for line in served.inputs.lines():
        given.tell(f"for every answer to an input whose {line}")
    given.tell(
        "rests on: the guard adds noise, by the exponential mechanism, for every input that a "
        "member it evaluates answers differently, and evaluates every member whose bound is not "
        "below the confidence"
    )
    given.tell(
        "covers the removal of one row that has a member; epsilons of distinct noised inputs add up"
    )
    return True


def _prove(given: Given, served: Access, share: Share, name: str) -> None:
    """Walk the tree of one share."""
    try:
        leaks = served.question(share).leaks(given.answers(Topic("bounds")))
        begin = f"{name}."
        own = {k.removeprefix(begin): v for k, v in given.proof.items() if k.startswith(begin)}
        ask = given.answers(Topic("leak tree", name, own, facts_of(leaks, share.label, short=True)))
        leaks.check(share.label, share.bound, ask)
    except Rejected as error:
        raise Rejected(
            f"label {share.label}, the {len(share.members):,} members with bound "
            f"{share.bound:.6g}: {error}"
        ) from None

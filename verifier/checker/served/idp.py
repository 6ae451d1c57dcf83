"""Whether a guard noises every leak; each bound is proved by a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.boxes import Inputs, read_box
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Given, HeldFile
from leaveout.models import Family, Members, Network, load_family, load_network
from leaveout.models.archive import array_names, read_arrays
from leaveout.verifier.certify.tree_arrays import TreeArrays
from leaveout.verifier.certify.trees import TreeAnswers, leak_tree
from leaveout.verifier.checker.files import SERVED, BoxPart, ChoicesPart
from leaveout.verifier.checker.question import Question, Subject


class _Manifest(msgspec.Struct, frozen=True):
    """Manifest of the file of bounds; the folder itself has the network and family."""

    choices: int


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
    family: Family
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
        chosen = list(share.members)
        own = Family(self.family.take(chosen), self.family.removed[chosen], self.family.manifest)
        folder, sha256 = self.held.path, self.held.sha256
        subject = Subject(
            folder / SERVED[0], sha256, folder / SERVED[1], sha256, len(own), self.network.labels,
            self.inputs,
        )  # fmt: skip
        members = Members(self.network.graph, own)
        return Question(self.network, own, members, subject, own.removed)


def access(given: Given) -> Access:
    """Read a folder."""
    held = given.file("path")
    network_file, family_file, bounds_file = (held.path / name for name in SERVED)
    network = load_network(network_file)
    family = load_family(family_file, network)
    arrays, count = _arrays(bounds_file)
    box = BoxPart(
        tuple(_floats(arrays, "lower", 1).tolist()),
        tuple(_floats(arrays, "upper", 1).tolist()),
        tuple(_choices(arrays, i) for i in range(count)),
    )
    inputs = read_box(box, network.inputs, network.source)
    upper = _floats(arrays, "member_upper", 2)
    if upper.shape != (network.labels, len(family)):
        raise RejectedError(f"{bounds_file}: its bounds do not match this network and family")
    if not (np.isfinite(upper) & (upper >= 0.0)).all():
        raise RejectedError(f"{bounds_file}: a bound is not a finite number of at least 0")
    return Access(held, network, family, inputs, upper)


def _arrays(path: Path) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the arrays of the file of bounds, and its number of listed sets of values."""
    try:
        found = read_arrays(path, only=["manifest"], strangers=True)
        manifest = msgspec.json.decode(found["manifest"].tobytes(), type=_Manifest)
        if manifest.choices > len(names := array_names(path)):
            raise ValueError("more value lists than arrays")
        listed = [
            f"choices_{i}_{kind}" for i in range(manifest.choices) for kind in ("columns", "values")
        ]
        wanted = {"lower", "upper", "member_upper", *listed}.intersection(names)
        arrays = read_arrays(path, only=wanted, strangers=True)
    except (OSError, KeyError, ValueError, msgspec.MsgspecError):
        raise CertificateError(f"{path}: not a readable bounds file of verify --bounds") from None
    return arrays, manifest.choices


def _floats(arrays: dict[str, NDArray[Any]], name: str, rank: int) -> Floats:
    found = arrays.get(name)
    if found is None or found.dtype != np.float64 or found.ndim != rank:
        raise RejectedError(
            f"the guard's bounds have no array {name!r}, or it has the wrong type or rank"
        )
    return found


def _choices(arrays: dict[str, NDArray[Any]], number: int) -> ChoicesPart:
    columns = arrays.get(f"choices_{number}_columns")
    values = _floats(arrays, f"choices_{number}_values", 2)
    if columns is None or columns.dtype.kind != "i" or columns.ndim != 1:
        raise RejectedError("the guard's bounds list values without naming their features")
    return ChoicesPart(tuple(columns.tolist()), tuple(tuple(row) for row in values.tolist()))


def idp(given: Given) -> bool | None:
    """Return whether no leak of any label exceeds its member's bound.

    A label's members are grouped by their bounds, the highest first; each share has a tree,
    numbered in that order.
    """
    served = given.values.get("access")
    if not isinstance(served, Access):
        raise RejectedError("'access' is not a guard's folder")
    if not given.number("epsilon") > 0:
        raise RejectedError("epsilon is not above 0")
    if not given.proof:
        return None
    if given.exact:
        raise CertificateError("the leaks of a guard are proved in float64; leave out --exact")
    arrays = TreeArrays(dict(given.proof), served.held.path, short=True)
    for number, share in enumerate(served.shares()):
        _prove(given, served, share, arrays, f"tree{number}")
    most = ", ".join(f"{value:.6g}" for value in served.upper.max(axis=1))
    given.tell(
        f"none of the {len(served.family):,} members has a leak above its bound in "
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


def _prove(given: Given, served: Access, share: Share, arrays: TreeArrays, name: str) -> None:
    """Walk the tree of one share."""
    try:
        leaks = served.question(share).leaks()
        part = leak_tree(arrays.tree(name, leaks=True), share.label, leaks.net.labels)
        ask = TreeAnswers(part, len(share.members), leaks.net.hidden)
        leaks.check(share.label, share.bound, ask)
    except Rejected as error:
        raise RejectedError(
            f"label {share.label}, the {len(share.members):,} members with bound "
            f"{share.bound:.6g}: {error}"
        ) from None

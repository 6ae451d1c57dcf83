"""Search results of a claim over points, for a certificate."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.bab.native.claims import Claims
from leaveout.bab.native.files.proved_points import ProvedPoints, Source, prove_points
from leaveout.bab.native.files.records import Record


@dataclass(frozen=True, eq=False)
class Solved:
    """A searched question."""

    claims: Claims
    sources: tuple[Source, ...]  # of each application
    upper: float  # no counter-example has a larger least goal
    records: list[Record]  # all nodes that were bounded


class Unproved(Exception):  # noqa: N818
    """A claim that cannot be in a certificate; the message says why, after its name."""


def proved_points(name: str, solved: Solved, *, decides: bool) -> ProvedPoints:
    """Return a claim over points as stated in a certificate."""
    for source in solved.sources:
        if not source.network.is_file() or source.network.suffix == ".gz":
            raise Unproved(f"{source.network} is no ONNX file by itself")
    chosen = dict.fromkeys(
        (source.family.path, source.member)
        for source in solved.sources
        if source.family is not None and source.member is not None
    )
    if chosen:
        name += f", member {' and '.join(str(member) for _, member in chosen)}"
    found = prove_points(
        name, solved.upper, solved.claims, solved.records, solved.sources, decides=decides
    )
    if found is None and decides and solved.upper < 0.0:
        raise Unproved(
            "it holds with so little room that part of it was settled without any, which a "
            "certificate does not hold"
        )
    if found is None:
        raise Unproved("its search did not get far enough; let the run take longer")
    return found

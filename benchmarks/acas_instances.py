"""The instances of ACAS Xu: what was published of each, and which are asked for."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import LeaveoutError

__all__ = ["PUBLISHED", "Instance", "InstancesError", "chosen", "network_file", "read_instances"]

PUBLISHED = "published.csv"
"""Its columns: property, network, verdict, and seconds of tools, empty where not solved."""

_COLUMNS = ("property", "network", "verdict", "nnenum_s")


class InstancesError(LeaveoutError):
    """The folder or a choice cannot be used."""


@dataclass(frozen=True)
class Instance:
    """One property of one network.

    Attributes
    ----------
    prop : str
        The property, as in ``3``.
    network : str
        As in ``1_9``.
    verdict : str
        Published: sat or unsat.
    published : float or None
        Seconds nnenum took, start of the program included, on another machine; None where it did
        not solve it.
    onnx, vnnlib : Path
    """

    prop: str
    network: str
    verdict: str
    published: float | None
    onnx: Path
    vnnlib: Path

    @property
    def name(self) -> str:
        """As in ``--only``."""
        return f"{self.prop}/{self.network}"


def network_file(data: Path, network: str) -> Path:
    """Return where a network lies.

    Raises
    ------
    InstancesError
        If it is not there.
    """
    path = data / f"ACASXU_run2a_{network}_batch_2000.onnx"
    if not path.is_file():
        raise InstancesError(f"{path} is not there; name the folder that holds it with --data")
    return path


def read_instances(data: Path) -> list[Instance]:
    """Read what the published table lists, in its order.

    Raises
    ------
    InstancesError
        If the table, a network or a property is missing, or a line cannot be read.
    """
    table = data / PUBLISHED
    try:
        lines = list(csv.DictReader(table.read_text().splitlines()))
    except OSError as error:
        reason = error.strerror or error
        raise InstancesError(f"{table}: {reason}; name its folder with --data") from None
    found = []
    for number, line in enumerate(lines, 2):
        if any(line.get(name) is None for name in _COLUMNS):
            raise InstancesError(f"{table}:{number}: wants {', '.join(_COLUMNS)}")
        vnnlib = data / f"prop_{line['property']}.vnnlib"
        if not vnnlib.is_file():
            raise InstancesError(f"{vnnlib} is not there; {table}:{number} lists it")
        try:
            seconds = float(line["nnenum_s"]) if line["nnenum_s"] else None
        except ValueError:
            raise InstancesError(f"{table}:{number}: {line['nnenum_s']!r} is no number") from None
        onnx = network_file(data, line["network"])
        found.append(
            Instance(line["property"], line["network"], line["verdict"], seconds, onnx, vnnlib)
        )
    return found


def chosen(instances: list[Instance], only: str | None, networks: str | None) -> list[Instance]:
    """Return those that ``--only`` and ``--networks`` name, in the order of the table.

    Parameters
    ----------
    instances : list of Instance
    only : str or None
        Properties and instances, as in ``3,4/1_9``.
    networks : str or None
        As in ``1_1,2_3``.

    Raises
    ------
    InstancesError
        If a name is unknown.
    """
    wanted = None if only is None else {name.strip() for name in only.split(",")}
    kept = None if networks is None else {name.strip() for name in networks.split(",")}
    for option, names, known in (
        ("--only", wanted, {i.name for i in instances} | {i.prop for i in instances}),
        ("--networks", kept, {i.network for i in instances}),
    ):
        unknown = sorted((names or set()) - known)
        if unknown:
            raise InstancesError(f"{option}: the published table has no {unknown[0]!r}")
    return [
        each
        for each in instances
        if (wanted is None or each.name in wanted or each.prop in wanted)
        and (kept is None or each.network in kept)
    ]

"""A question as it travels to another process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx

from leaveout.bab.instance import Instance
from leaveout.bab.native.digests import family_digest
from leaveout.encoders import Box, PairBounds
from leaveout.errors import FamilyError
from leaveout.models import Family, Members, load_family_file
from leaveout.models.onnx_file import network_from

if TYPE_CHECKING:
    from leaveout.bab.native.leaks import Leaks

__all__ = ["LeakParcel", "wrap"]

_BY_PATH = 2**25
"""Bytes from which on a family travels as the name of its file."""


@dataclass(frozen=True, eq=False)
class LeakParcel:
    """Leaks of one label, without what is large or can be had again.

    Attributes
    ----------
    model : bytes
        The network.
    source : str
        Of the network.
    family : Family or None
    path, digest : str
        Where the family is read from where it is not here, and what it must then be.
    box : Box
    pair : PairBounds
    network_error, member_error : float
    label : int
    """

    model: bytes
    source: str
    family: Family | None
    path: str
    digest: str
    box: Box
    pair: PairBounds
    network_error: float
    member_error: float
    label: int

    def open(self) -> Leaks:
        """Return the question.

        Raises
        ------
        FamilyError
            If the family's file cannot be read, or is not what it was.
        """
        network = network_from(onnx.load_model_from_string(self.model), self.source)
        family = self.family
        if family is None:
            family = load_family_file(self.path)
            if family_digest(family) != self.digest:
                raise FamilyError(f"{self.path}: the file was changed while it was in use")
        from leaveout.bab.native.leaks import Leaks

        members = Members(network.graph, family)
        instance = Instance(
            network,
            family,
            members,
            self.box,
            self.pair,
            self.network_error,
            self.member_error,
        )
        return Leaks(instance, self.label)


def wrap(instance: Instance, label: int) -> LeakParcel:
    """Return the parcel of an instance; a large family that lies in a file stays there."""
    family = instance.family
    size = sum(stack.nbytes for stack in family.parameters.values())
    by_path = bool(family.source) and size >= _BY_PATH
    return LeakParcel(
        instance.network.model.SerializeToString(),
        instance.network.source,
        None if by_path else replace(family, parameters=dict(family.parameters)),
        family.source if by_path else "",
        family_digest(family) if by_path else "",
        instance.box,
        instance.pair,
        instance.network_error,
        instance.member_error,
        label,
    )

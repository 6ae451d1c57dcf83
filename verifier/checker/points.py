"""Claims over points: their files, read again for the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.errors import RejectedError
from leaveout.kernel import points as kernel
from leaveout.kernel.boxes import Inputs, read_box
from leaveout.models.lowering import program_of
from leaveout.verifier.checker.manifest import CasePart, ClaimPart, FormPart
from leaveout.verifier.checker.readers import Programs, Reader, Shelf


@dataclass(frozen=True, eq=False)
class Points:
    """A claim over points."""

    part: ClaimPart
    readers: tuple[Reader, ...]  # one per application
    inputs: tuple[Inputs, ...]  # one per point
    claim: kernel.Points  # what is proved


def read_points(part: ClaimPart, shelf: Shelf) -> Points:
    """Load the files of a claim."""
    for each in part.applications:
        if not 0 <= each.point < len(part.points):
            raise RejectedError("a network is applied to a point that does not exist")
    readers = tuple(shelf.reader(each) for each in part.applications)
    boxes = tuple(read_box(box, *_width(p, part, readers)) for p, box in enumerate(part.points))
    applications = tuple(
        kernel.Application(
            program_of(reader.graph, reader.parameters),
            each.point,
            boxes[each.point],
            None if reader.members is None else Programs(reader.graph, reader.members.family),
        )
        for reader, each in zip(readers, part.applications, strict=True)
    )
    cases = tuple(_case(case) for case in part.cases)
    claim = kernel.Points(applications, boxes, cases, part.upper, part.decides, part.reals)
    return Points(part, readers, boxes, claim)


def _case(part: CasePart) -> kernel.Case:
    goals, conditions = (tuple(map(_form, forms)) for forms in (part.goals, part.conditions))
    return kernel.Case(goals, conditions, part.inside, part.sums, part.near, part.origin)


def _form(part: FormPart) -> kernel.Form:
    return kernel.Form(part.features, part.scores, part.constant)


def _width(point: int, part: ClaimPart, readers: tuple[Reader, ...]) -> tuple[int, str]:
    """Return a point's number of features, and the networks that read it."""
    own = [
        reader
        for reader, each in zip(readers, part.applications, strict=True)
        if each.point == point
    ]
    if len({reader.stack.inputs for reader in own}) > 1:
        raise RejectedError("networks with different inputs are applied to one point")
    if not own:
        raise RejectedError("no network is applied to one of the points")
    return own[0].stack.inputs, str(own[0].path)

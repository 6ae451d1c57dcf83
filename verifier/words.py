"""Witnesses and boxes in sentences, with the names the training data gave."""

from __future__ import annotations

import numpy as np

from leaveout.bab import Instance, Witness
from leaveout.encoders import Box
from leaveout.models import DataFacts
from leaveout.models.train.encoding import decode_row, encoding_of
from leaveout.verifier.report import BoxRecord, ChoicesRecord, WitnessRecord

__all__ = ["box_record", "outside_box", "record"]

_SHOWN = 12


def box_record(box: Box) -> BoxRecord:
    """Return a set of inputs as the report keeps it."""
    choices = tuple(
        ChoicesRecord(
            columns=tuple(each.columns.tolist()), values=tuple(map(tuple, each.values.tolist()))
        )
        for each in box.choices
    )
    return BoxRecord(
        lower=tuple(box.lower.tolist()), upper=tuple(box.upper.tolist()), choices=choices
    )


def record(instance: Instance, witness: Witness, pair: bool) -> WitnessRecord:
    """Return a witness as the report keeps it; ``pair`` if the member is another network."""
    answer = int(np.argmax(witness.member_scores))
    return WitnessRecord(
        x=tuple(float(v) for v in witness.x),
        member=witness.member,
        removed=witness.removed,
        confidence=witness.confidence,
        scores=tuple(float(v) for v in witness.scores),
        member_scores=tuple(float(v) for v in witness.member_scores),
        label=witness.label,
        member_label=answer,
        words=_sentence(instance, witness, answer, pair),
    )


def _sentence(instance: Instance, witness: Witness, answer: int, pair: bool) -> str:
    facts = instance.family.manifest.data
    own, other = _label(facts, witness.label), _label(facts, answer)
    without = "in the other network" if pair else f"without row {witness.removed}"
    if answer == witness.label:
        change = f"is a tie, no longer {own}"
    else:
        change = f"flips from {own} to {other}"
    return (
        f"{without} the answer at x {change}, confidence {witness.confidence:.4g}, "
        f"where x is {_point(instance, witness)}"
    )


def _point(instance: Instance, witness: Witness) -> str:
    """Show x in the data's own units where they are known, by number otherwise."""
    manifest = instance.family.manifest
    encoding = encoding_of(manifest)
    facts = manifest.data
    if encoding is not None:
        cells = decode_row(encoding, witness.x)
        parts = [
            f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in cells.items()
        ]
    elif facts is not None and len(facts.features) == len(witness.x):
        parts = [f"{n} = {v:.4g}" for n, v in zip(facts.features, witness.x, strict=True)]
    else:
        parts = [f"{v:.4g}" for v in witness.x]
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return f"({', '.join(parts[:_SHOWN])}{more})"


def _label(facts: DataFacts | None, label: int) -> str:
    if facts is not None and label < len(facts.labels) and facts.labels[label] != str(label):
        return f"{facts.labels[label]!r}"
    return f"label {label}"


def outside_box(instance: Instance) -> str | None:
    """Say that training data lies outside the input set, or that this is not known.

    None where it does not, and where nothing is known of the data. A family keeps only the least
    and greatest value of each feature; where values are listed, those two must be among them, and
    no more can be told.
    """
    facts = instance.family.manifest.data
    if facts is None or len(facts.minimum) != instance.box.dimension:
        return None
    box = instance.box

    def named(i: int) -> str:
        return f"feature {i} ({facts.features[i]})" if i < len(facts.features) else f"feature {i}"

    for each in box.choices:
        for i, known in zip(each.columns.tolist(), each.values.T, strict=True):
            for value in (facts.minimum[i], facts.maximum[i]):
                if value not in known:
                    near = known[np.argmin(np.abs(known - value))]
                    return (
                        f"training data lies outside the input set: {named(i)} takes the value "
                        f"{value:.9g}, which is not listed (the nearest is {near:.9g}); nothing "
                        "is claimed about other values than those listed"
                    )
    for i, (low, high) in enumerate(zip(facts.minimum, facts.maximum, strict=True)):
        if low < box.lower[i] or high > box.upper[i]:
            return (
                f"training data lies outside the box: {named(i)} spans "
                f"[{low:g}, {high:g}], the box [{box.lower[i]:g}, {box.upper[i]:g}]; nothing is "
                "claimed about inputs outside it"
            )
    if box.choices:
        return (
            "whether all training data takes listed values is not known: a family keeps only the "
            "range of each feature"
        )
    return None

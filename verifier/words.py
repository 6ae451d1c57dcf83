"""Witnesses and boxes in sentences, with the names the training data gave."""

from __future__ import annotations

import numpy as np

from leaveout.bab import Instance, Witness
from leaveout.models import DataFacts
from leaveout.models.train.encoding import decode_row, encoding_of
from leaveout.verifier.report import WitnessRecord

__all__ = ["outside_box", "record"]

_SHOWN = 12


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
    """Say that training data lies outside the box, or None if it does not, or is not known."""
    facts = instance.family.manifest.data
    if facts is None or len(facts.minimum) != instance.box.dimension:
        return None
    box = instance.box
    for i, (low, high) in enumerate(zip(facts.minimum, facts.maximum, strict=True)):
        if low < box.lower[i] or high > box.upper[i]:
            name = f" ({facts.features[i]})" if i < len(facts.features) else ""
            return (
                f"training data lies outside the box: feature {i}{name} spans "
                f"[{low:g}, {high:g}], the box [{box.lower[i]:g}, {box.upper[i]:g}]; nothing is "
                "claimed about inputs outside it"
            )
    return None

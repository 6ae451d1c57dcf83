"""Names of a forest's witnesses, labels and rows, as given by its table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests import ForestWitness
from leaveout.encoders import Box
from leaveout.models.forest.columns import COLUMNS, ForestColumns, load_columns
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.train.decoding import cell_text, decode_row
from leaveout.models.train.encoding import CategoryColumn
from leaveout.verifier.points.names import label_phrase, row_name
from leaveout.verifier.records import CellRecord, WitnessRecord

Floats = NDArray[np.float64]

_SHOWN = 12


@dataclass(frozen=True, eq=False)
class ForestNames:
    """Names of labels, rows and columns."""

    labels: tuple[str, ...]  # the labels themselves, in words
    columns: ForestColumns | None

    @staticmethod
    def of(path: Path, forest: ScoredForest, features: int) -> ForestNames:
        """Return the names in the file of a forest with ``features`` features."""
        beside = path.with_name(COLUMNS)
        columns = load_columns(beside, features) if beside.exists() else None
        return ForestNames(tuple(map(str, forest.classes.tolist())), columns)

    @property
    def every_label(self) -> str:
        """All labels with their numbers."""
        return ", ".join(f"{at} is {name!r}" for at, name in enumerate(self.labels))

    def label_name(self, label: int) -> str:
        """Return the name of a label; empty if it only has a number."""
        return "" if self.labels[label] == str(label) else self.labels[label]

    def row_id(self, row: int) -> str:
        """Return a row's name in the table; empty if it has none."""
        return "" if self.columns is None else self.columns.ids.get(row, "")

    def cells(self, x: Floats) -> tuple[CellRecord, ...]:
        """Return an input by table columns; empty if there are none."""
        known = self.columns
        if known is None or known.encoding is None or len(known.features) != len(x):
            return ()
        values = decode_row(known.encoding, x)
        cells, first = [], 0
        for column in known.encoding.columns:
            at = tuple(range(first, first + len(column.features)))
            first += len(at)
            value = values[column.name]
            if isinstance(column, CategoryColumn):
                possible = sorted(x[list(at)].tolist()) == [0.0] * (len(at) - 1) + [1.0]
            else:
                possible = not column.whole or float(value).is_integer()
            unit = known.units.get(column.name, "")
            cells.append(
                CellRecord(name=column.name, at=at, value=value, nearest=not possible, unit=unit)
            )
        return tuple(cells)

    def point(self, x: Floats) -> str:
        """Return an input in words, by columns or else feature numbers."""
        cells = self.cells(x)
        parts = [
            f"{cell.name} = {cell_text('' if cell.value is None else cell.value)}"
            f"{f' {cell.unit}' if cell.unit else ''}"
            for cell in cells
        ]
        parts = parts or [cell_text(value) for value in x.tolist()]
        more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
        shown = f"({', '.join(parts[:_SHOWN])}{more})"
        wrong = ", ".join(cell.name for cell in cells if cell.nearest)
        return f"nearest to {shown} but no possible record in {wrong}" if wrong else shown


def witness_record(
    names: ForestNames, witness: ForestWitness, whole: ScoredForest, other: ScoredForest | None
) -> WitnessRecord:
    """Return a witness as stored in the report."""
    pair, known = other is not None, whole.classes.tolist()
    theirs = known if other is None else other.classes.tolist()
    every = known + [label for label in theirs if label not in known]
    names = replace(names, labels=tuple(map(str, every)))
    place = [every.index(label) for label in theirs]
    scores, member_scores = np.zeros(len(every)), np.zeros(len(every))
    scores[: len(known)], member_scores[place] = witness.scores, witness.member_scores
    answer = place[int(np.argmax(witness.member_scores))]
    told = [label_phrase(each, names.label_name(each)) for each in (witness.label, answer)]
    row = names.row_id(witness.removed)
    without = "in the other forest" if pair else f"without {row_name(witness.removed, row)}"
    return WitnessRecord(
        x=tuple(witness.x.tolist()),
        member=witness.member,
        removed=witness.removed,
        confidence=witness.confidence,
        scores=tuple(scores.tolist()),
        member_scores=tuple(member_scores.tolist()),
        label=witness.label,
        member_label=answer,
        words=f"{without} the answer at x flips from {told[0]} to {told[1]}, confidence "
        f"{witness.confidence:.4g}, where x is {names.point(witness.x)}",
        cells=names.cells(witness.x),
        other=pair,
        removed_id="" if pair else row,
        label_names=names.labels if any(map(names.label_name, range(len(names.labels)))) else (),
        model="forest",
    )


def outside_inputs(rows: Floats, box: Box) -> list[str]:
    """Return a note on a forest's rows outside the input set."""
    left = int(np.count_nonzero(~box.contains(rows)))
    if not left:
        return []
    return [
        f"{left:,} of the forest's {len(rows):,} rows lie outside the set of inputs; nothing is "
        "claimed of them"
    ]

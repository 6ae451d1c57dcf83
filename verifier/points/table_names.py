"""Names of labels, rows and columns, and leaks told with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab import Witness
from leaveout.models.forest.columns import COLUMNS, ForestColumns, load_columns
from leaveout.models.forest.plain import Ensemble
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.train.encoding import CategoryColumn, cell_text, decode_row
from leaveout.verifier.points.sentences import SHOWN, join_some, label_phrase, row_name
from leaveout.verifier.records import CellRecord, WitnessRecord


@dataclass(frozen=True, eq=False)
class TableNames:
    """Names of labels, rows and columns."""

    labels: tuple[str, ...]  # the labels themselves, in words
    columns: ForestColumns | None
    group: str = ""  # the column whose equal cells name rows that leave together
    groups: Mapping[int, str] = field(default_factory=dict)  # by the first row of each

    @staticmethod
    def of(labels: tuple[str, ...], columns: ForestColumns | None, rows: Any = None) -> TableNames:
        """Return the names of a model; its rows may have groups."""
        if rows is None or rows.groups is None:
            return TableNames(labels, columns)
        first = np.searchsorted(rows.names, rows.unit_names)
        groups = dict(zip(rows.unit_names.tolist(), rows.groups.cells[first].tolist(), strict=True))
        return TableNames(labels, columns, rows.groups.column, groups)

    @property
    def every_label(self) -> str:
        """All labels with their numbers."""
        return ", ".join(f"{at} is {name!r}" for at, name in enumerate(self.labels))

    def label_name(self, label: int) -> str:
        """Return the name of a label; empty if it only has a number."""
        return "" if self.labels[label] == str(label) else self.labels[label]

    def row_id(self, row: int) -> str:
        """Return a row's name in the table; empty if it has none."""
        ids = self.groups if self.group or self.columns is None else self.columns.ids
        return ids.get(row, "")

    def cells(self, x: Floats) -> tuple[CellRecord, ...]:
        """Return an input by table columns; empty if there are none."""
        known = self.columns
        if known is None or known.encoding is None or len(known.features) != len(x):
            return ()
        values = decode_row(known.encoding, x)
        cells = []
        for column, places in known.encoding.layout:
            at = tuple(range(places.start, places.stop))
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
        shown = f"({join_some(parts, SHOWN)})"
        wrong = ", ".join(cell.name for cell in cells if cell.nearest)
        return f"nearest to {shown}, but not a possible record in {wrong}" if wrong else shown

    def leak(
        self,
        witness: Witness,
        scores: Floats,
        member_scores: Floats,
        answer: int,
        model: Literal["forest", "linear"],
        pair: bool = False,
    ) -> WitnessRecord:
        """Return a witness as stored in the report, with scores in the order of the labels."""
        told = [label_phrase(each, self.label_name(each)) for each in (witness.label, answer)]
        row = self.row_id(witness.removed)
        without = (
            f"in the other {model}"
            if pair
            else f"without {row_name(witness.removed, row, self.group)}"
        )
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
            f"{witness.confidence:.4g}, where x is {self.point(witness.x)}",
            cells=self.cells(witness.x),
            other=pair,
            removed_id="" if pair else row,
            group="" if pair else self.group,
            label_names=self.labels if any(map(self.label_name, range(len(self.labels)))) else (),
            model=model,
        )


def forest_names(
    path: Path, forest: ScoredForest, features: int, rows: Ensemble | None = None
) -> TableNames:
    """Return the names in the file of a forest with ``features`` features."""
    beside = path.with_name(COLUMNS)
    columns = load_columns(beside, features) if beside.exists() else None
    return TableNames.of(tuple(map(str, forest.classes.tolist())), columns, rows)

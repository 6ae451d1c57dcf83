"""``leaveout partition``: ballots of members trained on one part of the rows each."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Any

import typer

from leaveout.partition_options import OPTIONS, Option
from leaveout.verifier.cli.options import GROUP, LABEL, CsvOptions
from leaveout.verifier.cli.parameters import (
    Options,
    argument,
    declare_parameters,
    flat_parameters,
    option,
    take_record,
)
from leaveout.verifier.cli.progress import counter_bar, interruptible


@dataclass(frozen=True, kw_only=True)
class _Rows(Options):
    """The rows to split."""

    data: Path = argument(
        "A CSV with a header line, or an NPZ with X_train, y_train, X_test, y_test. Each part "
        "encodes its own rows of a CSV: numbers are scaled into [0, 1], words one-hot encoded "
        "(see --encoding); an NPZ is used unchanged.",
        metavar="CSV|NPZ",
    )
    label: str | None = LABEL
    csv: CsvOptions
    group: str = GROUP


_FOLDER = option(
    "Folder for ballots.npz, parts.csv, poisoning.spec and, with --onnx, models/.",
    "-o",
    "--output",
    default=...,
    metavar="DIR",
    rich_help_panel="Output",
)


def partition(**given: Any) -> None:
    """Split training rows into parts, train a member on each, and write the members' votes.

    A poisoned row reaches only the members of its part, so a clear majority survives many of them;
    leaveout verify DIR/poisoning.spec says how many. The order of the rows and the number of
    workers and threads do not affect the ballots.
    """
    with interruptible():
        from leaveout.models.votes import partition as run
        from leaveout.models.votes.recipe import recipe_of

        rows, output = take_record(_Rows, given), given.pop("output")
        labels, undefended = given.pop("labels"), given.pop("undefended")
        passed = ("test", "test_share", "encoding", "workers", "onnx", "bad_rows")
        chosen = {name: given.pop(name) for name in passed}
        recipe = recipe_of(given)
        unit = "models, the last on all rows" if undefended else "members"
        with counter_bar("training", unit) as on_progress:
            report = run(
                rows.data,
                output,
                label=rows.label,
                reading=rows.csv.to_reading(group=rows.group),
                labels=None if labels is None else labels.split(","),
                recipe=recipe,
                undefended=undefended,
                on_progress=on_progress,
                **chosen,
            )
        from leaveout.verifier.cli.partition_table import partition_table

        text = partition_table(report)
    typer.echo(text)


def _among_rows(each: Parameter) -> Parameter:
    """Return an option of several commands in the group that it has in this one."""
    declared = copy(each.default)
    declared.rich_help_panel = "Rows"
    return each.replace(default=declared)


def _parameter(each: Option) -> Parameter:
    declared = option(
        each.help,
        each.flags,
        default=each.default,
        metavar=each.metavar,
        shown=each.shown,
        rich_help_panel=each.group,
    )
    return Parameter(each.name, Parameter.KEYWORD_ONLY, default=declared, annotation=each.kind)


_data, *_others = flat_parameters(_Rows)
_folder = Parameter("output", Parameter.KEYWORD_ONLY, default=_FOLDER, annotation=Path)
declare_parameters(
    partition, [_data, *map(_among_rows, _others), *map(_parameter, OPTIONS), _folder]
)

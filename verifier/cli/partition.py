"""``leaveout partition``: ballots of members trained on one part of the rows each."""

from __future__ import annotations

import inspect
from copy import copy
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from leaveout.partition_options import OPTIONS, Option
from leaveout.verifier.cli.options import (
    Charset,
    Decimal,
    Drop,
    Group,
    LabelColumn,
    Separator,
    read_reading,
)
from leaveout.verifier.cli.progress import counter_bar, interruptible

_DATA = Annotated[
    Path,
    typer.Argument(
        metavar="CSV|NPZ",
        help="A CSV with a header line, or an NPZ with X_train, y_train, X_test, y_test. "
        "Each part encodes its own rows of a CSV: numbers are scaled into [0, 1], "
        "words one-hot encoded (see --encoding); an NPZ is used unchanged.",
        show_default=False,
    ),
]
_FOLDER = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Folder for ballots.npz, parts.csv, poisoning.spec and, with --onnx, models/.",
        show_default=False,
        rich_help_panel="Output",
    ),
]
_READING: dict[str, tuple[Any, Any]] = {
    "label": (LabelColumn, None),
    "sep": (Separator, ""),
    "decimal": (Decimal, "."),
    "charset": (Charset, ""),
    "drop": (Drop, None),
    "group": (Group, ""),
}


def partition(**given: Any) -> None:
    """Split training rows into parts, train a member on each, and write the members' votes.

    A poisoned row reaches only the members of its part, so a clear majority survives many of them;
    leaveout verify DIR/poisoning.spec says how many. The order of the rows and the number of
    workers and threads do not affect the ballots.
    """
    with interruptible():
        from leaveout.models.votes import partition as run
        from leaveout.models.votes.recipe import recipe_of

        sep, decimal, charset, drop, group = (given.pop(name) for name in list(_READING)[1:])
        labels, undefended = given.pop("labels"), given.pop("undefended")
        passed = ("label", "test", "test_share", "encoding", "workers", "onnx", "bad_rows")
        chosen = {name: given.pop(name) for name in passed}
        data, output = given.pop("data"), given.pop("output")
        recipe = recipe_of(given)
        unit = "models, the last on all rows" if undefended else "members"
        with counter_bar("training", unit) as on_progress:
            report = run(
                data,
                output,
                reading=read_reading(sep, decimal, charset, drop, None, group),
                labels=None if labels is None else labels.split(","),
                recipe=recipe,
                undefended=undefended,
                on_progress=on_progress,
                **chosen,
            )
        from leaveout.verifier.cli.partition_table import partition_table

        text = partition_table(report)
    typer.echo(text)


def _declaration(option: Option) -> Any:
    return Annotated[
        option.kind,
        typer.Option(
            option.flags,
            metavar=option.metavar,
            help=option.help,
            show_default=option.shown,
            rich_help_panel=option.group,
        ),
    ]


def _among_rows(declared: Any) -> Any:
    """Return an option of several commands for the group that it has in this one."""
    kind, option = get_args(declared)
    option = copy(option)
    option.rich_help_panel = "Rows"
    return Annotated[kind, option]


def _parameters() -> list[inspect.Parameter]:
    def parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> Any:
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, keyword, default=default, annotation=kind)

    return [
        parameter("data", _DATA),
        *(parameter(name, _among_rows(kind), value) for name, (kind, value) in _READING.items()),
        *(parameter(each.name, _declaration(each), each.default) for each in OPTIONS),
        parameter("output", _FOLDER),
    ]


partition.__signature__ = inspect.Signature(_parameters())  # type: ignore[attr-defined]
partition.__annotations__ = {each.name: each.annotation for each in _parameters()}

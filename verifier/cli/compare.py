"""``leaveout compare``: whether an exported model is the model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from leaveout.verifier.cli.options import Charset, Decimal, Drop, Separator


class _Inputs(StrEnum):
    FLOAT32 = "float32"
    FLOAT64 = "float64"


def compare(
    one: Annotated[
        Path,
        typer.Argument(
            metavar="ONE",
            help="A model of trees: XGBoost (JSON, UBJSON), LightGBM (text), CatBoost or EBM "
            "(JSON), or ONNX.",
            show_default=False,
        ),
    ],
    other: Annotated[
        Path, typer.Argument(metavar="OTHER", help="The same, exported.", show_default=False)
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Rows to compare one by one, with the models' features as columns, in order or "
            "by name. The proof is then about all inputs within the range of each column, and "
            "columns without gaps have no missing values.",
            show_default=False,
        ),
    ] = None,
    box: Annotated[
        str | None,
        typer.Option(
            metavar="BOUNDS",
            help="Ends of features, by name or number from 0, e.g. 'age in 18..90, 3 in 0..1'. "
            "Such features are never missing. In place of the range of a column of --data.",
            show_default="all finite numbers",
        ),
    ] = None,
    no_missing: Annotated[
        bool,
        typer.Option("--no-missing", help="No value is missing; not with --data, which tells."),
    ] = False,
    inputs: Annotated[
        _Inputs | None,
        typer.Option(
            help="Which numbers inputs can be.",
            show_default="float32, with a look at float64",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            help="Ask whether scores, before any sigmoid or softmax, differ by at most D.",
            show_default="equal up to rounding",
            min=0,
        ),
    ] = None,
    time: Annotated[float, typer.Option(help="Time limit in seconds.", min=0)] = 60.0,
    json: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the answer as JSON; '-' is standard output.",
            show_default=False,
        ),
    ] = None,
    sep: Separator = "",
    decimal: Decimal = ".",
    charset: Charset = "",
    drop: Drop = None,
) -> None:
    """Prove that two models of trees are one function, or show an input where they differ.

    Missing values are inputs, and so are all categories; what a model asks by category is a whole
    number from 0. An example is replayed by this program, by onnxruntime, and by the model's own
    library where it is installed.

    For example: leaveout compare model.json model.onnx

    Exit status: 0 the same, 1 different, 3 unknown, 2 bad input.
    """
    import sys

    from leaveout.errors import TreesError
    from leaveout.verifier.cli.options import read_reading, reader_may_leave
    from leaveout.verifier.compare import compare as compare_models
    from leaveout.verifier.compare import read_box, read_rows
    from leaveout.verifier.output_file import OutputFile

    if json in {str(one), str(other), str(data)}:
        raise TreesError(f"--json {json}: is read; name another file")
    if data is not None and no_missing:
        raise TreesError("--no-missing: the columns of --data tell which values can be missing")
    target = None if json is None else OutputFile.open("--json", json, TreesError, stdout=True)
    rows = None
    if data is not None:
        rows = read_rows(data, read_reading(sep, decimal, charset, drop), (one, other))
    found = compare_models(
        one,
        other,
        rows,
        box=None if box is None else read_box(box),
        missing=not no_missing,
        inputs=None if inputs is None else inputs.value,
        tolerance=tolerance,
        seconds=time,
    )
    with reader_may_leave():
        if target is not None:
            target.write(found.to_json() + b"\n" * (target.path is None))
        if json != "-":
            sys.stdout.write(f"{found}\n")
    raise typer.Exit(found.exit_code)

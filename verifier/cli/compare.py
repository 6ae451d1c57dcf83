"""``leaveout compare``: whether an exported model is the model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from leaveout.verifier.cli.options import CsvOptions
from leaveout.verifier.cli.output import reader_may_leave
from leaveout.verifier.cli.parameters import argument, flag, option, with_records


class _Inputs(StrEnum):
    FLOAT32 = "float32"
    FLOAT64 = "float64"


@with_records
def compare(
    one: Path = argument(
        "A model of trees: XGBoost (JSON, UBJSON), LightGBM (text), CatBoost or EBM (JSON), or "
        "ONNX.",
        metavar="ONE",
    ),
    other: Path = argument("The same, exported.", metavar="OTHER"),
    data: Path | None = option(
        "Rows to compare one by one, with the models' features as columns, in order or by name. "
        "The proof is then about all inputs within the range of each column, and columns without "
        "gaps have no missing values.",
        metavar="CSV",
    ),
    box: str | None = option(
        "Ends of features, by name or number from 0, e.g. 'age in 18..90, 3 in 0..1'. Such "
        "features are never missing. In place of the range of a column of --data.",
        metavar="BOUNDS",
        shown="all finite numbers",
    ),
    no_missing: bool = flag("--no-missing", "No value is missing; not with --data, which tells."),
    inputs: _Inputs | None = option(
        "Which numbers inputs can be.", shown="float32, with a look at float64"
    ),
    tolerance: float | None = option(
        "Ask whether scores, before any sigmoid or softmax, differ by at most D.",
        metavar="D",
        min=0,
        shown="equal up to rounding",
    ),
    time: float = option("Time limit in seconds.", default=60.0, min=0),
    json: str | None = option("Write the answer as JSON; '-' is standard output.", metavar="FILE"),
    *,
    csv: CsvOptions,
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
        rows = read_rows(data, csv.to_reading(), (one, other))
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

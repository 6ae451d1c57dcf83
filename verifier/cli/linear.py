"""``leaveout linear``: logistic regression and its kin, with all models without a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import TEST_SHARE, TableOptions
from leaveout.verifier.cli.output import file_lines, lines, say_changed, say_notes
from leaveout.verifier.cli.parameters import argument, option, with_records

if TYPE_CHECKING:
    from leaveout.models.linear.training import LinearReport
    from leaveout.models.train.changes import Addition

linear = typer.Typer(
    help="Logistic, softmax, ridge, Poisson and gamma regression, linear SVMs, scorecards and "
    "splines: fit one, add rows.\n\nThe models without each single row, or group, "
    "follow from the one fit, each within a proved distance, so leaveout verify DIR/linear.spec "
    "decides what one row can change, for every row and every input, without any training. "
    "leaveout forget DIR ROW removes rows.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@linear.command()
@with_records
def train(
    table: TableOptions,
    kind: str | None = option(
        "logistic, softmax or svm (squared hinge) for labels; ridge, poisson or gamma for numbers.",
        metavar="KIND",
        shown="logistic for two labels, softmax for more",
    ),
    penalty: float = option(
        "Half of this times the squared coefficients, but the intercept's, is added to the "
        "losses. scikit-learn's C is 1 / penalty, Ridge's alpha the penalty.",
        default=1.0,
    ),
    bins: int = option(
        "Replace each column of numbers with more than two values by this many bins of about "
        "equal counts: a scorecard.",
        default=0,
        shown="none",
    ),
    splines: int = option(
        "Replace each column of numbers with more than two values by cubic splines with this many "
        "knots.",
        default=0,
        shown="none",
    ),
    weight: str = option(
        "CSV column that says how much each row counts.",
        default="",
        metavar="COLUMN",
        shown="each counts 1",
    ),
    features: Path | None = option(
        "An ONNX network that reads the columns; the model is fitted to its outputs. Or trees, as "
        "XGBoost, LightGBM or CatBoost write them; it is fitted to their leaves and scores. It "
        "stays fixed, and is copied to DIR/features.onnx or features.trees.",
        metavar="FILE",
    ),
    trees: int = option(
        "Train this many trees (LightGBM) on the rows 0, 5, 10, ..., and fit the model to their "
        "leaves and scores with all other rows, which alone can be deleted and are claimed of: "
        "set --penalty to 10 to 100 as well.",
        default=0,
        shown="none",
    ),
    test_share: float = TEST_SHARE,
) -> None:
    """Fit a linear model from which any row can be deleted.

    Writes the model with its rows, its columns, a specification that asks what any one row can
    change, and a receipt. A CSV's numbers are scaled to [0, 1]; scales, bins and knots are those of
    all rows, and stay.

    For example: leaveout linear train patients.csv --label diagnosis -o clinic
    """
    from leaveout.models.linear.training import train_linear

    said: list[str] = []

    def warn(warnings: tuple[str, ...]) -> None:
        said.extend(warnings)
        say_notes(warnings)

    report = train_linear(
        table.data,
        table.output,
        **table.how_read,
        kind=kind,
        penalty=penalty,
        bins=bins,
        splines=splines,
        weights=weight.strip(),
        features=features,
        trees=trees,
        test_share=test_share,
        warn=warn,
    )
    say_notes(report.warnings[len(said) :])
    typer.echo(_training_table(report))


@linear.command()
def add(
    folder: Path = argument("A folder made by leaveout linear train.", metavar="DIR"),
    data: Path = argument("Rows with the columns of the model's training table.", metavar="CSV"),
) -> None:
    """Add rows; the model is then the one fitted to all of its rows, to a proved distance.

    Rows without names get the next numbers. Labels and words that the model does not know are
    refused.

    For example: leaveout linear add clinic new.csv
    """
    from leaveout.models.linear.folder import add_rows

    add_rows(folder, data, _say_added)


def _say_added(done: Addition) -> None:
    say_changed(done, ("added", "rows", done.held), _distances(done))


def _distances(done: Addition) -> list[tuple[str, str]]:
    found = [("seconds", f"{done.seconds:.4f}")]
    if done.receipt is not None:
        said = f"proved: at most {done.receipt.coefficients:.2g} in all coefficients"
        found.append(("from minimum", said))
        found.append(
            ("", f"at most {done.receipt.scores:.2g} in any score of linear.spec's inputs")
        )
    return found


def _training_table(report: LinearReport) -> str:
    folder, model, tested = report.folder, report.folder.model, report.tested
    group, receipt = folder.group, folder.receipts.last
    rows = [
        ("rows", f"{len(model.X):,}"),
        *([("groups", f"{len(report.family):,}, by {group!r}")] if group else []),
        ("columns", f"{model.inputs:,} features, {model.design.width:,} in the fit"),
        *([("labels", f"{len(model.labels):,}")] if model.labels else []),
        ("kind", model.kind),
    ]
    if tested is not None:
        said = f" (of a model fitted without {len(tested.y):,} of the rows, measured on these)"
        said *= tested.held_out
        quality = tested.quality
        if quality is not None:
            rows += [("test accuracy", f"{quality.accuracy:.2%}{said}"), *quality.lines]
        else:
            rows.append(("test error", f"{tested.errors[0]:.4g} in the mean{said}"))
            rows.append(("mean", f"{tested.errors[1]:.4g}, by always answering the mean"))
    unbounded = f", {report.without_bound:,} not bounded" * (report.without_bound > 0)
    bounded = f"bounded in {report.bounding:.1f} s, {report.refits:,} refitted{unbounded}"
    rows.append(("members", bounded))
    if receipt is not None:
        said = f"proved: at most {receipt.coefficients:.2g} in all coefficients"
        rows.append(("from minimum", said))
    rows += [("seconds", f"{report.seconds:.1f}"), *file_lines(folder.files)]
    rows.append(("next", f"leaveout verify {folder.directory / 'linear.spec'}"))
    if folder.model.labels:
        rows.append(("", f"leaveout guard {folder.directory} --epsilon 0.2 ROWS.csv"))
    rows.append(("", f"leaveout forget {folder.directory} {(group and 'GROUP') or 'ROW'}..."))
    return lines(rows)

"""``leaveout forest``: random forests of tables with exact deletion of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import TEST_SHARE, TableOptions
from leaveout.verifier.cli.output import file_lines, lines, say_changed, say_notes
from leaveout.verifier.cli.parameters import argument, option, with_records

if TYPE_CHECKING:
    from leaveout.models.forest.folders import Addition, ForestReport


forest = typer.Typer(
    help="Random forests that forget rows exactly: train one, add rows.\n\nAfter "
    "leaveout forget DIR ROW the forest equals, bit for bit, one trained on the remaining rows; a "
    "deletion takes milliseconds. The forests without each single row therefore need no "
    "training, and leaveout verify DIR/forest.spec decides what one row can change, for "
    "every row and every input.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@forest.command()
@with_records
def train(
    table: TableOptions,
    trees: int = option(
        "Number of trees; with more trees, one row moves their mean less.", default=50, min=1
    ),
    depth: int = option(
        "Maximum depth. Try shallow trees first: their leaves hold many rows, so one row changes "
        "less, often without losing accuracy.",
        default=10,
        min=1,
    ),
    share: float = option(
        "Share of the trees that a row trains, chosen by its hash. With 0.1, no row can change an "
        "answer whose confidence exceeds 0.2, whatever the depth; deletions are faster, too.",
        default=1.0,
    ),
    thresholds: int = option("Thresholds sampled per column at each node.", default=10, min=1),
    seed: int = option("Seed of all randomness; saved in the file.", default=0, min=0),
    test_share: float = TEST_SHARE,
) -> None:
    """Train a random forest from which any row can be deleted exactly.

    Writes the forest, its columns, and a specification that asks what any one row can change.
    Numbers keep their own units, since a scale computed from all rows would depend on each of them.
    The same command gives the same bytes.

    For example: leaveout forest train patients.csv --label diagnosis -o clinic
    """
    from leaveout.models.forest import DareForestClassifier
    from leaveout.models.forest.folders import train_forest

    _compile("growth")
    settings = DareForestClassifier(
        trees, max_depth=depth, k=thresholds, random_state=seed, n_jobs=-1
    )
    if share != 1:
        settings.set_params(q=share)
    report = train_forest(
        table.data,
        table.output,
        **table.how_read,
        forest=settings,
        test_share=test_share,
    )
    say_notes(report.warnings)
    typer.echo(_training_table(report))


@forest.command()
def add(
    folder: Path = argument("A folder made by leaveout forest train.", metavar="DIR"),
    data: Path = argument("Rows with the columns of the forest's training table.", metavar="CSV"),
) -> None:
    """Add rows; the forest then equals exactly one trained on all of its rows.

    Rows without names get the next numbers. Categories that the forest does not know are refused.

    For example: leaveout forest add clinic new.csv
    """
    from leaveout.models.forest.folders import add_rows

    _compile("additions")
    add_rows(folder, data, _say_added)


def _say_added(done: Addition) -> None:
    say_changed(done, ("added", "rows", done.held), [("seconds", f"{done.seconds:.4f}")])


def _compile(kernels: str = "trees") -> None:
    from leaveout.verifier.warm_up import warm

    warm([kernels], lambda said: typer.echo(f"leaveout: {said}", err=True))


def _training_table(report: ForestReport) -> str:
    depth = "any depth" if report.depth is None else f"depth up to {report.depth}"
    rows = [
        ("rows", f"{report.rows:,}"),
        *([("groups", f"{report.leaving:,}, by {report.group!r}")] if report.group else []),
        ("features", f"{report.features:,}"),
        ("labels", f"{report.labels:,}"),
        ("trees", f"{report.trees:,}, {depth}"),
    ]
    if report.test_accuracy is not None:
        said = f" (of a forest trained without {report.tested:,} of the rows, measured on these)"
        rows.append(("test accuracy", f"{report.test_accuracy:.2%}{said * report.held_out}"))
        rows += [] if report.quality is None else report.quality.lines
    rows += [("seconds", f"{report.seconds:.1f}"), *file_lines(report.files)]
    rows.append(("next", f"leaveout verify {report.directory / 'forest.spec'}"))
    rows.append(("", f"leaveout guard {report.directory} --epsilon 0.2 ROWS.csv"))
    rows.append(
        ("", f"leaveout forget {report.directory} {(report.group and 'GROUP') or 'ROW'}...")
    )
    return lines(rows)

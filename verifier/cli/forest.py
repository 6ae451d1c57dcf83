"""``leaveout forest``: random forests of tables with exact deletion of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaveout.verifier.cli.options import LabelColumn, Units, read_units

if TYPE_CHECKING:
    from leaveout.models.forest.folders import Addition, Deletion, ForestReport


forest = typer.Typer(
    help="Random forests that forget rows exactly: train one, delete rows from it, add others.\n\n"
    "After any deletions the forest equals, bit for bit, the one trained on the rows left: "
    "deleting is retraining, in milliseconds. So the forests without each single row need no "
    "training, and what one row can change is decided for every row and every input: leaveout "
    "verify DIR/forest.spec.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_EARLIER = ", by an earlier run that was ended before it said so"

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A folder that leaveout forest train wrote.", show_default=False
    ),
]


@forest.command()
def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="CSV|NPZ",
            help="A CSV with a header line, or an NPZ with X_train and y_train (and X_test, y_test "
            "to report test accuracy) or X and y. A CSV's numbers are used as they are, and its "
            "words one-hot encoded.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where forest.npz, forest.json (what the columns are) and forest.spec go.",
            show_default=False,
        ),
    ],
    label: LabelColumn = None,
    identity: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="The CSV's column that names the rows: no feature, kept to delete rows by it.",
            show_default="rows are numbers from 0",
        ),
    ] = None,
    unit: Units = None,
    trees: Annotated[
        int,
        typer.Option(help="How many; the more there are, the less a row moves their mean.", min=1),
    ] = 50,
    depth: Annotated[
        int,
        typer.Option(
            help="Deepest level of a leaf. Try less before more: leaves of a shallow forest hold "
            "many rows, so it owes less to any one of them, often at no loss of accuracy.",
            min=1,
        ),
    ] = 10,
    share: Annotated[
        float,
        typer.Option(
            help="Share of the trees that hold a row, chosen by a hash of it. With 0.1 no row can "
            "change an answer whose confidence is above 0.2, however deep the trees; deleting is "
            "faster, too.",
        ),
    ] = 1.0,
    thresholds: Annotated[
        int, typer.Option(help="How many are sampled for each column of a node.", min=1)
    ] = 10,
    seed: Annotated[
        int, typer.Option(help="Of everything random; written into the file.", min=0)
    ] = 0,
    test_share: Annotated[
        float,
        typer.Option(
            help="Share of the rows without which a second forest is trained, to measure accuracy "
            "on them; 0: none. The forest that is written holds all rows.",
        ),
    ] = 0.2,
) -> None:
    """Train a random forest from which any row can be deleted exactly.

    It writes the forest, what its columns are, and a specification that asks what any one row can
    change. Numbers stay in their own units: a scale made from all rows would owe something to
    each. The same command gives the same bytes.

    For example: leaveout forest train patients.csv --label diagnosis -o clinic
    """
    from leaveout.models.forest import DareForestClassifier
    from leaveout.models.forest.folders import train_forest

    _compile()
    settings = DareForestClassifier(
        trees, max_depth=depth, k=thresholds, random_state=seed, n_jobs=-1
    )
    if share != 1:
        settings.set_params(q=share)
    report = train_forest(
        data,
        output,
        label=label,
        identity=identity,
        units=read_units(unit or []),
        forest=settings,
        test_share=test_share,
    )
    typer.echo(_training_table(report))


@forest.command()
def delete(
    folder: Folder,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROW",
            help="What the column of --id calls them; without one, numbers counted from 0 in the "
            "table as it was, which no deletion shifts.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="CSV",
            help="Rows to delete, in the column of --id or, without one, in a column 'row'.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Also train anew on the rows left, and compare: bit for bit the same."
        ),
    ] = False,
) -> None:
    """Delete rows: the forest is then exactly the one trained on the rows left.

    All rows are deleted, or on an error none. The files of the forest are written anew: they hold
    neither the rows nor their names any more.

    For example: leaveout forest delete clinic 17 23
    """
    from leaveout.models.forest.folders import delete_rows, rows_of_table

    _compile()
    listed = rows_of_table(source, folder) if source is not None else ()
    delete_rows(folder, [*(rows or ()), *listed], check, _say_deleted)


def _say_deleted(done: Deletion) -> None:
    lines = [
        ("deleted", _some(done.rows) + done.is_finished * _EARLIER),
        ("rows left", f"{done.left:,}"),
        ("seconds", f"{done.seconds:.4f}"),
    ]
    if done.retraining is None:
        lines.append(("equal", "to training anew on the rows left; --check compares"))
    else:
        lines.append(("equal", "bit for bit to training anew on the rows left"))
    typer.echo(_lines([*lines, *_files(done.files)]))
    _say_kept(done.kept, "; see that it says nothing of the rows deleted")
    for path in done.naming:
        typer.echo(f"note: {path} still names a row that is deleted", err=True)


@forest.command()
def add(
    folder: Folder,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="CSV",
            help="Rows with the columns of the table that the forest was trained on.",
            show_default=False,
        ),
    ],
) -> None:
    """Add rows: the forest is then exactly the one trained on all rows it holds.

    Rows without names of their own get the next numbers. A category that the forest does not know
    is refused.

    For example: leaveout forest add clinic new.csv
    """
    from leaveout.models.forest.folders import add_rows

    _compile("additions")
    add_rows(folder, data, _say_added)


def _say_added(done: Addition) -> None:
    lines = [
        ("added", _some(done.rows) + done.is_finished * _EARLIER),
        ("rows", f"{done.held:,}"),
        ("seconds", f"{done.seconds:.4f}"),
    ]
    typer.echo(_lines([*lines, *_files(done.files)]))
    _say_kept(done.kept)


def _compile(kernels: str = "trees") -> None:
    from leaveout.verifier.warm_up import warm

    warm([kernels], lambda said: typer.echo(f"leaveout: {said}", err=True))


def _training_table(report: ForestReport) -> str:
    """Return the summary of a trained forest."""
    depth = "any depth" if report.depth is None else f"depth up to {report.depth}"
    rows = [
        ("rows", f"{report.rows:,}"),
        ("features", f"{report.features:,}"),
        ("labels", f"{report.labels:,}"),
        ("trees", f"{report.trees:,}, {depth}"),
    ]
    if report.test_accuracy is not None:
        said = f" (a forest without {report.tested:,} of the rows, on these)"
        rows.append(("test accuracy", f"{report.test_accuracy:.2%}{said * report.held_out}"))
    rows += [("seconds", f"{report.seconds:.1f}"), *_files(report.files)]
    rows.append(("next", f"leaveout verify {report.directory / 'forest.spec'}"))
    rows.append(("", f"leaveout guard {report.directory} --epsilon 0.2 ROWS.csv"))
    rows.append(("", f"leaveout forest delete {report.directory} ROW..."))
    return _lines(rows)


def _files(files: tuple[Path, ...]) -> list[tuple[str, str]]:
    return [("files" if not index else "", str(path)) for index, path in enumerate(files)]


def _lines(rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<16}{value}" for name, value in rows)


def _some(rows: tuple[str, ...], shown: int = 5) -> str:
    return ", ".join(rows[:shown]) + f" and {len(rows) - shown:,} more" * (len(rows) > shown)


def _say_kept(kept: Path | None, more: str = "") -> None:
    if kept is not None:
        typer.echo(f"note: {kept} is not as it was written, and stays as it is{more}", err=True)

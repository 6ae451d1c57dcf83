"""``leaveout trees``: boosted trees of a library, with the models retrained without a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import SEED, TEST_SHARE, TableOptions
from leaveout.verifier.cli.output import lines, say_notes
from leaveout.verifier.cli.parameters import option, with_records
from leaveout.verifier.cli.progress import counter_bar

if TYPE_CHECKING:
    from leaveout.models.boosting.training import TreesReport

trees = typer.Typer(
    help="Boosted trees of scikit-learn, LightGBM or XGBoost: train them, and again without each "
    "row.\n\nleaveout guard DIR then answers exactly as the models do: labels that no left-out row "
    "changes as they are, the others at random; leaveout verify DIR/trees.spec bounds what a row "
    "can change at any input.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@trees.command()
@with_records
def train(
    table: TableOptions,
    learner: str = option(
        "hist (scikit-learn's HistGradientBoostingClassifier), lightgbm or xgboost.",
        default="hist",
        metavar="NAME",
    ),
    number: int = option("Rounds of boosting.", "--trees", default=100, metavar="N"),
    leaves: int = option("Most leaves of a tree.", default=31, metavar="N"),
    rate: float = option("Learning rate.", default=0.1),
    members: int | None = option(
        "Leave out each of the first N rows only.", metavar="N", shown="all rows"
    ),
    sample: int | None = option(
        "Leave out each of N rows drawn uniformly, by --seed.", metavar="N", shown="all rows"
    ),
    seed: int = SEED,
    workers: int | None = option(
        "Processes of one thread each.", metavar="N", shown="one per core"
    ),
    test_share: float = TEST_SHARE,
) -> None:
    """Train boosted trees on all rows, and again without each row or group.

    Writes trees.npz, members.npz, trees.json (the columns) and trees.spec. Each member is what the
    library itself trains without that row, on one thread. Numbers stay as they are. Ctrl-C keeps
    the members trained by then.

    For example: leaveout trees train patients.csv --label diagnosis -o clinic
    """
    from leaveout.models.boosting.training import Settings, train_trees

    settings = Settings(learner, number, leaves, rate)  # type: ignore[arg-type]
    with counter_bar("training", "models") as told:
        report = train_trees(
            table.data,
            table.output,
            **table.how_read,
            settings=settings,
            members=members,
            sample=sample,
            seed=seed,
            workers=workers,
            test_share=test_share,
            tell=told or (lambda done, of: None),
        )
    say_notes(report.warnings)
    typer.echo(_training_table(report))


def _training_table(report: TreesReport) -> str:
    family, whole, directory = report.family, report.family.whole, report.directory
    unit = f"groups of {family.group!r}" if family.group else "rows"
    drawn = ", drawn uniformly" * family.sampled
    where = "rows held out, of a further model" if report.held_out else "the training rows"
    each = report.size / max(1, len(family))
    rows = [
        ("model", f"{family.recipe}"),
        ("columns", f"{whole.features:,} features"),
        ("labels", f"{len(whole.labels):,}"),
        ("members", f"{len(family):,} of {family.rows:,} {unit}{drawn}"),
        ("accuracy", f"{report.quality.accuracy:.2%} on {where}"),
        *report.quality.lines,
        ("size", f"{report.size / 1e6:.1f} MB, {each / 1e3:.1f} kB a member"),
        ("seconds", f"{report.seconds:.1f}"),
        ("next", f"leaveout guard {directory} --epsilon 0.2 ROWS.csv"),
        ("", f"leaveout verify {directory / 'trees.spec'}"),
    ]
    return lines(rows)

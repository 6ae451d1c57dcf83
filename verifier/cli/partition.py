"""``leaveout partition``: ballots of members that were each trained on a part of the rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.verifier.cli.bar import counting

if TYPE_CHECKING:
    from leaveout.models.votes import PartitionReport

__all__ = ["partition"]

_SPREAD = 4


def partition(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="CSV|NPZ",
            help="A CSV with a header line, or an NPZ with X_train, y_train, X_test, y_test. Each "
            "part encodes its own rows of a CSV: numbers are scaled into [0, 1], words one-hot "
            "encoded; an NPZ is used as it is.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where ballots.npz, parts.csv, poisoning.spec and models/ (if any) go.",
            show_default=False,
        ),
    ],
    parts: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="A member sees about 1/K of the rows. More parts: larger certificates, weaker "
            "members.",
        ),
    ] = 50,
    method: Annotated[
        str,
        typer.Option(
            metavar="dpa|ss_dpa|finite_aggregation",
            help="dpa: against rows inserted or removed. finite_aggregation: the same with K times "
            "--spread members, each row reaching --spread of them. ss_dpa: against changed labels "
            "alone; members may learn from all samples without labels.",
        ),
    ] = "dpa",
    spread: Annotated[
        int | None,
        typer.Option(
            metavar="D", help="Members a row reaches in finite_aggregation.", show_default="4"
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The CSV's column to predict.", show_default=False),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Rows to test on, with the same columns.", show_default=False
        ),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Hold out this share of the rows instead: a hash of a row says whether it is held "
            "out, whatever the other rows are.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="All labels there are; rows with another one reach no member. Without it, those "
            "of the file, and certificates assume that edits bring none.",
            show_default=False,
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A classifier of scikit-learn by name, or torch: a small ReLU network; its batch, "
            "lr, weight_decay and dropout are for --set.",
            show_default="RandomForestClassifier with n_estimators=10",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the learner, as in max_depth=5, or of one of --features, as in "
            "PCA.n_components=20. May be given again.",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTHS",
            help="With --learner torch: widths of the hidden ReLU layers.",
            show_default="50,50",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="With --learner torch: passes over a part.", show_default="50"),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="With ss_dpa: unsupervised transformers of scikit-learn, fitted on all samples, "
            "as StandardScaler,PCA.",
            show_default=False,
        ),
    ] = None,
    duplicates: Annotated[
        str | None,
        typer.Option(
            metavar="refuse|merge",
            help="With ss_dpa, if two rows are one sample. merge: they go to one part, and any "
            "change of their labels counts as one relabel.",
            show_default="refuse",
        ),
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale", help="Standardise features within each part.")
    ] = False,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores/--no-scores", help="Keep the members' scores, which run-off elections need."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Of member 0; member i has the seed plus i.")] = 0,
    hash_key: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Changes which part a sample belongs to; not a secret, it is written down.",
            show_default="none",
        ),
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; changes speed, never the result.", show_default="one a core"),
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx/--no-onnx", help="Write the members as ONNX where possible.")
    ] = True,
) -> None:
    """Split training rows among members, train each on its own, and write how they vote.

    A poisoned row reaches the members of its part alone, so a clear majority outlasts many of
    them; leaveout verify DIR/poisoning.spec says how many. The order of the rows, the number of
    workers and that of threads change no ballot.
    """
    with _interruptible():
        from leaveout.models.votes import PartRecipe, make_learner
        from leaveout.models.votes import partition as run
        from leaveout.models.votes.settings import split_settings, torch_settings

        if spread is None:
            spread = _SPREAD if method == "finite_aggregation" else 1
        if duplicates not in {None, "refuse", "merge"}:
            raise TrainingError(f"--duplicates {duplicates}: expected refuse or merge")
        names = () if features is None else tuple(name.strip() for name in features.split(","))
        own, shared = split_settings(settings or [], names)
        own.update(torch_settings(learner, layers, epochs, own))
        recipe = PartRecipe(
            parts=parts,
            method=method,  # type: ignore[arg-type]
            spread=spread,
            learner=make_learner(learner, own),
            features=names,
            feature_settings=shared,
            merge_duplicates=duplicates == "merge",
            scale=scale,
            scores=scores,
            seed=seed,
            hash_key=hash_key,
        )
        with counting("training", "members") as on_progress:
            report = run(
                data,
                output,
                label=label,
                test=test,
                test_share=test_share,
                labels=None if labels is None else labels.split(","),
                recipe=recipe,
                workers=workers,
                onnx=onnx,
                on_progress=on_progress,
            )
    typer.echo(_table(report))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Say in one line that Ctrl-C came, however early: imports alone take seconds."""
    try:
        yield
    except KeyboardInterrupt:
        # What names this error may be what was being imported.
        error = TrainingError("interrupted; nothing was written")
        error.exit_code = ExitCode.INTERRUPTED
        raise error from None


def _table(report: PartitionReport) -> str:
    from leaveout.models.votes.naming import path_text

    middle = statistics.median(report.sizes)
    rows = [
        ("rows", f"{report.rows:,}"),
        ("test rows", f"{report.points:,}"),
        ("labels", f"{report.labels:,}"),
        ("members", f"{report.members:,}"),
        (
            "rows a member",
            f"{min(report.sizes):,} to {max(report.sizes):,}, median {middle:,.10g}",
        ),
        ("base accuracy", f"{report.base_accuracy:.2%}"),
        ("ensemble", f"{report.ensemble_accuracy:.2%}"),
        ("seconds", f"{report.seconds:.1f}"),
    ]
    rows += [("notes" if not index else "", note) for index, note in enumerate(report.notes)]
    rows += [
        ("files" if not index else "", path_text(path)) for index, path in enumerate(report.files)
    ]
    rows.append(("next", f"leaveout verify {path_text(report.directory / 'poisoning.spec')}"))
    return "\n".join(f"{name:<16}{value}" for name, value in rows)

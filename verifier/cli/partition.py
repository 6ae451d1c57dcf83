"""``leaveout partition``: ballots of members trained on one part of the rows each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leaveout.errors import TrainingError
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

_SPREAD = 4
_FAMILIES = 4


def partition(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="CSV|NPZ",
            help="A CSV with a header line, or an NPZ with X_train, y_train, X_test, y_test. "
            "Each part encodes its own rows of a CSV: numbers are scaled into [0, 1], "
            "words one-hot encoded (see --encoding); an NPZ is used unchanged.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder for ballots.npz, parts.csv, poisoning.spec and, with --onnx, models/.",
            show_default=False,
        ),
    ],
    parts: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Number of parts; a member sees about 1/K of the rows. More parts give larger "
            "certificates and weaker members.",
        ),
    ] = 50,
    method: Annotated[
        str,
        typer.Option(
            metavar="dpa|boosted|ss_dpa|finite_aggregation|hash_bagging",
            help="dpa: certifies against inserted or removed rows. finite_aggregation: the same "
            "with K times --spread members, each row reaching --spread of them. "
            "hash_bagging: all rows are divided among K members --families times, each "
            "time by another hash. boosted: dpa whose members are --spread classifiers of "
            "one part. ss_dpa: certifies against changed labels only; members may learn "
            "from all samples without labels.",
        ),
    ] = "dpa",
    spread: Annotated[
        int | None,
        typer.Option(
            metavar="D",
            help="finite_aggregation: members that each row reaches; boosted: classifiers per "
            "part.",
            show_default="4",
        ),
    ] = None,
    families: Annotated[
        int | None,
        typer.Option(
            metavar="F", help="hash_bagging: how many times all rows are divided.", show_default="4"
        ),
    ] = None,
    label: LabelColumn = None,
    sep: Separator = "",
    decimal: Decimal = ".",
    charset: Charset = "",
    drop: Drop = None,
    group: Group = "",
    test: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Test rows, with the same columns.", show_default=False),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Hold out this share of the rows instead, chosen by each row's hash, "
            "independent of the other rows.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="All possible labels; rows with any other label reach no member. Without it, "
            "the labels of the file are used, and certificates assume that edits add none.",
            show_default=False,
        ),
    ] = None,
    bad_rows: Annotated[
        str,
        typer.Option(
            "--bad-rows",
            metavar="refuse|skip",
            help="What to do with unreadable rows: too many or too few cells, an open quote, "
            "bytes that are not text, no label; in an NPZ, values that are not finite. "
            "skip: each line is a row, and is skipped independently of the others. refuse: "
            "certificates assume that edits add none.",
        ),
    ] = "refuse",
    learner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A scikit-learn classifier by name; torch: a small ReLU network, whose batch, "
            "lr, weight_decay and dropout are set with --set; nearest: k nearest "
            "neighbours, e.g. --set k=5; or tree: a shallow tree, e.g. --set depth=2 and "
            "leaf=1.",
            show_default="RandomForestClassifier with n_estimators=10",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the learner, e.g. max_depth=5, or of one of --features, e.g. "
            "PCA.n_components=20. May be repeated.",
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
    survive: Annotated[
        str | None,
        typer.Option(
            metavar="removals|relabels|insertions|edits",
            help="Also compute for each member how many changes of this one kind within its "
            "part its vote survives, which makes certificates larger: with --learner "
            "nearest (all four; edits are insertions and removals mixed) or tree "
            "(removals, relabels). For dpa only; poisoning.spec then asks about this kind.",
            show_default=False,
        ),
    ] = None,
    exact_to: Annotated[
        int | None,
        typer.Option(
            metavar="R",
            help="With --learner tree and --survive: every set of up to R changed rows is "
            "tried, which takes about n^R trees of a part with n rows; a vote that no such "
            "set changes survives R. Members of nearest are counted at any number.",
            show_default="2",
        ),
    ] = None,
    encoding: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="A table whose rows determine, for every part, how columns become features: "
            "their ranges and categories come from no other rows. It may be the one of "
            "--test. With a CSV, --survive needs it, because otherwise a changed row moves "
            "the others of its part.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="With ss_dpa: unsupervised scikit-learn transformers, fitted on all samples, "
            "e.g. StandardScaler,PCA.",
            show_default=False,
        ),
    ] = None,
    duplicates: Annotated[
        str | None,
        typer.Option(
            metavar="refuse|merge",
            help="With ss_dpa: what to do if two rows are the same sample. merge: they go to "
            "one part, and any change of their labels counts as one relabel.",
            show_default="refuse",
        ),
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale", help="Standardise features within each part.")
    ] = False,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores/--no-scores", help="Store the members' scores, which run-off elections need."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of member 0; member i has the seed plus i.")] = 0,
    hash_key: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Determines which part a sample belongs to; it is recorded, so it is not a "
            "secret.",
            show_default="none",
        ),
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes; affects speed only.", show_default="one per core"),
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx/--no-onnx", help="Write the members as ONNX where possible.")
    ] = True,
    undefended: Annotated[
        bool,
        typer.Option(
            "--undefended/--no-undefended",
            help="Also train one model on all rows, to see how much accuracy the partition "
            "costs. It runs last and may take as long as all members.",
        ),
    ] = True,
) -> None:
    """Split training rows into parts, train a member on each, and write the members' votes.

    A poisoned row reaches only the members of its part, so a clear majority survives many of them;
    leaveout verify DIR/poisoning.spec says how many. The order of the rows and the number of
    workers and threads do not affect the ballots.
    """
    with interruptible():
        from leaveout.models.votes import PartRecipe, make_learner
        from leaveout.models.votes import partition as run
        from leaveout.models.votes.recipe import split_settings, torch_settings

        if spread is None:
            spread = _SPREAD if method in {"finite_aggregation", "boosted"} else 1
        if families is None:
            families = _FAMILIES if method == "hash_bagging" else 1
        if duplicates not in {None, "refuse", "merge"}:
            raise TrainingError(f"--duplicates {duplicates}: expected refuse or merge")
        names = () if features is None else tuple(name.strip() for name in features.split(","))
        own, shared = split_settings(settings or [], names)
        own.update(torch_settings(learner, layers, epochs, own))
        recipe = PartRecipe(
            parts=parts,
            method=method,  # type: ignore[arg-type]
            spread=spread,
            families=families,
            learner=make_learner(learner, own),
            features=names,
            feature_settings=shared,
            merge_duplicates=duplicates == "merge",
            scale=scale,
            scores=scores,
            seed=seed,
            hash_key=hash_key,
            survive=survive,  # type: ignore[arg-type]
            exact_to=exact_to,
        )
        unit = "models, the last on all rows" if undefended else "members"
        with counter_bar("training", unit) as on_progress:
            report = run(
                data,
                output,
                label=label,
                reading=read_reading(sep, decimal, charset, drop, None, group),
                test=test,
                test_share=test_share,
                labels=None if labels is None else labels.split(","),
                encoding=encoding,
                recipe=recipe,
                workers=workers,
                onnx=onnx,
                undefended=undefended,
                bad_rows=bad_rows,  # type: ignore[arg-type]
                on_progress=on_progress,
            )
        from leaveout.verifier.cli.partition_table import partition_table

        text = partition_table(report)
    typer.echo(text)

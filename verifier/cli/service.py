"""``leaveout service``: the settings of an unlearning service for a table."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from leaveout.errors import ShardedError
from leaveout.exit_codes import ExitCode
from leaveout.files import refuse_unwritten
from leaveout.verifier.cli.options import LABEL, refuse_claim
from leaveout.verifier.cli.output import align, lines
from leaveout.verifier.cli.parameters import argument, option
from leaveout.verifier.cli.progress import counter_bar, interruptible

if TYPE_CHECKING:
    from leaveout.models.sharded.planning import HeldOut, Offer, Plan
    from leaveout.models.train.data import TrainingData


_TREE = {"max_depth": 5}
_MOST_POINTS = 2000  # most held-out points; more would give needless precision
_LEAST_ROWS = 2  # least rows per shard


def service(
    data: Path = argument(
        "A CSV with a header line, or an NPZ with X_train and y_train (and X_test, y_test) or X "
        "and y. In a CSV, numbers are scaled to [0, 1] and words one-hot encoded; an NPZ is used "
        "unchanged.",
        metavar="CSV|NPZ",
    ),
    output: Path = option(
        "Folder for plan.csv, accuracy.svg, service.toml and service.spec.",
        "-o",
        "--output",
        default=...,
        metavar="DIR",
    ),
    label: str | None = LABEL,
    alpha: float = option(
        "In nats: after deletions chosen by someone who saw all answers, no set of models is more "
        "than e^alpha times as likely as after retraining.",
        default=1.0,
    ),
    beta: float = option("Probability outside the alpha bound.", default=1e-3),
    gamma: float = option("Probability of update sequences not covered.", default=1e-3),
    shards: str = option(
        "Numbers of shards to try; each shard trains a model on 1/K of the rows.",
        default="6,30,100,300",
        metavar="K,...",
    ),
    predictions: str = option(
        "Answers to give before everything is retrained.",
        default="1,3,10,100,1000",
        metavar="N,...",
    ),
    learner: str | None = option(
        "A classifier of scikit-learn by name, or torch: a small ReLU network.",
        metavar="NAME",
        shown="DecisionTreeClassifier with max_depth=5",
    ),
    settings: list[str] | None = option(
        "A parameter of the learner, e.g. max_depth=3. May be repeated.",
        "--set",
        metavar="NAME=VALUE",
    ),
    test_share: float = option(
        "Share of the rows to hold out if the file has no test rows.", default=0.2, metavar="SHARE"
    ),
    seed: int = option("Seed of shards and held-out rows.", default=0, min=0),
) -> None:
    """Choose the number of shards of a service, and how much its answers may reveal.

    The service answers with noise, so that deletions chosen by someone who saw the answers are
    still unlearned; more answers need more noise. This command trains shards on a table and
    reports, for each number of shards and answers, the largest epsilon that the guarantee allows
    and the exact accuracy of the answers.

    Exit status: 0 with recommended settings; 3 if no answer would be useful, which is common: then
    it reports from which alpha on answers are useful, and writes only the table and the chart.
    """
    with interruptible():
        from leaveout.models.sharded.accounting import Unlearning
        from leaveout.models.sharded.planning import plan
        from leaveout.models.train.data import read_data
        from leaveout.models.votes.partitioning import refuse_occupied

        refuse_claim(ShardedError, alpha=alpha, beta=beta, gamma=gamma)
        claim = Unlearning(alpha, beta, gamma)
        tried, asked = _whole("--shards", shards), _whole("--predictions", predictions)
        if not 0 < test_share < 1:
            raise ShardedError(f"--test-share {test_share:g}: expected a share in (0, 1), e.g. 0.2")
        name, estimator = _estimator(learner, settings or [])
        refuse_occupied(output)
        rows, held = _split(data, read_data(data, label), test_share, seed)
        found, notes = _train_all(estimator, rows, held, tried, seed)
        made = plan(found, rows[1], asked, claim)
        files = _files(made, name)
        written = _write_all(output, files)
    typer.echo(_plan_text(made, name, notes))
    best = made.recommended
    for path in written:
        typer.echo(f"{'file':<16}{path}")
    if best is None:
        typer.echo(f"leaveout: {_nothing(made)}", err=True)
        raise typer.Exit(ExitCode.UNKNOWN)
    typer.echo(f"{'next':<16}leaveout verify {output / 'service.spec'}")


def _whole(flag: str, text: str) -> list[int]:
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 100_000 for part in parts):
        raise ShardedError(
            f"{flag} {text}: expected whole numbers from 1 to 100,000, e.g. {flag} 6,100"
        )
    return sorted({int(part) for part in parts})


def _estimator(learner: str | None, texts: list[str]) -> tuple[str, Any]:
    from leaveout.models.train.estimator import NetworkClassifier
    from leaveout.models.votes.learners import TORCH, make_learner
    from leaveout.models.votes.recipe import split_settings

    own, _ = split_settings(texts, ())
    name = "DecisionTreeClassifier" if learner is None else learner
    made = make_learner(name, {**_TREE, **own} if learner is None else own)
    if made.name == TORCH:
        return str(made), NetworkClassifier(**dict(made.settings))  # type: ignore[arg-type]
    return str(made), made.prototype


Rows = tuple[Any, Any]
"""Features and labels."""


def _split(path: Path, data: TrainingData, share: float, seed: int) -> tuple[Rows, Rows]:
    """Return training rows, and held-out rows for judging answers."""
    import numpy as np

    rng = np.random.default_rng(seed)
    X, y = data.X.astype(np.float64), data.y
    if data.X_test is not None and data.y_test is not None:
        X_test, y_test = data.X_test.astype(np.float64), data.y_test
    else:
        order = rng.permutation(len(y))
        cut = round(share * len(y))
        X_test, y_test = X[order[:cut]], y[order[:cut]]
        X, y = X[np.sort(order[cut:])], y[np.sort(order[cut:])]
    if len(y_test) < 10 or len(np.unique(y)) < 2:
        raise ShardedError(
            f"{path}: {len(y):,} rows to train on and {len(y_test):,} held out are too few to "
            "evaluate answers; expected at least 10 held out, and two labels among the others"
        )
    if len(y_test) > _MOST_POINTS:
        few = rng.choice(len(y_test), _MOST_POINTS, replace=False)
        X_test, y_test = X_test[few], y_test[few]
    return (X, y), (X_test, y_test)


def _train_all(
    estimator: Any, rows: Rows, held: Rows, tried: list[int], seed: int
) -> tuple[list[HeldOut], list[str]]:
    """Train every number of shards; return notes on those that failed."""
    from leaveout.models.sharded.planning import votes_held_out

    notes = [
        f"{shards:,} shards skipped: fewer than {_LEAST_ROWS} rows each"
        for shards in tried
        if len(rows[1]) < _LEAST_ROWS * shards
    ]
    tried = [shards for shards in tried if len(rows[1]) >= _LEAST_ROWS * shards]
    found: list[HeldOut] = []
    done = 0
    with counter_bar("training", "models") as show:

        def on_model() -> None:
            nonlocal done
            done += 1
            if show is not None:
                show(done, sum(tried))

        for shards in tried:
            before = done
            try:
                found.append(
                    votes_held_out(estimator, rows, held, shards, seed=seed, on_model=on_model)
                )
            except ShardedError as error:
                notes.append(f"{shards:,} shards skipped: {error}")
                done = before + shards
    if not found:
        raise ShardedError("; ".join(notes))
    return found, notes


def _table(plan: Plan) -> list[list[str]]:
    """Return the plan as a table with a header."""
    head = "shards", "majority", "an update trains", "safe answers", "epsilon", "mechanism", "right"
    lines = [[*head]]
    for each in plan.trained:
        first = [
            f"{each.shards}",
            f"{each.majority:.1%}",
            f"about 1, at most {each.retrained}",
        ]
        for offer in each.offers:
            chosen = offer.settings
            lines.append(
                [
                    *first,
                    f"{chosen.predictions}",
                    f"{chosen.epsilon:g}",
                    chosen.mechanism,
                    f"{offer.accuracy:.1%}",
                ]
            )
    return lines


def _plan_text(plan: Plan, learner: str, notes: list[str]) -> str:
    claim = plan.claim
    facts = [
        ("rows", f"{plan.rows:,} to train on, {plan.points:,} held out"),
        ("labels", f"{plan.labels}; the most frequent one is correct for {plan.frequent:.1%}"),
        ("learner", learner),
        ("guarantee", f"alpha = {claim.alpha:g}, beta = {claim.beta:g}, gamma = {claim.gamma:g}"),
        *(("note", note) for note in notes),
    ]
    found, table = [lines(facts)], _table(plan)
    found += ["", *align(table, str.rjust), ""]
    if plan.recommended is not None:
        found.append(lines([("recommended", _offer_line(plan.recommended))]))
    return "\n".join(found)


def _offer_line(offer: Offer) -> str:
    chosen = offer.settings
    many = "1 answer" if chosen.predictions == 1 else f"{chosen.predictions:,} answers"
    return (
        f"{chosen.shards:,} shards, {chosen.mechanism}, epsilon = {chosen.epsilon:g}: {many} "
        f"between two full retrainings, {offer.accuracy:.1%} of them correct"
    )


def _nothing(plan: Plan) -> str:
    if plan.useful > 1:
        return (
            "no settings are recommended: not even a majority vote is correct more often than "
            f"the most frequent label, {plan.frequent:.1%}, by more than {plan.points:,} points "
            "can show; use another --learner, fewer --shards or more rows"
        )
    best = max(offer.accuracy for each in plan.trained for offer in each.offers)
    few = min(offer.asked for each in plan.trained for offer in each.offers)
    said = (
        f"no settings are recommended: at alpha = {plan.claim.alpha:g} answers are little better "
        f"than coin tosses: at best {best:.1%} are correct, against {plan.frequent:.1%} for the "
        "most frequent label"
    )
    if plan.needed is None:
        return f"{said}; use more --shards, or fewer --predictions than {few}"
    shards, count, alpha = plan.needed
    return (
        f"{said}; they would be useful (at least {plan.useful:.1%} correct) with --alpha "
        f"{math.ceil(100 * alpha) / 100:g}, {shards:,} shards and --predictions {count}; or use "
        "more --shards"
    )


def _files(plan: Plan, learner: str) -> dict[str, str]:
    """Return the contents of the files to write, by name."""
    from leaveout.verifier.page.service import draw_plan
    from leaveout.written import TableWriter

    text = io.StringIO()
    writer = TableWriter(text)
    for cells in _table(plan):
        writer.row(cells)
    files = {"plan.csv": text.getvalue(), "accuracy.svg": f"{draw_plan(plan)}\n"}
    if plan.recommended is None:
        return files
    claim, chosen = plan.claim, plan.recommended.settings
    numbers = [("alpha", claim.alpha), ("beta", claim.beta), ("gamma", claim.gamma)]
    named = ", ".join(f"{name} = {value!r}" for name, value in numbers)
    files["service.spec"] = (
        'let S = sharded("service.toml")\n'
        f"guarantee forgets: unlearns(S, updates = adaptive, {named})\n"
    )
    files["service.toml"] = (
        f"# {learner} on shards; {plan.recommended.accuracy:.1%} of answers are expected to be "
        f"right.\n"
        f"shards = {chosen.shards}\n"
        f'mechanism = "{chosen.mechanism}"\n'
        f"epsilon = {chosen.epsilon!r}\n"
        f"predictions = {chosen.predictions}\n"
        f"labels = {chosen.labels}\n"
        f"rows = {chosen.rows}  # at most: twice those of the table\n"
        f'on_exhausted = "{chosen.on_exhausted}"\n'
    )
    return files


def _write_all(directory: Path, files: dict[str, str]) -> list[Path]:
    """Write all files, or none."""
    from leaveout.files import write_together

    with refuse_unwritten(ShardedError, directory):
        write_together(directory, {name: text.encode() for name, text in files.items()})
    return [directory / name for name in files]

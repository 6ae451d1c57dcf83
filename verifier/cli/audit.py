"""``leaveout audit``: trials of an unlearner against retraining, and attacks on a model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from leaveout.errors import AuditError
from leaveout.verifier.cli.attack import attack
from leaveout.verifier.cli.options import SEED, refuse_claim
from leaveout.verifier.cli.output import align
from leaveout.verifier.cli.parameters import argument, flag, option, with_records
from leaveout.verifier.cli.progress import progress
from leaveout.verifier.cli.unlearn import GameOptions, ScheduleOptions, undrawn_note

if TYPE_CHECKING:
    from leaveout.verifier.audits.membership import Row, Views


class _TrialsOtherwise(TyperGroup):
    """Reads words that name no command as those of ``trials``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click."""
        named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if named else ["trials", *args])


audit = typer.Typer(
    cls=_TrialsOtherwise,
    help="Audit unlearning in trials, or attack a model. Without a command it means trials.",
    no_args_is_help=True,
)


def judge_counts(
    path: Path, output: Path, claim: tuple[float | None, float, float], confidence: float
) -> None:
    """Print what counts refute, and write them for specifications."""
    from leaveout.verifier.audits.adaptive import Audit
    from leaveout.verifier.audits.intervals import clopper_pearson
    from leaveout.verifier.audits.membership import read_counts, write_audit

    alpha, beta, gamma = claim
    refuse_claim(AuditError, alpha=alpha, beta=beta, gamma=gamma)
    events = read_counts(path)
    found = Audit.of_events(events)
    write_audit(events, output, {"counts": path.name})
    shown = found.alpha_lower_bounds(beta, gamma, confidence)
    rows = [["event", "unlearned", "", "retrained", "", "alpha above"]]
    for one, lower in zip(found.counts, shown, strict=True):
        cells = [one.event]
        for hits, trials in (one.arms[:2], one.arms[2:]):
            low, high = clopper_pearson(hits, trials, confidence)
            cells += [f"{hits:,} of {trials:,}", f"[{low:.3f}, {high:.3f}]"]
        rows.append([*cells, _down(lower)])
    for line in align(rows, str.ljust):
        typer.echo(line)
    least = max(shown)
    told = f"alpha up to {_down(least)}" if least > 0 else "no alpha"
    level = f"beta = {beta:g}, gamma = {gamma:g}, confidence {confidence:g} for all events at once"
    typer.echo(f"\n{'refuted':<16}{told} with {level}")
    if alpha is not None:
        fallen = found.refuted_by(alpha, beta, gamma, confidence)
        names = "; ".join(found.counts[place].event for place in fallen) or "no event"
        typer.echo(f"{f'alpha = {alpha:g}':<16}refuted by {names} (Holm)")
    typer.echo(f"{'file':<16}{output}")
    asked = f"alpha = {_down(max(0.0, least)) if alpha is None else alpha}"
    typer.echo(
        f'{"next":<16}guarantee forgets: unlearns(audit("{output.name}"), updates = adaptive, '
        f"{asked}, beta = {beta:g}, gamma = {gamma:g}) with confidence {confidence:g}"
    )


def _down(alpha: float) -> str:
    """Return a number as text with three decimals, rounded down."""
    return f"{math.floor(1000 * alpha) / 1000:g}" if alpha >= 0 else "-"


@audit.command()
@with_records
def trials(
    *,
    output: Path = option(
        "The audit file to write.", "-o", "--output", default=..., metavar="AUDIT.npz"
    ),
    model: Path | None = argument(
        "A network; every trial retrains its architecture.", default=None, metavar="MODEL.onnx"
    ),
    data: Path | None = argument(
        "Data with test rows: an NPZ with X_train, y_train, X_test and y_test.",
        default=None,
        metavar="NPZ",
    ),
    forget: float | None = option(
        "Share of the rows to forget in each trial; each trial draws its own.",
        metavar="SHARE",
        shown="0.05",
    ),
    forget_class: str | None = option(
        "Forget all rows of this label in every trial, instead of a share.", metavar="LABEL"
    ),
    count: int = option(
        "Trials; each trains an original and a retrained network.", "--trials", default=20
    ),
    unlearned: Path | None = option(
        "Posteriors of models unlearned by any method (arrays trial, forgotten, label, "
        "posteriors), instead of MODEL and data.",
        metavar="NPZ",
    ),
    retrained: Path | None = option(
        "The same for retrained models, on the same rows.", metavar="NPZ"
    ),
    counts: Path | None = option(
        "Event counts from trials run elsewhere, one row per event with columns event, "
        "unlearned_hits, unlearned_trials, retrained_hits and retrained_trials, instead of MODEL "
        "and data.",
        metavar="CSV|JSON",
    ),
    alpha: float | None = option(
        "With --counts: alpha of the unlearning claim to test.",
        shown="the largest that the counts refute",
    ),
    beta: float = option("With --counts: the same claim's value.", default=0.0),
    gamma: float = option("With --counts: the same claim's value.", default=0.0),
    rows: int = option("Most rows of each kind recorded per trial.", default=500),
    seconds: float | None = option("No trial starts later than this.", shown="no limit"),
    same_seed: bool = flag(
        "--same-seed", "Retrain with the original's seed instead of a fresh one."
    ),
    players: GameOptions,
    training: ScheduleOptions,
    confidence: float = option("Confidence of the printed intervals.", default=0.95),
    seed: int = SEED,
) -> None:
    """Record what an attacker sees of unlearned models and of retrained ones.

    Each trial draws rows to forget, or takes all rows of a label (--forget-class). One network is
    trained with them and unlearns them as in "leaveout unlearn"; another is trained without them.
    The audit compares how well membership attacks do on both. The baseline is retraining, not a
    coin toss, because retraining itself may leave traces.

    Trials, not rows, are independent, so a few trials say little: use 20 or more. Specifications
    read the file: membership_advantage(audit("AUDIT.npz")) <= 0.1 with confidence 0.95.

    Trials run elsewhere, such as attacks on a service, can be judged by their --counts alone.
    """
    if not 0 < confidence < 1:
        raise AuditError(f"--confidence {confidence}: expected a number in (0, 1), e.g. 0.95")
    if output.exists():
        raise AuditError(f"{output} already exists; choose another -o, or delete it")
    ready = unlearned is not None or retrained is not None
    if ready and (model is not None or forget is not None or forget_class is not None):
        raise AuditError(
            "--unlearned and --retrained replace the trials: drop MODEL, the data, --forget and "
            "--forget-class, or drop these two"
        )
    if counts is not None:
        if ready or model is not None or forget is not None:
            raise AuditError(
                "--counts replaces the trials: drop MODEL, the data, --forget, --unlearned and "
                "--retrained, or drop --counts"
            )
        judge_counts(counts, output, (alpha, beta, gamma), confidence)
        return
    if alpha is not None or beta or gamma:
        raise AuditError("--alpha, --beta and --gamma need --counts; drop them, or pass counts")
    from leaveout.verifier.audits.membership import join_arms, write_audit

    made: dict[str, object]
    if ready:
        if unlearned is None or retrained is None:
            given, missing = (
                ("--unlearned", "--retrained")
                if retrained is None
                else ("--retrained", "--unlearned")
            )
            raise AuditError(f"{given} needs {missing}: the audit compares both arms")
        found, made = join_arms(unlearned, retrained), {}
    else:
        if model is None or data is None:
            raise AuditError(
                "name MODEL.onnx and its data, or pass --unlearned and --retrained; see "
                "leaveout audit trials --help"
            )
        from leaveout.verifier.audits.membership.recording import record

        with progress("auditing", "trials", count) as on_trial:
            found, made = record(
                model,
                data,
                share=forget,
                forget_class=forget_class,
                trials=count,
                rows=rows,
                seconds=seconds,
                same_seed=same_seed,
                game=players.game(),
                schedule=training.schedule,
                seed=seed,
                on_trial=on_trial,
            )
    if undrawn := made.get("undrawn"):
        assert isinstance(undrawn, list)
        typer.echo(undrawn_note(undrawn), err=True)
    write_audit(found, output, made)
    typer.echo(_audit_table(found, confidence, output))


audit.command()(attack)


def _audit_table(found: Views, confidence: float, output: Path) -> str:
    from leaveout.kernel.audits import LEAST_TRIALS
    from leaveout.verifier.audits.membership import UNITS, advantage, rates

    lines = [f"{'trials':<16}{len(found.trials):,}"]
    for unit in UNITS:
        held = advantage(found, confidence, unit)
        lines.append(
            f"{'advantage':<16}[{held.lower:.3f}, {held.upper:.3f}] with confidence "
            f"{confidence:g}, unit {unit}, {held.estimating} trials count"
        )
        lines.append(f"{'':<16}{held.attack}")
        if held.implied is not None and held.implied.beta > 0:
            lines.append(
                f"{'implied':<16}alpha > {held.implied.alpha:.3f} (beta = 0), beta > "
                f"{held.implied.beta:.3f} (alpha = 0)"
            )
        if held.ranked is not None:
            lines.append(
                f"{'who was deleted':<16}at least {held.ranked.lower:.3f} of it also shows "
                "against rows never trained on"
            )
    if len(found.trials) >= LEAST_TRIALS:
        lines += ["", *_rates(rates(found, confidence))]
    lines += ["", f"{'file':<16}{output}"]
    lines.append(
        f'{"next":<16}guarantee hidden: membership_advantage(audit("{output.name}")) <= 0.1 with '
        f"confidence {confidence:g}"
    )
    return "\n".join(lines)


def _rates(rows: tuple[Row, ...]) -> list[str]:
    arms = [arm for arm in ("original", "unlearned", "retrained") if arm in rows[0].forgotten]
    lines = [
        "how often an attack answers 'member': mean [interval] over trials; * "
        "distinguishes the arms"
    ]
    lines.append(f"{'attack':<28}" + "".join(f"{arm:<28}" for arm in arms))
    for row in rows:
        for name, found in ((row.attack + " *" * row.flagged, row.forgotten), ("", row.unseen)):
            if found:
                what = name or "  on rows never trained on"
                cells = (f"{found[arm]!s:<28}" if arm in found else f"{'-':<28}" for arm in arms)
                lines.append(f"{what:<28}{''.join(cells)}".rstrip())
    return lines

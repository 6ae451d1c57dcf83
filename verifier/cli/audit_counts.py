"""``leaveout audit --counts``: what event counts from elsewhere refute."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from leaveout.errors import AuditError


def judge_counts(
    path: Path, output: Path, claim: tuple[float | None, float, float], confidence: float
) -> None:
    """Print what counts refute, and write them for specifications."""
    from leaveout.verifier.audits.adaptive import Audit
    from leaveout.verifier.audits.intervals import clopper_pearson
    from leaveout.verifier.audits.membership import read_counts, write_audit

    alpha, beta, gamma = claim
    for name, value, most in (
        ("alpha", alpha, math.inf),
        ("beta", beta, 1),
        ("gamma", gamma, 1),
    ):
        if value is not None and not 0 <= value <= most:
            kind = "a number of at least 0" if name == "alpha" else "a probability"
            raise AuditError(f"--{name} {value:g}: expected {kind}")
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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())
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

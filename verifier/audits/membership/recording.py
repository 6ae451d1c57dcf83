"""From files to an audit: trials of the two-player unlearner on a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from leaveout.deadline import Deadline
from leaveout.errors import AuditError
from leaveout.exit_codes import ExitCode
from leaveout.models.onnx.file import load_network
from leaveout.models.train.data import TrainingData, read_data
from leaveout.models.unlearning import (
    Deletion,
    Game,
    GraphNetwork,
    Schedule,
    matching_network,
    play,
    rows_of_label,
)
from leaveout.models.unlearning.classifier import require_torch
from leaveout.verifier.audits.membership.paired_trials import Plan, run_trials, views_of
from leaveout.verifier.audits.membership.views import Views

_SHARE = 0.05

Recorded = tuple[Views, dict[str, object]]
"""What an attacker sees, and how it was made, in JSON types."""


class AuditInterruptedError(AuditError):
    """Trials were interrupted from the keyboard; no file was written."""

    exit_code = ExitCode.INTERRUPTED


def record(
    model: Path | str,
    source: Path | str,
    *,
    share: float | None = None,
    forget_class: str | None = None,
    trials: int,
    label: str | None = None,
    rows: int = 500,
    seconds: float | None = None,
    same_seed: bool = False,
    game: Game | None = None,
    schedule: Schedule | None = None,
    seed: int = 0,
    on_trial: Callable[[int], None] | None = None,
) -> Recorded:
    """Run trials of the two-player game."""
    require_torch("leaveout audit")
    if share is not None and forget_class is not None:
        raise AuditError("--forget draws rows and --forget-class names them: pass one of the two")
    path, table_path = Path(model), Path(source)
    network, table = load_network(path), read_data(table_path, label)
    architecture = matching_network(network, table, table_path)
    if not 0 <= seed < 2**63:
        raise AuditError(f"--seed {seed}: expected a whole number from 0 to 2**63 - 1")
    own_game, own_schedule = game or Game(), schedule or Schedule()
    plan = Plan(
        forget=_count(share, table) if forget_class is None else None,
        label=_label(forget_class, table) if forget_class is not None else None,
        rows=rows,
        reuse_seed=same_seed,
        seed=seed,
    )

    def unlearner(original: GraphNetwork, deletion: Deletion, own: int) -> GraphNetwork:
        return play(original, deletion, own_game, own_schedule, own).model

    deadline = Deadline.after(seconds)
    done = []
    try:
        for trial in run_trials(architecture, table, own_schedule, unlearner, plan, trials):
            done.append(trial)
            if on_trial is not None:
                on_trial(len(done))
            if deadline.over:
                break
    except KeyboardInterrupt:
        raise AuditInterruptedError("stopped; nothing was written") from None
    made = {
        "network": path.name,
        "data": table_path.name,
        "data_sha256": table.facts().sha256,
        "plan": plan,
        "trials": len(done),
        "undrawn": architecture.undrawn(),
        "game": own_game,
        "schedule": own_schedule,
    }
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(made))
    return views_of(done), plain


def _count(share: float | None, table: TrainingData) -> int:
    own = _SHARE if share is None else share
    if not 0 < own < 1:
        raise AuditError(f"--forget {own}: expected a share in (0, 1), e.g. 0.05")
    return max(1, round(own * len(table.X)))


def _label(name: str, table: TrainingData) -> int:
    rows = rows_of_label(table, name)
    return int(table.y[rows[0]])

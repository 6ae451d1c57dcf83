"""Elections: members are trained on their parts and vote on the test rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.votes.ballots import Ballots
from leaveout.models.votes.features import ArrayFeatures, Features
from leaveout.models.votes.findings import Findings
from leaveout.models.votes.learners import make_transformer
from leaveout.models.votes.manifest import origin_of
from leaveout.models.votes.member import Member, Task
from leaveout.models.votes.onnx_models import Exported
from leaveout.models.votes.parts import Partition, divide
from leaveout.models.votes.pool import one_thread, train_members
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.samples import Samples
from leaveout.models.votes.survival.statements import MOST_ROWS, refuse_unfit, survival_note

_MOST_FEATURES = 20_000


@dataclass(frozen=True, eq=False)
class Election:
    """Ballots and their origin."""

    ballots: Ballots
    partition: Partition
    exported: tuple[Exported, ...]  # a member's model each; empty if none were asked for
    findings: Findings
    undefended_failed: str = ""  # why the model on all rows could not be trained; empty otherwise


def hold_election(
    samples: Samples,
    recipe: PartRecipe | None = None,
    *,
    workers: int = 1,
    onnx: bool = False,
    undefended: bool = False,
    on_done: Callable[[int], None] | None = None,
) -> Election:
    """Partition the samples, train a member on each part, and collect their votes.

    The votes of a member are a function of the rows of its own part, as a set, and of its seed
    (with SS-DPA: of all samples, too, but of the labels of its part alone). Order of the rows,
    ``workers`` and numbers of threads change nothing.

    Parameters
    ----------
    samples : Samples
    recipe : PartRecipe or None
        None: DPA with 50 parts.
    workers : int
        Processes.
    onnx : bool
        Write the members as ONNX, too.
    undefended : bool
        Train one more model, on all rows, and count what it answers right.
    on_done : callable or None
        Told how many members are trained, the undefended model being one more.

    Raises
    ------
    TrainingError
        If no member can be trained on its part, or thresholds of one would not hold.
    """
    if workers < 1:
        raise TrainingError(f"--workers {workers}: expected a whole number of at least 1")
    recipe = recipe or PartRecipe()
    partition = divide(samples, recipe)
    rows = partition.rows(samples.y)
    refuse_unfit(samples, recipe, rows)
    features, representatives = samples.features, None
    if recipe.method == "ss_dpa":
        _, representatives = np.unique(partition.ranks, return_index=True)
        features = _fit_shared_features(samples, recipe, representatives, partition.ranks)
    task = Task(
        features=features,
        y=samples.y,
        rows=rows,
        ranks=partition.ranks,
        samples=representatives if recipe.learner.semi_supervised else None,
        tests=samples.tests,
        labels=len(samples.labels),
        learner=recipe.learner,
        seed=recipe.seed,
        scale=recipe.scale,
        onnx=onnx and recipe.copies == 1,
        scores=recipe.scores,
        survive=recipe.survive,
        exact_to=recipe.searched_to,
        copies=recipe.copies,
    )
    tell = on_done or (lambda done: None)
    members = train_members(task, workers, tell)
    _refuse_untrained(members)
    right, failed = None, ""
    if undefended:
        alone = replace(task, rows=(partition.order(samples.y),))
        model = _train_undefended(alone, workers, lambda done: tell(len(members) + done))
        if isinstance(model, str):
            failed = model
        else:
            right = int((model.votes == samples.truth).sum())
    findings = replace(_findings(members, rows), undefended_right=right)
    kept = [member.scores for member in members if member.scores is not None]
    thresholds = [member.thresholds for member in members if member.thresholds is not None]
    ballots = Ballots(
        votes=np.stack([member.votes for member in members], axis=1),
        truth=samples.truth,
        labels=len(samples.labels),
        scores=np.stack(kept, axis=1) if kept else None,
        thresholds=np.stack(thresholds, axis=1) if thresholds else None,
        origin=origin_of(samples, recipe, partition, findings),
        source=samples.source,
    )
    if recipe.survive is not None:
        notes = (*ballots.origin.notes, survival_note(ballots, recipe.survive))
        ballots = replace(ballots, origin=msgspec.structs.replace(ballots.origin, notes=notes))
    exported = tuple(member.exported for member in members if member.exported is not None)
    return Election(ballots, partition, exported, findings, failed)


def _train_undefended(task: Task, workers: int, tell: Callable[[int], None]) -> Member | str:
    """Return the model trained on all rows, or why there is none."""
    rows, learner = len(task.rows[0]), task.learner
    if learner.surviving is not None and learner.surviving.searched and rows > MOST_ROWS:
        return f"all rows ({rows:,}) are more than the {MOST_ROWS:,} that {learner.name} takes"
    task = replace(task, onnx=False, scores=False, survive=None, exact_to=None)
    (model,) = train_members(task, workers, tell)
    return f"all rows {model.failed}" if model.failed else model


def _refuse_untrained(members: list[Member]) -> None:
    failed = _failures(members)
    if failed and all(member.constant for member in members):
        raise TrainingError(
            f"{failed[0]}; no member can be trained: use fewer --parts, or another --learner or "
            "--set"
        )


def _failures(members: list[Member]) -> tuple[str, ...]:
    return tuple(f"part {i} {member.failed}" for i, member in enumerate(members) if member.failed)


def _fit_shared_features(
    samples: Samples,
    recipe: PartRecipe,
    representatives: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> Features:
    """Encode all rows and learn features from the sorted distinct samples alone."""
    encoder = samples.features.fit_encoder(representatives)
    if encoder.width > _MOST_FEATURES:
        raise TrainingError(
            f"{samples.source}: {encoder.width:,} features, more than {_MOST_FEATURES:,}; drop "
            "columns whose words hardly repeat"
        )
    # Distinct samples in sorted order and test rows apart: a row's last bits may depend on which
    # rows are transformed with it.
    train, test = encoder(representatives), encoder(samples.tests)
    for name in recipe.features:
        settings = {
            parameter: value
            for transformer, parameter, value in recipe.feature_settings
            if transformer == name
        }
        transformer = make_transformer(name, settings, recipe.seed)
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                transformer.fit(train)
                train, test = (_dense(transformer.transform(each)) for each in (train, test))
            except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError) as error:
                why = " ".join(str(error).split())
                raise TrainingError(
                    f"--features {name}: cannot be fitted without labels: {why}"
                ) from None
    if train.ndim != 2 or not (np.isfinite(train).all() and np.isfinite(test).all()):
        raise TrainingError(
            f"--features {','.join(recipe.features)}: gives what are not finite numbers, a row a "
            "sample; take others"
        )
    return ArrayFeatures(np.vstack([train[ranks], test]))


def _dense(values: object) -> NDArray[np.float64]:
    dense = values.toarray() if hasattr(values, "toarray") else values
    return np.ascontiguousarray(dense, dtype=np.float64)


def _findings(members: list[Member], rows: tuple[NDArray[np.int64], ...]) -> Findings:
    constants = Counter(member.constant for member in members if member.constant)
    single = Counter(int(m.votes[0]) for m in members if m.constant == "one label")
    warned = Counter(kind for member in members for kind in member.warned)
    exported = [member.exported for member in members if member.exported is not None]
    return Findings(
        sizes=tuple(map(len, rows)),
        empty=constants["no rows"],
        single=tuple(sorted(single.items())),
        failed=_failures(members),
        warned=tuple(sorted(warned.items())),
        exported=sum(bool(each.content) for each in exported),
        reasons=tuple(sorted(Counter(e.reason for e in exported if e.reason).items())),
        differing=sum(each.differing for each in exported),
        differing_members=sum(bool(each.differing) for each in exported),
    )

"""Elections: members are trained on their parts and vote on the test rows."""

from __future__ import annotations

import platform
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.ballots import Against, Assumption, Ballots, Origin
from leaveout.models.votes.cautions import Findings, part_cautions
from leaveout.models.votes.features import ArrayFeatures, Features, TableFeatures
from leaveout.models.votes.learners import TORCH, make_transformer
from leaveout.models.votes.member import Member, Task
from leaveout.models.votes.onnx_models import Exported
from leaveout.models.votes.pool import one_thread, train_members
from leaveout.models.votes.recipe import ABSENT, Partition, PartRecipe, divide
from leaveout.models.votes.samples import Samples, hash_text
from leaveout.models.votes.survival.learner import count_sets

_MOST_WORK = 5e9  # most values to process per level of all trees of a part: one or two minutes
_SHOWN = 3

_CHANGES: dict[Against, str] = {
    "edits": "one edit inserts a row with any features and any label into a part, or removes one",
    "insertions": "one insertion adds to a part a row with any features and any label",
    "removals": "one removal deletes a row from a part",
    "relabels": "one relabel changes the label of a row in a part to any other label, or to one "
    "outside the labels, which ",
}
_OUTSIDE = ("removes the row from the part", "leaves the row in the part, without a vote")
_FIXED = (
    "the features of a row do not depend on the other rows",
    "the features of a row, and what it counts for at a point, depend on no label",
)
"""Of a learner that drops rows without a label, and of one that keeps them."""


def _refuse_groups(samples: Samples, recipe: PartRecipe) -> None:
    """Refuse groups of rows with settings that are about single rows."""
    for flag, is_set in (
        ("--method ss_dpa", recipe.method == "ss_dpa"),
        ("hash_reads_label", recipe.hash_reads_label),
        ("--survive", recipe.survive is not None),
    ):
        if samples.group and is_set:
            raise TrainingError(
                f"{samples.source}: {flag} is about single rows, but --group {samples.group} moves "
                "rows together; drop one"
            )


def refuse_unfit(samples: Samples, recipe: PartRecipe, rows: tuple[NDArray[np.int64], ...]) -> None:
    """Refuse samples whose thresholds would be invalid, or too slow to compute."""
    learner, against = recipe.learner.surviving, recipe.survive
    survivor = recipe.learner.survivor
    if learner is None or survivor is None:
        return
    sizes = [len(each) for each in rows]
    largest = int(np.argmax(sizes))
    place = f"{samples.source}: part {largest} has {sizes[largest]:,} rows"
    if survivor.most_rows is not None and sizes[largest] > survivor.most_rows:
        raise TrainingError(
            f"{place}, but the learner {learner.name} accepts at most {survivor.most_rows:,}; use "
            "more --parts"
        )
    if against is None:
        return
    most = survivor.most_labels
    if most is not None and len(samples.labels) > most:
        raise TrainingError(
            f"{samples.source}: --survive {against} of the learner {learner.name} is for {most} "
            f"labels, and there are {len(samples.labels)}; use --learner nearest"
        )
    if survivor.keeps_unlabelled:
        return
    if not samples.features.is_fixed:
        raise TrainingError(
            f"{samples.source}: each part of a CSV encodes its own rows, so one changed row "
            f"would shift all others, which thresholds (--survive {against}) do not count; pass "
            "--encoding CSV, a table whose rows fix ranges and categories for every part, e.g. "
            "the one of --test"
        )
    absent = int((samples.y < 0).sum())
    if against == "relabels" and absent:
        raise TrainingError(
            f"{samples.source}: {absent:,} training rows have a label that is not in --labels; "
            "relabelling one could bring it into a part, and thresholds do not account for that: "
            "drop these rows, or add their labels"
        )
    exact_to = recipe.searched_to
    if exact_to is None:
        return
    for index, each in enumerate(rows):
        times = Counter((samples.keys[row], int(samples.y[row])) for row in each)
        sets = count_sets([*times.values()], len(samples.labels), against, exact_to)
        values = len(each) * samples.features.fit_encoder(each).width * survivor.passes
        if sets * values > _MOST_WORK:
            raise TrainingError(
                f"{samples.source}: part {index} has {len(each):,} rows, so {sets:,} sets of at "
                f"most {exact_to} {against} would have to be tried, which takes too long; use a "
                "smaller --exact-to, or more --parts"
            )


def survival_note(ballots: Ballots, against: Against) -> str:
    """Return a sentence on how many of the members' votes survive changes."""
    assert ballots.thresholds is not None
    least = np.where(ballots.thresholds < 0, np.iinfo(np.int32).max, ballots.thresholds)
    np.put_along_axis(least, ballots.votes[:, :, None], np.iinfo(np.int32).max, axis=2)
    fewest = least.min(axis=2)
    shares = ", ".join(f"{r}: {(fewest > r).mean():.1%}" for r in range(1, _SHOWN + 1))
    return (
        f"share of the members' votes that survive this many {against} within their part: {shares}"
    )


def origin_of(
    samples: Samples, recipe: PartRecipe, partition: Partition, findings: Findings
) -> Origin:
    """Return the origin of an election's ballots."""
    semi = recipe.method == "ss_dpa"
    learner = str(recipe.learner)
    if recipe.scale:
        learner = f"StandardScaler() within the part, {learner}"
    if recipe.features:
        learned = ", ".join(_transformer(recipe, name) for name in recipe.features)
        learner = f"{learned} on all samples, {learner}"
    spread = recipe.method == "finite_aggregation"
    distinct = not partition.repeated or recipe.merge_duplicates
    if recipe.copies > 1:
        learner = (
            f"the sum of the scores of {recipe.copies} of {learner}, where the j-th of member i "
            f"has the seed plus {recipe.copies} i + j"
        )
    return Origin(
        method=recipe.vote,
        hash_reads_label=recipe.hash_reads_label,
        distinct_samples=distinct if semi else not partition.repeated,
        offsets=partition.offsets if spread else (),
        families=(recipe.parts,) * recipe.families if recipe.method == "hash_bagging" else (),
        sizes=findings.sizes,
        learner=learner,
        seed=recipe.seed,
        data_sha256=samples.sha256(),
        label_names=samples.labels,
        hash=_hash(recipe, samples.group),
        undefended_right=findings.undefended_right,
        versions=_versions(recipe),
        notes=tuple(_notes(samples, recipe, partition, findings)),
        assumptions=(*samples.assumptions, *_assumptions(recipe, partition, samples.group)),
        thresholds_against=recipe.survive,
        thresholds_exact_to=recipe.searched_to,
    )


def _transformer(recipe: PartRecipe, name: str) -> str:
    settings = (f"{p}={v!r}" for which, p, v in recipe.feature_settings if which == name)
    return f"{name}({', '.join(settings)})"


def _hash(recipe: PartRecipe, group: str) -> str:
    if recipe.method == "ss_dpa":
        return "rank of the sample among the distinct samples in sorted order"
    of = f"sample's {group!r}" if group else "sample's values"
    return hash_text(recipe.hash_key, recipe.hash_reads_label, recipe.families, of)


def _versions(recipe: PartRecipe) -> tuple[str, ...]:
    names = ["leaveout", "numpy", "scikit-learn", "scipy"]
    if recipe.learner.name == TORCH:
        names.append("torch")
    if recipe.learner.surviving is not None:
        names.append("numba")
    found = [f"python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} (version unknown)")
    return (*found, f"{platform.system()} {platform.machine()}")


def _notes(
    samples: Samples, recipe: PartRecipe, partition: Partition, findings: Findings
) -> list[str]:
    notes = list(samples.left_aside)
    absent = int((partition.base == ABSENT).sum())
    if absent:
        notes.append(
            f"{absent} training rows have a label outside the labels: no member received them "
            "(parts.csv shows no part for them)"
        )
    if partition.repeated:
        notes.append(f"{partition.repeated} training rows share their values with another row")
    notes += part_cautions(samples, findings)
    notes += [f"{count} members were trained with a {kind}" for kind, count in findings.warned]
    if recipe.copies > 1:
        notes.append(
            f"a member is {recipe.copies} classifiers of one part; none is exported to ONNX"
        )
    if findings.exported:
        notes.append(
            f"{findings.exported} members are exported to ONNX; {findings.differing_members} of "
            f"them, which compute in single precision, cast {findings.differing} votes that "
            "differ from the ballots"
        )
        if recipe.features:
            notes.append(
                "the ONNX models expect the output of --features, which is not exported, as input"
            )
        elif isinstance(samples.features, TableFeatures):
            notes.append(
                "each ONNX model reads rows in the encoding of its part, stored in its metadata "
                "'columns'"
            )
    notes += [f"{count} members are not exported to ONNX: {why}" for why, count in findings.reasons]
    return notes


_SHARED = (
    ("the number of parts, the learner and the settings stay the same when the training set "
     "changes", False),
    ("retraining uses the same versions on the same kind of processor, and gets the same test "
     "rows; if no member at all can be trained, or a process dies, there is no answer, rather than "
     "a different one", False),
    ("a member that cannot be trained votes label 0, and does not stop the others", True),
)  # fmt: skip
"""Assumptions of every certificate, and whether each is checked."""


def _assumptions(recipe: PartRecipe, partition: Partition, group: str) -> list[Assumption]:
    found = [*_SHARED]
    if recipe.method == "ss_dpa":
        distinct = (
            "rows of one sample are in one part, and changing any of their labels is one relabel"
            if partition.repeated
            else "no two training rows are the same sample"
        )
        found += [
            ("the attacker cannot add, remove or change samples, only labels, and no label makes a "
             "row unreadable", False),
            (distinct, True),
            ("the part of a sample is its rank among the samples, and does not depend on labels",
             True),
            ("a member's training reads the samples, which no relabel changes, the labels of its "
             "own part, and its seed", True),
        ]  # fmt: skip
    else:
        reads = "values and label" if recipe.hash_reads_label else "values, without its label"
        reads = repr(group) if group else reads
        found += [
            (f"the members that a row reaches are a hash of its own {reads}", True),
            ("a member's encoding, scaling and training read the rows it received, in sorted "
             "order, and its seed", True),
        ]  # fmt: skip
    if recipe.survive is not None:
        kept = recipe.learner.keeps_unlabelled
        found += [
            ("the members' thresholds are those computed together with their votes; certification "
             "uses them without recomputing them", False),
            (_CHANGES[recipe.survive] + _OUTSIDE[kept] * (recipe.survive == "relabels"), True),
            (_FIXED[kept], True),
            ("a member is a function of the rows of its part, whatever their order, and uses no "
             "randomness", True),
        ]  # fmt: skip
    return [Assumption(text=text, checked=checked) for text, checked in found]


_MOST_FEATURES = 20_000


@dataclass(frozen=True, eq=False)
class Election:
    """Ballots and their origin."""

    ballots: Ballots
    partition: Partition
    exported: tuple[Exported, ...]  # one model per member; empty if not requested
    findings: Findings
    undefended_failed: str = ""  # why the model on all rows failed; empty if it did not


def hold_election(
    samples: Samples,
    recipe: PartRecipe | None = None,
    *,
    workers: int = 1,
    onnx: bool = False,
    undefended: bool = False,
    on_done: Callable[[int], None] | None = None,
) -> Election:
    """Partition the samples, train a member on each part, and collect the members' votes.

    A member's votes depend only on the set of rows of its part and on its seed (with SS-DPA also on
    all samples, but only on the labels of its part). Row order, ``workers`` and threads have no
    effect.

    Parameters
    ----------
    samples : Samples
    recipe : PartRecipe or None
        None for DPA with 50 parts.
    workers : int
        Processes.
    onnx : bool
        Also write the members as ONNX.
    undefended : bool
        Train one more model, on all rows, and count its correct answers.
    on_done : callable or None
        Receives the number of trained members; the undefended model counts as one.

    Raises
    ------
    TrainingError
        If no member can be trained on its part, or a member's thresholds would be invalid.
    """
    if workers < 1:
        raise TrainingError(f"--workers {workers}: expected a whole number of at least 1")
    recipe = recipe or PartRecipe()
    _refuse_groups(samples, recipe)
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
        recipe=recipe,
        onnx=onnx and recipe.copies == 1,
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
    rows, survivor = len(task.rows[0]), task.learner.survivor
    most = None if survivor is None else survivor.most_rows
    if most is not None and rows > most:
        return f"all rows ({rows:,}) exceed the {most:,} that {task.learner.name} accepts"
    task = replace(task, onnx=False, only_votes=True)
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
    """Encode all rows and learn features from only the sorted distinct samples."""
    encoder = samples.features.fit_encoder(representatives)
    if encoder.width > _MOST_FEATURES:
        raise TrainingError(
            f"{samples.source}: {encoder.width:,} features, more than {_MOST_FEATURES:,}; drop "
            "columns whose words rarely repeat"
        )
    # Distinct samples in sorted order and test rows separately: a row's last bits may depend on
    # which rows are transformed with it.
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
                    f"--features {name}: cannot fit without labels: {why}"
                ) from None
    if train.ndim != 2 or not (np.isfinite(train).all() and np.isfinite(test).all()):
        raise TrainingError(
            f"--features {','.join(recipe.features)}: does not return finite numbers, one row "
            "per sample; use others"
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

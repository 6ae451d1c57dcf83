"""Origin of ballots in their file: the recipe and all assumptions of certificates."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from leaveout.models.votes.cautions import part_cautions
from leaveout.models.votes.features import TableFeatures
from leaveout.models.votes.findings import Findings
from leaveout.models.votes.hashing import hash_text
from leaveout.models.votes.learners import TORCH
from leaveout.models.votes.origin import Assumption, Origin
from leaveout.models.votes.parts import ABSENT, Partition
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.samples import Samples
from leaveout.models.votes.survival.statements import survival_assumptions


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
            f"the sum of the scores of {recipe.copies} of {learner}, of which the j-th of member i "
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
        hash=_hash(recipe),
        undefended_right=findings.undefended_right,
        versions=_versions(recipe),
        notes=tuple(_notes(samples, recipe, partition, findings)),
        assumptions=(
            *samples.assumptions,
            *_assumptions(recipe, partition),
            *survival_assumptions(recipe),
        ),
        thresholds_against=recipe.survive,
        thresholds_exact_to=recipe.searched_to,
    )


def _transformer(recipe: PartRecipe, name: str) -> str:
    settings = (f"{p}={v!r}" for which, p, v in recipe.feature_settings if which == name)
    return f"{name}({', '.join(settings)})"


def _hash(recipe: PartRecipe) -> str:
    if recipe.method == "ss_dpa":
        return "rank of the sample among the distinct samples in sorted order"
    return hash_text(recipe.hash_key, recipe.hash_reads_label, recipe.families)


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
            f"{absent} training rows have a label that is none of the labels: no member was given "
            "it (parts.csv shows no part for them)"
        )
    if partition.repeated:
        notes.append(f"{partition.repeated} training rows share their values with another row")
    notes += part_cautions(samples, findings)
    notes += [f"{count} members were trained with a {kind}" for kind, count in findings.warned]
    if recipe.copies > 1:
        notes.append(
            f"a member is {recipe.copies} classifiers of one part; none is written as ONNX"
        )
    if findings.exported:
        notes.append(
            f"{findings.exported} members are written as ONNX; {findings.differing_members} of "
            f"them, which compute in single precision, cast {findings.differing} votes otherwise "
            "than the ballots"
        )
        if recipe.features:
            notes.append("the ONNX models take what --features gives, which is not written")
        elif isinstance(samples.features, TableFeatures):
            notes.append(
                "each ONNX model takes its own part's encoding, which its metadata 'columns' holds"
            )
    notes += [f"{count} members are not written as ONNX: {why}" for why, count in findings.reasons]
    return notes


def _assumptions(recipe: PartRecipe, partition: Partition) -> list[Assumption]:
    def checked_assumption(text: str) -> Assumption:
        """Return an assumption that was checked."""
        return Assumption(text=text, checked=True)

    def unchecked_assumption(text: str) -> Assumption:
        """Return an assumption that was not checked."""
        return Assumption(text=text, checked=False)

    shared = [
        unchecked_assumption(
            "number of parts, learner and settings stay as they are when the training set changes"
        ),
        unchecked_assumption(
            "training again runs the same versions on the same kind of processor, and is asked "
            "about the same test rows; where no member at all can be trained, or a process ends, "
            "there is no answer, rather than another one"
        ),
        checked_assumption("a member that cannot be trained votes label 0, and stops no other"),
    ]
    if recipe.method == "ss_dpa":
        distinct = (
            "rows of one sample are in one part, and a change of any of their labels is one relabel"
            if partition.repeated
            else "no two training rows are one sample"
        )
        return [
            *shared,
            unchecked_assumption(
                "samples are not the attacker's to add, remove or change: labels alone are, and no "
                "label makes a row one that cannot be read"
            ),
            checked_assumption(distinct),
            checked_assumption(
                "the part of a sample is its rank among the samples, and reads no label"
            ),
            checked_assumption(
                "a member's training reads the samples, which no relabel changes, the labels of "
                "its own part, and its seed"
            ),
        ]
    reads = "values and label" if recipe.hash_reads_label else "values and not its label"
    return [
        *shared,
        checked_assumption(f"which members a row reaches is a hash of its own {reads}"),
        checked_assumption(
            "a member's encoding, scaling and training read the rows it was given, in sorted "
            "order, and its seed"
        ),
    ]

"""The directory that ``leaveout partition`` leaves: ballots, parts, models, a specification."""

from __future__ import annotations

import csv
import io
import os
import shutil
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.models.votes.election import Election
from leaveout.models.votes.file import write_ballots
from leaveout.models.votes.onnx_models import Exported
from leaveout.models.votes.parts import Partition
from leaveout.models.votes.recipe import PartRecipe

__all__ = ["refuse_occupied", "spec_text", "write_directory"]

BALLOTS = "ballots.npz"
PARTS = "parts.csv"
MODELS = "models"
SPEC = "poisoning.spec"

_SHARE_CHANGED = 10
"""The first guarantee is about edits to one part in so many."""


def refuse_occupied(directory: Path) -> None:
    """Say so before any work if ``directory`` holds something, or is none.

    Raises
    ------
    TrainingError
    """
    if directory.is_dir() and any(directory.iterdir()):
        raise TrainingError(
            f"{directory}: the directory is not empty; name another one, or remove it"
        )
    if not directory.is_dir() and (directory.exists() or directory.is_symlink()):
        raise TrainingError(f"{directory}: is not a directory; name another one")


def write_directory(
    directory: Path, election: Election, recipe: PartRecipe, source: str
) -> tuple[Path, ...]:
    """Write everything, or nothing: it appears when it is complete.

    Parameters
    ----------
    directory : Path
        Absent or empty.
    election : Election
    recipe : PartRecipe
    source : str
        Name of the data file.

    Returns
    -------
    tuple of Path
        What was written; models as their folder.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    target = directory.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}-{os.getpid()}.partial")
    partial.mkdir()
    try:
        names = [BALLOTS, PARTS, SPEC]
        write_ballots(election.ballots, partial / BALLOTS)
        (partial / PARTS).write_text(_parts_text(election.partition), encoding="utf-8")
        (partial / SPEC).write_text(spec_text(recipe, source), encoding="utf-8")
        if any(model.content for model in election.exported):
            _write_models(partial / MODELS, election.exported)
            names.append(MODELS)
        if target.exists():
            # It may be where the user stands. Ballots come last: where they are, all is.
            for name in reversed(names):
                (partial / name).rename(target / name)
            partial.rmdir()
        else:
            partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return tuple(directory / name for name in names)


def spec_text(recipe: PartRecipe, source: str) -> str:
    """Return a specification of what a poisoned training set can change."""
    change = "relabels" if recipe.method == "ss_dpa" else "edits"
    count = max(1, recipe.parts // _SHARE_CHANGED)
    about = " ".join(source.split())
    return (
        f"# what {change} of the training rows of {about} can change\n"
        f'let V = ballots("{BALLOTS}")\n'
        "\n"
        f"guarantee half: certified_accuracy({recipe.method}(V), {change} = {count}) >= 0.5\n"
        "\n"
        "find radius: greatest r such that "
        f"certified_accuracy({recipe.method}(V), {change} = r) >= 0.5\n"
    )


def _parts_text(partition: Partition) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", "parts"])
    for row in range(len(partition.base)):
        writer.writerow([row, " ".join(map(str, partition.reached(row)))])
    return stream.getvalue()


def _write_models(folder: Path, exported: tuple[Exported, ...]) -> None:
    folder.mkdir()
    digits = max(4, len(str(len(exported) - 1)))
    for index, model in enumerate(exported):
        if model.content:
            (folder / f"part_{index:0{digits}}.onnx").write_bytes(model.content)

"""Output directory of ``leaveout partition``: ballots, parts, models, specification."""

from __future__ import annotations

import io
from pathlib import Path

from leaveout.errors import BallotError, TrainingError
from leaveout.files import clear_partials, make_folder, partial_folder, put_folder, settle
from leaveout.models.votes.election import Election
from leaveout.models.votes.file import write_ballots
from leaveout.models.votes.onnx_models import Exported
from leaveout.models.votes.parts import Partition
from leaveout.models.votes.recipe import PartRecipe
from leaveout.written import TableWriter

BALLOTS = "ballots.npz"
PARTS = "parts.csv"
MODELS = "models"
SPEC = "poisoning.spec"

_SHARE_CHANGED = 10
"""The first guarantee is about edits to one part in so many."""


def refuse_occupied(directory: Path) -> None:
    """Refuse ``directory`` early if it is not empty, or cannot be written."""
    try:
        place = directory.resolve()
        if place.is_dir():
            # Of a run that was killed.
            settle(place)
            clear_partials(place)
        if place.is_dir() and any(place.iterdir()):
            raise TrainingError(
                f"{directory}: the directory is not empty; name another one, or remove it"
            )
        if not place.is_dir() and (place.exists() or place.is_symlink()):
            raise TrainingError(f"{directory}: is not a directory; name another one")
        folder = directory
        while not folder.exists() and not folder.is_symlink():
            folder = folder.parent
        if not folder.is_dir():
            raise TrainingError(
                f"{directory}: cannot be made: {folder} is not a directory; name another one"
            )
        for name in directory.parts[len(folder.parts) :]:
            (folder / name).exists()  # fails where a name is too long
        # Permissions alone do not tell: file systems may be read-only or hold no directories.
        with partial_folder(folder):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from None
    except RuntimeError:  # as pathlib says it
        raise TrainingError(f"{directory}: links lead in a circle; name another one") from None


def write_directory(
    directory: Path, election: Election, recipe: PartRecipe, source: str
) -> tuple[Path, ...]:
    """Write the directory atomically, once it is complete."""
    try:
        return _write_directory(directory, election, recipe, source)
    except OSError as error:
        raise _unwritable(directory, error) from None


def _write_directory(
    directory: Path, election: Election, recipe: PartRecipe, source: str
) -> tuple[Path, ...]:
    place = directory.resolve()
    names = [BALLOTS, PARTS, SPEC]
    make_folder(place.parent)
    # Beside one that is there may be another file system, or no permission to write.
    with partial_folder(place if place.is_dir() else place.parent) as partial:
        try:
            write_ballots(election.ballots, partial / BALLOTS)
        except BallotError as error:
            # The user knows of no partial directory.
            raise TrainingError(str(error).replace(str(partial), str(directory))) from None
        (partial / PARTS).write_text(_parts_text(election.partition), encoding="utf-8")
        (partial / SPEC).write_text(spec_text(recipe, source), encoding="utf-8")
        if any(model.content for model in election.exported):
            _write_models(partial / MODELS, election.exported)
            names.append(MODELS)
        put_folder(partial, place)
    return tuple(directory / name for name in names)


def _unwritable(directory: Path, error: OSError) -> TrainingError:
    return TrainingError(
        f"{directory}: cannot be written: {error.strerror or error}; name another directory"
    )


def spec_text(recipe: PartRecipe, source: str) -> str:
    """Return a specification of what a poisoned training set can change."""
    change = "relabels" if recipe.method == "ss_dpa" else recipe.survive or "edits"
    vote = f"{recipe.vote}(V)" if recipe.survive is None else "dpa(V, members = certified)"
    count = max(1, recipe.parts // _SHARE_CHANGED)
    about = " ".join(source.split())
    return (
        f"# what {change} of the training rows of {about} can change\n"
        f'let V = ballots("{BALLOTS}")\n'
        "\n"
        f"guarantee half: certified_accuracy({vote}, {change} = {count}) >= 0.5\n"
        "\n"
        "find radius: greatest r such that "
        f"certified_accuracy({vote}, {change} = r) >= 0.5\n"
    )


def _parts_text(partition: Partition) -> str:
    stream = io.StringIO()
    writer = TableWriter(stream)
    writer.row(["row", "parts"])
    for row in range(len(partition.base)):
        writer.row([row, " ".join(map(str, partition.reached_members(row)))])
    return stream.getvalue()


def _write_models(folder: Path, exported: tuple[Exported, ...]) -> None:
    folder.mkdir()
    digits = max(4, len(str(len(exported) - 1)))
    for index, model in enumerate(exported):
        if model.content:
            (folder / f"part_{index:0{digits}}.onnx").write_bytes(model.content)

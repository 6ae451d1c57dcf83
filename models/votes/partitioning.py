"""Partition and vote: from a data file to a directory that can be verified."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leaveout.cores import cores
from leaveout.errors import BallotError, TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.files import clear_partials, make_folder, partial_folder, put_folder, settle
from leaveout.models.ballots import Ballots, write_ballots
from leaveout.models.reading import PLAIN, Reading
from leaveout.models.votes.cautions import (
    Accuracy,
    accuracy_of,
    column_cautions,
    label_cautions,
    part_cautions,
    vote_cautions,
)
from leaveout.models.votes.election import Election, hold_election
from leaveout.models.votes.onnx_models import Exported
from leaveout.models.votes.recipe import Partition, PartRecipe
from leaveout.models.votes.samples import BadRows, Samples, file_name
from leaveout.models.votes.source import read_samples
from leaveout.written import TableWriter

BALLOTS = "ballots.npz"
PARTS = "parts.csv"
MODELS = "models"
SPEC = "poisoning.spec"

_SHARE_CHANGED = 10  # the first guarantee is about edits to one in so many parts


def refuse_occupied(directory: Path) -> None:
    """Refuse ``directory`` early if it is not empty or cannot be written."""
    with _refuse_unwritable(directory):
        try:
            place = directory.resolve()
        except RuntimeError:  # raised by pathlib
            raise TrainingError(f"{directory}: circular links; name another one") from None
        if place.is_dir():
            # Remains of a killed run.
            settle(place)
            clear_partials(place)
        if place.is_dir() and any(place.iterdir()):
            raise TrainingError(
                f"{directory}: the folder is not empty; name another one, or remove it"
            )
        if not place.is_dir() and (place.exists() or place.is_symlink()):
            raise TrainingError(f"{directory}: not a folder; name another one")
        folder = directory
        while not folder.exists() and not folder.is_symlink():
            folder = folder.parent
        if not folder.is_dir():
            raise TrainingError(
                f"{directory}: cannot create: {folder} is not a folder; name another one"
            )
        for name in directory.parts[len(folder.parts) :]:
            (folder / name).exists()  # fails if a name is too long
        # Permissions do not suffice: a file system may be read-only or lack directories.
        with partial_folder(folder):
            pass


def write_directory(
    directory: Path, election: Election, recipe: PartRecipe, source: str
) -> tuple[Path, ...]:
    """Write the directory atomically, once it is complete."""
    with _refuse_unwritable(directory):
        place = directory.resolve()
        names = [BALLOTS, PARTS, SPEC]
        make_folder(place.parent)
        # An existing folder may be on another file system, or its parent write-protected.
        with partial_folder(place if place.is_dir() else place.parent) as partial:
            try:
                write_ballots(election.ballots, partial / BALLOTS)
            except BallotError as error:
                # Messages must not mention the partial directory.
                raise TrainingError(str(error).replace(str(partial), str(directory))) from None
            (partial / PARTS).write_text(_parts_text(election.partition), encoding="utf-8")
            (partial / SPEC).write_text(
                spec_text(recipe, source, election.ballots.origin.group_words), encoding="utf-8"
            )
            if any(model.content for model in election.exported):
                _write_models(partial / MODELS, election.exported)
                names.append(MODELS)
            put_folder(partial, place)
        return tuple(directory / name for name in names)


@contextmanager
def _refuse_unwritable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"{directory}: cannot write: {error.strerror or error}; name another folder"
        ) from None


def spec_text(recipe: PartRecipe, source: str, group: str) -> str:
    """Return a specification of what a poisoned training set can change."""
    change = "relabels" if recipe.method == "ss_dpa" else recipe.survive or "edits"
    vote = f"{recipe.vote}(V)" if recipe.survive is None else "dpa(V, members = certified)"
    count = max(1, recipe.parts // _SHARE_CHANGED)
    about = " ".join(source.split())
    return (
        f"# what {change} of the training rows of {about} can change\n"
        + (f"# {group}\n" if group else "")
        + f'let V = ballots("{BALLOTS}")\n'
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


class PartitionInterruptedError(TrainingError):
    """Partitioning was interrupted by Ctrl-C; no file was written."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class PartitionReport:
    """Summary of a partition.

    Attributes
    ----------
    directory : Path
    rows, points, labels, members : int
        Training rows, test rows, labels, members.
    sizes : tuple of int
        Rows per member.
    accuracy : Accuracy
        Accuracy of the members and their plurality, by label.
    ballots : Ballots
        The written ballots.
    seconds : float
    files : tuple of Path
    warnings : tuple of str
        Warnings for readers of the results.
    notes : tuple of str
        What else was done or omitted.
    """

    directory: Path
    rows: int
    points: int
    labels: int
    members: int
    sizes: tuple[int, ...]
    accuracy: Accuracy
    ballots: Ballots
    seconds: float
    files: tuple[Path, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def partition(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    test: Path | str | None = None,
    test_share: float | None = None,
    labels: Sequence[str] | None = None,
    encoding: Path | str | None = None,
    recipe: PartRecipe | None = None,
    workers: int | None = None,
    onnx: bool = True,
    undefended: bool = True,
    bad_rows: BadRows = "refuse",
    reading: Reading = PLAIN,
    on_progress: Callable[[int, int], None] | None = None,
) -> PartitionReport:
    """Train a member on each part and write all members' labels of the test rows.

    The ballots depend neither on the order of the rows nor on ``workers`` or threads.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train, X_test, y_test``.
    directory : Path or str
        New or empty; receives ``ballots.npz``, ``parts.csv`` and ``poisoning.spec``, and ``models``
        if a member was written as ONNX.
    label, test, test_share, labels, encoding, bad_rows, reading
        As in `read_samples`.
    recipe : PartRecipe or None
        None for DPA with 50 parts and a small forest.
    workers : int or None
        Processes; None for one per core.
    onnx : bool
        Write members as ONNX where possible.
    undefended : bool
        Train one more model, on all rows, whose accuracy is shown next to the ensemble's.
    on_progress : callable or None
        Receives the number of trained models and the total.

    Raises
    ------
    TrainingError
        If data or settings cannot be used, no member can be trained, or the directory is not empty
        or cannot be written.
    PartitionInterruptedError
        On Ctrl-C.
    """
    started = time.monotonic()
    recipe, target = recipe or PartRecipe(), Path(directory)
    tell = on_progress or (lambda done, members: None)
    try:
        refuse_occupied(target)
        samples = read_samples(
            source,
            label=label,
            test=test,
            test_share=test_share,
            labels=labels,
            hash_key=recipe.hash_key,
            encoding=encoding,
            bad_rows=bad_rows,
            reading=reading,
        )
        models = recipe.members + undefended
        tell(0, models)
        election = hold_election(
            samples,
            recipe,
            workers=cores() if workers is None else workers,
            onnx=onnx,
            undefended=undefended,
            on_done=lambda done: tell(done, models),
        )
        ballots, accuracy = election.ballots, accuracy_of(election.ballots)
        # Must come last: until here, an interrupt leaves no files.
        files = write_directory(target, election, recipe, file_name(source))
    except KeyboardInterrupt:
        raise PartitionInterruptedError("interrupted; nothing was written") from None
    except OSError as error:
        place = error.filename or "training"
        raise TrainingError(f"{place}: {error.strerror or error}; nothing was written") from None
    warnings = _warnings(samples, election, accuracy, given=labels is not None)
    return PartitionReport(
        directory=target,
        rows=samples.rows,
        points=ballots.points,
        labels=ballots.labels,
        members=ballots.parts,
        sizes=ballots.origin.sizes,
        accuracy=accuracy,
        ballots=ballots,
        seconds=time.monotonic() - started,
        files=files,
        warnings=warnings,
        notes=tuple(note for note in ballots.origin.notes if note not in warnings),
    )


def _warnings(
    samples: Samples, election: Election, accuracy: Accuracy, given: bool
) -> tuple[str, ...]:
    said = [*column_cautions(samples), *label_cautions(samples, given)]
    said += part_cautions(samples, election.findings)
    said += vote_cautions(samples, accuracy)
    if election.undefended_failed:
        said.append(f"the undefended model failed: {election.undefended_failed}")
    return tuple(said)

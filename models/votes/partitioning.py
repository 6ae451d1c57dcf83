"""Partition and vote: from a data file to a directory ready to verify."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leaveout.cores import cores
from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.models.votes.accuracy import Accuracy, accuracy_of
from leaveout.models.votes.ballots import Ballots
from leaveout.models.votes.cautions import label_cautions, part_cautions, vote_cautions
from leaveout.models.votes.election import Election, hold_election
from leaveout.models.votes.naming import file_name
from leaveout.models.votes.output import refuse_occupied, write_directory
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.samples import BadRows, Samples
from leaveout.models.votes.source import read_samples


class PartitionInterruptedError(TrainingError):
    """Training was interrupted by Ctrl-C; nothing was written."""

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
        Rows a member.
    accuracy : Accuracy
        Of the members and their plurality, label by label.
    ballots : Ballots
        As they were written.
    seconds : float
    files : tuple of Path
    warnings : tuple of str
        What a reader of the numbers should know first.
    notes : tuple of str
        What else was done or left undone.
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
    on_progress: Callable[[int, int], None] | None = None,
) -> PartitionReport:
    """Train a member on each part and write how all of them label the test rows.

    The same rows in any order, on any number of ``workers`` and threads, give the same ballots.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train, X_test, y_test``.
    directory : Path or str
        Absent or empty; gets ``ballots.npz``, ``parts.csv`` and ``poisoning.spec``, and ``models``
        if a member was written as ONNX.
    label, test, test_share, labels, encoding, bad_rows
        As of `read_samples`.
    recipe : PartRecipe or None
        None: DPA with 50 parts and a small forest.
    workers : int or None
        Processes; None: one a core.
    onnx : bool
        Write members as ONNX where it can be done.
    undefended : bool
        Train one more model, on all rows, whose accuracy is shown beside the ensemble's.
    on_progress : callable or None
        Told models trained, and models there will be.

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
        # Last: an interrupt up to here leaves nothing.
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
    said = label_cautions(samples, given)
    said += part_cautions(samples, election.findings)
    said += vote_cautions(samples, accuracy)
    if election.undefended_failed:
        said.append(f"the undefended model failed: {election.undefended_failed}")
    return tuple(said)

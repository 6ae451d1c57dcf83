"""Partition and vote: from a data file to a directory ready to verify."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.cores import cores
from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.models.votes.ballots import Ballots
from leaveout.models.votes.election import hold_election
from leaveout.models.votes.naming import file_name
from leaveout.models.votes.output import refuse_occupied, write_directory
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.source import read_samples

__all__ = ["PartitionInterruptedError", "PartitionReport", "partition"]


class PartitionInterruptedError(TrainingError):
    """Training was interrupted from the keyboard; nothing was written."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class PartitionReport:
    """What was trained.

    Attributes
    ----------
    directory : Path
    rows, points, labels, members : int
        Training rows, test rows, labels, members.
    sizes : tuple of int
        Rows a member.
    base_accuracy : float
        Mean over members of the share of test rows they label right, in [0, 1].
    ensemble_accuracy : float
        Of the plurality of members, the smaller label on a tie.
    seconds : float
    files : tuple of Path
    notes : tuple of str
        What else was done or left undone.
    """

    directory: Path
    rows: int
    points: int
    labels: int
    members: int
    sizes: tuple[int, ...]
    base_accuracy: float
    ensemble_accuracy: float
    seconds: float
    files: tuple[Path, ...]
    notes: tuple[str, ...]


def partition(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    test: Path | str | None = None,
    test_share: float | None = None,
    labels: Sequence[str] | None = None,
    recipe: PartRecipe | None = None,
    workers: int | None = None,
    onnx: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> PartitionReport:
    """Train a member on each part of the training rows and write how all label the test rows.

    The same rows in any order, on any number of ``workers`` and threads, give the same ballots.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train, X_test, y_test``.
    directory : Path or str
        Absent or empty; gets ``ballots.npz``, ``parts.csv`` and ``poisoning.spec``, and ``models``
        if a member was written as ONNX.
    label, test, test_share, labels
        As of `read_samples`.
    recipe : PartRecipe or None
        None: DPA with 50 parts and a small forest.
    workers : int or None
        Processes; None: one a core.
    onnx : bool
        Write members as ONNX where it can be done.
    on_progress : callable or None
        Told members trained, and members there will be.

    Raises
    ------
    TrainingError
        If data or settings cannot be used, a member cannot be trained, or the directory is not
        empty or cannot be written.
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
        )
        members = recipe.members
        tell(0, members)
        election = hold_election(
            samples,
            recipe,
            workers=cores() if workers is None else workers,
            onnx=onnx,
            on_done=lambda done: tell(done, members),
        )
        ballots = election.ballots
        base = float(np.mean(ballots.votes == ballots.truth[:, None]))
        ensemble = float(np.mean(_plurality(ballots) == ballots.truth))
        # Last: an interrupt up to here leaves nothing.
        files = write_directory(target, election, recipe, file_name(source))
    except KeyboardInterrupt:
        raise PartitionInterruptedError("interrupted; nothing was written") from None
    except OSError as error:
        place = error.filename or "training"
        raise TrainingError(f"{place}: {error.strerror or error}; nothing was written") from None
    return PartitionReport(
        directory=target,
        rows=samples.rows,
        points=ballots.points,
        labels=ballots.labels,
        members=ballots.parts,
        sizes=ballots.origin.sizes,
        base_accuracy=base,
        ensemble_accuracy=ensemble,
        seconds=time.monotonic() - started,
        files=files,
        notes=ballots.origin.notes,
    )


def _plurality(ballots: Ballots) -> NDArray[np.int32]:
    """Return the label most members vote, the smaller one on a tie, shape (points,)."""
    rows = np.arange(ballots.points)[:, None] * ballots.labels
    cells = np.bincount((rows + ballots.votes).ravel(), minlength=ballots.points * ballots.labels)
    votes = cells.reshape(ballots.points, ballots.labels)
    answers: NDArray[np.int32] = votes.argmax(axis=1).astype(np.int32)
    return answers

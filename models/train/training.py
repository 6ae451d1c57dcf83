"""Training a network and its family: from a data file to a directory ready to verify."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.files import write_whole
from leaveout.models.train.architecture import count_parameters
from leaveout.models.train.blocks import Blocks
from leaveout.models.train.data import TrainingData
from leaveout.models.train.directory import PARTIAL, is_complete
from leaveout.models.train.export import (
    FAMILY,
    NETWORK,
    SPEC,
    network_model,
    scores,
    spec_text,
    unflatten,
    write_family,
)
from leaveout.models.train.job import Job, prepare
from leaveout.models.train.pool import train_blocks
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.worker import Task

__all__ = ["TrainingInterruptedError", "TrainingProgress", "TrainingReport", "run"]


class TrainingInterruptedError(TrainingError):
    """Training was stopped from the keyboard; what is finished is kept."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class TrainingProgress:
    """How far training is.

    Attributes
    ----------
    finished : int
        Networks on disk: the one on all rows, and members.
    networks : int
        How many there will be.
    work : float
        Networks' worth of training behind, unfinished blocks counted by epochs.
    """

    finished: int
    networks: int
    work: float


@dataclass(frozen=True)
class TrainingReport:
    """What was trained.

    Attributes
    ----------
    directory : Path
    rows, features, labels, members : int
    train_accuracy : float
        Share of rows that the network on all rows labels right, in [0, 1].
    test_accuracy : float or None
    seconds : float
        Of this run.
    complete_before : bool
        Whether all was there already, so that nothing was done.
    files : tuple of Path
    """

    directory: Path
    rows: int
    features: int
    labels: int
    members: int
    train_accuracy: float
    test_accuracy: float | None
    seconds: float
    complete_before: bool
    files: tuple[Path, ...]


def run(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    recipe: Recipe | None = None,
    members: int | None = None,
    block: int | None = None,
    workers: int | None = None,
    device: str = "auto",
    on_progress: Callable[[TrainingProgress], None] | None = None,
) -> TrainingReport:
    """Train a network on all rows, and one member for each row left out.

    The same data, recipe and device give the same bytes, whatever ``block`` and ``workers``
    are and however often the run was stopped: finished blocks are kept in
    ``directory/.partial`` until all are.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train`` or ``X, y``.
    directory : Path or str
        Where ``full.onnx``, ``family.npz`` and ``idp.spec`` go.
    label : str or None
        The column to predict; for CSV.
    recipe : Recipe or None
        None: LUCID's, a 2x50 network.
    members : int or None
        Leave out each of the first so many rows; None: all.
    block : int or None
        Networks trained together by one process; None: what suits the device.
    workers : int or None
        Processes; None: one a core, on a GPU one.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    on_progress : callable or None

    Raises
    ------
    TrainingError
        If the data or the settings cannot be used, the directory holds another run, torch is
        missing, or training diverges.
    TrainingInterruptedError
        On Ctrl-C.
    """
    started = time.monotonic()
    job: Job | None = None
    try:
        job = prepare(Path(source), Path(directory), label, recipe, members, block, workers, device)
        complete = is_complete(job)
        if not complete:
            _train(job, on_progress or (lambda progress: None))
        return _report(job, started, complete)
    except KeyboardInterrupt:
        raise TrainingInterruptedError(_farewell(job)) from None
    except OSError as error:
        place = error.filename or directory
        raise TrainingError(f"{place}: cannot be written: {error.strerror or error}") from None


def _train(job: Job, on_progress: Callable[[TrainingProgress], None]) -> None:
    blocks = Blocks(job.directory / PARTIAL, count_parameters(job.layers))
    with blocks.opened(job.settings):
        _train_blocks(job, blocks, on_progress)
        first = blocks.finished()[0]
        network = network_model(job.layers, unflatten(job.layers, blocks.read(first)[0]))
        write_whole(blocks.folder / NETWORK, network.SerializeToString(deterministic=True))
        assert job.manifest.data is not None
        text = spec_text(job.manifest.data, job.source.name, _inside(job.data), job.data.encoding)
        write_whole(blocks.folder / SPEC, text.encode())
        write_family(blocks.folder / FAMILY, job.layers, blocks, job.members, job.manifest)
        # The family comes last: where it is, all is.
        for name in (NETWORK, SPEC, FAMILY):
            (blocks.folder / name).replace(job.directory / name)


def _train_blocks(
    job: Job, blocks: Blocks, on_progress: Callable[[TrainingProgress], None]
) -> None:
    missing = sum(map(len, blocks.missing(job.networks, job.networks)))
    if not missing:
        return
    share = -(-missing // job.workers)
    todo = blocks.missing(job.networks, min(job.block, share))
    task = Task(
        recipe=job.recipe,
        folder=str(blocks.folder.resolve()),
        device=job.device,
        X=np.ascontiguousarray(job.data.X, dtype=np.float32),
        y=np.ascontiguousarray(job.data.y, dtype=np.int64),
        labels=len(job.data.labels),
    )
    finished = job.networks - missing
    underway: dict[range, float] = {}

    def tell(block: range, epochs: int, done: bool) -> None:
        nonlocal finished
        if done:
            underway.pop(block, None)
            finished += len(block)
        else:
            underway[block] = len(block) * epochs / job.recipe.epochs
        work = finished + sum(underway.values())
        on_progress(TrainingProgress(finished, job.networks, work))

    on_progress(TrainingProgress(finished, job.networks, finished))
    train_blocks(task, todo, job.workers, tell)


def _inside(data: TrainingData) -> bool:
    parts = [data.X] if data.X_test is None else [data.X, data.X_test]
    return all(not part.size or bool(part.min() >= 0 and part.max() <= 1) for part in parts)


def _report(job: Job, started: float, complete: bool) -> TrainingReport:
    model = (job.directory / NETWORK).read_bytes()
    data = job.data
    test = None
    if data.X_test is not None and data.y_test is not None and len(data.y_test):
        test = _accuracy(model, data.X_test, data.y_test)
    files = tuple(job.directory / name for name in (NETWORK, FAMILY, SPEC))
    return TrainingReport(
        directory=job.directory,
        rows=len(data.X),
        features=data.X.shape[1],
        labels=len(data.labels),
        members=job.members,
        train_accuracy=_accuracy(model, data.X, data.y),
        test_accuracy=test,
        seconds=time.monotonic() - started,
        complete_before=complete,
        files=tuple(path for path in files if path.exists()),
    )


def _accuracy(model: bytes, X: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    return float(np.mean(np.argmax(scores(model, X), axis=1) == y))


def _farewell(job: Job | None) -> str:
    if job is None:
        return "stopped before training began"
    blocks = Blocks(job.directory / PARTIAL, count_parameters(job.layers))
    finished = sum(map(len, blocks.finished()))
    if not finished:
        return "stopped before a block was finished; nothing is kept"
    return (
        f"stopped: {finished:,} of {job.networks:,} networks are finished and kept in "
        f"{blocks.folder}; the same command goes on from there"
    )

"""From a job to a verifiable directory: train, store, extend and join blocks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.files import commit, hold_folder, partial_folder
from leaveout.models.archive import manifest_array
from leaveout.models.family import FAMILY
from leaveout.models.quality import Quality
from leaveout.models.train.architecture import unflatten_parameters
from leaveout.models.train.blocks import Blocks
from leaveout.models.train.data import MANY_WORDS
from leaveout.models.train.encoding import CategoryColumn, NumberColumn
from leaveout.models.train.export import NETWORK, SPEC, write_family
from leaveout.models.train.job import PARTIAL, Job, finished_networks, is_complete
from leaveout.models.train.pool import Block, Failed, Noted, OpenPool, Step, Trained
from leaveout.models.train.report import TrainingProgress, TrainingReport

_MEASURED = 5.0  # seconds of training before a forecast
_LONG = 600.0  # a shorter remaining time, in seconds, is not reported
_SAMPLE = 3000
_CLOSE = 10
"""Over more numbers, bounds of a family seldom close in minutes; see ``docs/results.md``."""

_UNITS = (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60))
_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))


def opening_notes(job: Job, missing: int) -> str:
    """Return notes before training begins; usually none."""
    said = []
    if job.data.encoding is not None:
        said += [
            (
                f"column {column.name!r} has {len(column.categories):,} words, each of which "
                "becomes a feature; write dates and amounts as numbers"
            )
            for column in job.data.encoding.columns
            if isinstance(column, CategoryColumn) and len(column.categories) > MANY_WORDS
        ]
    encoding = job.data.encoding
    # Words hardly count: a search goes through their values.
    columns = job.data.X.shape[1]
    if encoding is not None:
        columns = sum(isinstance(each, NumberColumn) for each in encoding.columns)
    if job.removed.size and columns > _CLOSE:
        said.append(
            f"with {columns:,} numbers, bounds over all inputs seldom close within minutes: "
            "expect an upper bound well above the lower one, or use fewer features (--drop) or a "
            "forest ('leaveout forest train --share 0.1')"
        )
    network = job.signature.size * np.dtype(np.float32).itemsize
    # Blocks, and the family made of them, whose manifest names the rows.
    needed = network * (missing + job.networks)
    needed += job.removed.nbytes + manifest_array(job.manifest).nbytes
    free = shutil.disk_usage(job.directory).free
    if needed > free:
        said.append(
            f"{job.directory}: the family needs {_size(needed)} in total, but only {_size(free)} "
            "are free; anything finished by the time the disk is full is kept"
        )
    return "; ".join(said)


class Forecast:
    """A single report, after some training, of how long the rest takes if it is long."""

    def __init__(self, job: Job, finished: int, abreast: int) -> None:
        self._job, self._before, self._abreast = job, finished, abreast
        self._began: tuple[float, float] | None = None
        self._is_said = False

    def forecast_line(self, finished: int, work: float) -> str:
        """Return the report; empty if it is not due."""
        if self._is_said or work <= self._before:
            return ""
        now = time.monotonic()
        if self._began is None:
            # Before this, workers were starting.
            self._began = now, work
            return ""
        seconds, done = now - self._began[0], work - self._began[1]
        if seconds < _MEASURED or done <= 0:
            return ""
        self._is_said = True
        left = (self._job.networks - work) * seconds / done
        kept = "what is finished"
        if finished == self._before:
            which = "next" if finished else "first"
            block = max(0.0, self._before + self._abreast - work) * seconds / done
            kept = f"finished blocks, the {which} in about {_duration(block)}"
        return "" if left < _LONG else self._line(left, seconds / done, kept)

    def _line(self, left: float, network: float, kept: str) -> str:
        job, networks = self._job, self._job.networks
        said = (
            f"{networks:,} networks: about {_duration(left)} left, judging by the first seconds; "
        )
        if len(job.data.X) == job.members > 2 * _SAMPLE:
            said += (
                f"--sample {_SAMPLE} takes {_duration(_SAMPLE * network)} and covers all but a "
                "share of the rows, with a stated confidence (docs/sampling.md); "
            )
        return f"{said}if stopped, the same command resumes from {kept}"


def _duration(seconds: float) -> str:
    unit, length = next(
        ((unit, length) for unit, length in _UNITS if seconds >= 2 * length), ("seconds", 1)
    )
    count = seconds / length
    return f"{count:,.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"


def _size(count: float) -> str:
    unit, scale = next(((unit, scale) for unit, scale in _SIZES if count >= scale), _SIZES[-1])
    return f"{count / scale:.3g} {unit}"


_CHUNK = 4096  # rows evaluated at once
_COPIED = 2**24  # numbers of finished networks copied at once

OnProgress = Callable[[TrainingProgress], None]


def train_family(
    job: Job,
    opened: OpenPool,
    *,
    block: int,
    workers: int,
    expected: bool,
    on_progress: OnProgress,
    look: Callable[[Blocks], None] = lambda blocks: None,
) -> None:
    """Train the missing networks and write the files."""
    free = 0 if job.first is None else 1
    blocks = Blocks(job.directory / PARTIAL, job.signature.size, free)
    with blocks.open_folder(job.settings):
        known = finished_networks(job)
        if known is not None:
            for each in blocks.missing_ranges(len(known), max(1, _COPIED // job.signature.size)):
                blocks.write(each.start, known.read(each))
        _train_blocks(job, blocks, opened, block, workers, expected, on_progress)
        look(blocks)
        _put_together(job, blocks)


def _train_blocks(
    job: Job,
    blocks: Blocks,
    opened: OpenPool,
    block: int,
    workers: int,
    expected: bool,
    on_progress: OnProgress,
) -> None:
    missing = sum(map(len, blocks.missing_ranges(job.networks, job.networks)))
    if not missing:
        return
    share = -(-missing // workers)
    todo = blocks.missing_ranges(job.networks, min(block, share))
    finished = job.networks - missing
    underway: dict[range, float] = {}
    forecast = Forecast(job, finished, sum(map(len, todo[:workers])))
    on_progress(TrainingProgress(finished, job.networks, finished, opening_notes(job, missing)))
    orders = [Block(each, job.signature if expected else None) for each in todo]
    with opened(min(workers, len(todo))) as pool:
        for order, said in pool.work(orders):
            assert isinstance(order, Block)
            networks, note = order.networks, ""
            match said:
                case Step(done):
                    underway[networks] = len(networks) * done
                case Noted(note):
                    underway.pop(networks, None)
                case Failed(message):
                    raise TrainingError(message)
                case _:
                    if isinstance(said, Trained) and said.parameters is not None:
                        blocks.write(networks.start, said.parameters)
                    underway.pop(networks, None)
                    finished += len(networks)
            work = finished + sum(underway.values())
            note = note or forecast.forecast_line(finished, work)
            on_progress(TrainingProgress(finished, job.networks, work, note))


def _put_together(job: Job, blocks: Blocks) -> None:
    shapes, folder = job.signature.shapes, job.directory
    first = blocks.read(blocks.finished_ranges()[0])[0]
    model = job.model(unflatten_parameters(shapes, first))
    with hold_folder(folder), partial_folder(folder) as staged:
        (staged / NETWORK).write_bytes(model.SerializeToString(deterministic=True))
        (staged / SPEC).write_bytes(job.spec.encode())
        manifest = structs.replace(job.manifest, quality=_quality(job, staged))
        write_family(staged / FAMILY, shapes, blocks, job.removed, manifest)
        commit(staged, folder)


def report_of(job: Job, started: float, complete: bool) -> TrainingReport:
    """Return the report of a finished run; ``started`` is a `time.monotonic` time."""
    data, label = job.data, _labeller(job.directory)
    test = None
    if data.X_test is not None and data.y_test is not None and len(data.y_test):
        test = float(np.mean(label(data.X_test) == data.y_test))
    quality = _quality(job, job.directory)
    files = tuple(job.directory / name for name in (NETWORK, FAMILY, SPEC))
    return TrainingReport(
        directory=job.directory,
        rows=len(data.X),
        features=data.X.shape[1],
        labels=len(data.labels),
        members=job.members,
        train_accuracy=quality.accuracy,
        quality=quality,
        groups=None if data.groups is None else data.removable,
        warnings=(*data.cautions, *quality.caution),
        test_accuracy=test,
        seconds=time.monotonic() - started,
        complete_before=complete,
        files=tuple(path for path in files if path.exists()),
    )


def _quality(job: Job, folder: Path) -> Quality:
    return Quality.of(_labeller(folder)(job.data.X), job.data.y, job.data.labels)


def _labeller(folder: Path) -> Callable[[NDArray[np.float32]], NDArray[np.int64]]:
    """Return a function that labels rows by the full network in onnxruntime."""
    import onnx

    from leaveout.models.onnx.file import network_from

    runner = network_from(onnx.load(folder / NETWORK), NETWORK).runner()

    def label(X: NDArray[np.float32]) -> NDArray[np.int64]:
        parts = [runner.scores(X[start : start + _CHUNK]) for start in range(0, len(X), _CHUNK)]
        labels: NDArray[np.int64] = np.concatenate(parts).argmax(axis=1)
        return labels

    return label


def farewell(job: Job | None) -> str:
    """Return the message about what an interrupted run leaves on disk."""
    if job is None:
        return "stopped before training began"
    try:
        if is_complete(job):
            return f"stopped: {job.directory} is complete; the same command trains nothing more"
    except TrainingError:
        # The folder contains another run, which the next step would have reported.
        return "stopped before training began"
    blocks = Blocks(job.directory / PARTIAL, job.signature.size)
    finished = sum(map(len, blocks.finished_ranges()))
    if finished <= (job.first is not None):
        return (
            "stopped before the first block of networks was finished: nothing of this run is "
            "kept, and the same command starts over"
        )
    return (
        f"stopped: {finished:,} of {job.networks:,} networks are finished and kept in "
        f"{blocks.folder}; the same command resumes from there"
    )

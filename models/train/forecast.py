"""The expected duration of a run, in one line as soon as it is known."""

from __future__ import annotations

import shutil
import time

import numpy as np

from leaveout.models.archive import manifest_array
from leaveout.models.train.encoding import CategoryColumn
from leaveout.models.train.job import Job

_MEASURED = 5.0
"""Seconds of training that a forecast rests on."""
_LONG = 600.0
"""Seconds: what takes less needs no line."""
_SAMPLE = 3000
_MANY_WORDS = 500

_UNITS = (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60))
_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))


def opening_notes(job: Job, missing: int) -> str:
    """Return notes before training begins; usually none."""
    said = []
    if job.data.encoding is not None:
        said += [
            f"column {column.name!r} has {len(column.categories):,} words, and each is a feature; "
            "what is a date or an amount says more as a number"
            for column in job.data.encoding.columns
            if isinstance(column, CategoryColumn) and len(column.categories) > _MANY_WORDS
        ]
    network = job.signature.size * np.dtype(np.float32).itemsize
    # Blocks, and the family that they are put together to: its manifest names the rows.
    needed = network * (missing + job.networks)
    needed += job.removed.nbytes + manifest_array(job.manifest).nbytes
    free = shutil.disk_usage(job.directory).free
    if needed > free:
        said.append(
            f"{job.directory}: {_size(needed)} are written until the family is complete, and "
            f"{_size(free)} are free; what is finished when the disk is full is kept"
        )
    return "; ".join(said)


class Forecast:
    """Reports once, after some training, how long the rest takes if it is long."""

    def __init__(self, job: Job, finished: int, abreast: int) -> None:
        self._job, self._before, self._abreast = job, finished, abreast
        self._began: tuple[float, float] | None = None
        self._is_said = False

    def forecast_line(self, finished: int, work: float) -> str:
        """Return the line; empty if it is not due."""
        if self._is_said or work <= self._before:
            return ""
        now = time.monotonic()
        if self._began is None:
            # Before that workers started.
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
        said = f"{networks:,} networks: about {_duration(left)} more, by the first seconds; "
        if len(job.data.X) == job.members > 2 * _SAMPLE:
            said += (
                f"--sample {_SAMPLE} takes {_duration(_SAMPLE * network)} and speaks of all rows "
                "but a share, with a confidence (docs/sampling.md); "
            )
        return f"{said}stopped, the same command goes on from {kept}"


def _duration(seconds: float) -> str:
    unit, length = next(
        ((unit, length) for unit, length in _UNITS if seconds >= 2 * length), ("seconds", 1)
    )
    count = seconds / length
    return f"{count:,.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"


def _size(count: float) -> str:
    unit, scale = next(((unit, scale) for unit, scale in _SIZES if count >= scale), _SIZES[-1])
    return f"{count / scale:.3g} {unit}"

"""Training from a data file to a directory ready for verification."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.family import Manifest, Sample
from leaveout.models.onnx.signature import stated_architecture
from leaveout.models.table import OnRead
from leaveout.models.train.architecture import Layer, Signature, layers_of, parameter_shapes
from leaveout.models.train.data import TrainingData, read_data
from leaveout.models.train.export import network_model, spec_text
from leaveout.models.train.family_run import OnProgress, farewell, report_of, train_family
from leaveout.models.train.job import PARTIAL, Job, is_complete
from leaveout.models.train.left_out import earlier_sample, left_out
from leaveout.models.train.pool import check_executor, workplace
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.report import TrainingInterruptedError, TrainingReport
from leaveout.models.train.stacked_task import (
    StackedTask,
    device_count,
    device_facts,
    device_memory,
    resolve_device,
)

_BLOCK = 32
"""Networks trained together on a CPU: more are no faster, and fewer are where batches are small."""


def run(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    recipe: Recipe | None = None,
    members: int | None = None,
    sample: int | None = None,
    draws: int | None = None,
    fresh: Path | str | None = None,
    block: int | None = None,
    workers: int | None = None,
    executor: str = "processes",
    device: str = "auto",
    on_progress: OnProgress | None = None,
    on_read: OnRead | None = None,
) -> TrainingReport:
    """Train a network on all rows, and one member for each row left out.

    The same data, recipe and device give the same bytes, whatever ``block`` and ``workers``
    are and however often the run was stopped: finished blocks are kept in
    ``directory/.partial`` until all are. A run with more ``members`` than the directory holds
    goes on from those, and gives what one run gives.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train`` or ``X, y``.
    directory : Path or str
        Where ``full.onnx``, ``family.npz`` and ``idp.spec`` go.
    label : str or None
        The column to predict; for CSV.
    identity : str or None
        The column that names the rows, which is no feature; for CSV.
    units : mapping of str to str or None
        By columns, what their numbers are measured in.
    recipe : Recipe or None
        None: LUCID's, a 2x50 network.
    members : int or None
        Leave out each of the first so many rows; None: all.
    sample : int or None
        Leave out each of so many rows drawn uniformly without replacement, by the recipe's seed:
        enough to speak of all rows, statistically. Such a family is not extended.
    draws : int or None
        How many such samples are planned, of which this is the first; None: it alone.
    fresh : Path or str or None
        The folder of the sample before: the next of those that were planned is drawn.
    block : int or None
        Networks trained together by one process; None: what suits the device, on a GPU as many as
        fit into its memory. Where they turn out not to fit, fewer are.
    workers : int or None
        Processes; None: one a core. On GPUs of this machine it is one each. On Ray blocks trained
        at once; None: as many as the cluster has cores, and gets.
    executor : str
        ``processes`` or ``ray``: the cluster that this process is connected to, or that
        ``RAY_ADDRESS`` names, else this machine. The bytes are those of processes: a machine
        that would train others is not used.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    on_progress : callable or None
        Told a `TrainingProgress` as networks are trained.
    on_read : callable or None
        Told before that, of a CSV, which share of it is read.

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
        for flag, count in (("--block", block), ("--workers", workers)):
            if count is not None and count < 1:
                raise TrainingError(f"{flag} {count}: expected a whole number of at least 1")
        check_executor(executor, f"--executor {executor}")
        recipe = recipe or Recipe()
        data = read_data(Path(source), label, identity, units, on_read)
        earlier = None if fresh is None else earlier_sample(Path(fresh))
        removed, drawn = left_out(
            len(data.X), recipe.seed,
            members=members, sample=sample, draws=draws, earlier=earlier, said="--{} ",
        )  # fmt: skip
        _check_class_weights(recipe, data)
        layers = layers_of(recipe, data.X.shape[1], len(data.labels))
        resolved = resolve_device(device)
        job = _job(Path(source), Path(directory), data, recipe, layers, (removed, drawn), resolved)
        if earlier is not None:
            earlier.refuse_other(job)
        complete = is_complete(job)
        if not complete:
            X = np.ascontiguousarray(data.X, dtype=np.float32)
            with workplace(executor, workers, gpus=resolved == "cuda", shared=X.nbytes) as there:
                task = StackedTask(
                    recipe=recipe,
                    folder=str((job.directory / PARTIAL).resolve()) if there.writes else "",
                    device=resolved,
                    X=X,
                    y=np.ascontiguousarray(data.y, dtype=np.int64),
                    labels=len(data.labels),
                    removed=removed,
                )
                train_family(
                    job,
                    lambda size: there.pool(task, size),
                    block=block or _block(task),
                    workers=_workers(task, there.size),
                    expected=False,
                    on_progress=on_progress or (lambda progress: None),
                )
        return report_of(job, started, complete)
    except KeyboardInterrupt:
        raise TrainingInterruptedError(farewell(job)) from None
    except OSError as error:
        place = error.filename or directory
        raise TrainingError(f"{place}: cannot write: {error.strerror or error}") from None


def _job(
    source: Path,
    directory: Path,
    data: TrainingData,
    recipe: Recipe,
    layers: tuple[Layer, ...],
    rows: tuple[NDArray[np.int64], Sample | None],
    device: str,
) -> Job:
    shapes = parameter_shapes(layers)
    blank = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    signature = Signature.of(network_model(layers, blank))
    settings = {**recipe.settings(), **device_facts(device)}
    if data.encoding is not None:
        settings["encoding"] = msgspec.to_builtins(data.encoding)
    facts = data.facts()
    return Job(
        directory=directory,
        data=data,
        removed=rows[0],
        manifest=Manifest(
            architecture=stated_architecture(signature.architecture),
            data=facts,
            seed=recipe.seed,
            recipe=settings,
            sample=rows[1],
        ),
        signature=signature,
        model=lambda parameters: network_model(layers, parameters),
        spec=spec_text(facts, source.name, _inside(data), data.encoding, rows[1]),
    )


def _block(task: StackedTask) -> int:
    """Return how many networks an order has: on a GPU as many as fit."""
    return _BLOCK if task.device == "cpu" else task.networks_at_once(device_memory(task.device))


def _workers(task: StackedTask, size: int) -> int:
    """Return the number of workers: one per GPU of this machine, if on GPUs."""
    return device_count(task.device) if task.device != "cpu" and task.folder else size


def _check_class_weights(recipe: Recipe, data: TrainingData) -> None:
    given = recipe.class_weights
    if given and not isinstance(given, str) and len(given) != len(data.labels):
        raise TrainingError(
            f"--class-weights {','.join(map(str, given))}: the data has {len(data.labels)} "
            f"labels; expected one number for each of {', '.join(data.labels)}"
        )


def _inside(data: TrainingData) -> bool:
    parts = [data.X] if data.X_test is None else [data.X, data.X_test]
    return all(not part.size or bool(part.min() >= 0 and part.max() <= 1) for part in parts)

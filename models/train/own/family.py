"""A family from a user's own training function."""

from __future__ import annotations

import math
import time
import warnings as python_warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray

from leaveout.children import import_environment
from leaveout.errors import LeaveoutError, TrainingError
from leaveout.models.family import Manifest, Sample
from leaveout.models.onnx.file import Network, network_from_bytes
from leaveout.models.onnx.reader import TREES
from leaveout.models.onnx.repairs import repair_model
from leaveout.models.onnx.signature import stated_architecture
from leaveout.models.onnx.values import read_parameters
from leaveout.models.replay import with_parameters
from leaveout.models.train.architecture import Signature, flatten_parameters
from leaveout.models.train.blocks import Blocks
from leaveout.models.train.data import TrainingData
from leaveout.models.train.export import spec_text
from leaveout.models.train.family_run import OnProgress, farewell, report_of, train_family
from leaveout.models.train.job import OWN, PARTIAL, Job, is_complete
from leaveout.models.train.left_out import earlier_sample, left_out
from leaveout.models.train.own.call import Fit, FitTask, check_fit, pack_fit
from leaveout.models.train.own.inputs import training_data
from leaveout.models.train.own.preprocessing import Probes
from leaveout.models.train.pool import (
    Failed,
    Order,
    Pool,
    Probe,
    Trained,
    Workplace,
    check_executor,
    digest_of,
    processes,
    workplace,
)
from leaveout.models.train.report import (
    TrainingInterruptedError,
    TrainingProgress,
    TrainingReport,
    progress_bar,
)

_FEW = 4  # with fewer members, distances mean nothing
_FAR = 8.0
"""Most times by which a member may be farther from the full network than from its neighbour: more
than if neighbours lack similar rows, less than if batches are drawn anew.
"""
_NOISE = 0.5  # share of the distance between networks of two seeds that one missing row may cause
_ALIKE = 1e-6  # relative distance below which only the solver's tolerance shows


class ReturnsTreesError(TrainingError):
    """A function that returns trees, which are no network."""


class TrainingWarning(UserWarning):
    """Members may differ from the full network by more than one row explains."""


def refuse_lone_labels(data: TrainingData, removed: NDArray[np.int64]) -> None:
    """Raise TrainingError if a member lacks all rows of a label."""
    units = np.arange(len(data.y)) if data.groups is None else data.groups
    for label, name in enumerate(data.labels):
        first, *others = np.unique(units[data.y == label]).tolist()
        if not others and first in removed:
            lone = f"row, {first}" if data.groups is None else f"{data.group}, {data.ids[first]}"
            raise TrainingError(
                f"label {name!r} has one {lone}: without it no network can learn the label; drop "
                "its rows, or use a label that others have"
            )


def refuse_irreproducible(
    one: NDArray[np.float32], other: NDArray[np.float32], names: list[str]
) -> None:
    """Raise if training twice on the same rows and seed gave different networks."""
    if np.array_equal(one, other):
        return
    place = int(np.argmax(np.abs(one.astype(np.float64) - other)))
    raise TrainingError(
        f"fit returns two different networks for the same rows and seed ({names[place]}: "
        f"{one[place]:.9g} and {other[place]:.9g}), so members would differ by more than one "
        "row: draw all random numbers from seed, e.g. random_state=seed, "
        "np.random.default_rng(seed) or torch.Generator().manual_seed(seed), and none from the "
        "clock"
    )


def learned_nothing(report: TrainingReport) -> tuple[str, ...]:
    """Return a warning if the network is no better than always answering one label."""
    accuracy, share = report.train_accuracy, report.quality.majority
    if accuracy > share:
        return ()
    return (
        (
            f"the network returned by fit labels {accuracy:.1%} of the rows correctly, but always "
            f"answering the commonest label is correct for {share:.1%}: the network must take X as "
            "fit receives it, so anything fit does to X, such as scaling, belongs in the network: "
            "as a first layer, or a step of the pipeline"
        ),
    )


def strange_members(
    blocks: Blocks, members: int, retrained: NDArray[np.float32]
) -> tuple[str, ...]:
    """Return warnings on members that differ by more than one row explains.

    Members nearer to each other than to the full network depend on the row count; if they are as
    far away as another seed's network, training is chaotic.
    """
    if members < _FEW:
        return ()
    away, beside = [], []
    chosen = np.ones(len(retrained), dtype=bool)
    whole: NDArray[np.float64] | None = None
    last: NDArray[np.float64] | None = None
    for block in blocks.finished_ranges():
        for parameters in blocks.read(block):
            if whole is None:
                chosen = parameters != retrained
                chosen |= not chosen.any()
                whole = parameters[chosen].astype(np.float64)
                continue
            now = parameters[chosen].astype(np.float64)
            away.append(np.linalg.norm(now - whole))
            if last is not None:
                beside.append(np.linalg.norm(now - last))
            last = now
    assert whole is not None
    size, far, near = np.linalg.norm(whole), np.median(away), np.median(beside)
    noise = np.linalg.norm(retrained[chosen].astype(np.float64) - whole)
    if far <= _ALIKE * size:
        return ()
    cure = (
        "use the batches of rows.batches(size, seed), where rows is a fourth parameter of fit, "
        "or train on all rows at once without shuffling"
    )
    if far > _FAR * near:
        return (
            (
                f"members are {far / near:.1f} times as far from the network on all rows as from "
                "their neighbours: the number of rows seems to change the order of the rows or the "
                "random draws, so members differ by more than their row and bounds will be loose; "
                f"{cure}"
            ),
        )
    if noise > _ALIKE * size and far > _NOISE * noise:
        return (
            (
                f"removing a row moves the network {far / noise:.0%} as far as changing the "
                f"seed: bounds will be loose; train for fewer epochs or with more weight "
                f"decay, and {cure}"
            ),
        )
    return ()


_FILES = 1000
"""Blocks of a run with enough networks; a killed run loses one block per worker at most."""


def leave_one_out(
    fit: Fit,
    X: Any,
    y: ArrayLike,
    *,
    out: Path | str,
    seed: int = 0,
    members: int | None = None,
    sample: int | None = None,
    draws: int | None = None,
    fresh: Path | str | None = None,
    features: Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    ids: Sequence[Any] | str | None = None,
    group: Sequence[Any] | str | None = None,
    missing: str | Sequence[str] = (),
    one_hot: Mapping[str, Sequence[str]] | None = None,
    raw: bool = False,
    workers: int | None = None,
    executor: str = "processes",
    backend: str | None = None,
    on_progress: OnProgress | None = None,
) -> TrainingReport:
    """Train a network by a user's function, and one member for each row left out.

    The function is called once per network, in other processes, as ``fit(X, y, seed)``, with the
    rows in order (for a member, all but the left-out one) and always the same seed. `random`, numpy
    and torch are seeded with it before each call. Its result must depend on these three alone,
    which is tested: the network on all rows is trained twice, and once with another seed for
    comparison.

    Finished members are kept in ``out/.partial``. The same call resumes a stopped run, and a call
    with more ``members`` extends a finished one; the resulting bytes are those of a single run.

    Parameters
    ----------
    fit : callable
        ``fit(X, y, seed)`` returns a trained `torch.nn.Module` in evaluation mode, an ONNX model
        (ModelProto, bytes or path), or a fitted scikit-learn classifier: MLPClassifier, a linear
        one, or a pipeline of scalers, encoders and imputers and one of these. ``X`` is float32 of
        shape (rows, features), ``y`` int64 of shape (rows,), from 0. A fourth parameter receives
        them as `leaveout.models.train.Rows`, whose batches do not shift; ``seed`` may be left out.
    X : array_like of numbers, shape (rows, features), or a data frame
        Arrays are used unchanged. Columns of a data frame are encoded like those of a CSV: numbers
        are scaled into [0, 1], words one-hot encoded.
    y : array_like, shape (rows,)
        Labels of any type; they are sorted and numbered from 0.
    out : Path or str
        Folder for ``full.onnx``, ``family.npz`` and ``idp.spec``.
    seed : int
        Seed of all networks, from 0 to 2**32 - 2.
    members : int or None
        Leave out each of the first ``members`` rows; None for all rows.
    sample : int or None
        Leave out each of ``sample`` rows drawn uniformly without replacement, by ``seed``, for
        statistical claims about all rows. Such a family cannot be extended.
    draws : int or None
        Number of planned samples, this being the first; None for this one alone.
    fresh : Path or str or None
        The folder of the previous sample: the next planned one is drawn.
    features : sequence of str or None
        Names of an array's columns.
    units : mapping of str to str or None
        Units of measurement, by column.
    ids : sequence, str or None
        Names of the rows; for a data frame also the name of their column, which is not a feature.
    group : sequence, str or None
        Whose each row is, such as the patient: a member lacks all rows of one. For a data frame
        also the name of the column. What is left out and counted is then groups, not rows.
    missing : str or sequence of str
        What becomes of missing values of a data frame, as for ``leaveout train --missing``.
    one_hot : mapping of str to sequence of str or None
        For an encoded array: the adjacent features of each column of words, by column name.
    raw : bool
        Whether ``fit`` receives the rows of a pandas DataFrame as they are, without the columns
        ``ids`` and ``group``, and returns a scikit-learn pipeline. The family reads the encoding
        of the whole table, missing values marked; each member's own preprocessing is folded into
        its first layer.
    workers : int or None
        Processes of one thread each; None for one per core, on Ray one per core of the cluster.
    executor : str
        ``processes`` or ``ray``; see `leaveout.models.train.run`. Machines on which the network on
        all rows differs in any bit are not used.
    backend : str or None
        Former name of ``executor``.
    on_progress : callable or None
        Receives a `TrainingProgress` as networks finish; None for a progress bar on a terminal.

    Raises
    ------
    TrainingError
        If the data, the function or its result cannot be used, training is not reproducible, or the
        folder contains another family.
    TrainingInterruptedError
        On Ctrl-C.

    Warns
    -----
    TrainingWarning
        If members differ from the network on all rows by more than one row explains.
    """
    started = time.monotonic()
    target = Path(out)
    known: list[Job] = []
    try:
        packed = pack_fit(fit, check_fit(fit))
        executor = _executor(executor, backend)
        data = training_data(
            X,
            y,
            features=features,
            units=units,
            ids=ids,
            group=group,
            missing=missing,
            one_hot=one_hot,
            raw=raw,
        )
        probes = None
        if raw:
            named = [each for each in (ids, group) if isinstance(each, str)]
            probes = Probes.of_frame(X[[c for c in X if str(c).strip() not in named]], data)
        _check(seed, workers, target)
        earlier = None if fresh is None else earlier_sample(Path(fresh))
        removed, drawn = left_out(
            data.removable,
            int(seed),
            members=members,
            sample=sample,
            draws=draws,
            earlier=earlier,
        )
        refuse_lone_labels(data, removed)
        task = FitTask(
            *(packed, data.X, data.y, len(data.labels)),
            *(removed, int(seed), data.groups, probes),
        )
        with progress_bar(on_progress) as shown:
            told = shown.progress
            if not (target / PARTIAL).exists():
                told(TrainingProgress(0, len(removed) + 1, 0))
            # All in one process, since later trainings could find what earlier ones left there.
            with processes(task, 1, import_environment()) as pool:
                job, retrained = _try_training(pool, task, data, target, drawn)
            if earlier is not None:
                earlier.refuse_other(job)
            known.append(job)
            complete = is_complete(job)
            found = []
            if not complete:
                size = None if workers is None else int(workers)
                with workplace(
                    executor, size, settings=import_environment(), shared=data.X.nbytes
                ) as there:
                    found = _train(job, task, there, retrained, told)
        report = report_of(job, started, complete)
    except KeyboardInterrupt:
        raise TrainingInterruptedError(farewell(known[0] if known else None)) from None
    except OSError as error:
        place = error.filename or target
        raise TrainingError(f"{place}: cannot write: {error.strerror or error}") from None
    warnings = (*data.cautions, *report.quality.caution, *learned_nothing(report), *found)
    for each in warnings:
        python_warnings.warn(each, TrainingWarning, stacklevel=2)
    return replace(report, warnings=warnings)


def _train(
    job: Job,
    task: FitTask,
    there: Workplace,
    retrained: NDArray[np.float32],
    tell: OnProgress,
) -> list[str]:
    """Train the missing networks, and return warnings."""
    found: list[str] = []
    assert job.first is not None
    folder = str((job.directory / PARTIAL).resolve()) if there.writes else ""
    task = replace(task, folder=folder, reference=digest_of(job.first))
    train_family(
        job,
        lambda size: there.pool(task, size),
        block=max(1, -(-job.networks // _FILES)),
        workers=min(there.size, job.networks),
        expected=True,
        on_progress=tell,
        look=lambda blocks: found.extend(strange_members(blocks, job.members, retrained)),
    )
    return found


def _check(seed: int, workers: int | None, target: Path) -> None:
    """Raise if a setting is out of range."""
    whole = isinstance(workers, Integral) and not isinstance(workers, bool)
    if workers is not None and not (whole and workers >= 1):
        raise TrainingError(f"workers={workers!r}: expected a whole number of at least 1, or None")
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < 2**32 - 1:
        raise TrainingError(f"seed={seed!r}: expected a whole number from 0 to 2**32 - 2")
    if target.exists() and not target.is_dir():
        raise TrainingError(f"{target}: is a file; choose another folder")


def _executor(executor: str, backend: str | None) -> str:
    """Return the executor, given by either option name."""
    if backend is None:
        check_executor(executor, f"executor={executor!r}")
        return executor
    check_executor(backend, f"backend={backend!r}")
    return backend


def _try_training(
    pool: Pool, task: FitTask, data: TrainingData, target: Path, drawn: Sample | None
) -> tuple[Job, NDArray[np.float32]]:
    """Train on all rows twice, which must agree, and once with another seed."""
    orders = [Probe(task.seed), Probe(task.seed + 1), Probe(task.seed, 1)]
    models: dict[Order, bytes] = {}
    for order, said in pool.work(orders):
        if isinstance(said, Failed):
            kind = ReturnsTreesError if TREES in said.message else TrainingError
            raise kind(said.message)
        if isinstance(said, Trained):
            models[order] = said.model
    job = _job(data, target, task, drawn, models[orders[0]])
    whole, shapes = job.first, job.signature.shapes
    assert whole is not None
    retrained, again = (
        _flat(job.signature, models[order], name)
        for order, name in zip(orders[1:], ("with another seed", "trained again"), strict=True)
    )
    names = [name for name, shape in shapes.items() for _ in range(math.prod(shape))]
    refuse_irreproducible(whole, again, names)
    return job, retrained


def _flat(signature: Signature, model: bytes, name: str) -> NDArray[np.float32]:
    read, _ = repair_model(onnx.load_from_string(model))
    wrong = signature.difference(Signature.of(read))
    if wrong is not None:
        raise TrainingError(
            f"fit builds networks of different architectures from the same rows; {name} {wrong}: "
            "fix widths and layers, independent of the seed"
        )
    return flatten_parameters(signature.shapes, read_parameters(read))


def _job(
    data: TrainingData, target: Path, task: FitTask, drawn: Sample | None, model: bytes
) -> Job:
    network = _network(model, data)
    signature = Signature.of(network.model)
    facts = data.facts()
    whole = flatten_parameters(signature.shapes, network.parameters)
    recipe: dict[str, object] = {
        "network": OWN,
        "trained": digest_of(whole),
        "encoding": msgspec.to_builtins(data.encoding),
    }
    return Job(
        directory=target,
        data=data,
        removed=task.removed,
        manifest=Manifest(
            architecture=stated_architecture(signature.architecture),
            data=facts,
            seed=task.seed,
            recipe=recipe,
            sample=drawn,
        ),
        signature=signature,
        model=lambda parameters: with_parameters(network.model, parameters),
        spec=spec_text(facts, "the data", True, data.encoding, drawn),
        first=whole,
    )


def _network(model: bytes, data: TrainingData) -> Network:
    """Read the network as the verifier will, so that it is refused early."""
    try:
        network = network_from_bytes(model, "the network returned by fit")
    except LeaveoutError as error:
        raise TrainingError(str(error)) from None
    if network.inputs != data.X.shape[1]:
        raise TrainingError(
            f"the network returned by fit reads {network.inputs} numbers, but X has "
            f"{data.X.shape[1]} features: train on all of them"
        )
    return network

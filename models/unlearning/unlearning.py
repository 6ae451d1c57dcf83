"""Unlearning from files to files: a network, its data and the rows to forget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.files import write_together
from leaveout.models.onnx.file import Network, load_network
from leaveout.models.train.data import TrainingData, read_data
from leaveout.models.unlearning.classifier import Classifier, posteriors, require_torch
from leaveout.models.unlearning.forget import (
    labels_lost,
    read_forget,
    rows_of_label,
    third_party,
)
from leaveout.models.unlearning.game import Accuracies, Deletion, Record, play, retrain
from leaveout.models.unlearning.graph_network import GraphNetwork
from leaveout.models.unlearning.settings import Game, Schedule

UNLEARNED = "unlearned.onnx"
RETRAINED = "retrained_{seed}.onnx"
RECORD = "unlearning.json"


class UnlearningInterruptedError(TrainingError):
    """Unlearning was interrupted from the keyboard; no file was written."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True, eq=False)
class UnlearningReport:
    """The record of an unlearning, and the files written."""

    record: Record
    files: tuple[Path, ...]


def matching_network(network: Network, data: TrainingData, source: Path) -> GraphNetwork:
    """Return the network, ready to train; raise if it does not fit the data."""
    features = data.X.shape[1]
    if features != network.inputs:
        raise TrainingError(
            f"{source} has {features} features, but {network.source} reads {network.inputs}; "
            "pass the data that the network was trained on"
        )
    if len(data.labels) > network.labels:
        raise TrainingError(
            f"{source} has {len(data.labels)} labels, but {network.source} returns "
            f"{network.labels} scores; pass the data that the network was trained on"
        )
    if data.X_test is None or not len(data.X_test):
        raise TrainingError(
            f"{source} has no test rows, which unlearning needs as third-party data: write an NPZ "
            "with X_train, y_train, X_test and y_test"
        )
    return GraphNetwork(network)


def run(
    model: Path | str,
    source: Path | str,
    directory: Path | str,
    *,
    forget: str | None = None,
    forget_class: str | None = None,
    label: str | None = None,
    game: Game | None = None,
    schedule: Schedule | None = None,
    third: float = 0.5,
    retrained: int = 0,
    seed: int = 0,
    on_round: Callable[[int], None] | None = None,
) -> UnlearningReport:
    """Unlearn rows from an ONNX network, and write the unlearned network and a record.

    Parameters
    ----------
    model : Path or str
        An ONNX file.
    source : Path or str
        The network's training rows, and test rows.
    directory : Path or str
        Folder for ``unlearned.onnx``, ``unlearning.json`` and ``retrained_SEED.onnx``.
    forget : str or None
        As in `read_forget`.
    forget_class : str or None
        Alternatively, a label whose rows are all forgotten.
    label : str or None
        The CSV's column to predict.
    game : Game or None
    schedule : Schedule or None
        Training of the alternative and the retrained networks.
    third : float
        Share of the test rows that the unlearner may use.
    retrained : int
        Number of networks also trained from scratch without the rows, with seeds from ``seed`` on.
    seed : int
    on_round : callable or None
        Receives the number of finished rounds.

    Raises
    ------
    TrainingError, ModelError
        If the files or settings cannot be used, or the output already exists.
    UnlearningInterruptedError
        On Ctrl-C; no file was written.
    """
    require_torch("leaveout unlearn")
    if not 0 <= seed < 2**63:
        raise TrainingError(f"--seed {seed}: expected a whole number from 0 to 2**63 - 1")
    if (forget is None) == (forget_class is None):
        raise TrainingError(
            "pass exactly one of --forget ROWS and --forget-class LABEL, to choose what to forget"
        )
    if retrained < 0:
        raise TrainingError(f"--retrain {retrained}: expected a whole number of at least 0")
    target = Path(directory)
    files = [target / RECORD, *(target / RETRAINED.format(seed=seed + i) for i in range(retrained))]
    files.append(target / UNLEARNED)
    _refuse_existing(target, files)
    try:
        record, contents = _unlearn(
            Path(model),
            Path(source),
            forget,
            forget_class,
            label,
            game or Game(),
            schedule or Schedule(),
            third,
            retrained,
            seed,
            on_round,
        )
        _write(target, files, contents)
    except KeyboardInterrupt:
        raise UnlearningInterruptedError("stopped; nothing was written") from None
    return UnlearningReport(record, tuple(files))


def _write(target: Path, files: list[Path], contents: list[bytes]) -> None:
    names = [path.name for path in files]
    try:
        write_together(target, dict(zip(names, contents, strict=True)))
    except OSError as error:
        place = error.filename or target
        raise TrainingError(f"{place}: cannot write: {error.strerror or error}") from None


def _refuse_existing(target: Path, files: list[Path]) -> None:
    if target.exists() and not target.is_dir():
        raise TrainingError(f"{target}: is a file; choose another -o")
    for path in files:
        if path.exists():
            raise TrainingError(f"{path} already exists; choose another -o, or delete it")


def _unlearn(
    model: Path,
    source: Path,
    forget: str | None,
    forget_class: str | None,
    label: str | None,
    game: Game,
    schedule: Schedule,
    third: float,
    retrained: int,
    seed: int,
    on_round: Callable[[int], None] | None,
) -> tuple[Record, list[bytes]]:
    network, data = load_network(model), read_data(source, label)
    original = matching_network(network, data, source)
    assert data.X_test is not None and data.y_test is not None
    rows = _rows(data, forget, forget_class, seed)
    shown = third_party(len(data.X_test), third, seed)
    forgotten = np.zeros(len(data.X), dtype=np.bool_)
    forgotten[rows] = True
    deletion = Deletion(data.X, data.y, forgotten, data.X_test[shown])
    played = play(original, deletion, game, schedule, seed, on_round)
    seconds = []
    others: list[GraphNetwork] = []
    for own in range(seed, seed + retrained):
        started = time.perf_counter()
        new = retrain(original, data.X[~forgotten], data.y[~forgotten], schedule, own)
        seconds.append(time.perf_counter() - started)
        others.append(new)
    judges = (data.X_test[~shown], data.y_test[~shown])
    record = Record(
        network=model.name,
        data=source.name,
        data_sha256=data.facts().sha256,
        forgotten=tuple(rows.tolist()),
        labels_lost=labels_lost(data, rows),
        third=third,
        seed=seed,
        retrained=tuple(range(seed, seed + retrained)),
        undrawn=original.undrawn(),
        game=game,
        schedule=schedule,
        curves=played.curves,
        seconds=played.seconds,
        retrain_seconds=float(np.mean(seconds)) if seconds else 0.0,
        original=_accuracies(original, deletion, judges),
        unlearned=_accuracies(played.model, deletion, judges),
        retrained_accuracies=tuple(_accuracies(one, deletion, judges) for one in others),
    )
    text = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
    return record, [text, *map(_content, others), _content(played.model)]


def _rows(
    data: TrainingData, forget: str | None, forget_class: str | None, seed: int
) -> NDArray[np.int64]:
    if forget_class is not None:
        return rows_of_label(data, forget_class)
    assert forget is not None
    return read_forget(forget, len(data.X), seed)


def _content(model: GraphNetwork) -> bytes:
    content: bytes = model.to_network("unlearned").model.SerializeToString(deterministic=True)
    return content


def _accuracies(
    model: Classifier, deletion: Deletion, judges: tuple[NDArray[np.float32], NDArray[np.int64]]
) -> Accuracies:
    def right(X: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(posteriors(model, X).argmax(axis=1) == y)

    gone = deletion.forgotten
    known = right(deletion.X, deletion.y)
    new = right(*judges)
    lost = ~np.isin(judges[1], deletion.y[~gone])
    whole = bool(np.isin(deletion.y[gone], deletion.y[~gone]).all())
    return Accuracies(
        forgotten=float(known[gone].mean()),
        retained=float(known[~gone].mean()),
        test=float(new.mean()),
        lost_labels=None if whole or not lost.any() else float(new[lost].mean()),
        other_labels=None if whole or lost.all() else float(new[~lost].mean()),
    )

"""What the libraries themselves answer to an input, where they are installed."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.forests.tree_comparison import margins
from leaveout.kernel.trees import Ensemble
from leaveout.written import first_few

_FAR = 1e-3  # further from what was read, relatively, than rounding of links brings values


@dataclass(frozen=True)
class Replay:
    """A library's answer: its name, the label or empty, the values, and whether it was expected.

    ``refusal`` is what the library says instead of an answer.
    """

    library: str
    label: str
    values: tuple[float, ...]
    expected: bool
    refusal: str = ""

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.library} refuses the input: {self.refusal}"
        shown = first_few((f"{each:.9g}" for each in self.values), 4)
        if not self.label:
            return f"{self.library} returns {shown}"
        return f"{self.library} answers {self.label} ({shown})"


def replay(given: Any, ensemble: Ensemble, point: Floats) -> Replay | None:
    """Return what the library of a model answers to an input; None if it is not installed."""
    library = type(given).__module__.partition(".")[0]
    try:
        found = _ask(given, library, ensemble, point)
    except ValueError as error:
        said = " ".join(str(error).split("\n")[0].split())[:100]
        return Replay(library, "", (), True, said)
    if found is None:
        return None
    name, label, values = found
    return Replay(name, label, tuple(values.tolist()), _is_expected(ensemble, point, label, values))


def _ask(
    given: Any, library: str, ensemble: Ensemble, point: Floats
) -> tuple[str, str, Floats] | None:
    if isinstance(given, str | Path):
        return _of_file(Path(given), ensemble, point)
    if library == "onnx":
        return _of_onnx(given.SerializeToString(), point)
    if hasattr(given, "classes_") and hasattr(given, "predict_proba"):
        values = np.asarray(given.predict_proba(point[None]))[0]
        answer = np.asarray(given.predict(point[None])).reshape(-1)
        return library, str(answer[0]) if len(answer) == 1 else "", values
    if library in ("xgboost", "lightgbm"):
        return library, "", _of_booster(given, library, point)
    if hasattr(given, "predict"):
        return library, "", np.asarray(given.predict(point[None]), np.float64).reshape(-1)
    return None


def _of_file(path: Path, ensemble: Ensemble, point: Floats) -> tuple[str, str, Floats] | None:
    library = ensemble.source.partition(" ")[0].lower()
    if library == "onnx":
        return _of_onnx(path.read_bytes(), point)
    if library not in ("xgboost", "lightgbm") or importlib.util.find_spec(library) is None:
        return None
    booster = importlib.import_module(library).Booster(model_file=str(path))
    return library, "", _of_booster(booster, library, point)


def _of_booster(model: Any, library: str, point: Floats) -> Floats:
    if library == "lightgbm":
        return np.asarray(model.predict(point[None])).reshape(-1)
    if hasattr(model, "get_booster"):
        model = model.get_booster()
    found = model.inplace_predict(point[None], missing=np.nan, validate_features=False)
    return np.asarray(found).reshape(-1)


def _of_onnx(data: bytes, point: Floats) -> tuple[str, str, Floats]:
    import onnx

    from leaveout.models.replay import session

    opened = session(onnx.ModelProto.FromString(data), "the ONNX file")
    fed, first = {}, 0
    with np.errstate(over="ignore"):
        for each in opened.get_inputs():
            width = each.shape[1] if isinstance(each.shape[1], int) else len(point)
            kind = np.float64 if "double" in each.type else np.float32
            fed[each.name] = point[None, first : first + width].astype(kind)
            first += width
    label, values = "", np.zeros(0)
    for value in opened.run(None, fed):
        if isinstance(value, list):
            values = np.array(list(value[0].values()), np.float64)
        elif np.asarray(value).dtype.kind in "iOU":
            label = str(np.asarray(value).reshape(-1)[0])
        else:
            values = np.asarray(value, np.float64).reshape(-1)
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}", label, values


def _is_expected(ensemble: Ensemble, point: Floats, label: str, values: Floats) -> bool:
    """Return whether a library answers what was read of it, as far as rounding allows."""
    scores, error = ensemble.scores(point[None])[0], ensemble.rounding()
    if label:
        answer = int(ensemble.answers(point[None])[0])
        near = ensemble.tie + 2.0 * float(error.max())
        is_tie = bool(margins(ensemble, point[None])[0] <= near)
        return is_tie or label == ensemble.labels[answer] or label not in ensemble.labels
    if len(values) != len(scores):
        return True
    if ensemble.link == "softmax":
        powers = np.exp(scores - scores.max())
        scores = powers / powers.sum()
    elif ensemble.link != "identity":
        with np.errstate(over="ignore"):
            scores = np.exp(scores) if ensemble.link == "exp" else 1.0 / (1.0 + np.exp(-scores))
    gap = np.abs(values - scores)
    return bool((gap <= 4.0 * error + _FAR * np.maximum(np.abs(scores), np.abs(values))).all())

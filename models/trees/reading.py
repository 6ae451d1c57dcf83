"""Tree ensembles of any library, recognised by their content."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from leaveout.errors import TreesError
from leaveout.files import MODEL, read_whole, why_unread
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees import catboost, ebm, files, lightgbm, sklearn, xgboost

_UBJ = (b"{L", b"{i", b"{U", b"{l", b"{I")


_JSON: dict[str, Callable[[bytes], Ensemble]] = {
    "learner": xgboost.read_json, "ebm": ebm.read_json, "oblivious_trees": catboost.read_json,
    "scale_and_bias": catboost.read_json,
}  # fmt: skip
"""What tells the libraries' JSON files apart."""


def read_trees(path: str | Path) -> Ensemble:
    """Read a file of XGBoost, LightGBM, CatBoost, interpret, ONNX, or of `write_trees`."""
    path = Path(path)
    try:
        data = read_whole(path, MODEL)
    except OSError as error:
        raise TreesError(f"{path}: {why_unread(error)}") from None
    if data.startswith(files.START):
        return files.read_archive_of_trees(path)
    return trees_of(data, str(path))


def trees_of(data: bytes, source: str) -> Ensemble:
    """Read the contents of a library's own file of trees; see `read_trees`."""
    return _refuse_damage(lambda: _reader(data)(data), source)


def is_library_text(data: bytes) -> bool:
    """Whether a file looks like a library's JSON, UBJSON or text, which ONNX never does."""
    return data[:2] in _UBJ or data.lstrip()[:1] == b"{" or data.startswith(lightgbm.START)


def of_model(model: Any) -> Ensemble:
    """Return the trees of a fitted model; its library is asked, and never imported."""
    library = type(model).__module__.partition(".")[0]
    if library not in _LIBRARIES or library not in sys.modules:
        raise TreesError(
            f"{type(model).__module__}.{type(model).__qualname__} is not a model of trees that can "
            f"be read; pass one of {', '.join(_LIBRARIES)}"
        )
    return _refuse_damage(lambda: _LIBRARIES[library](model), type(model).__name__)


_LIBRARIES: dict[str, Callable[[Any], Ensemble]] = {
    "catboost": catboost.of_catboost,
    "interpret": ebm.of_ebm,
    "lightgbm": lightgbm.of_lightgbm,
    "onnx": lambda model: _read_onnx(model.SerializeToString()),
    "sklearn": sklearn.of_sklearn,
    "xgboost": xgboost.of_xgboost,
}


def _read_onnx(data: bytes) -> Ensemble:
    from leaveout.models.trees.onnx import read_onnx

    return read_onnx(data)


def _reader(data: bytes) -> Callable[[bytes], Ensemble]:
    """Return the reader that knows such content."""
    if data[:2] in _UBJ:
        return xgboost.read_ubj
    if data.lstrip()[:1] == b"{":
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        for key, read in _JSON.items():
            if key in keys:
                return read
    if data.startswith(lightgbm.START):
        return lightgbm.read_text
    if b"TreeEnsemble" in data and b"ai.onnx.ml" in data:
        return _read_onnx
    for start, cure in _NOT_READ.items():
        if data.startswith(start):
            raise TreesError(cure)
    raise TreesError(
        "is not a model of trees that can be read; save it as XGBoost's JSON or UBJSON, "
        "LightGBM's text, CatBoost's or interpret's JSON, or ONNX"
    )


_NOT_READ = {
    b"binf": "is XGBoost's old binary format; load it in XGBoost below 3.1 and save it as JSON",
    b"\x80": "is a pickle, which may run any code; load it yourself, and save the model as its "
    "library does (LightGBM: booster_.save_model(path)) or as ONNX; leaveout.compare also takes "
    "the model itself",
    b"CBM1": 'is CatBoost\'s binary format; save it with save_model(path, format="json")',
}


def _refuse_damage(read: Callable[[], Ensemble], where: str) -> Ensemble:
    try:
        return read()
    except (TreesError, Rejected) as error:
        raise TreesError(f"{where}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError) as error:
        raise TreesError(f"{where}: is damaged: {error}; save it again") from None
    except RecursionError:
        raise TreesError(f"{where}: values are nested too deeply; save it again") from None
    except MemoryError:
        raise TreesError(f"{where}: does not fit in memory") from None

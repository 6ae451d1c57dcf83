"""Constants of an ONNX model, restricted to supported types and locations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.external_data_helper import ExternalDataInfo

from leaveout.errors import ModelError
from leaveout.files import MODEL, open_file, read_whole
from leaveout.models.onnx.use import UnsupportedError, attributes_of

_ELSEWHERE = (
    "is stored in another file; save the model in one file, e.g. with "
    "onnx.save(onnx.load('model.onnx'), 'whole.onnx')"
)
_SUPPORTED = {
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.BOOL,
}
_HALVES = {TensorProto.FLOAT16, TensorProto.BFLOAT16}


def read_parameters(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """Return the float32 initialisers by name, in file order."""
    arrays = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    return {n: a for n, a in arrays.items() if a.dtype == np.float32}


def refuse_other_files(model: onnx.ModelProto, where: str) -> None:
    """Refuse a model that stores an initialiser in another file."""
    for item in model.graph.initializer:
        if item.data_location == TensorProto.EXTERNAL or item.external_data:
            raise ModelError(f"{where}: initialiser {item.name!r} {_ELSEWHERE}")


def initial_values(model: onnx.ModelProto, where: str) -> dict[str, NDArray[Any]]:
    """Return the values of all initialisers by name."""
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise ModelError(
            f"{where}: initialiser {name!r} is sparse; export the model with dense initialisers"
        )
    values: dict[str, NDArray[Any]] = {}
    for item in model.graph.initializer:
        if not item.name or item.name in values:
            raise ModelError(f"{where}: initialiser {item.name!r} has no name, or is duplicated")
        try:
            values[item.name] = _array(item)
        except UnsupportedError as error:
            raise ModelError(f"{where}: initialiser {item.name!r} {error}") from None
    return values


def constant_value(proto: onnx.NodeProto) -> NDArray[Any]:
    """Return the value of a Constant node."""
    given = attributes_of(proto)
    if len(given) != 1:
        raise UnsupportedError(f"it has {len(given)} values, expected one")
    ((name, value),) = given.items()
    if name == "value":
        try:
            return _array(value)
        except UnsupportedError as error:
            raise UnsupportedError(f"its value {error}") from None
    if name in {"value_float", "value_floats"}:
        return _finite(np.asarray(value, np.float32))
    if name in {"value_int", "value_ints"}:
        return np.asarray(value, np.int64)
    raise UnsupportedError("only numeric constants are supported")


def _array(tensor: TensorProto) -> NDArray[Any]:
    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise UnsupportedError(_ELSEWHERE)
    if tensor.data_type not in _SUPPORTED:
        known = tensor.data_type in TensorProto.DataType.values()
        kind = TensorProto.DataType.Name(tensor.data_type) if known else str(tensor.data_type)
        if tensor.data_type in _HALVES:
            raise UnsupportedError(
                f"contains {kind.lower()}, and the network computes with it in that precision, "
                "which the bounds do not cover; export a float32 model (model.float()), or cast "
                "the weights to float32 before they are used"
            )
        raise UnsupportedError(
            f"contains {kind.lower()}, expected float32 (int64 for shapes); export a float32 model"
        )
    try:
        value: NDArray[Any] = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnsupportedError(f"is damaged: {next(_lines(error), 'no numbers')}") from None
    return _finite(value)


def _finite(value: NDArray[Any]) -> NDArray[Any]:
    if not np.isfinite(value).all():
        raise UnsupportedError("contains NaN or infinity")
    return value


def _lines(error: Exception) -> Iterator[str]:
    return iter(str(error).strip().splitlines())


def files_of(path: Path) -> list[Path]:
    """Return a network's file, followed by its weight files in order of name."""
    try:
        model = onnx.load_model_from_string(read_whole(path, MODEL))
    except (DecodeError, ValueError, OSError):
        return [path]
    names = sorted({ExternalDataInfo(item).location for item in _elsewhere(model)})
    return [path, *(path.parent / name for name in names)]


def take_in(model: onnx.ModelProto, path: Path) -> None:
    """Load external weights into the model and mark them as internal."""
    total = 0
    for item in _elsewhere(model):
        info = ExternalDataInfo(item)
        data = path.parent / info.location
        if not info.location or not data.resolve().is_relative_to(path.parent.resolve()):
            raise ModelError(
                f"{path}: initialiser {item.name!r} is stored at {info.location!r}, outside the "
                "model's folder; save the model in one file: onnx.save(onnx.load(old), new)"
            )
        start = info.offset or 0
        try:
            with open_file(data, MODEL) as file:
                file.seek(start)
                content = file.read(MODEL if info.length is None else info.length)
        except FileNotFoundError:
            raise ModelError(
                f"{path}: its weights are in {info.location!r}, which is not next to it; put "
                "that file there under this name (a renamed model still needs the old one), or "
                "save the model in one file: onnx.save(onnx.load(old), new)"
            ) from None
        except (OSError, ValueError, OverflowError) as error:
            raise ModelError(f"{data}: cannot read: {error}") from None
        if info.length is not None and len(content) < info.length:
            raise ModelError(
                f"{data}: shorter than {path.name} states; export the model again, both files "
                "together"
            )
        total += len(content)
        if total > MODEL:
            raise ModelError(f"{path}: its weights exceed the size limit of an ONNX file")
        item.raw_data = content
        item.data_location = TensorProto.DEFAULT
        del item.external_data[:]


def _elsewhere(model: onnx.ModelProto) -> list[TensorProto]:
    # One that names a file although its numbers are in the model is refused with the others.
    return [item for item in model.graph.initializer if item.data_location == TensorProto.EXTERNAL]

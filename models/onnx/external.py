"""Weights that an ONNX model keeps in separate files."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto
from onnx.external_data_helper import ExternalDataInfo

from leaveout.errors import ModelError
from leaveout.files import MODEL, open_file, read_whole


def files_of(path: Path) -> list[Path]:
    """Return a network's file, followed by its weight files in order of name."""
    try:
        model = onnx.load_model_from_string(read_whole(path, MODEL))
    except (DecodeError, ValueError, OSError):
        return [path]
    names = sorted({ExternalDataInfo(item).location for item in _elsewhere(model)})
    return [path, *(path.parent / name for name in names)]


def take_in(model: onnx.ModelProto, path: Path) -> None:
    """Load external weights into the model, and mark them as internal."""
    total = 0
    for item in _elsewhere(model):
        info = ExternalDataInfo(item)
        data = path.parent / info.location
        if not info.location or not data.resolve().is_relative_to(path.parent.resolve()):
            raise ModelError(
                f"{path}: initialiser {item.name!r} is kept at {info.location!r}, outside the "
                "model's folder; save the model in one file: onnx.save(onnx.load(old), new)"
            )
        start = info.offset or 0
        try:
            with open_file(data, MODEL) as file:
                file.seek(start)
                content = file.read(MODEL if info.length is None else info.length)
        except FileNotFoundError:
            raise ModelError(
                f"{path}: its weights are in {info.location!r}, which is not beside it; put that "
                "file there under this name (a renamed model asks for the old one), or save the "
                "model in one file: onnx.save(onnx.load(old), new)"
            ) from None
        except (OSError, ValueError, OverflowError) as error:
            raise ModelError(f"{data}: cannot be read: {error}") from None
        if info.length is not None and len(content) < info.length:
            raise ModelError(
                f"{data}: is shorter than {path.name} says; export the model again, both files "
                "together"
            )
        total += len(content)
        if total > MODEL:
            raise ModelError(f"{path}: its weights take more than an ONNX file can hold")
        item.raw_data = content
        item.data_location = TensorProto.DEFAULT
        del item.external_data[:]


def _elsewhere(model: onnx.ModelProto) -> list[TensorProto]:
    # One that names a file and holds its numbers all the same is refused with what is left.
    return [item for item in model.graph.initializer if item.data_location == TensorProto.EXTERNAL]

"""Loading of networks from ONNX files, checked against onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from leaveout.errors import ModelError
from leaveout.files import MODEL, read_whole
from leaveout.models.architecture import architecture_hash
from leaveout.models.graph import Graph
from leaveout.models.lowering import lower
from leaveout.models.onnx_external import take_in
from leaveout.models.onnx_prepare import prepare_model
from leaveout.models.onnx_reader import read_graph
from leaveout.models.onnx_values import read_parameters, refuse_other_files
from leaveout.models.operator_check import check_operators
from leaveout.models.replay import Runner, with_parameters
from leaveout.models.stack import Stack

_SAMPLES = 32
_TOLERANCE = 2.0**-14
"""Allowed float32 error relative to the magnitude of the sums: far above the rounding of any
net small enough to verify, far below any misread operator."""


@dataclass(frozen=True, eq=False)
class Network:
    """A loaded network.

    Attributes
    ----------
    source : str
        Where it was read, for messages.
    model : onnx.ModelProto
        That is read and run; of the file's outputs it gives the scores alone.
    graph : Graph
    """

    source: str
    model: onnx.ModelProto
    graph: Graph

    @cached_property
    def parameters(self) -> dict[str, NDArray[np.floating]]:
        """Return the values of the trainable initialisers by name, in file order."""
        return read_parameters(self.model)

    @cached_property
    def stack(self) -> Stack:
        """Return the network in normal form: a stack of one."""
        return lower(self.graph, {k: v[None] for k, v in self.parameters.items()})

    @cached_property
    def architecture(self) -> str:
        """Return the hash of the graph without the weights."""
        return architecture_hash(self.model)

    def computes_as(self, other: Network) -> bool:
        """Return whether a runtime computes the same numbers for both networks.

        One that differs in a batch axis alone is another: a runtime may rewrite it otherwise.
        """
        return self is other or self._content == other._content

    @cached_property
    def _content(self) -> bytes:
        return self.model.SerializeToString(deterministic=True)

    @property
    def inputs(self) -> int:
        """Width of the flattened input."""
        return math.prod(self.graph.input_shape)

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.graph.labels

    def runner(self, parameters: Mapping[str, NDArray[np.floating]] | None = None) -> Runner:
        """Return this network, or one with other parameter values, in onnxruntime."""
        model = self.model if parameters is None else with_parameters(self.model, parameters)
        return Runner(model, self.graph, self.source)


def load_network(path: Path | str) -> Network:
    """Load a network and check our reading of it against onnxruntime.

    Parameters
    ----------
    path : path to an ONNX file

    Raises
    ------
    ModelError
        If the file is missing, is not ONNX, holds NaN, uses what is not supported, is too large to
        be written out, or if our reading of it, or of one of its operators by itself, gives other
        numbers than onnxruntime.
    """
    source = Path(path)
    return network_from_bytes(_read(source), str(source), beside=source)


def network_from(model: onnx.ModelProto, source: str) -> Network:
    """Wrap a model already in memory, without a check against onnxruntime."""
    found = prepare_model(model, source)
    graph = read_graph(found.model, source, found.notes)
    if found.columns not in {0, graph.labels}:
        raise ModelError(
            f"{source}: its outputs are {found.columns} of the {graph.labels} columns of its "
            "scores; export all of them, or the scores themselves"
        )
    return Network(source, found.model, graph)


def network_from_bytes(content: bytes, source: str, beside: Path | None = None) -> Network:
    """Load a network from the bytes of an ONNX file."""
    try:
        model = onnx.load_from_string(content)
        if beside is not None:
            take_in(model, beside)
        refuse_other_files(model, source)
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        line = (str(error).strip().splitlines() or ["damaged"])[0]
        raise ModelError(
            f"{source}: not a valid ONNX model: {line}; export one, as torch.onnx.export does (a "
            "checkpoint of torch is none), and copy it whole"
        ) from None
    network = network_from(model, source)
    check_against_onnxruntime(network)
    return network


def _read(source: Path) -> bytes:
    try:
        return read_whole(source, MODEL)
    except FileNotFoundError:
        raise ModelError(f"{source}: no such file") from None
    except OSError as error:
        raise ModelError(f"{source}: cannot be read: {error.strerror or error}") from None


def check_against_onnxruntime(network: Network) -> None:
    """Compare each operator alone, then all scores, with onnxruntime on samples.

    Scores are compared with optimisations on and a generous tolerance for cancellation; it is the
    comparison of single operators that catches every misreading.
    """
    check_operators(network.model, network.graph, network.parameters, network.source)
    rng = np.random.default_rng(0)
    half = _SAMPLES // 2
    points = np.concatenate(
        [rng.random((half, network.inputs)), rng.normal(size=(half, network.inputs))]
    ).astype(np.float32)
    expected = network.runner().scores(points).astype(np.float64)
    found = network.stack.scores(points.astype(np.float64))[0]
    if not np.isfinite(expected).all():
        raise ModelError(f"{network.source}: scores overflow float32 on inputs of size about 1")
    if expected.shape != found.shape:
        raise ModelError(
            f"{network.source}: onnxruntime gives scores of shape {expected.shape}, "
            f"expected {found.shape}"
        )
    allowed = _TOLERANCE * _magnitudes(network.stack, points.astype(np.float64))
    worst = float(np.max(np.abs(expected - found) / allowed))
    if not worst <= 1:
        raise ModelError(
            f"{network.source}: our reading of the model differs from onnxruntime by "
            f"{float(np.max(np.abs(expected - found))):.3g}; please report this model"
        )


def _magnitudes(stack: Stack, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the summed absolute values of each score's terms, shape (p, labels)."""
    sources = [np.abs(points)]
    for layer in stack.layers:
        total = np.abs(layer.bias[0]) + sum(
            sources[s] @ np.abs(w[0]).T for s, w in layer.weights.items()
        )
        sources.append(total + np.finfo(np.float32).tiny)
    return sources[-1]

"""Families for the benchmarks: trained once, kept in ``out/`` beside the project."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from leaveout.bab import Instance, make_instance
from leaveout.encoders import Box
from leaveout.models import load_family, load_network
from leaveout.models.train import Recipe, run

__all__ = ["prepared"]

ROOT = Path(__file__).resolve().parent.parent


def prepared(data: Path, layers: tuple[int, ...], batch: int, members: int) -> Instance:
    """Train N and its first members on ``data``, or reuse what an earlier run trained.

    Parameters
    ----------
    data : Path
        NPZ with ``X_train`` and ``y_train``.
    layers : tuple of int
    batch : int
    members : int

    Returns
    -------
    Instance
        Over the box [0, 1]^d.
    """
    name = f"{data.stem}_{'x'.join(map(str, layers))}_batch{batch}_{members}"
    folder = ROOT / "out" / name
    if not (folder / "family.npz").exists():
        sys.stderr.write(f"training {name}\n")
        recipe = Recipe(layers=layers, batch=batch)
        run(data, folder, label=None, recipe=recipe, members=members)
    network = load_network(folder / "full.onnx")
    family = load_family(folder / "family.npz", network)
    return make_instance(network, family, Box(np.zeros(network.inputs), np.ones(network.inputs)))

"""A job: everything about a run decided before training starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from leaveout.cores import cores
from leaveout.errors import TrainingError
from leaveout.models.family import Manifest
from leaveout.models.train.architecture import Layer, count_parameters, layers_of
from leaveout.models.train.blocks import Settings
from leaveout.models.train.data import TrainingData
from leaveout.models.train.device import device_facts, resolve_device
from leaveout.models.train.export import network_model, unflatten
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.source import read_data

__all__ = ["Job", "prepare", "settings_of"]

_BLOCK = {"cpu": 32, "cuda": 2048}
"""Networks trained together: on a CPU their values stay in cache, a GPU is kept busy."""


@dataclass(frozen=True)
class Job:
    """A run with everything decided."""

    source: Path
    directory: Path
    data: TrainingData
    recipe: Recipe
    layers: tuple[Layer, ...]
    members: int
    manifest: Manifest
    device: str
    block: int
    workers: int

    @property
    def networks(self) -> int:
        """Members, and the network on all rows."""
        return self.members + 1

    @property
    def settings(self) -> Settings:
        """All that two runs must share to be the same run."""
        return settings_of(self.manifest, self.members)


def prepare(
    source: Path,
    directory: Path,
    label: str | None,
    recipe: Recipe | None,
    members: int | None,
    block: int | None,
    workers: int | None,
    device: str,
) -> Job:
    """Read the data and settle every choice; nothing is written.

    Raises
    ------
    TrainingError
        If the data or a setting cannot be used, or torch is missing.
    """
    for flag, count in (("--members", members), ("--block", block), ("--workers", workers)):
        if count is not None and count < 1:
            raise TrainingError(f"{flag} {count}: expected a whole number of at least 1")
    recipe = recipe or Recipe()
    data = read_data(source, label)
    rows, features = data.X.shape
    if members is not None and members > rows:
        raise TrainingError(
            f"--members {members}: {source} has {rows} rows, at most that many can be left out"
        )
    layers = layers_of(recipe, features, len(data.labels))
    resolved = resolve_device(device)
    manifest = _manifest(data, recipe, layers, resolved)
    return Job(
        source=source,
        directory=directory,
        data=data,
        recipe=recipe,
        layers=layers,
        members=members or rows,
        manifest=manifest,
        device=resolved,
        block=block or _BLOCK[resolved],
        workers=1 if resolved == "cuda" else workers or cores(),
    )


def _manifest(
    data: TrainingData, recipe: Recipe, layers: tuple[Layer, ...], device: str
) -> Manifest:
    from leaveout.models.onnx_file import architecture_hash

    blank = unflatten(layers, np.zeros(count_parameters(layers), dtype=np.float32))
    settings = {**recipe.settings(), **device_facts(device)}
    if data.encoding is not None:
        settings["encoding"] = msgspec.to_builtins(data.encoding)
    return Manifest(
        architecture=architecture_hash(network_model(layers, blank)),
        data=data.facts(),
        seed=recipe.seed,
        recipe=settings,
    )


def settings_of(manifest: Manifest, members: int) -> Settings:
    """All that two runs must share to be the same run, as it reads back from JSON."""
    recipe = dict(manifest.recipe)
    encoding = recipe.get("encoding")
    if isinstance(encoding, dict):
        # Older runs did not say which columns are whole, and training does not ask.
        bare = [{k: v for k, v in each.items() if k != "whole"} for each in encoding["columns"]]
        recipe["encoding"] = {**encoding, "columns": bare}
    settings = {
        **recipe,
        "architecture": manifest.architecture,
        "data": manifest.data.sha256 if manifest.data else "",
        "seed": manifest.seed,
        "members": members,
    }
    return msgspec.json.decode(msgspec.json.encode(settings), type=dict[str, object])

"""Files on disk as a user has them: a network, a family, a specification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from msgspec import structs

from leaveout.models import DataFacts, Family, Manifest, save_family_file
from leaveout.models.train.left_out import left_out

from support.cases import question

BOUND = """\
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)

find bound: least b per label such that
    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)
"""


def write_other(path: Path, other: Path) -> None:
    """Write another network of the architecture of one: each of its numbers doubled."""
    model = onnx.load(path)
    for item in model.graph.initializer:
        value = onnx.numpy_helper.to_array(item)
        item.CopyFrom(onnx.numpy_helper.from_array((2 * value).astype(value.dtype), item.name))
    onnx.save(model, other)


def write_question(
    folder: Path,
    seed: int = 8,
    text: str = BOUND,
    reach: float = 1.0,
    rows: int | None = None,
    sample: int | None = None,
    draws: int | None = None,
) -> Path:
    """Write ``full.onnx``, ``family.npz`` and ``test.spec``; return the specification.

    With a seed of a ``sample`` the members lack rows drawn by it.
    """
    instance = question(seed, negative=False, spread=0.1)
    width = instance.network.inputs
    facts = DataFacts(
        sha256="00",
        rows=rows or len(instance.family),
        minimum=(0.0,) * width,
        maximum=(reach,) * width,
        features=tuple(f"feature {i}" for i in range(width)),
        labels=tuple(f"kind {i}" for i in range(instance.labels)),
    )
    family = Family(
        instance.family.parameters,
        np.asarray([40 + i for i in range(len(instance.family))]),
        Manifest(architecture=instance.network.architecture, data=facts),
    )
    if sample is not None:
        removed, drawn = left_out(facts.rows, sample, sample=len(family), draws=draws)
        family = replace(
            family, removed=removed, manifest=structs.replace(family.manifest, sample=drawn)
        )
    onnx.save(instance.network.model, folder / "full.onnx")
    save_family_file(folder / "family.npz", family)
    spec = folder / "test.spec"
    spec.write_text(text)
    return spec

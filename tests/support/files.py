"""Files on disk as a user has them: a network, a family, a specification."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from leaveout.models import DataFacts, Family, Manifest, save_family_file

from support.cases import question

BOUND = """\
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)

find bound: least b per label such that
    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)
"""


def write_question(
    folder: Path, seed: int = 8, text: str = BOUND, reach: float = 1.0, rows: int | None = None
) -> Path:
    """Write ``full.onnx``, ``family.npz`` and ``test.spec``; return the specification."""
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
    onnx.save(instance.network.model, folder / "full.onnx")
    save_family_file(folder / "family.npz", family)
    spec = folder / "test.spec"
    spec.write_text(text)
    return spec

"""Families of sampled rows whose members leak by different amounts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from leaveout.models import DataFacts, Family, Manifest, save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.models.train.left_out import left_out

from support import networks
from support.cases import family_of

__all__ = ["CLAIM", "HEAD", "LEVEL", "MEMBERS", "ROWS", "SPEC", "write_sample"]

ROWS, MEMBERS, LEVEL = 12, 8, 0.8
HEAD = """\
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)
"""
CLAIM = "forall x in X, M in F but {}: confidence(N, x) > {} => label(M, x) == label(N, x)"
SPEC = (
    f"{HEAD}find bound: least b per label such that {CLAIM.format(0.25, 'b')} "
    f"with confidence {LEVEL}\n"
)
"""Of two labels: each result may leave one of the members out."""


def write_sample(
    folder: Path, text: str = SPEC, *, seed: int = 3, draws: int | None = None, rows: int = ROWS
) -> Path:
    """Write ``full.onnx``, ``family.npz`` and ``test.spec``; return the specification."""
    rng = np.random.default_rng(1)
    network = network_from(networks.dense(rng, (2, 4, 2)), "full.onnx")
    each = [family_of(rng, network, 1, 0.02 * (1 + i)) for i in range(MEMBERS)]
    stacked = {
        name: np.concatenate([one.parameters[name] for one in each]) for name in network.parameters
    }
    removed, drawn = left_out(rows, seed, sample=MEMBERS, draws=draws)
    facts = DataFacts(sha256="00", rows=rows, minimum=(0.0,) * 2, maximum=(1.0,) * 2)
    manifest = Manifest(architecture=network.architecture, data=facts, sample=drawn)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(network.model, folder / "full.onnx")
    save_family_file(folder / "family.npz", Family(stacked, removed, manifest))
    spec = folder / "test.spec"
    spec.write_text(text)
    return spec

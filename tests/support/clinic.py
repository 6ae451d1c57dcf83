"""A family of a table on disk: age in years and a ward of three; its rows have names."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import onnx

from leaveout.models import DataFacts, Family, Manifest, save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.models.train.encoding import CategoryColumn, Encoding, NumberColumn

from support import networks
from support.cases import shaken
from support.files import BOUND

WHOLE = "one_hot(box(0, 1), at = [1, 2, 3])"
NAMES = ("P-01", "P-02", "P-03", "P-04", "P-05")


def write_clinic(folder: Path, box: str = WHOLE, seed: int = 5, spread: float = 0.05) -> Path:
    """Write ``full.onnx``, ``family.npz`` and ``idp.spec``; return the specification."""
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (4, 4, 2)), "N")
    encoding = Encoding(
        "ill",
        (NumberColumn("age", 20.0, 80.0, True), CategoryColumn("ward", ("a", "b", "c"))),
    )
    stacks = shaken(rng, network, len(NAMES), spread)
    facts = DataFacts(
        sha256="00",
        rows=len(NAMES),
        minimum=(0.0,) * 4,
        maximum=(1.0,) * 4,
        features=encoding.features,
        labels=("no", "yes"),
        ids=NAMES,
        units={"age": "years"},
    )
    recipe: dict[str, object] = {"encoding": msgspec.to_builtins(encoding)}
    manifest = Manifest(architecture=network.architecture, data=facts, recipe=recipe)
    onnx.save(network.model, folder / "full.onnx")
    save_family_file(folder / "family.npz", Family(stacks, np.arange(len(NAMES)), manifest))
    spec = folder / "idp.spec"
    spec.write_text(BOUND.replace("box(0, 1)", box))
    return spec

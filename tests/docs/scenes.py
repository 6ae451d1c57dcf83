"""The files and names that Python blocks of the documentation take for granted, made small."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
from docs.pages import DOCS, ROOT

import leaveout
from leaveout.models import load_family, load_network
from leaveout.models.votes import Ballots, write_ballots

from support.files import write_question
from support.onnx_trees import one_question

# The family whose columns the page on the guard names.
CLINIC = ROOT / "examples" / "breast_cancer" / "family"


def write_files(folder: Path) -> None:
    """Write every file that a block names."""
    family = folder / "family"
    family.mkdir()
    shutil.move(write_question(family), family / "idp.spec")
    for name in ("full.onnx", "family.npz"):
        shutil.copy(family / name, folder / name)
    shutil.copy(folder / "full.onnx", folder / "net.onnx")
    report = leaveout.verify(family / "idp.spec", bounds=family / "bounds.npz")
    (folder / "result.json").write_bytes(msgspec.json.encode(report))
    network = load_network(folder / "full.onnx")
    (folder / "prop_1.vnnlib").write_text(query(network.inputs, network.labels))
    (folder / "service.toml").write_text(service())
    rng = np.random.default_rng(0)
    rows = "".join(f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}\n" for a, b in rng.random((24, 2)))
    (folder / "patients.csv").write_text("age,dose,diagnosis\n" + rows)
    votes = rng.integers(0, 2, (6, 5)).astype(np.int32)
    write_ballots(Ballots(votes, votes[:, 0], 2), folder / "ballots.npz")


def write_clinic(folder: Path) -> None:
    """Write the bundled family, and the bounds that a guard needs."""
    family = shutil.copytree(CLINIC, folder / "family", dirs_exist_ok=True)
    leaveout.verify(family / "idp.spec", bounds=family / "bounds.npz")


def query(inputs: int, labels: int) -> str:
    """Return a query about a network with so many inputs and labels."""
    lines = [f"(declare-const X_{i} Real)" for i in range(inputs)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(labels)]
    lines += [f"(assert (<= X_{i} 1))\n(assert (>= X_{i} 0))" for i in range(inputs)]
    return "\n".join([*lines, "(assert (<= Y_0 Y_1))", ""])


def service() -> str:
    """Return the settings that the page on services shows."""
    return re.findall(r"```toml\n(.*?)```", (DOCS / "sharded.md").read_text(), re.S)[0]


def names(page: str, folder: Path) -> dict[str, object]:
    """Return what the blocks of a page use without making it; write files of that page alone."""
    if page in {"docs/privacy.md", "docs/rows.md"}:
        write_clinic(folder)
    if page == "docs/rows.md":
        shutil.copy(CLINIC.parent / "patients.csv", folder / "patients.csv")
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 3)), rng.integers(0, 2, 40)
    if page == "docs/formats.md":
        family = load_family(folder / "family.npz", load_network(folder / "full.onnx"))
        weights, biases = list(family.parameters.values())[:2]
        return {"weights": weights, "biases": biases, "removed": family.removed}
    if page == "docs/compare.md":
        files = folder / "model.onnx", folder / "exported.onnx"
        for path, threshold in zip(files, (0.5, 0.25)):
            path.write_bytes(one_question(threshold))
        return {"model": files[0], "exported": files[1]}
    if page == "docs/poisoning.md":
        import torch

        scores = torch.from_numpy(rng.random((6, 5, 3), dtype=np.float32))
        saved = {"scores": scores, "labels": torch.from_numpy(rng.integers(0, 3, 6))}
        torch.save(saved, folder / "evaluation.pth")
        return {}
    if page == "docs/linear.md":
        rows = "".join(
            f"{age},{'' if age % 9 == 0 else age * 90},{job},{'yes' if age > 40 else 'no'}\n"
            for age, job in zip(
                rng.permutation(60) + 20, ["cook", "baker", "smith"] * 20, strict=True
            )
        )
        (folder / "customers.csv").write_text("age,income,job,buys\n" + rows)
        return {}
    if page == "docs/forest.md":
        return {"X": X, "y": y}
    if page == "docs/sharded.md":
        from sklearn.tree import DecisionTreeClassifier

        return {"X": X, "y": y, "estimator": DecisionTreeClassifier(max_depth=2)}
    return {}

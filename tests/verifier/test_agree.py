"""One question, written in VNN-LIB and as a formula, has one answer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import leaveout
from leaveout.models import load_network
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters
from leaveout.specs.vnnlib import load_query
from leaveout.verifier.points.query import decide

from support import networks
from support.children import HANGS

CENTRE = (0.4, 0.6)


@pytest.fixture
def folder(tmp_path):
    """Networks N and Q of three labels over two features, Q near N."""
    rng = np.random.default_rng(13)
    model = networks.dense(rng, (2, 5, 4, 3))
    near = {
        name: (value + 0.03 * rng.normal(size=value.shape)).astype(np.float32)
        for name, value in network_from(model, "N").parameters.items()
    }
    onnx.save(model, tmp_path / "n.onnx")
    onnx.save(with_parameters(model, near), tmp_path / "q.onnx")
    return tmp_path


def decided(folder, text, *files):
    (folder / "query.vnnlib").write_text(text)
    reading = load_query(folder / "query.vnnlib", [folder / file for file in files])
    return decide(reading.query, seconds=HANGS).verdict


def verified(folder, claim):
    head = 'let N = network("n.onnx")\nlet Q = network("q.onnx")\n'
    (folder / "claim.spec").write_text(f"{head}guarantee g: {claim}\n")
    (result,) = leaveout.verify(folder / "claim.spec", time=HANGS).results
    return result.verdict


@pytest.mark.parametrize(("radius", "verdict"), [(0.01, "proved"), (0.6, "refuted")])
def test_robustness_is_decided_alike(folder, radius, verdict):
    runner = load_network(folder / "n.onnx").runner()
    label = int(runner.scores(np.array([CENTRE], np.float32))[0].argmax())
    lines = [f"(declare-const X_{i} Real)" for i in range(2)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(3)]
    for i, middle in enumerate(CENTRE):
        lines += [
            f"(assert (>= X_{i} {middle - radius}))",
            f"(assert (<= X_{i} {middle + radius}))",
        ]
    others = " ".join(f"(and (>= Y_{k} Y_{label}))" for k in range(3) if k != label)
    lines.append(f"(assert (or {others}))")
    assert decided(folder, "\n".join(lines), "n.onnx") == verdict
    claim = f"forall x in around([0.4, 0.6], {radius}): label(N, x) == {label}"
    assert verified(folder, claim) == verdict


TWO = """\
(vnnlib-version <2.0>)
(declare-network f (declare-input Xf real [2]) (declare-output Yf real [3]))
(declare-network g (isomorphic-to f) (declare-input Xg real [2]) (declare-output Yg real [3]))
(assert (>= Xf[0] 0.0)) (assert (<= Xf[0] 1.0))
(assert (>= Xf[1] 0.0)) (assert (<= Xf[1] 1.0))
(assert (== Xf[0] Xg[0])) (assert (== Xf[1] Xg[1]))
(assert (or (> (- Yf[0] Yg[0]) {d}) (> (- Yg[0] Yf[0]) {d})))
"""


@pytest.mark.parametrize(("most", "verdict"), [(5.0, "proved"), (0.01, "refuted")])
def test_two_networks_are_decided_alike(folder, most, verdict):
    assert decided(folder, TWO.format(d=most), "n.onnx", "q.onnx") == verdict
    claim = f"forall x in box(0, 1): abs(score(N, x, 0) - score(Q, x, 0)) <= {most}"
    assert verified(folder, claim) == verdict

"""What the engine proves, the checker proves again; what it accepts is true."""

from __future__ import annotations

import os
import sys

import numpy as np
import onnx
import pytest

import leaveout
from leaveout.models import save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.verifier.certify.check import check

from support import children, networks
from support.cases import BruteForce, family_of
from support.certificates import Content, write


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("start", range(0, 24, 8))
def test_certificates_are_accepted_and_true(tmp_path, start, ties):
    for seed in range(start, start + 8):
        written = write(tmp_path / str(seed), seed, ties=ties)
        found = check(written.path)
        assert [each.label for each in found] == list(range(written.instance.labels))
        worst = BruteForce.of(written.instance, 4000).best
        for each in found:
            assert each.upper >= worst[each.label], seed


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_errors_of_underflow_alone_are_no_reason_to_reject(tmp_path, seed):
    """Where most neurons are off, a region's error is what underflow may lose, and little else."""
    model = networks.disguised(np.random.default_rng(seed))
    onnx.save(model, tmp_path / "full.onnx")
    network = network_from(model, "n")
    family = family_of(np.random.default_rng(2), network, 3, 0.05)
    save_family_file(tmp_path / "family.npz", family)
    spec = tmp_path / "test.spec"
    spec.write_text(
        'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'
        "find bound: least b per label such that\n"
        "    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)\n"
    )
    leaveout.verify(spec, certificate=tmp_path / "proof.cert")
    assert len(check(tmp_path / "proof.cert")) == 3


def test_ties_sets_inputs_and_ties_given_up_are_all_met(tmp_path):
    kinds: set[int] = set()
    for seed in (1, 2, 4, 7, 23):
        content = Content.of(write(tmp_path / str(seed), seed, ties=True).path)
        for name, array in content.arrays.items():
            if name.endswith(".kind"):
                kinds |= set(array.tolist())
    assert kinds == {0, 1, 2, 3, 4}


def test_the_checker_loads_nothing_of_the_engine(tmp_path):
    written = write(tmp_path, 8, ties=False)
    script = (
        "import sys; from pathlib import Path; from leaveout.verifier.certify.check import check;"
        "check(Path(sys.argv[1]));"
        "parts = ('bab', 'encoders', 'solvers', 'specs');"
        "print([m for m in sys.modules if m.split('.')[:1] == ['leaveout']"
        " and m.split('.')[1:2] and m.split('.')[1] in parts])"
    )
    done = children.run(
        [sys.executable, "-c", script, str(written.path)], env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr


def test_files_may_lie_elsewhere_if_they_are_the_same(tmp_path):
    written = write(tmp_path / "here", 8, ties=False)
    moved = tmp_path / "moved"
    (tmp_path / "here" / "full.onnx").rename(moved.with_suffix(".onnx"))
    assert check(written.path, network=moved.with_suffix(".onnx"))

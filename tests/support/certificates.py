"""Certificates of small random questions, and how to falsify them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import onnx

from leaveout.bab import Instance, make_instance
from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.files.certificate import CertificateBook, FileFacts
from leaveout.bab.native.leaks import search
from leaveout.bab.native.nodes import Node, Split
from leaveout.bab.native.options import NativeOptions
from leaveout.encoders import Box, Choices
from leaveout.models import load_family, load_network, save_family_file

from attacks.certificate_content import Content
from support import networks
from support.cases import question

__all__ = ["Content", "Written", "random_question", "write"]


@dataclass(frozen=True, eq=False)
class Written:
    """A question on disk, and its certificate."""

    instance: Instance
    path: Path


def random_question(folder: Path, seed: int) -> Instance:
    """Write a question to disk and read it back: of several shapes, with 2 or 3 labels."""
    rng = np.random.default_rng(seed)
    model = None
    if seed % 3 == 1:
        model = networks.residual(rng)
    elif seed % 7 == 2:
        model = networks.convolution_1d(rng)
    elif seed % 5 == 4:
        model = networks.dense(rng, (int(rng.integers(1, 4)), 4, 4, 4, 3))
    made = question(seed, model=model)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(made.network.model, folder / "full.onnx")
    save_family_file(folder / "family.npz", made.family)
    network = load_network(folder / "full.onnx")
    box = made.box
    if seed % 4 == 3:
        rows = np.linspace(box.lower[0], 1.0, 5)[:, None]
        box = Box(box.lower, box.upper, (Choices(np.array([0]), rows),))
    return make_instance(network, load_family(folder / "family.npz", network), box)


def _ties(choose: Callable[..., list[Split]]) -> Callable[..., list[Split]]:
    """Prefer to tie phases, which small questions would seldom need."""

    def chosen(self: Brancher, node: Node, target: float) -> list[Split]:
        splits = choose(self, node, target)
        if splits and splits[0].kind == "input" and not node.plain and self._rng.random() < 0.7:
            neuron = int(np.argmax(node.neuron_score))
            return [Split("phase", neuron)] if node.neuron_score[neuron] > 0.0 else splits
        return splits

    return chosen


def write(folder: Path, seed: int, *, ties: bool, nodes: int = 300) -> Written:
    """Bound every label of a random question, and write the certificate."""
    instance = random_question(folder, seed)
    book = CertificateBook("test", "test.spec", "")
    files = FileFacts(folder / "full.onnx", folder / "family.npz")
    choose = _ties(Brancher.choose) if ties else Brancher.choose
    options = NativeOptions(nodes=nodes, gap=0.02, certificate=True)
    # Regions are taken back early, so that small trees have such too. What an attack would find,
    # the search's own hints find: it would take most of the time.
    with (
        mock.patch("leaveout.bab.native.leaks.find_leak", lambda *args, **more: None),
        mock.patch("leaveout.bab.native.search._FIRST", 0.01),
        mock.patch("leaveout.bab.native.search._ROUND", 0.05),
        mock.patch.object(Brancher, "choose", choose),
        mock.patch("leaveout.bab.native.branching.SMALL_REGION", 0.5),
    ):
        for label in range(instance.labels):
            records: list = []
            result = search(instance, label, options, proofs=records.extend)
            book.add("bound", label, result.upper, records, instance, files)
    book.write(folder / "proof.cert")
    return Written(instance, folder / "proof.cert")

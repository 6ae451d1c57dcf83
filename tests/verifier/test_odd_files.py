"""Whoever reads a file that a user names refuses, in one line, what is no regular file of its kind.

Nothing of it is read before: a pipe would wait for its writer, a device would never end.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.lib import format as npy
from onnx import TensorProto, helper

from leaveout.bab.native.files.checkpoint import Archive
from leaveout.errors import CheckpointError, LeaveoutError
from leaveout.files import UnusualFileError, open_atomically, open_file, read_whole, refuse_unusual
from leaveout.models import load_network
from leaveout.models.archive import read_archive, read_arrays
from leaveout.models.ballots import read_ballots
from leaveout.models.family import load_family_file
from leaveout.models.forest.files import load_ensemble
from leaveout.models.forest.folders import load_columns
from leaveout.models.reading import read_table
from leaveout.models.sharded.classifier import read_state
from leaveout.models.sharded.settings import read_settings
from leaveout.models.train.data import read_data
from leaveout.models.votes.source import read_samples
from leaveout.specs import load
from leaveout.specs.vnnlib.onnx_files import load_model
from leaveout.specs.vnnlib.read import load_problem
from leaveout.verifier.audits.membership.file import read_audit
from leaveout.verifier.certify.check import refuse_unreadable
from leaveout.verifier.guard.access import load_bounds
from leaveout.verifier.guard.memory import Memory
from leaveout.verifier.page.loading import load as load_results
from leaveout.verifier.points.given import GivenPoints

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and devices are POSIX's")

READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "network": ("n.onnx", load_network),
    "packed network": ("n.onnx.gz", load_model),
    "family": ("f.npz", load_family_file),
    "training table": ("t.csv", lambda path: read_data(path, "label")),
    "training arrays": ("t.npz", lambda path: read_data(path, None)),
    "cells": ("t.csv", read_table),
    "ballots": ("b.npz", read_ballots),
    "ballots as a table": ("b.csv", read_ballots),
    "samples": ("s.csv", lambda path: read_samples(path, label="label")),
    "settings": ("service.toml", read_settings),
    "state": ("state.npz", read_state),
    "forest": ("forest.npz", load_ensemble),
    "columns of a forest": ("forest.json", partial(load_columns, features=1)),
    "audit": ("audit.npz", read_audit),
    "bounds": ("bounds.npz", load_bounds),
    "certificate": ("proof.cert", refuse_unreadable),
    "specification": ("a.spec", load),
    "query": ("q.vnnlib", load_problem),
    "packed query": ("q.vnnlib.gz", load_problem),
    "results": ("r.json", lambda path: load_results([str(path)])),
    "points": ("p.csv", lambda path: GivenPoints.open(str(path))),
}


@pytest.fixture(autouse=True)
def _never_waits() -> Iterator[None]:
    """Turn what would wait forever into a failure."""

    def stop(_: int, __: FrameType | None) -> None:
        raise AssertionError("waits for what never comes")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    # The name of a socket is short, a temporary folder's is not.
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _folder(path: Path) -> None:
    path.mkdir()


def _absent(path: Path) -> None:
    pass


def _too_large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(2**39)


KINDS = {
    "a pipe": _pipe,
    "a device": _device,
    "a socket": _socket,
    "a folder": _folder,
    "": _absent,
    "larger": _too_large,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_refuses_what_is_no_regular_file_of_its_size_in_one_line(
    reader: str, kind: str, tmp_path: Path
) -> None:
    name, read = READERS[reader]
    path = tmp_path / name
    try:
        KINDS[kind](path)
    except OSError as error:
        pytest.skip(f"this file system does not make one: {error}")
    with pytest.raises(LeaveoutError) as caught:
        read(path)
    said = str(caught.value)
    assert "\n" not in said
    assert str(path) in said
    words = {"": ("no such file", "no such file or directory"), "larger": ("larger", "too long")}
    known = words.get(kind, (kind,))
    assert any(word in said.lower() for word in known), said


def test_a_link_to_a_regular_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("a,label\n1,x\n2,y\n")
    link = tmp_path / "t.csv"
    link.symlink_to("there.csv")
    assert read_table(link).header == ["a", "label"]


def test_what_becomes_a_pipe_between_looking_and_opening_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n")
    real = os.open

    def swapped(name: Path, flags: int, *rest: int) -> int:
        if Path(name) == path:
            path.unlink()
            os.mkfifo(path)
        return real(name, flags, *rest)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(UnusualFileError) as told:
        open_file(path, 10)
    assert str(told.value) == snapshot


def test_a_file_that_grows_while_it_is_read_is_read_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345678")
    real = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda handle: os.stat_result((*real(handle)[:6], 0, *real(handle)[7:]))
    )
    with pytest.raises(UnusualFileError) as told:
        read_whole(path, 4)
    assert str(told.value) == snapshot


def test_an_output_never_takes_the_place_of_what_is_no_regular_file(
    tmp_path: Path, snapshot
) -> None:
    path = tmp_path / "out"
    os.mkfifo(path)
    with pytest.raises(UnusualFileError) as told, open_atomically(path):
        pass
    assert str(told.value) == snapshot
    assert path.is_fifo()
    refuse_unusual(tmp_path / "absent")


def test_a_pipe_in_place_of_weights_beside_a_network_is_refused_unopened(
    tmp_path: Path, snapshot
) -> None:
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 2])
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [weights],
    )
    path = tmp_path / "n.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    # Opening a pipe would wait for its writer.
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(LeaveoutError) as told:
        load_network(path)
    assert str(told.value) == snapshot


def _bomb(path: Path) -> None:
    """Write an archive of a few kilobytes whose directory says that it unpacks to 8 GiB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1000))
        archive.writestr("y.npy", bytes(1000))
    content = bytearray(path.read_bytes())
    for entry in re.finditer(rb"PK\x01\x02", bytes(content)):
        struct.pack_into("<I", content, entry.start() + 24, 2**32 - 2)
    path.write_bytes(content)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot
) -> None:
    path = tmp_path / "f.npz"
    _bomb(path)
    unpacked: list[str] = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: unpacked.append("opened"))
    for read in (load_family_file, load_ensemble, read_ballots, refuse_unreadable, load_bounds):
        with pytest.raises(LeaveoutError):
            read(path)
    with pytest.raises(ValueError) as told:
        read_arrays(path)
    assert str(told.value) == snapshot
    assert not unpacked


def test_an_array_shorter_than_its_header_says_is_refused_before_memory_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot
) -> None:
    path = tmp_path / "f.npz"
    header = io.BytesIO()
    npy.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (2**31, 2**9)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(1000))
    monkeypatch.setattr(npy, "read_array", lambda *_, **__: pytest.fail("took the memory"))
    with pytest.raises(ValueError) as told:
        read_arrays(path)
    assert str(told.value) == snapshot


def test_arrays_that_are_not_asked_for_are_not_read(tmp_path: Path, snapshot) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), odd=np.array([{}], dtype=object))
    assert read_archive(path, LeaveoutError, ("x",))["x"].tolist() == [0, 1, 2]
    with pytest.raises(LeaveoutError) as told:
        read_archive(path, LeaveoutError)
    assert str(told.value) == snapshot


def test_a_packed_query_is_unpacked_no_further_than_a_query_may_be_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot
) -> None:
    path = tmp_path / "q.vnnlib.gz"
    path.write_bytes(gzip.compress(bytes(100_000)))
    monkeypatch.setattr("leaveout.specs.vnnlib.text.LARGEST", 1000)
    with pytest.raises(LeaveoutError) as told:
        load_problem(path)
    assert str(told.value) == snapshot


def test_a_checkpoint_that_is_a_pipe_is_refused(tmp_path: Path, snapshot) -> None:
    from leaveout.bab.native.files.checkpoint import Checkpoints

    path = tmp_path / "c.checkpoint"
    os.mkfifo(path)
    with pytest.raises(OSError) as told:
        Archive(path)
    assert str(told.value) == snapshot
    with pytest.raises(CheckpointError) as told:
        Checkpoints(path, "1")
    assert str(told.value) == snapshot


def test_a_memory_of_answers_that_is_a_pipe_is_refused(tmp_path: Path, snapshot) -> None:
    path = tmp_path / "answers.sqlite"
    os.mkfifo(path)
    with pytest.raises(LeaveoutError) as told:
        Memory.read(path)
    assert str(told.value) == snapshot
    with pytest.raises(UnusualFileError) as told:
        Memory._open_database(cast(Memory, SimpleNamespace(path=path)))
    assert str(told.value) == snapshot

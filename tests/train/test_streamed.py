"""Blocks become a family file, and a family file blocks, without being in memory at once."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.errors import FamilyError
from leaveout.models.archive import Streamed
from leaveout.models.family import (
    Family,
    Manifest,
    load_family_file,
    save_family_file,
    save_members,
)
from leaveout.models.train.architecture import unflatten_parameters
from leaveout.models.train.blocks import Blocks
from leaveout.models.train.export import write_family
from leaveout.models.train.job import FinishedNetworks

SHAPES = {"a": (3, 2), "b": (3,), "scale": (), "c": (1, 3)}
SIZE = 13
MEMBERS = 11


def networks():
    return np.random.default_rng(0).random((MEMBERS + 1, SIZE)).astype(np.float32)


def cut(folder, ends):
    blocks = Blocks(folder, SIZE)
    for start, stop in zip([0, *ends], [*ends, MEMBERS + 1], strict=True):
        blocks.write(start, networks()[start:stop])
    return blocks


@pytest.mark.parametrize("ends", [(), (1,), (1, 2, 7), (4, 8)])
def test_the_family_file_is_that_of_the_family_in_memory(tmp_path, ends):
    removed, manifest = np.arange(MEMBERS) * 3, Manifest(architecture="x", seed=4)
    stacks = {k: v.copy() for k, v in unflatten_parameters(SHAPES, networks()[1:]).items()}
    save_family_file(tmp_path / "whole.npz", Family(stacks, removed, manifest))
    write_family(tmp_path / "parts.npz", SHAPES, cut(tmp_path, ends), removed, manifest)
    assert (tmp_path / "parts.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    found = load_family_file(tmp_path / "parts.npz")
    assert all(np.array_equal(found.parameters[name], stacks[name]) for name in SHAPES)


def test_parts_that_are_not_the_array_leave_what_was_there(tmp_path, snapshot):
    target = tmp_path / "family.npz"
    target.write_bytes(b"before")

    def written(shape, *parts):
        stack = Streamed(shape, np.dtype(np.float32), lambda: iter(parts))
        save_members(target, np.arange(shape[0]), Manifest(), {"a": stack})

    rows = np.zeros((2, 3), np.float32)
    for shape, part in [((3, 3), rows), ((2, 2), rows), ((2, 3), rows.astype(np.float64))]:
        with pytest.raises(ValueError, match="Streamed"):
            written(shape, part)
    with pytest.raises(FamilyError) as told:
        save_members(target, np.arange(2), Manifest(), {"removed": rows})
    assert str(told.value) == snapshot
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["family.npz"]


def test_a_block_with_another_beginning_or_length_is_none(tmp_path):
    blocks = cut(tmp_path, (4, 8))
    assert blocks.finished_ranges() == [range(4), range(4, 8), range(8, 12)]
    first, second, _ = sorted(tmp_path.glob("*.npy"))
    second.write_bytes(b"x" * second.stat().st_size)
    assert blocks.finished_ranges() == [range(4), range(8, 12)]
    first.write_bytes(first.read_bytes() + b"x")
    assert blocks.finished_ranges() == [range(8, 12)]
    assert Blocks(tmp_path, SIZE + 1).finished_ranges() == []


def test_what_is_missing_of_the_first_networks_ends_with_them(tmp_path):
    blocks = Blocks(tmp_path, SIZE)
    blocks.write(8, networks()[8:10])
    assert blocks.missing_ranges(5, 3) == [range(3), range(3, 5)]
    assert blocks.missing_ranges(9, 9) == [range(8)]


@pytest.mark.parametrize("ends", [range(12), range(1), range(3, 9), range(2), range(11, 12)])
def test_finished_networks_are_read_in_parts(ends):
    stacks = unflatten_parameters(SHAPES, networks()[1:])
    known = FinishedNetworks(SHAPES, networks()[0], Family(stacks, np.arange(MEMBERS)))
    assert len(known) == MEMBERS + 1
    assert np.array_equal(known.read(ends), networks()[ends.start : ends.stop])


def test_of_a_network_alone_there_is_one():
    known = FinishedNetworks(SHAPES, networks()[0])
    assert len(known) == 1
    assert np.array_equal(known.read(range(1)), networks()[:1])

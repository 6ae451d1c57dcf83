"""Kernels read through a handle what the record's arrays hold, and no other memory."""

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from leaveout.compiling import kernel
from leaveout.handles import Handle

from support.depth import rounds

PAIR = np.dtype([("one", np.int32), ("two", np.float64)], align=True)


class Parts(NamedTuple):
    """Arrays of each kind."""

    flat: NDArray[np.float64]
    cube: Annotated[NDArray[np.int32], 3]
    pairs: Annotated[NDArray[Any], PAIR]
    told: NDArray[np.bool_]


PARTS = Handle(Parts)
parts_at = PARTS.at


@kernel
def copy(
    words: NDArray[np.int64], start: int, flat: Any, cube: Any, pairs: Any, told: Any
) -> tuple[int, int, int]:
    """Copy every element and double it in the record; return the shape of the cube."""
    parts = parts_at(words, start)
    for i in range(len(parts.flat)):
        flat[i] = parts.flat[i]
        parts.flat[i] *= 2
    for i in range(parts.cube.shape[0]):
        for j in range(parts.cube.shape[1]):
            for k in range(parts.cube.shape[2]):
                cube[i, j, k] = parts.cube[i, j, k]
                parts.cube[i, j, k] *= 2
    for i in range(len(parts.pairs)):
        pairs[i] = parts.pairs[i].two + parts.pairs[i].one
        parts.pairs[i].one *= 2
    for i in range(len(parts.told)):
        told[i] = parts.told[i]
    return parts.cube.shape


def some(rng: np.random.Generator) -> Parts:
    sizes = rng.integers(0, 5, 6)
    pairs = np.zeros(sizes[4], PAIR)
    pairs["one"], pairs["two"] = rng.integers(0, 9, sizes[4]), rng.normal(size=sizes[4])
    return Parts(
        rng.normal(size=sizes[0]), rng.integers(0, 99, sizes[1:4]).astype(np.int32), pairs,
        rng.random(sizes[5]) < 0.5,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(rounds(30)))
def test_a_kernel_reads_and_writes_every_element(seed):
    rng = np.random.default_rng(seed)
    first, parts = some(rng), some(rng)
    before = Parts(*(each.copy() for each in parts))
    words = np.concatenate((PARTS.words(first), PARTS.words(parts)))
    assert PARTS.length == len(words) // 2
    flat, cube = np.empty_like(parts.flat), np.empty_like(parts.cube)
    pairs, told = np.empty(len(parts.pairs)), np.empty_like(parts.told)
    assert copy(words, PARTS.length, flat, cube, pairs, told) == parts.cube.shape
    np.testing.assert_array_equal(flat, before.flat)
    np.testing.assert_array_equal(cube, before.cube)
    np.testing.assert_array_equal(pairs, before.pairs["one"] + before.pairs["two"])
    np.testing.assert_array_equal(told, before.told)
    np.testing.assert_array_equal(parts.flat, 2 * before.flat)
    np.testing.assert_array_equal(parts.cube, 2 * before.cube)
    np.testing.assert_array_equal(parts.pairs["one"], 2 * before.pairs["one"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"flat": np.zeros(3, np.float32)},
        {"flat": np.zeros(6)[::2]},
        {"flat": np.zeros((3, 1))},
        {"cube": np.zeros((2, 2, 2), np.int32).T[:, :1]},
        {"pairs": np.zeros(3)},
        {"told": np.zeros(3, np.int8)},
    ],
)
def test_an_array_of_another_kind_is_refused(wrong):
    parts = some(np.random.default_rng(0))._replace(**wrong)
    with pytest.raises(TypeError, match=next(iter(wrong))):
        PARTS.words(parts)

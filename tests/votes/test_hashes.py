"""Hashes and keys of samples: the same numbers on every machine, in the order of the rows."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from leaveout.models.votes import samples_from_arrays
from leaveout.models.votes.samples import array_keys, cell_keys, hash_samples, spread_offsets


def test_hashes_are_these_numbers_on_every_machine():
    X = np.array([[0.0, 1.5], [-1e-300, np.pi]])
    keys = array_keys(X)
    assert hash_samples(keys).tolist() == [9882616065078449893, 10220567862017454994]
    assert hash_samples(keys, "salt").tolist() == [8652807354857493118, 13214513428486922830]
    assert hash_samples(keys, "", ["a", "b"]).tolist() == [
        3739374318569994952,
        10493105409213241854,
    ]
    written = struct.pack(">Q", 1 << 63) + struct.pack(">d", -1.5)
    by_hand = hashlib.blake2b(written, digest_size=8, person=b"leaveout part").digest()
    assert int.from_bytes(by_hand, "little") == 9882616065078449893
    cells = cell_keys([("a", "bc"), ("ab", "c"), ("ü", "")])
    assert hash_samples(cells).tolist() == [
        17854366584879409309,
        2416954302789512964,
        12666205448008189937,
    ]
    assert spread_offsets(12, 3, 0) == (2, 3, 8)
    assert spread_offsets(1000, 4, 0) == (69, 117, 390, 539)


def test_a_zero_has_no_sign_and_a_float32_is_its_float64():
    assert array_keys(np.array([[0.0]])) == array_keys(np.array([[-0.0]]))
    X, y = np.array([[0.1], [-0.0], [0.3]], dtype=np.float32), np.array([0, 1, 0])
    wide = X.astype(np.float64)
    assert samples_from_arrays(X, y, X, y).keys == samples_from_arrays(wide, y, X, y).keys


@given(hnp.arrays(np.float64, (7, 2), elements=st.floats(allow_nan=False, width=64)))
def test_keys_sort_as_rows_do(X):
    keys = array_keys(X)
    rows = [tuple(row + 0.0) for row in X]
    for i in range(len(X)):
        for j in range(len(X)):
            assert (keys[i] < keys[j]) == (rows[i] < rows[j])
            assert (keys[i] == keys[j]) == (rows[i] == rows[j])


@given(st.lists(st.lists(st.text(max_size=3), min_size=2, max_size=2), min_size=2, max_size=6))
def test_rows_of_cells_share_a_key_only_if_they_are_equal(rows):
    keys = cell_keys(rows)
    for i, first in enumerate(rows):
        for j, second in enumerate(rows):
            assert (keys[i] == keys[j]) == (first == second)

"""The order of rows: what a missing row changes of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.models.train import Rows
from leaveout.models.train.draws import shuffle


def numbers(rows, batches):
    """Return batches of rows of the whole data."""
    return [rows.numbers[batch].tolist() for batch in batches]


def test_rows_are_those_of_the_whole_data_in_order():
    assert np.array_equal(np.asarray(Rows(4)), [0, 1, 2, 3])
    assert np.array_equal(Rows(4, 1).numbers, [0, 2, 3])
    assert (len(Rows(4)), len(Rows(4, 3))) == (4, 3)


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 5), st.data())
def test_batches_lack_the_row_and_are_the_same_otherwise(total, size, seed, data):
    removed = data.draw(st.integers(0, total - 1))
    whole, member = Rows(total), Rows(total, removed)
    every, others = whole.batches(size, seed), member.batches(size, seed)
    for epoch in range(3):
        full, short = numbers(whole, every), numbers(member, others)
        expected = [[row for row in batch if row != removed] for batch in full]
        assert short == [batch for batch in expected if batch]
        assert np.array_equal(np.concatenate(full), shuffle(seed, epoch, total))
        assert np.concatenate(short).tolist() == member.numbers[member.order(seed, epoch)].tolist()
    assert len(every) == -(-total // size)


def test_a_batch_has_rows(snapshot):
    with pytest.raises(ValueError) as told:
        Rows(4).batches(0, 0)
    assert str(told.value) == snapshot


def test_a_loader_of_torch_takes_them():
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(7))
    loader = torch.utils.data.DataLoader(data, batch_sampler=Rows(8, 2).batches(3, 0))
    for _ in range(2):
        seen = [batch.tolist() for (batch,) in loader]
        assert sorted(np.concatenate(seen)) == list(range(7))

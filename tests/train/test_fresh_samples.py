"""A fresh sample is the next of those that were planned, of the same rows and training."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from msgspec import structs

from leaveout.errors import TrainingError
from leaveout.models import load_family_file
from leaveout.models.train import Recipe, run
from leaveout.models.train.draws import draw_rows
from leaveout.models.train.left_out import left_out

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("here")

RECIPE = Recipe(layers=(3,), epochs=1, batch=20, seed=2)


def trained(blobs, folder, recipe=RECIPE, **given):
    run(blobs, folder, recipe=recipe, workers=1, device="cpu", **given)
    return load_family_file(folder / "family.npz")


def test_the_manifest_counts_the_draws_that_were_planned(blobs, tmp_path, snapshot):
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    first = trained(blobs, one, sample=5, draws=2)
    second = trained(blobs, two, sample=8, fresh=one)
    assert (first.manifest.sample.draw, first.manifest.sample.draws) == (1, 2)
    assert (second.manifest.sample.draw, second.manifest.sample.draws) == (2, 2)
    assert np.array_equal(first.removed, draw_rows(2, 61, 5))
    assert np.array_equal(second.removed, draw_rows(2, 61, 8, 2))
    assert (one / "full.onnx").read_bytes() == (two / "full.onnx").read_bytes()
    with pytest.raises(TrainingError) as told:
        trained(blobs, three, sample=5, fresh=two)
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        trained(blobs, three, structs.replace(RECIPE, epochs=2), sample=5, fresh=one)
    assert str(told.value) == snapshot
    assert not three.exists()
    with pytest.raises(TrainingError) as told:
        trained(blobs, one, sample=5, fresh=one)
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        trained(blobs, three, sample=5, fresh=one, draws=3)
    assert str(told.value) == snapshot


def test_one_sample_is_the_only_one_unless_more_are_planned(blobs, tmp_path, snapshot):
    one = tmp_path / "one"
    sample = trained(blobs, one, sample=5).manifest.sample
    # It is written as earlier versions did, and what they wrote is read as this.
    assert set(msgspec.to_builtins(sample)) == {"size", "rows", "seed"}
    with pytest.raises(TrainingError) as told:
        trained(blobs, tmp_path / "two", sample=5, fresh=one)
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        trained(blobs, tmp_path / "two", sample=5, fresh=tmp_path)
    assert str(told.value) == snapshot
    all_rows = tmp_path / "first"
    trained(blobs, all_rows, members=2)
    with pytest.raises(TrainingError) as told:
        trained(blobs, tmp_path / "two", sample=5, fresh=all_rows)
    assert str(told.value) == snapshot


def test_draws_are_of_samples():
    for given in ({"draws": 2}, {"draws": 0, "sample": 3}, {"draws": 1.5, "sample": 3}):
        with pytest.raises(TrainingError, match="draws"):
            left_out(9, 1, **given)

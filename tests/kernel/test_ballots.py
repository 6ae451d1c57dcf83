"""The kernel reads ballots as everybody else does, and refuses what is not ballots."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

from leaveout.errors import BallotError
from leaveout.kernel.ballots import read_ballots
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import HeldFile
from leaveout.models.ballots import read_ballots as read_elsewhere
from leaveout.models.votes import Ballots, Origin, write_ballots

from support.depth import rounds
from support.votes import random_ballots


def held(path):
    return HeldFile(path, hashlib.sha256(path.read_bytes()).hexdigest())


def made(rng, path):
    votes, truth = random_ballots(rng, 6, 4, 3)
    scores = np.eye(3)[votes] if rng.random() < 0.5 else None
    thresholds = rng.integers(1, 4, (6, 4, 3)).astype(np.int32)
    np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
    origin = Origin(
        method=(None, "dpa", "ss_dpa")[rng.integers(3)], hash_reads_label=bool(rng.integers(2)),
        offsets=((), (1, 3))[rng.integers(2)], label_names=((), ("a", "b", "c"))[rng.integers(2)],
        notes=("one",), sizes=(1, 2, 3, 4), seed=7,
    )  # fmt: skip
    known = thresholds if rng.random() < 0.5 else None
    write_ballots(Ballots(votes, truth, 3, scores, known, origin), path)


def test_files_are_read_as_elsewhere(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "b.npz"
    for _ in range(rounds(60)):
        made(rng, path)
        one, other = read_ballots(held(path)), read_elsewhere(path)
        for name in ("votes", "truth", "scores", "thresholds"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
            assert (
                getattr(one, name) is None or getattr(one, name).dtype == getattr(other, name).dtype
            )
        assert one.labels == other.labels
        for name in one.origin.__dataclass_fields__:
            assert getattr(one.origin, name) == getattr(other.origin, name)


@pytest.mark.parametrize(
    "text",
    [
        "truth,part_0,part_1\n0,1,0\n1,1,0\n", "# labels = 5\ntruth, part_0,part_1\r\n0,1, 0\r\n",
        "truth,part_1,part_0\n0,1,0\n", "truth,part_0,part_1\n0,1\n", "truth,part_0,part_1\n",
        "truth,part_0,part_1\n0,1,x\n", "truth,part_0,part_1\n0,1,-1\n", "", "# labels = 1\n",
        "truth,part_0,part_1\n0,1,0.0\n", "truth,part_0\n0,1\n",
        "# labels = 2\ntruth,part_0,part_1\n0,1,2",
        "truth,part_0,part_1\n0,1,99999999999\n",
    ],
)  # fmt: skip
def test_tables_are_read_as_elsewhere(tmp_path, text):
    path = tmp_path / "b.csv"
    path.write_bytes(text.encode())
    try:
        other = read_elsewhere(path)
    except BallotError:
        with pytest.raises(Rejected):
            read_ballots(held(path))
        return
    one = read_ballots(held(path))
    assert np.array_equal(one.votes, other.votes)
    assert np.array_equal(one.truth, other.truth)
    assert one.labels == other.labels


def written(path, more=(), **arrays):
    """Write an archive; ``more`` are entries besides its arrays."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in [*arrays.items(), *more]:
            content = io.BytesIO()
            np.save(content, array, allow_pickle=True)
            archive.writestr(f"{name}.npy", content.getvalue())
    return held(path)


def manifest(text):
    return np.frombuffer(text.encode(), np.uint8)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_what_is_not_ballots_is_rejected(tmp_path):
    path = tmp_path / "b.npz"
    fine = {"ballots": np.array([[0, 1], [1, 1]]), "truth": np.array([0, 1]), "labels": np.array(2)}
    assert read_ballots(written(path, **fine)).parts == 2
    origins = [
        '{"unknown": 1}', '{"method": "other"}', '{"hash_reads_label": 1}', '{"offsets": [0, 0]}',
        '{"offsets": [0.0]}', '{"offsets": [true]}', '{"offsets": [2]}', '{"families": [1]}',
        '{"offsets": [0], "offsets": [1]}', '{"families": [2], "offsets": [0]}', "[]", "null",
        '{"assumptions": [{"text": "x"}]}', '{"label_names": ["a"]}',
    ]  # fmt: skip
    manifests = [f'{{"version": 1, "origin": {each}}}' for each in origins]
    manifests += [
        '{"version": 2, "origin": {}}',
        '{"version": true, "origin": {}}',
        "{",
        "[" * 10**5,
    ]
    thresholds = np.array([[[0, 1], [1, 0]], [[1, 0], [1, 0]]])
    assert read_ballots(written(path, **fine, thresholds=thresholds)).thresholds is not None
    wrong = [{**fine, "manifest": manifest(each)} for each in manifests]
    wrong += [{**fine, "thresholds": thresholds + step} for step in (-1, 1)]
    wrong += [
        {**fine, "ballots": fine["ballots"] * 1.0}, {**fine, "ballots": fine["ballots"] + 1},
        {**fine, "ballots": fine["ballots"][0]}, {**fine, "truth": np.array([0])},
        {**fine, "truth": np.array([0, -1])}, {**fine, "labels": np.array([2, 2])},
        {**fine, "labels": np.array(2**20)}, {**fine, "scores": np.zeros((2, 2))},
        {**fine, "scores": np.zeros((2, 2, 2), int)}, {**fine, "other": np.zeros(1)},
        {**fine, "ballots": np.array([[0, None], [1, 1]])}, {"ballots": fine["ballots"]},
        {**fine, "ballots": np.array([[0], [1]])}, {**fine, "ballots": np.zeros((0, 2), int)},
        {**fine, "ballots": fine["ballots"].astype(np.int64) + 2**32},
        {**fine, "manifest": manifest(json.dumps({"version": 1, "origin": {}}))[None]},
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(Rejected):
            read_ballots(written(path, **each))
    with pytest.raises(Rejected):
        read_ballots(written(path, [("truth", np.array([1, 0]))], **fine))
    whole = written(path, **fine)
    with pytest.raises(Rejected, match="not the file claimed"):
        read_ballots(HeldFile(path, whole.sha256[::-1]))
    content = path.read_bytes()
    for cut in range(5, len(content), 7):
        path.write_bytes(content[:cut])
        with pytest.raises(Rejected):
            read_ballots(held(path))

"""Ballots files: what is written is read back, and a bad file is one clear error."""

from __future__ import annotations

import struct
import time
import zipfile
from itertools import product

import msgspec
import numpy as np
import pytest

from leaveout.errors import BallotError, TrainingError
from leaveout.models.votes import (
    Assumption,
    Ballots,
    Origin,
    read_ballots,
    read_samples,
    write_ballots,
)

from support.counted import finite_published, plurality_radii, tally

VOTES = np.array([[0, 1, 2], [2, 2, 1]], dtype=np.int32)
TRUTH = np.array([0, 2], dtype=np.int32)


def ballots(**changes):
    rng = np.random.default_rng(3)
    scores = rng.random((2, 3, 3)).astype(np.float32)
    np.put_along_axis(scores, VOTES[:, :, None], 2.0, axis=2)
    thresholds = np.full((2, 3, 3), 4, dtype=np.int32)
    thresholds[:, :, 2] = -1
    np.put_along_axis(thresholds, VOTES[:, :, None], 0, axis=2)
    origin = Origin(
        method="finite_aggregation",
        hash_reads_label=False,
        offsets=(0, 2),
        sizes=(4, 5, 6),
        learner="GaussianNB()",
        seed=7,
        label_names=("a", "b", "ü"),
        assumptions=(Assumption(text="nothing else", checked=False),),
        thresholds_against="removals",
        thresholds_exact_to=3,
    )
    fields = {"scores": scores, "thresholds": thresholds, "origin": origin} | changes
    return Ballots(VOTES, TRUTH, 3, **fields)


def arrays(**changes):
    given = {"ballots": VOTES, "truth": TRUTH, "labels": np.array(3)} | changes
    return {name: value for name, value in given.items() if value is not None}


def test_what_is_written_is_read_back_and_twice_the_same_bytes(tmp_path):
    before = ballots()
    write_ballots(before, tmp_path / "a.npz")
    write_ballots(before, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    after = read_ballots(tmp_path / "a.npz")
    for name in ("votes", "truth", "scores", "thresholds"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
        assert getattr(after, name).dtype == getattr(before, name).dtype
    assert (after.labels, after.origin) == (3, before.origin)
    assert after.source == str(tmp_path / "a.npz")


def test_a_table_says_the_same_as_arrays(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("# labels = 5\ntruth,part_0,part_1,part_2\n0,0,1,2\r\n2,2, 2 ,1\n\n")
    read = read_ballots(path)
    assert np.array_equal(read.votes, VOTES)
    assert np.array_equal(read.truth, TRUTH)
    assert (read.labels, read.origin) == (5, Origin())


@pytest.mark.parametrize(
    ("rows", "labels"), [("0,0,1,2\n2,2,2,1\n", 3), ("3,0,0,0\n", 4), ("0,0,0,0\n", 2)]
)
def test_a_table_without_a_count_of_labels_has_two_or_those_it_shows_and_assumes_nothing(
    tmp_path, rows, labels
):
    path = tmp_path / "votes.csv"
    path.write_text("truth,part_0,part_1,part_2\n" + rows)
    read = read_ballots(path)
    assert (read.labels, read.origin) == (labels, Origin())


def overtaken(ballot, labels, turned):
    """Whether an attacker of the members ``turned`` can change the plurality, label by label."""
    before = int(np.bincount(ballot, minlength=labels).argmax())
    for target in range(labels):
        after = ballot.copy()
        after[turned] = target
        if np.bincount(after, minlength=labels).argmax() != before:
            return True
    return False


def test_labels_larger_than_those_of_a_table_help_no_attacker():
    """Of every set of members: so of every radius, with parts that reach one member or more."""
    members = 4
    sets = list(product([False, True], repeat=members))
    for votes in product(range(3), repeat=members):
        ballot = np.array(votes)
        labels = max(2, max(votes) + 1)
        for turned in map(np.array, sets):
            known = overtaken(ballot, labels, turned)
            assert known == overtaken(ballot, labels + 2, turned), (votes, turned)
        if max(votes) > 0:
            continue
        # One label would not do: nothing could overtake it.
        assert not overtaken(ballot, 1, np.ones(members, dtype=bool))


def test_radii_are_those_with_larger_labels_too():
    rng = np.random.default_rng(5)
    offsets, members = (0, 1, 3), 6
    votes = rng.integers(0, 4, (150, members), dtype=np.int32)
    votes[:10] = rng.integers(0, 2, (10, 1), dtype=np.int32)
    for ballot in votes:
        labels = max(2, int(ballot.max()) + 1)
        radii = [plurality_radii(tally(ballot[None], n))[0] for n in (labels, labels + 3)]
        assert radii[0] == radii[1]
        exact = []
        for n in (labels, labels + 3):
            survived = members
            for buckets in product([False, True], repeat=members):
                turned = np.zeros(members, dtype=bool)
                for bucket in np.flatnonzero(buckets):
                    turned[[(bucket + offset) % members for offset in offsets]] = True
                if overtaken(ballot, n, turned):
                    survived = min(survived, sum(buckets) - 1)
            exact.append(survived)
        assert exact[0] == exact[1]
        # Counting overlaps twice, the published bound may differ, but never beyond the truth.
        assert finite_published(ballot[None], labels, offsets)[0] <= exact[1]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64, ">i4"])
def test_any_integers_are_read(tmp_path, kind):
    np.savez(tmp_path / "v.npz", **arrays(ballots=VOTES.astype(kind)))
    assert np.array_equal(read_ballots(tmp_path / "v.npz").votes, VOTES)


HUGE = VOTES.astype(np.int64).copy()
HUGE[1, 2] = 2**40
FAR = np.zeros((2, 3, 3), dtype=np.int64)
FAR[0, 1, 2] = 2**40
SHORT = '{"version":1,"origin":{"sizes":[4,5]}}'
NAMELESS = '{"version":1,"origin":{"label_names":["a","b"]}}'
NEGATIVE = VOTES.copy()
NEGATIVE[1, 0] = -1
NAN = np.zeros((2, 3, 3))
NAN[0, 1, 1] = np.nan


def text(value):
    return np.frombuffer(value.encode(), dtype=np.uint8)


@pytest.mark.parametrize(
    "changes",
    [
        {"ballots": None},
        {"truth": None},
        {"labels": None},
        {"ballots": NEGATIVE},
        {"truth": np.array([0, 3])},
        {"ballots": VOTES.astype(float)},
        {"ballots": VOTES > 0},
        {"ballots": VOTES.astype(object)},
        {"ballots": VOTES.astype(str)},
        {"ballots": HUGE},
        {"ballots": VOTES[:, :1]},
        {"ballots": VOTES[0]},
        {"ballots": VOTES[:1]},
        {"ballots": VOTES[:0], "truth": TRUTH[:0]},
        {"labels": np.array(2)},
        {"labels": np.array(1)},
        {"labels": np.array(10**9)},
        {"labels": np.array(2**40)},
        {"labels": np.array([3, 3])},
        {"labels": np.array(3.0)},
        {"scores": np.zeros((2, 3, 2))},
        {"scores": np.zeros((2, 3, 3), dtype=int)},
        {"score": np.zeros(3)},
        {"thresholds": np.ones((2, 3, 3), dtype=int)},
        {"thresholds": FAR},
        {"thresholds": FAR - 2**41},
        {"manifest": text(SHORT)},
        {"manifest": text(NAMELESS)},
        {"manifest": np.array([1.0])},
        {"manifest": text("{")},
        {"manifest": text('{"version":2,"origin":{}}')},
        {"manifest": text('{"version":1,"origin":{"x":1}}')},
        {"manifest": text('{"version":1,"origin":{"method":"x"}}')},
        {"manifest": text('{"version":1,"origin":{"thresholds_against":"changes"}}')},
        {"manifest": text('{"version":1,"origin":{"thresholds_exact_to":-1}}')},
        {
            "manifest": text('{"version":1,"origin":{"thresholds_exact_to":2}}'),
            "thresholds": ballots().thresholds,
        },
    ],
)
def test_bad_arrays_are_one_error_that_names_them(tmp_path, changes, snapshot):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays(**changes))
    with pytest.raises(BallotError) as caught:
        read_ballots(path)
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n\n",
        "truth,part_0,part_1\n",
        "part_0,part_1\n0,1\n",
        "truth,part_1,part_0\n0,1,1\n",
        "truth,part_0,part_0\n0,1,1\n",
        "truth,part_0,part_2\n0,1,1\n",
        "truth,part_0\n0,1\n",
        "truth,part_0,part_1\n0,1,1\n0,1\n",
        "truth,part_0,part_1\n0,1\n0,1\n",
        "truth,part_0,part_1\n0,1,1,1\n",
        "truth,part_0,part_1\n0,1,1.0\n",
        "truth,part_0,part_1\n\n0,nan,1\n",
        "truth,part_0,part_1\n,1,1\n",
        "truth,part_0,part_1\n0,1,-1\n",
        "truth,part_0,part_1\n0,1,9999999999\n",
        f"truth,part_0,part_1\n0,1,{-(2**63)}\n",
        f"truth,part_0,part_1\n0,1,{2**63 - 1}\n",
        "truth,part_0,part_1\n0,1,32768\n",
        f"truth,part_0,part_1\n0,1,{'9' * 40}\n",
        "# labels = 2\ntruth,part_0,part_1\n0,1,2\n",
        "# labels = two\ntruth,part_0,part_1\n0,1,2\n",
        "# labels = 2\nx,part_0,part_1\n0,1,2\n",
        "# labels = 99999\ntruth,part_0,part_1\n0,1,2\n",
    ],
)
def test_a_bad_table_is_one_error_with_line_and_column(tmp_path, content, snapshot):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(BallotError) as caught:
        read_ballots(path)
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "scores",
    [
        None,
        NAN,
        np.where(np.isnan(NAN), -np.inf, 0),
        np.zeros((2, 3, 3)),
    ],
)
def test_scores_are_refused_where_they_are_compared_and_not_before(tmp_path, scores, snapshot):
    path = tmp_path / "v.npz"
    np.savez(path, **arrays(scores=scores))
    read = read_ballots(path)
    assert np.array_equal(read.votes, VOTES)
    with pytest.raises(BallotError) as caught:
        read.scores_of("a run-off")
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("right", "fine"), [(None, True), (0, True), (2, True), (3, False)])
def test_what_the_undefended_model_answers_is_remembered(tmp_path, right, fine, snapshot):
    origin = Origin(undefended_right=right)
    if fine:
        write_ballots(ballots(origin=origin), tmp_path / "b.npz")
        assert read_ballots(tmp_path / "b.npz").origin.undefended_right == right
        return
    with pytest.raises(BallotError) as told:
        ballots(origin=origin)
    assert str(told.value) == snapshot


def test_damaged_files_are_one_error(tmp_path, snapshot):
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    write_ballots(ballots(), whole)
    content = whole.read_bytes()
    for size in (3, 100, len(content) // 2, len(content) - 5):
        cut.write_bytes(content[:size])
        with pytest.raises(BallotError, match=r"cut\.npz: "):
            read_ballots(cut)
    at = content.index(b"JSON") if b"JSON" in content else content.index(b"GaussianNB")
    cut.write_bytes(content[:at] + b"X" + content[at + 1 :])
    with pytest.raises(BallotError, match="damaged"):
        read_ballots(cut)
    with zipfile.ZipFile(cut, "w") as archive:
        archive.writestr("ballots.npy", b"not an array")
    with pytest.raises(BallotError, match="damaged"):
        read_ballots(cut)
    with pytest.raises(BallotError) as told:
        read_ballots(tmp_path / "absent.npz")
    assert str(told.value) == snapshot
    with pytest.raises(BallotError) as told:
        read_ballots(tmp_path)
    assert str(told.value) == snapshot
    (tmp_path / "empty.npz").touch()
    with pytest.raises(BallotError) as told:
        read_ballots(tmp_path / "empty.npz")
    assert str(told.value) == snapshot
    (tmp_path / "latin.csv").write_bytes(b"truth,part_0,part_1\n\xff")
    with pytest.raises(BallotError) as told:
        read_ballots(tmp_path / "latin.csv")
    assert str(told.value) == snapshot


HEADERS = [
    "(10000000000000, 10)",
    "(100000000000000000000, 10)",
    "(-1, 10)",
    "(3",
    "(3,), 3: 4",
    "(2,)" + " " * 20_000,
]


@pytest.mark.parametrize("shape", HEADERS, ids=range(len(HEADERS)))
@pytest.mark.parametrize("read", [read_ballots, read_samples])
def test_headers_that_claim_what_is_not_there_are_one_error(tmp_path, read, shape, snapshot):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}"
    header += "}\n" if shape != "(3" else "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    path = tmp_path / "claims.npz"
    with zipfile.ZipFile(path, "w") as archive:
        # Longer than what zipfile reads ahead, or the checksum would speak first.
        archive.writestr("ballots.npy", content + bytes(100_000))
    with pytest.raises((BallotError, TrainingError)) as caught:
        read(path)
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_what_was_there(tmp_path, snapshot):
    path = tmp_path / "b.npz"
    write_ballots(ballots(), path)
    before = path.read_bytes()
    with pytest.raises(BallotError) as told:
        write_ballots(ballots(), tmp_path / "absent" / "b.npz")
    assert str(told.value) == snapshot
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["b.npz"]


def test_the_manifest_is_text_that_says_its_version(tmp_path):
    write_ballots(ballots(), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as archive:
        manifest = msgspec.json.decode(archive["manifest"].tobytes())
    assert manifest["version"] == 1
    assert manifest["origin"]["label_names"] == ["a", "b", "ü"]


def test_large_files_are_quick(tmp_path):
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 10, (10_000, 1_200), dtype=np.int8)
    truth = rng.integers(0, 10, 10_000)
    np.savez(tmp_path / "v.npz", ballots=votes, truth=truth, labels=10)
    started = time.process_time()
    assert np.array_equal(read_ballots(tmp_path / "v.npz").votes, votes)
    assert time.process_time() - started < 4

    # Digits a column each, so that writing is quick, too.
    cells = np.full((2_000, 2 * 1_201), ord(","), dtype=np.uint8)
    cells[:, 0::2] = np.column_stack([truth, votes])[:2_000] + ord("0")
    cells[:, -1] = ord("\n")
    header = "truth," + ",".join(f"part_{i}" for i in range(1_200)) + "\n"
    (tmp_path / "v.csv").write_bytes(header.encode() + cells.tobytes())
    started = time.process_time()
    assert np.array_equal(read_ballots(tmp_path / "v.csv").votes, votes[:2_000])
    assert time.process_time() - started < 6

"""What a certificate leaves out: nothing that its proof needs, and nothing that can be made up."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.models.archive import read_arrays
from leaveout.verifier.certify.check import check, used_parts
from leaveout.verifier.points import proofs
from leaveout.verifier.points.proofs import shorten
from leaveout.verifier.run import verify

from support import children
from support.certificates import Content, write
from support.depth import IS_DEEP, enough
from support.files import write_question
from support.point_claims import KINDS
from support.points import write_kind

ROOT, INPUT, MEMBERS, PHASE, UNTIED = range(5)
SEEDS = (1, 4, 8, 10) if IS_DEEP else (1, 8)


def raw(path) -> Content:
    """Return a certificate's content as it is written."""
    arrays = read_arrays(path)
    arrays.pop("manifest")
    return Content(Content.of(path).manifest | {"format": 3}, arrays)


def shortened(path, members="family.npz", network="full.onnx"):
    shorten(path, [path.parent / network], [path.parent / members])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_proves_the_same_of_leaks(tmp_path, seed):
    written = write(tmp_path, seed, ties=True, nodes=50)
    before = check(written.path)
    whole = sum(each.nbytes for each in read_arrays(written.path).values())
    shortened(written.path)
    content = raw(written.path)
    assert sum(each.nbytes for each in content.arrays.values()) < whole
    after = check(written.path)
    assert [(c.label, c.upper) for c in after] == [(c.label, c.upper) for c in before]
    assert all(a.leaves <= b.leaves for a, b in zip(after, before, strict=True))
    # Nothing more can be left out.
    again = used_parts(
        written.path, network=[tmp_path / "full.onnx"], family=[tmp_path / "family.npz"]
    )
    assert all(spare.seen.all() for spare in again.values())
    for name, spare in again.items():
        kept = np.diff(content.arrays[f"{name}.starts"])
        assert sum(len(own) for own in spare.neurons.values()) <= kept.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_proves_the_same_of_points(tmp_path, kind):
    path = write_kind(tmp_path, kind, 1)
    before = check(path)
    networks = sorted(tmp_path.glob("*.onnx"))
    shorten(path, networks, sorted(tmp_path.glob("*.npz")))
    assert [c.upper for c in check(path)] == [c.upper for c in before]


class Later:
    """A deadline that is over once it was looked at so often."""

    def __init__(self, looks: int) -> None:
        self._looks = looks

    @property
    def over(self) -> bool:
        self._looks -= 1
        return self._looks < 0


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_without_time_to_check_it_a_certificate_stays_as_it_is(tmp_path, looks):
    path = write(tmp_path, SEEDS[0], ties=True, nodes=50).path
    before = path.read_bytes()
    files = [tmp_path / "full.onnx"], [tmp_path / "family.npz"]
    assert not shorten(path, *files, Later(looks))
    assert path.read_bytes() == before
    assert shorten(path, *files, Later(10**6))
    assert len(path.read_bytes()) < len(before)


def test_a_run_checks_its_certificate_for_a_little_longer_than_its_time(tmp_path, monkeypatch):
    spec = write_question(tmp_path)
    began = time.perf_counter()

    def endless(path, *, progress, **files):
        while time.perf_counter() < began + children.HANGS:
            progress("bound", 0, 1, 2)
            time.sleep(0.01)
        raise AssertionError("nobody ended it")

    monkeypatch.setattr(proofs, "used_parts", endless)
    path = tmp_path / "c.npz"
    report = verify(spec, time=1.0, certificate=path)
    (note,) = [each for each in report.notes if "no time was left" in each]
    assert note.startswith(str(path))
    monkeypatch.undo()
    assert [each.label for each in check(path)] == [0, 1]


def forged(content: Content, tree: str) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield other arrays of a tree, of which none are those of a proof."""
    own = {k.removeprefix(f"{tree}."): v for k, v in content.arrays.items() if f"{tree}." in k}
    neuron, starts, offsets = (own[k].astype(np.int64) for k in ("neuron", "starts", "offsets"))
    group, kind, parent = own["group"].astype(np.int64), own["kind"], own["parent"]
    members = own["members"].astype(np.int64)
    count = len(parent)
    if len(neuron):
        for value in (-1, 10**6):
            changed = neuron.copy()
            changed[0] = value
            yield f"neuron {value}", {"neuron": changed}
        yield "a neuron less", {"neuron": neuron[:-1]}
        yield "a multiplier less", {"cz": own["cz"][:-1]}
        yield "multipliers of another proof", {"starts": np.r_[starts[0], starts[1:] + 1]}
        yield "no number", {"cz": np.full_like(own["cz"], np.nan)}
        yield "infinite", {"cz": np.full_like(own["cz"], np.inf)}
        yield "as doubles", {"cz": own["cz"].astype(np.float64)}
    if len(starts) > 1:
        yield "starts that fall", {"starts": np.r_[starts[:-1] + 1, starts[-1]]}
        yield "a proof less", {"starts": starts[:-1]}
        yield "no starts", {"starts": starts[:0]}
        yield "starts from 1", {"starts": np.r_[1, starts[1:]]}
    yield "a kind that wraps round", {"kind": kind.astype(np.int64) + 256}
    yield "unsigned", {"parent": parent.astype(np.uint32)}
    yield "parents as floats", {"parent": parent.astype(np.float64)}
    yield (
        "two targets for all",
        {"target": np.repeat(own["target"][:1], 2)}
        if count != 2
        else {"target": own["target"][:0]},
    )
    yield "no point", {"point": own["point"][:0]}
    yield "a point that is none", {"point": np.full(1, np.nan)}
    yield (
        "an empty set shared",
        {"group": np.where(group >= 0, 0, group)}
        if (group > 0).any()
        else {"group": np.full_like(group, -1)},
    )
    yield "sets that fall", {"offsets": np.r_[offsets[:-1] + 1, offsets[-1]]}
    yield "a set less", {"offsets": offsets[:-1]}
    roots = np.flatnonzero(kind == ROOT)
    one = int(group[roots[0]])
    sets = [members[a:b] for a, b in itertools.pairwise(offsets)]
    some = [("a root with one twice", [0, 0])]
    if content.manifest["questions"][0]["members"] > 1:
        some.append(("a root of one", [0]))
    for what, own_set in some:
        changed_sets = [np.array(own_set) if g == one else s for g, s in enumerate(sets)]
        yield what, _sets(changed_sets)
    for at in np.flatnonzero(kind == MEMBERS)[:3]:
        g = int(group[at])
        siblings = group[(parent == parent[at]) & (kind == MEMBERS)]
        if len(siblings) > 1:
            bare = [s[:0] if k in siblings else s for k, s in enumerate(sets)]
            yield f"no parts at {at}", _sets(bare)
        if len(sets[g]):
            more = [np.r_[s, 10**6] if k == g else s for k, s in enumerate(sets)]
            yield f"a member that is none at {at}", _sets(more)
            other = [s[:0] if k == g else s for k, s in enumerate(sets)]
            if len(siblings) > 1:
                yield f"two parts without members at {at}", _sets(other)
        else:
            named = np.concatenate([sets[k] for k in siblings])
            twice = [named[:1] if k == g else s for k, s in enumerate(sets)]
            yield f"a part that leaves members out at {at}", _sets(twice)


def _sets(sets: list[np.ndarray]) -> dict[str, np.ndarray]:
    ends = np.cumsum([0, *(len(each) for each in sets)])
    return {"members": np.concatenate(sets).astype(np.int64), "offsets": ends}


def test_forged_short_trees_are_rejected(tmp_path):
    count, missed = 0, []
    for seed in SEEDS:
        written = write(tmp_path / str(seed), seed, ties=True, nodes=50)
        shortened(written.path)
        false = written.path.with_name("false.cert")
        for result in raw(written.path).manifest["results"]:
            for what, arrays in forged(raw(written.path), result["tree"]):
                content = raw(written.path)
                changed = {f"{result['tree']}.{key}": value for key, value in arrays.items()}
                if all(np.array_equal(content.arrays[k], v) for k, v in changed.items()):
                    continue
                content.arrays |= changed
                content.save(false)
                count += 1
                try:
                    check(false)
                    missed.append((seed, result["label"], what))
                except LeaveoutError as error:
                    assert "\n" not in str(error)
    assert not missed, missed
    assert count >= enough(100)


def test_older_formats_leave_nothing_out(tmp_path):
    """What format 3 may leave out, format 2 may not: neither arrays, nor sets, nor multipliers."""
    written = write(tmp_path, 8, ties=True, nodes=80)
    content = raw(written.path)
    content.manifest["format"] = 2
    content.save(tmp_path / "false.cert")
    with pytest.raises(LeaveoutError):
        check(tmp_path / "false.cert")


def test_a_book_writes_the_third_format(tmp_path):
    written = write(tmp_path, 8, ties=False, nodes=40)
    assert int(read_arrays(written.path)["certificate"][0]) == 3

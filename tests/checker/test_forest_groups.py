"""The checker's forests without a group, and groups that a file does not have."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from leaveout.encoders import Box
from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel import forest_members
from leaveout.kernel.deletion import Forest, forest_and_record
from leaveout.kernel.numbers import Rejected
from leaveout.models.forest.files import load_ensemble, save_ensemble
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import Groups
from leaveout.models.forest.scored import ScoredForest
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from support.certificates import Content
from support.depth import enough, rounds
from support.forest_leaks import Asked, greatest_leaks, grouped_rows
from support.kernel_forests import read, unlike


def test_members_are_node_for_node_what_training_without_a_group_gives(tmp_path):
    changed = 0
    for seed in range(rounds(120)):
        forest, _, _, groups = grouped_rows(np.random.default_rng(seed))
        forest.save(tmp_path / "forest.npz")
        held = read(tmp_path / "forest.npz")
        assert len(held.units) == len(np.unique(groups))
        for _, places in held.units:
            assert places.tolist() == np.flatnonzero(groups == groups[places[0]]).tolist()
        found, wrong = unlike(held)
        assert not wrong, seed
        changed += found
    assert changed > enough(500)


def test_members_may_be_found_a_few_at_a_time(tmp_path, monkeypatch):
    forest, *_ = grouped_rows(np.random.default_rng(3))
    forest.save(tmp_path / "forest.npz")
    held = read(tmp_path / "forest.npz")
    monkeypatch.setattr(forest_members, "_MOST_ROWS", 3 * len(held.X) * held.settings.trees)
    assert {len(part.others) for part in forest_members.members(held)[:-1]} == {3}
    assert not unlike(held)[1]


SPEC = """
let T = forest("forest.npz")
let F = leave_one_out(T)
find bound: least b per label such that
    forall x in box(-1, 9), M in F: confidence(T, x) > b => label(M, x) == label(T, x)
"""


def dropped(cells):
    """A row of a group is said to be somebody's who does not exist."""
    many = max(set(cells), key=cells.count)
    cells[cells.index(many)] = "nobody"


def moved(cells):
    """A row of a group is said to be of another one."""
    many = max(set(cells), key=cells.count)
    cells[cells.index(many)] = next(each for each in cells if each != many)


def merged(cells):
    one, other = sorted(set(cells))[:2]
    cells[:] = [one if each == other else each for each in cells]


def divided(cells):
    many = max(set(cells), key=cells.count)
    places = [at for at, each in enumerate(cells) if each == many]
    for at in places[::2]:
        cells[at] = "other half"


def renamed(cells):
    cells[:] = ["X" if each == cells[0] else each for each in cells]


def alone(cells):
    cells[:] = [f"{at}" for at in range(len(cells))]


FORGERIES = (dropped, moved, merged, divided, renamed, alone)


def proved(folder, seed):
    rng = np.random.default_rng(seed)
    while True:
        forest, X, _, _ = grouped_rows(rng, most=14)
        if not np.isnan(X).any() and 2 < len(forest.ensemble().unit_names) < len(X) - 1:
            break
    forest.save(folder / "forest.npz")
    (folder / "s.spec").write_text(SPEC)
    report = verify(folder / "s.spec", certificate=folder / "s.cert")
    assert {each.verdict for each in report.results} == {"proved"}
    return check(folder / "s.cert")


def forge(folder, change):
    held = load_ensemble(folder / "forest.npz")
    cells = held.groups.cells.tolist()
    change(cells)
    assert cells != held.groups.cells.tolist()
    save_ensemble(replace(held, groups=Groups("group", np.array(cells))), folder / "forest.npz")


def sign(folder):
    """Make a certificate one of the file as it now is; return the certificate's content."""
    content = Content.of(folder / "s.cert")
    digest = hashlib.sha256((folder / "forest.npz").read_bytes()).hexdigest()
    for part in content.manifest["forests"]["questions"]:
        part["forest"]["sha256"] = digest
    content.save(folder / "s.cert")
    return content


@pytest.mark.parametrize("change", FORGERIES)
def test_no_certificate_is_of_a_file_with_other_groups(tmp_path, change):
    assert proved(tmp_path, 1)
    forge(tmp_path, change)
    with pytest.raises((CertificateError, RejectedError)):
        check(tmp_path / "s.cert")


@pytest.mark.parametrize("change", FORGERIES)
def test_with_other_groups_nothing_false_is_accepted(tmp_path, change):
    rejected, accepted = 0, 0
    for seed in range(12):
        claims = {each.label: each.upper for each in proved(tmp_path, seed)}
        forge(tmp_path, change)
        content = sign(tmp_path)
        ensemble = load_ensemble(tmp_path / "forest.npz")
        for part in content.manifest["forests"]["questions"]:
            part["members"] = len(ensemble.unit_names)
        content.save(tmp_path / "s.cert")
        try:
            check(tmp_path / "s.cert")
        except (CertificateError, RejectedError):
            rejected += 1
            continue
        accepted += 1
        family = leave_one_out(ensemble)
        box = Box(np.full(3, -1.0), np.full(3, 9.0))
        asked = Asked(ScoredForest.of(ensemble), family, box)
        for label, upper in claims.items():
            assert greatest_leaks(asked, label).max() <= upper
    # What is renamed alone is as true of the file with the other name.
    assert accepted == 12 if change is renamed else rejected > 0


def test_a_record_names_all_rows_of_each_of_its_groups(tmp_path):
    forest, *_ = grouped_rows(np.random.default_rng(3))
    forest.save(tmp_path / "forest.npz")
    held = read(tmp_path / "forest.npz")
    (all_of_one,) = [list(map(int, held.names[each])) for _, each in held.units if len(each) > 1][
        :1
    ]

    def record(*rows):
        values = {"forest": Forest(held), "record": rows}
        given = SimpleNamespace(value_of_kind=lambda name, *_: values[name])
        return forest_and_record(given)[1]

    assert record(*all_of_one) == tuple(all_of_one)
    with pytest.raises(Rejected, match="only a part"):
        record(*all_of_one[1:])

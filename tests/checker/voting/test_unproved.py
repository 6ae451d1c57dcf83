"""What a MILP solver says of votes is in a certificate only where it can be shown again."""

from __future__ import annotations

import numpy as np
import pytest

import leaveout.bab.votes.collective as exact
import leaveout.verifier.values.votes.proofs as proofs
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from support.votes import random_ballots


def together(folder, claims):
    votes, truth = random_ballots(np.random.default_rng(5), 60, 12, 3)
    write_ballots(Ballots(votes, truth, 3), folder / "ballots.npz")
    (folder / "a.spec").write_text(f'let V = ballots("ballots.npz") {claims}')
    return verify(folder / "a.spec", certificate=folder / "a.cert")


def test_a_bound_of_a_solver_is_shown_again(tmp_path, monkeypatch):
    monkeypatch.setattr(exact, "_SEARCH_SECONDS", 0.0)
    report = together(
        tmp_path,
        "guarantee low: collective_accuracy(dpa(V), edits = 2) >= 0 "
        "find most: greatest r such that collective_accuracy(dpa(V), edits = r) >= 0.3",
    )
    assert not any("certificate" in note for note in report.notes)
    assert [each.name for each in check(tmp_path / "a.cert")] == ["low", "most"]


@pytest.mark.parametrize("kind", ["guarantee", "find"])
def test_one_that_is_not_is_noted(tmp_path, monkeypatch, kind, snapshot):
    monkeypatch.setattr(exact, "_SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(proofs, "_WORK", 10.0)
    claim = {
        "guarantee": "guarantee g: collective_accuracy(dpa(V), edits = 2) >= 0",
        "find": "find g: greatest r such that collective_accuracy(dpa(V), edits = r) >= 0.3",
    }[kind]
    report = together(
        tmp_path, f"{claim} guarantee other: certified_accuracy(dpa(V), edits = 2) >= 0"
    )
    (note,) = (note for note in report.notes if "not in the certificate" in note)
    assert note == snapshot
    assert [each.name for each in check(tmp_path / "a.cert")] == ["other"]


def test_hash_values_without_a_proof_are_noted(tmp_path, monkeypatch, snapshot):
    monkeypatch.setattr(proofs, "_WORK", 10.0)
    votes = np.zeros((4, 19), np.int32)
    origin = Origin(offsets=(0, 3, 4, 14, 16))
    write_ballots(Ballots(votes, np.zeros(4, np.int32), 2, origin=origin), tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "guarantee g: certified_accuracy(finite_aggregation(V), edits = 2) >= 0.75"
    )
    report = verify(tmp_path / "a.spec", certificate=tmp_path / "a.cert")
    assert [each.verdict for each in report.results] == ["proved"]
    (note,) = (note for note in report.notes if "no certificate was written" in note)
    assert note == snapshot
    assert not (tmp_path / "a.cert").exists()

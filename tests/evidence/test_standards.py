"""Which statements support which row, and of what nature that is."""

from __future__ import annotations

import pytest
from msgspec import structs

from leaveout.verifier.evidence.standards import ROWS, standards, supports
from leaveout.verifier.evidence.topics import TOPICS, topic_of
from leaveout.verifier.records import BoxRecord, FileRecord, StatementRecord, TrainingRecord
from leaveout.verifier.report import Report, Result

from support.snapshots import passages

CLAIMS = {
    "private": ("idp(G, epsilon = 0.2)", ("G",), "guarded-access"),
    "bound": ("forall x in X, M in F: confidence(N, x) > b => 1 > 0", ("N", "F"), "one-record"),
    "leaves": ("forall x in X, M in L: confidence(T, x) > b => 1 > 0", ("T", "L"), "one-record"),
    "edits": ("certified_accuracy(dpa(V), edits = 4) >= 0.5", ("V",), "poisoning"),
    "named": ("certified_accuracy(D, edits = 4) >= 0.5", ("V", "D"), "poisoning"),
    "forgets": ("unlearns(S, updates = adaptive)", ("S",), "adaptive-deletion"),
    "exact": ("forall z in points(\"a(b).csv\"): unlearn(T, z) == 1", ("T",), "exact-deletion"),
    "hidden": ("membership_advantage(A) <= 0.5", ("A",), "membership-audit"),
    "same": ("forall x in X: label(N, x) == label(Q, x)", ("N",), "behaviour"),
}  # fmt: skip
FILES = {
    "N": "network", "G": "bounds", "F": "family", "T": "forest", "V": "ballots", "S": "service",
    "A": "audit",
}  # fmt: skip


def report(name: str, **more) -> Report:
    claim, names, _ = CLAIMS[name]
    given = {
        "kind": "guarantee", "verdict": "proved", "lower": None, "upper": None, "label": None,
        "witness": None, "seconds": 1.0, "engine": "values", "solver": None, "reason": None,
        "box": BoxRecord(lower=(), upper=(), choices=()), "members": 3 * (name == "leaves"),
    }  # fmt: skip
    said = StatementRecord(
        name=name, text=f"guarantee {name}: {claim}", sentence="", names=names, definitions=(),
        path="",
        line=0, column=0, end_line=0, end_column=0,
    )  # fmt: skip
    files = tuple(
        FileRecord(path=f"{each}.x", kind=kind, sha256="0" * 64, called=(each,))
        for each, kind in FILES.items()
    )
    result = Result(name=name, **(given | more))
    return Report(leaveout="0", spec="s", results=(result,), statements=(said,), files=files)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_statement_is_about_what_it_calls_and_names(name):
    found = report(name)
    assert topic_of(found.results[0], found).name == CLAIMS[name][2]


def test_every_topic_of_a_row_is_one():
    assert {topic for row in ROWS for topic in row.topics} <= {each.name for each in TOPICS}


def natures(found: Report) -> dict[str, str | None]:
    return {each.row.place: each.nature for each in supports(found)}


def test_a_proof_is_proved_a_trial_measured_and_nothing_is_nothing():
    assert natures(report("bound"))["queries"] == "proved"
    assert natures(report("hidden", confidence=0.95))["resistance to attacks"] == "measured"
    assert natures(report("bound"))["resistance to attacks"] is None
    for verdict in ("refuted", "unknown"):
        assert natures(report("bound", verdict=verdict))["queries"] is None


def test_what_is_refuted_is_named_all_the_same(snapshot):
    assert passages(standards(report("bound", verdict="refuted")), "`bound`") == snapshot


def test_digests_are_declared(snapshot):
    assert natures(report("bound"))["documentation"] == "declared"
    training = TrainingRecord(path="F.x", sha256="1" * 64, manifest_sha256="", rows=7, features=2)
    found = structs.replace(report("edits"), training=(training,))
    assert natures(found)["1.1.3, 1.1.4"] == "declared"
    assert passages(standards(found), "111111111111") == snapshot


@pytest.mark.parametrize("name", CLAIMS)
def test_nothing_is_said_to_comply(name, snapshot):
    text = standards(report(name)).lower()
    assert text == snapshot
    assert text.count("compl") == 1


def test_the_table_says_where_what_is_shown_is_another_thing(snapshot):
    assert passages(standards(report("private")), "`private`") == snapshot
    assert passages(standards(report("hidden", confidence=0.9)), "0.9") == snapshot


def test_what_is_another_thing_fills_no_row_and_is_named(snapshot):
    (row,) = [each for each in supports(report("private")) if each.row.place == "11.2.4"]
    assert row.nature is None
    assert row.words == snapshot


def test_whose_presence_is_protected_is_declared_however_much_is_proved():
    found = natures(report("private"))
    assert (found["unit of privacy"], found["threat model"]) == ("declared", "declared")
    assert found["privacy parameter"] == "proved"

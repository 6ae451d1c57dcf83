"""What deciders computed on the way: from the decider to the file, and from there to tables."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import msgspec
import pytest

import leaveout
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.records import FactsRecord
from leaveout.verifier.report import Report, write_json

from support.snapshots import passages

EXAMPLE = Path(__file__).parents[2] / "examples" / "deletion"


@pytest.fixture(scope="module")
def report():
    return leaveout.verify(EXAMPLE / "deletion.spec")


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "r.json"
    write_json(report, path)
    return document(Page(load([str(path)])))


def rows(text, title):
    """Return the cells of the table whose caption starts with a title."""
    start = re.search(rf"<caption[^>]*>{re.escape(escape(title))}", text).start()
    body = text[start:].partition("</table>")[0]
    return [re.findall(r"<t[dh][^>]*>([^<]*)<", row) for row in body.split("<tr>")[1:]]


def test_facts_reach_the_file_of_what_is_proved(report):
    assert msgspec.json.decode(report.to_json(), type=Report) == report
    forgets, exact, kept, hidden = report.results
    assert {each.verdict for each in report.results} == {"proved"}
    (facts,) = forgets.facts
    assert facts.name == "unlearns"
    assert facts.facts["alpha"] == 1.0
    assert facts.facts["alpha_shown"] < 1.0
    deleted = [each.facts["rows"] for each in exact.facts]
    lines = (EXAMPLE / "deletions.csv").read_text().splitlines()
    column = lines[0].split(",").index("row")
    named = [tuple(map(int, line.split(",")[column].split())) for line in lines[1:] if line]
    assert deleted == named
    for each in exact.facts:
        assert each.facts["rows_left"] == 569 - len(each.facts["rows"])
        assert 0 <= each.facts["rows_regrown"] <= each.facts["rows_retrained"]
    assert kept.facts[0].facts == {"trees": 10, "rows": 569}
    assert hidden.confidence == 0.95
    assert forgets.confidence is None


def test_the_tables_show_them(report, page, snapshot):
    claimed = rows(page, "Result of the accounting")
    assert claimed[1][:2] == ["alpha", "1"]
    assert claimed[4][0] == "predictions"
    deletions = rows(page, "Deletions")[1:]
    assert [row[0] for row in deletions[:2]] == ["512", "170"]
    assert len(deletions) == len(report.results[1].facts)
    arms = rows(page, "Frequency of the best attack's event")[1:]
    assert [row[0] for row in arms] == ["unlearned", "retrained"]
    assert passages(page, "569") == snapshot


def test_the_headline_says_what_is_not_certain(page, snapshot):
    assert passages(page, "0.95") == snapshot
    assert page.count("</svg>proved with confidence 0.95</span>") == 3


@pytest.mark.parametrize(
    "results",
    [
        [("proved", 0.9)],
        [("refuted", 0.9)],
        [("unknown", 0.9)],
        [("proved", 0.9), ("proved", 0.99)],
        [("proved", 0.9), ("refuted", None)],
    ],
)
def test_every_headline_says_the_confidence_of_what_it_says(made, results, snapshot):
    made_of = [
        made.result(name=f"s{at}", verdict=verdict, confidence=level)
        for at, (verdict, level) in enumerate(results)
    ]
    assert passages(made.page(*made_of), "<h1>") == snapshot


def test_an_older_file_takes_the_confidence_from_the_text(made, snapshot):
    spec = 'guarantee half: membership_advantage(audit("a.npz")) <= 0.1 with confidence 0.8\n'
    text = made.page(made.result(), spec=spec)
    assert passages(text, "<h1>") == snapshot


def test_facts_of_functions_that_have_no_table_are_listed(made, snapshot):
    facts = (FactsRecord(name="mine", facts={"depth": 3, "who": "<b>", "at": (1, 2)}),)
    text = made.page(made.result(facts=facts))
    assert passages(text, "mine") == snapshot
    assert "<dt>depth</dt><dd>3</dd>" in text
    assert "&lt;b&gt;" in text


@pytest.mark.parametrize(
    "name", ["idp", "unlearns", "unlearn", "caches_sound", "same_function", "membership_advantage"]
)
def test_facts_of_another_version_are_listed_as_they_are(made, name, snapshot):
    odd = (FactsRecord(name=name, facts={"new": 1}), FactsRecord(name=name, facts={"new": 2}))
    text = made.page(made.result(facts=odd))
    assert passages(text, name) == snapshot


def test_the_bounds_of_a_guard_are_listed(made, snapshot):
    facts = {"epsilon": 0.25, "members": 9, "bound_0": 0.5, "bound_1": 1.5}
    text = made.page(made.result(facts=(FactsRecord(name="idp", facts=facts),)))
    assert rows(text, "Bounds that the guard relies on")[1:] == [["0", "0.5"], ["1", "1.5"]]
    assert passages(text, "0.25") == snapshot


def test_equal_forests_are_compared(made):
    facts = {"trees": 3, "trees_other": 4, "features": 5, "inputs_tried": 4096}
    text = made.page(made.result(facts=(FactsRecord(name="same_function", facts=facts),)))
    assert rows(text, "Two forests compared")[1] == ["3", "4", "5", "4,096"]


def test_what_shows_a_refutation_is_not_shown_twice(made):
    facts = {"alpha_lower": 2.5}
    text = made.page(
        made.result(
            verdict="refuted",
            example=made.example(words="so it is", facts=facts),
            facts=(FactsRecord(name="unlearns", facts=facts),),
        )
    )
    assert text.count("alpha lower") == 1

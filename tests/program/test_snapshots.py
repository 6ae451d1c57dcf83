"""Snapshots of wordings: what varies is blanked, what is a fact is not lost."""

from __future__ import annotations

import pytest

from support.snapshots import LostFactsError, Rewording, blanked, facts, passages

PAGE = """
<html><style>p { width: 3px }</style><h1>Proved &amp; done</h1>
<p>label 0: at most 0.25</p><table><tr><th>row</th><td class="number">40</td></tr></table>
<svg aria-label="between 0.25 and 3"></svg></html>
"""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("took 1.25 s, of 3 seconds", "took SOME s, of SOME seconds"),
        ("file 0123456789abcdef", "file DIGEST"),
        ("on 2026-11-23T10:00:00Z", "on DATE"),
        ("leaveout 0.1.0 at http://127.0.0.1:4711/", "leaveout VERSION at http://127.0.0.1:PORT/"),
        ("a   b  proved   0.5  1  0.0", "a  b  proved  0.5  1  SECONDS"),
        ("0.123456789012 and 0.12345", "0.12345… and 0.12345"),
        ("3 rows of 12, at most 0.5", "3 rows of 12, at most 0.5"),
    ],
)
def test_what_differs_from_run_to_run_is_blanked_and_nothing_else(text, kept):
    assert blanked(text) == kept


def test_a_folder_of_a_test_is_blanked_and_the_names_in_it_are_not(tmp_path):
    assert blanked(f"{tmp_path}/r.json: gone\n{'^' * 90}\n^^^") == "TMP/r.json: gone\n^\n^^^"


def test_numbers_verdicts_options_names_and_files_are_facts():
    said = "refuted: --time 1,000 is too short for 'half' of r.json, at 2.5e-3 (or -7)."
    assert facts(said) == {"refuted", "--time", "1000", "half", "r.json", "2.5e-3", "-7"}


@pytest.mark.parametrize("lost", ["3", "0.5", "'a'", "proved", "--time", "f.npz"])
def test_an_update_may_change_words_and_lose_no_fact(lost):
    before = "3 rows, 'a' proved above 0.5 with --time of f.npz"
    held = Rewording()
    assert held.matches(serialized_data=before, snapshot_data=before)
    words = before.replace("rows", "records").replace("above", "over")
    assert not held.matches(serialized_data=words, snapshot_data=before)
    with pytest.raises(LostFactsError):
        held.matches(serialized_data=words.replace(lost, "some"), snapshot_data=before)


def test_passages_of_a_page_are_its_blocks_and_those_of_a_text_its_lines():
    assert passages(PAGE, "0.25") == "label 0: at most 0.25\nbetween 0.25 and 3"
    assert passages(PAGE, ("0.25", "3")) == "between 0.25 and 3"
    assert passages(PAGE, "<h1>", "40") == "Proved & done\n40"
    assert passages("a 1.5\nb 1\nc 12", "1") == "b 1"
    assert passages("a  b\n\nc") == "a b\nc"
    with pytest.raises(AssertionError, match="nowhere"):
        passages(PAGE, "41")

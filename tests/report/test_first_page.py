"""The first page and its summary in Markdown: the same sentences, and names stay text."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import pytest

from leaveout.verifier.page import Page, document, load
from leaveout.verifier.page.first_page.show import summary
from leaveout.verifier.page.loading import day
from leaveout.verifier.page.markdown import code_span, list_items, markdown, rows, text
from leaveout.verifier.page.target import PageError
from leaveout.verifier.records import FactsRecord, FileRecord, StatementRecord

from support.outline import EVIL, Outline
from support.snapshots import passages

LONG = "W" * 300
STYLE = resources.files("leaveout.verifier.page").joinpath("style.css").read_text("utf-8")


def runs(made):
    """Return a page of a statement of each verdict, with all that may be on a first page."""
    spec = (
        'let V = ballots("b.npz")\nlet N = network("full.onnx")\nlet F = family("family.npz")\n'
        "guarantee half: certified_accuracy(dpa(V), edits = 8) >= 0.5\n"
        "guarantee all: certified_accuracy(dpa(V), edits = 9) >= 0.9\n"
        "find bound: least b per label such that\n    forall x in box(0, 1), M in F: "
        "confidence(N, x) > b => label(M, x) == label(N, x)\n"
    )
    results = (
        made.result(lower=0.6, upper=0.6, curves=(made.curve(),)),
        made.result(name="all", verdict="refuted", lower=0.2, upper=0.2),
        made.leak(label=0, verdict="unknown", reason="time: over"),
        made.leak(label=1),
    )
    notes = ("b.npz: taken on trust: rows are patients", "param a = 3")
    return made.file(*results, spec=spec, notes=notes)


def test_the_first_page_comes_before_all_else_and_has_lines_to_sign_on(made, snapshot):
    text = document(made.pages(runs(made)))
    page = Outline(text)
    first = text[text.index('class="first"') : text.index("<nav")]
    assert text.index("<h1>") < text.index('class="found-list"') < text.index("<nav")
    assert passages(f"<div {first}") == snapshot
    assert first.count('<th scope="col">') == 4
    assert len(page.named("h1")) == 1


def test_files_have_the_start_of_their_digests_there_and_the_whole_behind(made, snapshot):
    page = made.pages(runs(made))
    text = document(page)
    (run,) = page.runs
    first, _, rest = text.partition("<nav")
    for digest in (run.digest, run.specification.digest):
        assert f'<span class="digest">{digest[:12]}</span>' in first
        assert digest in rest
    assert passages(first, "full.onnx", "b.npz") == snapshot


def test_no_clock_is_asked_and_a_day_that_is_given_is_shown(made, snapshot):
    path = runs(made)
    plain = made.pages(path)
    assert document(plain) == document(made.pages(path))
    assert markdown(plain) == markdown(made.pages(path))
    assert 'class="blank"' in document(plain)
    dated = Page(load([str(path)]), date="2026-11-23")
    assert "2026-11-23" in document(dated)
    assert 'class="blank"' not in document(dated)
    assert passages(markdown(dated), "2026-11-23") == snapshot


def test_of_several_files_all_days_are_named_or_none(made):
    first = made.file(made.result(), name="a.json", date="2026-11-23T10:00:00Z")
    second = made.file(made.result(), name="b.json", date="2026-11-21T10:00:00Z")
    assert made.pages(first, second).days == ("2026-11-21", "2026-11-23")
    for odd in ("", "soon", "<b>2026-11-23T", "2026-11-23"):
        third = made.file(made.result(), name="c.json", date=odd)
        assert made.pages(first, third).days == ()
        assert 'class="blank"' in document(made.pages(first, third))


def test_files_that_results_keep_have_their_digests(made, snapshot):
    files = (
        FileRecord(path="six.spec", kind="specification", sha256="5" * 64),
        FileRecord(path="a/b/full.onnx", kind="network", sha256="6" * 64, called=("N",)),
        FileRecord(path="family.npz", kind="family", sha256="7" * 64, called=("F",)),
        FileRecord(path="rows.csv", kind="given rows", sha256=""),
    )
    page = made.pages(made.file(made.result(), files=files))
    first, _, rest = document(page).partition("<nav")
    assert f'network <code>b/full.onnx</code> <span class="digest">{"6" * 12}</span>' in first
    assert "7" * 12 not in first
    summed = markdown(page)
    for text_ in (rest, summed):
        for at in "67":
            assert at * 64 in text_
        assert "5" * 64 not in text_
    assert passages(summed, "rows.csv") == snapshot


@pytest.mark.parametrize("kept", [True, False])
def test_what_an_included_file_says_now_is_not_said_of_what_was_decided(made, kept, snapshot):
    included = made.folder / "more.spec"
    included.write_text("guarantee half: 1 <= 2\n")
    digest = hashlib.sha256(included.read_bytes()).hexdigest()
    files = (FileRecord(path="more.spec", kind="included specification", sha256=digest),)
    path = made.file(made.result(), spec='include "more.spec"\n', files=files if kept else ())
    assert passages(document(made.pages(path)), "2") == snapshot
    included.write_text("guarantee half: 1 <= 3\n")
    text_ = document(made.pages(path))
    assert passages(text_, "3" if not kept else ("more.spec", "test.spec")) == snapshot


def test_a_statement_that_results_keep_is_said_without_its_specification(made):
    said = "It is claimed that the share is at most 0.5."
    place = {"path": "a.spec", "line": 1, "column": 1, "end_line": 1, "end_column": 2}
    place |= {"definitions": ()}
    kept = (
        StatementRecord(name="half", text="t", sentence=said, names=(), **place),
        StatementRecord(name="b", text="t", sentence="The least b.", names=(), **place),
    )
    results = (
        made.result(verdict="refuted"),
        made.result(name="b", kind="find", lower=0.25, upper=0.5, verdict="unknown"),
    )
    found = summary(made.pages(made.file(*results, spec=None, statements=kept)))
    assert [each.words for each in found.lines] == [
        "It is not true that the share is at most 0.5.",
        "The least b: it is between 0.25 and 0.5.",
    ]


@pytest.mark.parametrize("wrong", ["today", "2026-13-01", "23.11.2026", "20261123", "2026-W48-1"])
def test_a_day_is_a_day(wrong, snapshot):
    assert day("") == ""
    assert day("2026-02-28") == "2026-02-28"
    with pytest.raises(PageError) as told:
        day(wrong)
    assert str(told.value) == snapshot


def test_page_and_summary_say_the_same(made):
    page = made.pages(runs(made))
    said = summary(page)
    html = " ".join(Outline(document(page)).text.split())
    summed = markdown(page)
    for words in (
        *(each.words for each in said.lines),
        *said.scope.covered,
        *said.scope.not_covered,
        *(each.words for each in said.assumptions),
    ):
        assert " ".join(words.split()) in html.replace("\u00a0", " "), words
        assert text(words) in summed, words


def test_the_summary_names_no_record_and_no_input(made):
    summed = markdown(made.pages(runs(made)))
    assert "row 40" not in summed
    assert "0.25, 1.25" not in summed
    assert "member 4" not in summed


def test_the_summary_has_bounds_and_digests(made, snapshot):
    page = made.pages(runs(made))
    summed = markdown(page)
    assert passages(summed, "0.5", "0.2", "r.json", "3") == snapshot
    assert f"{page.runs[0].digest}" in summed
    assert summed.endswith("|\n")


def test_of_several_files_each_is_named(made, snapshot):
    first, second = made.file(made.result(lower=0.5), name="a.json"), runs(made)
    summed = markdown(made.pages(first, second))
    assert passages(summed, "a.json") == snapshot
    assert summed == snapshot
    assert "<code>half</code></a> (a.json)" in document(made.pages(first, second))


def test_results_without_statements_make_a_page_and_a_summary(made, snapshot):
    page = made.pages(made.file())
    assert passages(document(page), "<h1>") == snapshot
    assert markdown(page) == snapshot
    assert "Signatures" not in document(page)


NAMES = [
    ("a < b | c", "a &lt; b \\| c"),
    ("one\ntwo\r\n\n# three", "one two \\# three"),
    ("*x* _y_ `z`", "\\*x\\* \\_y\\_ \\`z\\`"),
    ("[a](javascript:b)", "\\[a\\](javascript:b)"),
    ("<script>alert(1)</script> &amp;", "&lt;script&gt;alert(1)&lt;/script&gt; &amp;amp;"),
    ("![x](y) $m$ ~s~", "\\!\\[x\\](y) \\$m\\$ \\~s\\~"),
    ("\\", "\\\\"),
    ("a\u202eb\x00", "a\ufffdb\ufffd"),
    ("@team", "&#64;team"),
]


@pytest.mark.parametrize(("name", "written"), NAMES)
def test_names_stay_text_in_markdown(name, written):
    assert text(name) == written


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("half", "`half`"),
        ("a`b", "`` a`b ``"),
        ("``", "``` `` ```"),
        ("a\nb", "`a b`"),
        ("a|b", "a\\|b"),
        ("", "` `"),
    ],
)
def test_names_as_code_end_where_they_end(name, written):
    assert code_span(name) == written


def test_lists_and_tables_of_markdown():
    assert list_items(["a", "b"], numbered=True) == "1. a\n2. b\n"
    assert list_items(["a"]) == "- a\n"
    assert rows(("A", "B"), [("1", "2")]) == "| A | B |\n| --- | --- |\n| 1 | 2 |\n"


def test_a_name_that_looks_like_markup_makes_no_element_and_no_row(made):
    name = EVIL + " | `x` \n\n# y\n- z"
    result = made.result(name=name, lower=0.25, verdict="unknown", reason="time: x")
    leak = made.leak(name=name, label=0, label_name=name)
    notes = (f"{name}: taken on trust: {name}", f"rests on: {name}")
    path = made.file(result, leak, spec=None, notes=notes)
    page = made.pages(path)
    summed = markdown(page)
    for line in summed.splitlines():
        assert not re.match(r"\s*(# y|- z)", line), line
        assert "<script" not in line
        assert "<img" not in line
    table = [line for line in summed.splitlines() if line.startswith("| ")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert bars <= {4, 6}
    outline = Outline(document(page))
    assert {"script", "img"} & {each for each, *_ in outline.elements} == set()


def test_long_names_break_and_tables_scroll_within_their_frames(made):
    result = made.result(name="s" + LONG, facts=(FactsRecord(name="f", facts={"x": LONG}),))
    page = Outline(document(made.pages(made.file(result, spec=None))))
    for name, _, open_ in page.elements:
        if name == "table":
            frames = [dict(each)["class"] for kind, each, _ in page.elements if kind == "div"
                      and "class" in each]  # fmt: skip
            assert "scroll" in frames
            assert "div" in open_
    assert re.search(r"body \{[^}]*overflow-wrap: anywhere", STYLE)
    assert re.search(r"\.scroll \{ overflow-x: auto", STYLE)
    narrow = STYLE[STYLE.index("@media (max-width: 42rem)") :]
    assert ".found-list li { grid-template-columns: minmax(0, 1fr)" in narrow
    assert ".form table { min-width: 0; }" in narrow


def test_each_printed_sheet_has_the_digests_of_its_results_and_nothing_of_others(made):
    paths = [made.file(made.result(), name=f"{at}.json", spec=None, notes=(str(at),))
             for at in range(6)]  # fmt: skip
    page = made.pages(*paths)
    text = document(page)
    digests = ", ".join(run.digest[:12] for run in page.runs[:4])
    assert f'@bottom-left {{ content: "Results {digests} and 2"; ' in text

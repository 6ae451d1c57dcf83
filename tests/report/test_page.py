"""The page: the verdict first, everything said, nothing run and nothing loaded."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from leaveout.verifier.page import document
from leaveout.verifier.records import BoxRecord, CellRecord, ChoicesRecord

from support.outline import EVIL, Outline
from support.snapshots import passages


def everything(made):
    """Return results with every part that a page can show."""
    box = BoxRecord(
        lower=(0.0, -1.0),
        upper=(1.0, 1.0),
        choices=(ChoicesRecord(columns=(0, 1), values=((0.0, 1.0), (1.0, 0.0))),),
    )
    example = made.example(
        points={"x": (0.1, 0.2), "y": (0.3, 0.4)},
        scores={"N(x)": (1.0, 2.0), "M(y)": (2.0, 1.0)},
        labels={"N(x)": 1, "M(y)": 0},
        members={"M": 3},
        removed={"M": 77},
        words="x and y differ",
        facts={"poisoned": (1, 2, 3), "lost": tuple(range(100)), "new_fact": "some text"},
    )
    return (
        made.result(lower=0.25, upper=0.25, curves=(made.curve(),)),
        made.leak(label=0),
        made.leak(label=1, features=40, verdict="unknown", upper=2.0, reason="time: 3 s are over"),
        made.result(
            name="fair", verdict="refuted", example=example, engine="native", box=box, members=7
        ),
        made.result(name="sum", kind="find", lower=-2.0, verdict="unknown", reason="numerical: x"),
    )


@pytest.mark.parametrize(
    "verdicts",
    [
        ["proved"],
        ["proved", "proved"],
        ["proved"] * 3,
        ["unknown"],
        ["proved", "unknown"],
        ["refuted", "proved", "unknown"],
        ["refuted", "refuted"],
        [],
    ],
)
def test_the_first_heading_is_the_verdict(made, verdicts, snapshot):
    results = [made.result(name=f"s{i}", verdict=each) for i, each in enumerate(verdicts)]
    page = made.page(*results)
    assert passages(page, "<h1>", "<title>") == snapshot
    assert page.index("<h1>") < page.index("<h2")
    said = passages(page, "<h1>")
    assert f"<title>{said[:-1]}: test.spec" in page


def test_the_labels_of_a_find_are_one_statement(made, snapshot):
    text = made.page(made.leak(label=0), made.leak(label=1, verdict="unknown"))
    page = Outline(text)
    assert passages(text, "<h1>") == snapshot
    assert len(page.named("article")) == 1
    assert "Label 0" in page.text
    assert "Label 1" in page.text


def test_everything_a_result_holds_is_on_the_page(made, snapshot):
    written = made.page(*everything(made), notes=("param a = 3", "taken on trust"))
    assert passages(written) == snapshot
    page = Outline(written)
    for words in (
        *("certified_accuracy(dpa(V), edits = 8) >= 0.5", 'let V = ballots("b.npz")'),
        *("0.5004", "without row 40 the answer at x flips", "0.75", "-0.125", "3 s are over"),
        *("x and y differ", "77", "N(x)", "M(y)", "1, 2, 3", "some text", "98, 99"),
        *("12", "native", "values", "1.2 s", "60 %", "-2"),
        *("param a = 3", "taken on trust", "leaveout verify test.spec", "leaveout 0.1.0"),
    ):
        assert words in page.text, words


def test_a_long_input_is_folded_and_a_short_one_is_not(made):
    text = made.page(made.leak(features=3))
    assert "x: 3 features" in text
    assert "<summary>x: 3 features" not in text
    assert "<summary>x: 40 features" in made.page(made.leak(features=40))


def test_a_witness_is_shown_in_the_units_of_the_data(made, snapshot):
    leak = made.leak(features=3)
    for nearest in (False, True, None):
        cells = (
            CellRecord(name="age", at=(0,), value=41.5, nearest=nearest and None),
            CellRecord(name="colour", at=(1, 2), value="red", nearest=nearest),
        )
        witness = msgspec.structs.replace(leak.witness, cells=cells, x=(0.25, 0.75, 1.0))
        text = made.page(msgspec.structs.replace(leak, witness=witness))
        assert passages(text, "40") == snapshot
        assert '<th scope="row">age</th><td class="number">41.5</td>' in text
        assert re.search(r'<th scope="row">colour</th><td class="number">[^<]*red</td>', text)
        assert passages(text, "<summary>", "red") == snapshot


@pytest.mark.parametrize(
    ("value", "said"),
    [(99800123.0, "99800123"), (-4140.6324512, "-4140.6324512"), (1e-5, "0.00001"), (0.0, "0")],
)
def test_a_value_of_the_table_is_shown_in_full(made, value, said):
    leak = made.leak(features=1)
    cells = (CellRecord(name="balance", at=(0,), value=value, nearest=False),)
    x = (float(np.float32(0.123456789)),)
    witness = msgspec.structs.replace(leak.witness, cells=cells, x=x)
    text = made.page(msgspec.structs.replace(leak, witness=witness))
    cell = '<td class="number">'
    row = rf'<th scope="row">balance</th>{cell}{re.escape(said)}</td>{cell}([^<]*)<'
    read = re.search(row, text)
    assert read is not None
    assert np.float32(read[1]) == np.float32(x[0])


def test_features_have_names_where_the_data_has_no_units(made):
    leak = made.leak(features=2)
    cells = tuple(CellRecord(name=name, at=(at,)) for at, name in enumerate(("age", "<b>")))
    text = made.page(
        msgspec.structs.replace(leak, witness=msgspec.structs.replace(leak.witness, cells=cells))
    )
    assert "0 (age)" in text
    assert "1 (&lt;b&gt;)" in text
    assert "units of the data" not in text


def test_a_huge_input_is_cut_and_says_so(made, snapshot):
    text = made.page(made.leak(features=50_000))
    assert passages(text, "49,000") == snapshot
    assert len(text) < 1_000_000


def test_the_worst_leak_of_a_proved_guarantee_is_no_news(made, snapshot):
    page = made.page(made.leak(name="quiet", kind="guarantee", label=None))
    assert passages(page, "<summary>") == snapshot


def test_bounds_are_drawn_against_what_is_asked_for(made, snapshot):
    text = made.page(made.result(lower=0.25, upper=0.75, verdict="unknown", reason="time: over"))
    assert passages(text, "<figcaption>") == snapshot
    (bar,) = re.findall(r'<line x1="([.\d]+)%" x2="([.\d]+)%"[^>]*class="bar"', text)
    (asked,) = re.findall(r'<line x1="([.\d]+)%"[^>]*class="asked"', text)
    assert [float(each) for each in (*bar, asked)] == [25.5, 74.5, 50]

    spec = "guarantee bound: forall x in X, M in F: confidence(N, x) > 0.8 => label(M, x) == 1"
    text = made.page(made.leak(kind="guarantee", label=None), spec=spec)
    assert passages(text, "<figcaption>") == snapshot


def test_labels_share_one_axis_and_an_exact_number_needs_none(made):
    text = made.page(made.leak(label=0), made.leak(label=1, lower=1.0, upper=3.0))
    assert text.count('<figure class="range">') == 1
    assert 'aria-label="label 0: between 0.5 and 0.5004"' in text
    assert 'aria-label="label 1: between 1 and 3"' in text
    assert '<figure class="range">' not in made.page(made.leak(label=0, lower=6.0, upper=6.0))


def test_a_guarantee_about_leaks_without_a_witness_says_that_none_was_found(made, snapshot):
    page = made.page(made.leak(kind="guarantee", label=None, witness=None, lower=0.0, upper=0.25))
    assert passages(page, "0.25") == snapshot


def test_equal_results_give_equal_bytes(made):
    path = made.file(*everything(made))
    assert document(made.pages(path)) == document(made.pages(path))


def test_nothing_is_loaded_and_nothing_runs(made):
    text = made.page(*everything(made))
    page = Outline(text)
    assert page.named("script", "iframe", "object", "embed", "img", "base", "form") == []
    for name, attributes, _ in page.elements:
        for key, value in attributes.items():
            assert not key.startswith("on"), (name, key)
            if key in {"href", "src", "action", "xlink:href"}:
                assert value == "data:," or value.startswith("#"), (name, key, value)
    assert not re.search(r"https?:|@import|url\(", text.replace("http-equiv", ""))
    assert "default-src 'none'" in dict(page.named("meta")[2][1])["content"]


def test_names_that_look_like_markup_stay_text(made):
    safe = Outline(made.page(*everything(made)))
    example = made.example(
        points={EVIL: (0.5,)},
        scores={EVIL: (0.5,)},
        labels={EVIL: 0},
        members={EVIL: 1},
        removed={EVIL: 2},
        words=EVIL,
        facts={EVIL: EVIL},
    )
    curves = (made.curve(EVIL), made.curve("other", value=EVIL, unit=EVIL))
    results = [
        made.leak(name=EVIL, reason=EVIL, engine=EVIL, solver=EVIL, verdict="unknown"),
        made.result(name=EVIL, verdict="refuted", example=example, curves=curves),
    ]
    path = made.file(*results, spec=None)
    text = path.read_text().replace("test.spec", "\\u003cb>.spec")
    path.write_text(text.replace('"notes": []', '"notes": ["<i>x</i>"], "<u>": 1'))
    page = document(made.pages(path))
    outline = Outline(page)
    known = {name for name, *_ in safe.elements} | {"polygon"}
    assert {name for name, *_ in outline.elements} <= known
    assert "<script>alert(1)</script>" in outline.text
    assert "<i>x</i>" in outline.text
    assert "\u202e" not in page
    assert "\x00" not in page


def test_headings_go_down_one_level_at_a_time(made):
    levels = [
        int(name[1])
        for name, *_ in Outline(made.page(*everything(made))).elements
        if re.fullmatch(r"h[1-6]", name)
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_who_does_not_see_the_page_can_use_it(made):
    page = Outline(made.page(*everything(made)))
    assert dict(page.named("html")[0][1])["lang"] == "en"
    for landmark in ("header", "main", "nav", "footer"):
        assert len(page.named(landmark)) == 1
    for _, attributes, _ in page.named("th"):
        assert attributes["scope"] in {"row", "col"}
    assert len(page.named("table")) == len(page.named("caption"))
    for _, attributes, _ in page.named("svg"):
        hidden = attributes.get("aria-hidden") == "true"
        assert hidden or (attributes["role"] == "img" and attributes["aria-label"].strip())
    for name, attributes, _ in page.elements:
        if attributes.get("class") == "scroll" or name == "pre":
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]


def test_names_in_the_page_are_unique_and_links_lead_somewhere(made):
    page = Outline(made.page(*everything(made)))
    names = [each["id"] for _, each, _ in page.elements if "id" in each]
    assert len(names) == len(set(names))
    links = [each["href"] for _, each, _ in page.named("a", "use")]
    assert {link.removeprefix("#") for link in links} <= set(names)


def test_a_verdict_is_never_a_colour_alone(made):
    page = Outline(made.page(*everything(made)))
    marked = [
        at
        for at, (_, each, _) in enumerate(page.elements)
        if (each.get("class") or "").startswith("verdict ")
    ]
    assert marked
    for at in marked:
        assert page.elements[at + 1][0] == "svg"
    assert made.page(made.result()).count("</svg>proved</span>") == 4


def test_several_files_are_told_apart(made, snapshot):
    first = made.file(made.result(curves=(made.curve(),)), name="a.json")
    second = made.file(made.result(curves=(made.curve(lower=(0.8, 0.4)),)), name="b.json")
    text = document(made.pages(first, second))
    assert passages(text, "a.json", "b.json", "<h1>") == snapshot
    page = Outline(text)
    names = [each["id"] for _, each, _ in page.elements if "id" in each]
    assert len(names) == len(set(names))


def test_a_param_that_the_run_gave_another_value_is_named_where_it_is_used(made, snapshot):
    spec = "param eps = 0.1\nparam other = 1\nguarantee half: abs(eps) <= 2\n"
    notes = ("param eps = 0.2, not 0.1 as written", "param other = 2, not 1 as written")
    text = made.page(made.result(), spec=spec, notes=notes)
    assert passages(text, "0.2") == snapshot
    assert "In this run: param other" not in text


def test_what_several_functions_say_alike_is_said_once(made):
    notes = ("radius: a: b", "dpa: a: b", "dpa: c", "elsewhere: a: b")
    text = made.page(made.result(), notes=notes)
    for said in ("radius, dpa: a: b", "dpa: c", "elsewhere: a: b"):
        assert f"<li>{said}</li>" in text


def test_what_a_newer_version_adds_is_named(made, snapshot):
    path = made.file(made.result())
    path.write_text(path.read_text().replace('"seconds"', '"tree": [], "seconds"', 1))
    assert passages(document(made.pages(path)), "results[].tree") == snapshot

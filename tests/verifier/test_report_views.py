"""A report in Python: by name, as lines, as a table, as a chart, in a notebook."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from msgspec import structs

import leaveout
from leaveout.errors import LeaveoutError
from leaveout.models import load_network
from leaveout.verifier.report import Report

from support.files import BOUND, write_question

HIGH = (
    "\nguarantee high: forall x in X, M in F: confidence(N, x) > 9 => label(M, x) == label(N, x)\n"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("question")
    spec = write_question(folder, text=BOUND + HIGH)
    width = load_network(folder / "full.onnx").inputs
    x = np.random.default_rng(2).random((50, width))
    return leaveout.verify(spec, data=x)


def test_results_are_found_by_name(report, snapshot):
    assert len(report) == len(report.results) == 3
    assert list(report) == list(report.results)
    assert [each.label for each in report["bound"]] == [0, 1]
    (high,) = report["high"]
    assert high.verdict == "proved"
    assert "high" in report and "low" not in report and high in report
    with pytest.raises(KeyError) as told:
        report["bond"]
    assert str(told.value) == snapshot


def test_a_report_without_results_is_still_one(snapshot):
    empty = Report(leaveout="0", spec="s", results=())
    assert empty
    assert len(empty) == 0
    assert repr(empty) == snapshot
    with pytest.raises(KeyError) as told:
        empty["a"]
    assert str(told.value) == snapshot
    with pytest.raises(LeaveoutError) as told:
        empty.plot()
    assert str(told.value) == snapshot


def test_it_is_shown_in_one_line_a_result(report, snapshot):
    told = repr(report).splitlines()
    assert len(told) == 4
    assert told[0] == snapshot
    assert told[2] == snapshot
    assert told[3] == report.answers[0].words


def test_it_is_a_data_frame(report):
    pandas = pytest.importorskip("pandas")
    table = report.to_frame()
    assert isinstance(table, pandas.DataFrame)
    assert table.equals(report.table())
    rows = report.rows()
    shown = rows.to_frame()
    assert shown["row"].tolist() == [each.row for each in rows]
    assert shown["words"].tolist() == [each.words for each in rows]
    assert table["name"].tolist() == ["bound", "bound", "high"]
    assert table["upper"].tolist() == [each.upper for each in report.results]
    assert table["label_name"].tolist() == ["kind 0", "kind 1", ""]


def test_what_users_call_is_listed():
    assert {"leave_one_out", "verify", "Report"} <= {*dir(leaveout)}
    assert {"verify", "Report"} <= {*dir(leaveout.verifier)}
    assert all(hasattr(leaveout, name) for name in dir(leaveout))


def test_it_is_drawn_with_every_bound_and_row(report):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = report.plot()
    assert [each.get_text() for each in ax.get_yticklabels()] == [
        "bound, label 0 (kind 0)",
        "bound, label 1 (kind 1)",
        "high",
    ]
    bars = [line for line in ax.get_lines() if len(line.get_xdata()) == 2]
    for bar, result in zip(bars, report.results, strict=True):
        assert list(bar.get_xdata()) == [result.lower, result.upper]
    drawn = [len(each.get_offsets()) for each in ax.collections]
    labels = [each.answers for each in report.answers[0].labels]
    assert drawn == [*labels, 50]
    assert report.plot(ax) is ax


@pytest.mark.parametrize(("library", "show"), [("pandas", "table"), ("matplotlib.pyplot", "plot")])
def test_what_is_not_installed_is_said_with_a_cure(report, monkeypatch, library, show, snapshot):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(LeaveoutError) as told:
        getattr(report, show)()
    assert str(told.value) == snapshot
    assert f"{library.partition('.')[0]}" in str(told.value)


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_a_notebook_shows_what_the_terminal_does(report):
    found = _Tags()
    found.feed(report._repr_html_())
    assert found.open == []
    text = " ".join(found.words)
    assert report.answers[0].words in text
    for result in report.results:
        assert result.name in text and result.verdict in text
        if result.witness is not None and result.kind == "find":
            assert result.witness.words in text
    assert "<script" not in report._repr_html_()


def test_names_are_no_markup_in_a_notebook(report):
    result = structs.replace(report.results[0], name="<b>")
    text = Report(leaveout="0", spec="s", results=(result,), notes=("<i>",))._repr_html_()
    assert "<b>" not in text and "<i>" not in text


def test_progress_may_be_asked_for_in_a_word(tmp_path, capsys):
    spec = write_question(tmp_path)
    assert leaveout.verify(spec, progress=True)["bound"]
    assert leaveout.verify(spec, progress=False)["bound"]

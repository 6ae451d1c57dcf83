"""``leaveout report``: files in, one page and its path out, or one error."""

from __future__ import annotations

import io
import sys
import types

import pytest

from leaveout.verifier.cli.app import run


@pytest.fixture
def invoke(capsys):
    def call(*words):
        code = run(["report", *map(str, words)])
        return code, *capsys.readouterr()

    return call


def test_it_writes_the_page_and_prints_its_path(made, invoke, tmp_path):
    out = tmp_path / "page.html"
    path = made.file(made.result(verdict="refuted"), made.leak(label=0))
    assert invoke(path, "-o", out) == (0, f"{out}\n", "")
    assert out.read_text().startswith("<!DOCTYPE html>\n<html lang=")


def test_a_name_in_md_is_of_the_summary(made, invoke, tmp_path):
    path = made.file(made.result())
    for name in ("card.md", "CARD.MD", "card.markdown"):
        out = tmp_path / name
        assert invoke(path, "-o", out, "--date", "2026-11-23") == (0, f"{out}\n", "")
        assert out.read_text().startswith("<!-- leaveout report: summary -->\n")
        assert "on 2026-11-23." in out.read_text()
        assert invoke(path, "-o", out)[0] == 0
        assert "2026" not in out.read_text()


def test_a_summary_replaces_a_summary_alone_and_a_page_a_page(made, invoke, tmp_path, snapshot):
    path, card = made.file(made.result()), tmp_path / "card.md"
    card.write_text("# My model\n")
    code, stdout, stderr = invoke(path, "-o", card)
    assert (code, stdout) == (2, "")
    assert stderr == snapshot
    assert card.read_text() == "# My model\n"
    page = tmp_path / "p.html"
    assert invoke(path, "-o", page)[0] == 0
    page.rename(card)
    assert invoke(path, "-o", card)[0] == 2


def test_what_is_no_day_is_2_and_writes_nothing(made, invoke, tmp_path, snapshot):
    out = tmp_path / "p.html"
    code, stdout, stderr = invoke(made.file(made.result()), "-o", out, "--date", "yesterday")
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert stderr == snapshot
    assert not out.exists()


def test_a_day_that_results_keep_is_theirs(made, invoke, tmp_path, snapshot):
    path, out = made.file(made.result(), date="2026-11-23T23:59:59Z"), tmp_path / "p.html"
    assert invoke(path, "-o", out, "--date", "2026-11-23")[0] == 0
    assert invoke(path, "-o", out)[0] == 0
    assert "<dd>2026-11-23</dd>" in out.read_text()
    code, _, stderr = invoke(path, "-o", out, "--date", "2026-11-24")
    assert code == 2
    assert stderr == snapshot


def test_its_usual_name_is_report_html(made, invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(made.file(made.result()))[:2] == (0, "report.html\n")
    assert (tmp_path / "report.html").exists()


def test_results_may_come_from_standard_input(made, invoke, tmp_path, monkeypatch):
    data = io.BytesIO(made.file(made.result()).read_bytes())
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=data))
    assert invoke("-", "-o", tmp_path / "p.html")[0] == 0
    assert "standard input" in (tmp_path / "p.html").read_text()


def test_a_page_is_replaced_and_anything_else_is_not(made, invoke, tmp_path, snapshot):
    path, out = made.file(made.result()), tmp_path / "p.html"
    assert invoke(path, "-o", out)[0] == 0
    first = out.read_bytes()
    path = made.file(made.result(verdict="unknown", reason="time: over"))
    assert invoke(path, "-o", out)[0] == 0
    assert out.read_bytes() != first
    out.write_text("<!DOCTYPE html><html><p>my diary</p></html>")
    code, stdout, stderr = invoke(path, "-o", out)
    assert (code, stdout) == (2, "")
    assert stderr == snapshot
    assert "my diary" in out.read_text()


def test_the_results_are_not_overwritten(made, invoke):
    path = made.file(made.result())
    before = path.read_bytes()
    assert invoke(path, "-o", path)[0] == 2
    assert path.read_bytes() == before


def test_where_it_cannot_be_written_is_known_before_anything_is_read(invoke, tmp_path, snapshot):
    names = (tmp_path / "none" / "p.html", tmp_path, "/dev/null", "-", tmp_path / ("x" * 300))
    for out in names:
        code, stdout, stderr = invoke(tmp_path / "gone.json", "-o", out)
        assert (code, stdout, stderr.count("\n")) == (2, "", 1)
        assert stderr == snapshot


def test_bad_input_is_2_and_writes_nothing(invoke, tmp_path):
    (tmp_path / "r.json").write_text("{}")
    code, stdout, stderr = invoke(tmp_path / "r.json", "-o", tmp_path / "p.html")
    assert (code, stdout, stderr.count("\n")) == (2, "", 1)
    assert not (tmp_path / "p.html").exists()


def test_curves_are_drawn_with_nothing_installed(made, invoke, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "p.html"
    assert invoke(made.file(made.result(curves=(made.curve(),))), "-o", out)[0] == 0
    assert 'class="line c0"' in out.read_text()


def test_the_help_teaches(invoke, snapshot):
    code, stdout, _ = invoke("--help")
    words = " ".join(stdout.split())
    assert code == 0
    assert words == snapshot


def test_a_page_is_no_pdf(made, invoke, tmp_path):
    code, out, err = invoke(made, "-o", tmp_path / "result.pdf")
    assert (code, out) == (2, "")
    assert "result.pdf: a page is HTML; name a .html file" in err
    assert not (tmp_path / "result.pdf").exists()

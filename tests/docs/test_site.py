"""The site builds without a warning, holds what it generates, and needs no network to be read."""

from __future__ import annotations

import json
import re
import sys

import pytest
import typer
from docs.pages import DOCS, pages

import leaveout
from leaveout.specs.table import BUILT_IN
from leaveout.verifier.cli.app import app

from support import children

sys.path.insert(0, str(DOCS / "_ext"))
import site_words


@pytest.fixture
def site(tmp_path_factory):
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package, reason="the site is built with the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")]
    done = children.run(command)
    assert done.returncode == 0, done.stderr
    return folder / "html"


def read(site, page):
    return (site / page).read_text("utf-8")


def every_page_is_there(site):
    for page in pages():
        if page.startswith("docs/"):
            assert (site / page.removeprefix("docs/")).with_suffix(".html").exists()


def every_function_of_the_language_is_described(site):
    page = read(site, "functions.html")
    for function in BUILT_IN:
        assert f'href="#{function.name.replace("_", "-")}"' in page
    assert page.count("What may change:") == sum(bool(each.threat) for each in BUILT_IN)


def every_command_and_option_is_described(site):
    page = read(site, "command-line.html")
    commands = dict(typer.main.get_command(app).commands)
    inner = {name: each for name, each in commands.items() if hasattr(each, "commands")}
    commands |= {f"{a}-{b}": each for a in inner for b, each in inner[a].commands.items()}
    assert "forest-add" in commands
    for name, command in commands.items():
        assert f'id="leaveout-{name}"' in page
        for option in command.params:
            for spelled in (option.opts, option.secondary_opts):
                assert all(each in page for each in spelled if each.startswith("-"))


def every_record_of_the_results_is_described(site):
    assert {"report", "result", "witnessrecord", "curve"} <= set(
        re.findall(r'<section id="(\w+)">', read(site, "result-files.html"))
    )


def specifications_are_coloured(site):
    page = read(site, "language.html")
    coloured = r'<div class="highlight-spec[^>]*><div class="highlight"><pre>.*?</pre>'
    assert '<span class="k">let</span>' in "".join(re.findall(coloured, page, re.DOTALL))


def searches_lead_to_the_right_page(site):
    """The site's own search finds a page by the words that people use for it."""
    text = read(site, "searchindex.js").removeprefix("Search.setIndex(").rstrip().removesuffix(")")
    index = json.loads(text)
    for page, words in site_words.WORDS.items():
        for word in words:
            found = {index["docnames"][at[0]] for at in index["indexentries"][word.lower()]}
            assert found == {page}, word


def every_page_tells_the_version(site):
    for page in pages():
        if page.startswith("docs/"):
            assert leaveout.__version__ in read(site, f"{page[5:-3]}.html"), page


def nothing_is_loaded_from_another_host(site):
    loaded = []
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded += re.findall(r"<(?:script|img|iframe)[^>]+src=\"(?:https?:)?//[^\"]+", text)
        loaded += re.findall(r"<link[^>]+href=\"(?:https?:)?//[^\"]+", text)
    for sheet in site.rglob("*.css"):
        loaded += re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text("utf-8"))
    assert loaded == []


@pytest.mark.parametrize("page", site_words.WORDS)
def test_words_that_are_searched_are_of_a_page_that_is_there(page):
    assert (DOCS / f"{page}.md").is_file()
    taken = [word.lower() for words in site_words.WORDS.values() for word in words]
    assert len(taken) == len(set(taken))


def test_the_site(site):
    # One test, so that workers side by side build the site once.
    every_page_is_there(site)
    every_function_of_the_language_is_described(site)
    every_command_and_option_is_described(site)
    every_record_of_the_results_is_described(site)
    specifications_are_coloured(site)
    searches_lead_to_the_right_page(site)
    every_page_tells_the_version(site)
    nothing_is_loaded_from_another_host(site)

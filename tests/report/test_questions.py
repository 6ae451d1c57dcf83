"""A page answers what is asked next, says what is unknown, and can leave out who is in it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

import leaveout
from leaveout.models.quality import Quality
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.memory import Account
from leaveout.verifier.page import document
from leaveout.verifier.page.model import GuardAccounts
from leaveout.verifier.page.sections.questions import MEASURED
from leaveout.verifier.page.without_names import without_names
from leaveout.verifier.records import (
    AnswersRecord,
    BoxRecord,
    ColumnRecord,
    ExampleRecord,
    FactsRecord,
    FileRecord,
    GroupRecord,
    GroupsRecord,
    LabelAnswersRecord,
    TrainingRecord,
)
from leaveout.verifier.report import write_json

from support import networks
from support.guards import make_folder
from support.sentences import LEAK, NETS, model

DOCS = Path(__file__).parents[2] / "docs"
SPEC = f"{NETS}guarantee s: {LEAK.format(0.8)}"
QUALITY = Quality(
    accuracy=0.9, commonest="no", majority=0.6, balanced=0.8, answers=(("no", 5), ("yes", 4))
)


GUARD = "Is a guard running, and what does it promise?"


def asked(page):
    """Return the answers of a page's questions as text, by the first words of the question."""
    (found,) = re.findall(r'<dl class="questions">(.*?)</dl>', document(page), re.DOTALL)
    parts = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", found, re.DOTALL)
    return {title: re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", text)) for title, text in parts}


def document_text(path):
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", "", path.read_text()))


def lines(found):
    return "\n".join(f"{title} {text}" for title, text in found.items())


def page(made, *results, spec=SPEC, **given):
    usual = made.leak(name="s", kind="guarantee", label=None)
    return made.pages(made.file(*(results or [usual]), spec=spec, **given))


def answers(free, count):
    label = LabelAnswersRecord(
        label=0, name="no", answers=count, owe_nothing=free, not_above=count - free, unknown=0,
        outside=0, upper=0.5, words="some",
    )  # fmt: skip
    return AnswersRecord(
        data="new.csv", network="full.onnx", family="family.npz", statements=("s",), members=12,
        rows=12, words="words", outside=("row 3: too large",), labels=(label,),
        answers=(0,) * count, confidences=(0.25,) * count, states=("owes nothing",) * count,
    )  # fmt: skip


def test_what_results_do_not_say_is_unknown(made, snapshot):
    bare = made.result(name="s", kind="guarantee")
    found = asked(page(made, bare))
    assert lines(found) == snapshot
    assert sum("ot known" in text for text in found.values()) == 4


def test_what_results_say_is_answered(made, snapshot):
    told = page(
        made, models=(model(quality=QUALITY),), answers=(answers(86, 100),),
        training=(TrainingRecord(path="family.npz", sha256="a" * 64, manifest_sha256="",
                                 rows=12, features=2, group="patient"),),
    )  # fmt: skip
    assert lines(asked(told)) == snapshot


@pytest.mark.parametrize(("free", "words"), [
    (100, "0 % of the"), (100, "more than in none of the 4 cases"),
    (98, "more than in 2 of the 4 cases"), (86, "14 % of the"),
    (86, "more than in any of the 4 cases"),
])  # fmt: skip
def test_a_share_stands_beside_measured_ones(made, free, words):
    found = asked(page(made, answers=(answers(free, 100),)))
    assert words in found["How many answers can one record change, and is that good?"]


def test_the_measured_shares_are_those_of_the_documentation():
    readme, privacy, hinges = (
        (DOCS / f"{name}.md").read_text() for name in ("../README", "privacy", "hinges")
    )
    (_, _, decided, left), *networks, own, adult = MEASURED
    assert f"{569 - left} answers lie above the proved bounds" in readme
    assert f"{left - decided} below them where all members agree" in readme
    for _, count, some, bound in networks:
        assert f"{bound}, {some} of {count:,}" in privacy
    assert f"{own[1] - own[2]}, proved over 569 models" in hinges
    assert f"{adult[2]} of {adult[1]:,} test points" in privacy


@pytest.mark.parametrize(("accuracy", "words"), [
    (0.61, "Better than guessing"), (0.6, "No better than guessing"), (0.2, "No better"),
])  # fmt: skip
def test_guessing_is_the_most_frequent_label(made, accuracy, words):
    quality = Quality(
        accuracy=accuracy, commonest="no", majority=0.6, balanced=0.5, answers=QUALITY.answers
    )
    found = asked(page(made, models=(model(quality=quality),)))
    assert words in found["Is the model better than guessing?"]


def test_of_several_models_each_is_named(made):
    paths = []
    for name in ("a.onnx", "b.onnx"):
        record = FileRecord(kind="network", path=name, sha256=name[0] * 64)
        known = structs.replace(model(quality=QUALITY), file=name)
        given = structs.replace(answers(86, 100), network=name, quality=QUALITY)
        usual = made.leak(name="s", kind="guarantee", label=None)
        whole = {"models": (known,), "answers": (given,), "files": (record,)}
        paths.append(made.file(usual, name=f"{name}.json", spec=SPEC, **whole))
    several = made.pages(*paths)
    found = lines(asked(several))
    for name in ("a.onnx", "b.onnx"):
        assert f"guessing on the training rows of {name}:" in found
        assert f"guessing on new.csv of {name}:" in found
        assert f"of the answers of {name} to new.csv (14 of 100)" in found
        assert f"of the training rows of {name}:" in document(several)


@pytest.mark.parametrize("kind", ["forest", "linear", "trees"])
def test_other_models_than_networks_have_their_own_command(made, kind, tmp_path, capsys):
    record = FileRecord(kind=kind, path="m.npz", sha256="a" * 64)
    path = made.file(
        made.result(name="s", box=BoxRecord(lower=(0,), upper=(1,)), upper=1.0), files=(record,)
    )
    found = lines(asked(made.pages(path)))
    assert "leaveout hinges DIR decisions.csv" in found
    assert "leaveout verify SPEC --data" not in found
    np.savez(tmp_path / "p.npz", X=np.zeros((1, 1)))
    words = ["report", str(path), "--data", str(tmp_path / "p.npz"), "-o", str(tmp_path / "r.html")]
    assert run(words) == 2
    assert "leaveout hinges DIR FILE says which answers" in capsys.readouterr().err


def test_a_guard_says_what_it_spent_and_not_that_it_runs(made):
    spent = Account(7, ((0.2, 5), (0.5, 2)))
    idp = made.result(name="s", facts=(FactsRecord(name="idp", facts={"epsilon": 0.2}),))
    other = Account(1, ((1.0, 1),))
    own = GuardAccounts("full.onnx in the folder a", (("a.sqlite", spent), ("b.sqlite", other)))
    text = asked(replace(page(made, idp), guard=own))[GUARD]
    assert "noises every answer that one record can change, at epsilon = 0.2" in text
    assert "of the guard of full.onnx in the folder a: 8 questions answered with noise" in text
    assert "(a.sqlite: 5 at epsilon = 0.2, 2 at epsilon = 0.5; b.sqlite: 1 at epsilon = 1)" in text
    assert "at most 3, of the memories in this folder alone" in text
    assert "is not known to this page" in text
    refuted = made.result(name="s", verdict="refuted", facts=idp.facts)
    text = asked(page(made, refuted))[GUARD]
    assert "Proved" not in text
    assert "not known" in text


SECRET = "Zoe"


def with_names(made):
    """Return a page in every place of which a name or a value could stand."""
    leak = made.leak(
        name="s", kind="guarantee", label=None, box=BoxRecord(lower=(0,) * 3, upper=(1,) * 3)
    )
    witness = structs.replace(
        leak.witness, x=(0.73125, 0.5, 0.5), words=f"without {SECRET}", removed_id=SECRET,
        scores=(0.73126, 0.1), member_scores=(0.73127, 0.2), removed=73128, member=73129,
    )  # fmt: skip
    example = ExampleRecord(
        points={"x": (0.73125,)}, scores={"N": (0.73125,)}, labels={"N": 0}, members={"M": 73129},
        removed={"M": 73128}, removed_ids={"M": SECRET}, words=f"without {SECRET}",
        facts={"row": SECRET},
    )  # fmt: skip
    groups = GroupsRecord(label=None, groups=(
        GroupRecord(parent=-1, members=1, upper=0.5, rows=(73128,), ids=(SECRET,)),))  # fmt: skip
    facts = tuple(
        FactsRecord(name=name, facts={
            "rows": (73128,), "rows_left": 4, "trees": 2, "rows_regrown": 1, "rows_retrained": 8,
            "who": SECRET,
        })
        for name in ("unlearn", "of_a_plugin")
    )  # fmt: skip
    leak = structs.replace(leak, witness=witness, groups=(groups,), facts=facts)
    other = made.result(name="t", verdict="refuted", example=example)
    column = ColumnRecord(name="age", unit="years", at=(0,), zero=73.125, one=73.126)
    fixed = [structs.replace(column, name=n, at=(at,)) for at, n in enumerate(("age", "b", "c"))]
    given = answers(86, 100)
    given = structs.replace(given, outside=(f"{SECRET}: too large",))
    return page(
        made, leak, other, spec=f"{SPEC}\nguarantee t: 1 <= 2\n",
        models=(model(columns=tuple(fixed)),), answers=(given,),
    )  # fmt: skip


def test_a_page_without_names_has_none(made):
    named = with_names(made)
    text = document(named)
    for each in (SECRET, "0.73125", "73128", "73129", "73.125"):
        assert each in text, each
    assert "Yes, if the table is about people" in asked(named)["Does this page hold personal data?"]
    less = without_names(named)
    text = document(less)
    for each in (SECRET, "0.7312", "73128", "73129", "73.12", "too large"):
        assert each not in text, each
    assert "were left out of it" in asked(less)["Does this page hold personal data?"]
    # What was found stays found, and what is not covered stays so.
    assert text.count("It is left out of this page") == 2
    assert "No leak was found" not in text
    assert "smallest and largest value of a column reveal" in text


SETS = (
    "let low = 73125\nlet other = low + 73126\n"
    "let X = integers(grid(box([73127, 73128, -73129], other), at = 2, values = [-73130, 0]), "
    "at = 0, zero = 73131, one = 73132)\n"
)
"""Sets of inputs with numbers in every place."""


@pytest.mark.parametrize("built", [False, True])
def test_a_page_without_names_has_no_number_of_a_set(made, built):
    box = BoxRecord(lower=(73127, 73128, -73129), upper=(146251,) * 3)
    models = NETS.replace("let X = box(0, 1)\n", "")
    spec = f"{SETS}{models}guarantee s: {LEAK.format(0.8)}\n"
    named = made.pages(made.file(made.result(name="s", box=box), spec=spec))
    if built:
        (own,) = named.runs
        named = replace(named, runs=(replace(own, report=structs.replace(own.report, spec=spec)),))
    text = document(named)
    for number in (*range(73125, 73133), 146251):
        assert f"{number}" in text.replace(",", ""), number
    text = document(without_names(named))
    assert "731" not in re.sub("[0-9a-f]{12,}", "", text)
    assert "1462" not in text
    assert "Its ranges are left out of this page." in text
    assert "0.8" in text


def test_the_command_leaves_names_out(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = made.file(made.leak(name="s", kind="guarantee", label=None), spec=SPEC)
    for target in ("report.html", "report.md"):
        assert run(["report", str(file), "--without-names", "-o", target]) == 0
        assert "row 40" not in (tmp_path / target).read_text()
    assert run(["report", str(file)]) == 0
    assert "row 40" in (tmp_path / "report.html").read_text()
    assert run(["report", str(file), "--without-names", "-o", "r.sarif"]) == 2
    assert "--without-names needs a page" in capsys.readouterr().err
    assert run(["report", str(file), "--guard", str(tmp_path)]) == 2
    assert "does not serve a model of these results" in capsys.readouterr().err
    assert run(["report", str(file), "--guard", str(tmp_path), "-o", "card.md"]) == 2
    assert "--guard needs a page" in capsys.readouterr().err


def test_the_account_is_of_a_guard_that_serves_the_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    network = networks.dense(np.random.default_rng(5), (2, 6, 5, 3))
    make_folder(tmp_path / "served", network, seed=5, members=8, spread=0.05)
    (tmp_path / "g.spec").write_text('guarantee g: idp(access("served"), epsilon = 0.5)\n')
    write_json(leaveout.verify(tmp_path / "g.spec"), tmp_path / "r.json")
    assert run(["report", "r.json", "--guard", "served", "-o", "r.html"]) == 0
    assert "0 questions answered with noise. In sum" in document_text(tmp_path / "r.html")
    side = np.linspace(0, 1, 12, dtype=np.float32)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    for epsilon, name in ((0.5, "answers.sqlite"), (1.0, "other.sqlite")):
        memory = tmp_path / "served" / name
        with Guard.load(tmp_path / "served", epsilon=epsilon, memory=memory) as guard:
            guard.labels(points)
            noised = guard.account().answers
        assert noised > 1
    with closing(sqlite3.connect(tmp_path / "served" / "foreign.sqlite")) as foreign:
        foreign.execute("CREATE TABLE other (x)")
    assert run(["report", "r.json", "--guard", "served", "-o", "r.html"]) == 0
    text = document_text(tmp_path / "r.html")
    each = f"answers.sqlite: {noised:,} at epsilon = 0.5; other.sqlite: {noised:,} at epsilon = 1"
    assert f"{2 * noised:,} questions answered with noise ({each}). In sum epsilon is" in text
    assert f"is at most {1.5 * noised:g}, of" in text
    assert "A guard on these files noises every answer" in text
    other = networks.dense(np.random.default_rng(6), (2, 6, 5, 3))
    make_folder(tmp_path / "other", other, seed=5, members=8, spread=0.05)
    shutil.copy(tmp_path / "served" / "answers.sqlite", tmp_path / "other")
    capsys.readouterr()
    assert run(["report", "r.json", "--guard", "other", "-o", "r.html"]) == 2
    assert "does not serve a model of these results" in capsys.readouterr().err

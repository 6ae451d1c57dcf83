"""How good a model is, and that no page is green for one that ignores its input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.models.quality import Quality
from leaveout.models.train import Recipe, run
from leaveout.verifier import verify
from leaveout.verifier.page import document
from leaveout.verifier.page.first_page.sentences import state
from leaveout.verifier.page.markdown import markdown

from support.sentences import LEAK, NETS, model

SPEC = f"{NETS}guarantee s: {LEAK.format(0.0)}"
CONSTANT = Quality(accuracy=0.97, commonest="no", majority=0.97, balanced=0.5, answers=(("no", 9),))
VARIED = Quality(
    accuracy=0.9, commonest="no", majority=0.6, balanced=0.8, answers=(("no", 5), ("yes", 4))
)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_quality_is_what_counting_gives(pairs):
    answers, y = (np.array(each) for each in zip(*pairs, strict=True))
    found = Quality.of(answers, y, "abcd")
    labels = {label: [a == b for a, b in pairs if b == label] for label in set(y.tolist())}
    assert found.accuracy == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert found.majority == pytest.approx(max(map(len, labels.values())) / len(pairs))
    assert found.balanced == pytest.approx(
        sum(sum(each) / len(each) for each in labels.values()) / len(labels)
    )
    assert dict(found.answers) == {
        "abcd"[label]: answers.tolist().count(label) for label in set(answers.tolist())
    }
    assert bool(found.caution) == (len(set(answers.tolist())) == 1)


def page_of(made, quality, **given):
    usual = {"name": "s", "kind": "guarantee", "label": None, "lower": 0.0, "upper": 0.0}
    leak = made.leak(**(usual | {"witness": None} | given))
    return made.pages(made.file(leak, spec=SPEC, models=(model(quality=quality),)))


def test_a_constant_model_never_gets_a_green_page(made):
    page = page_of(made, CONSTANT)
    assert "nothing depends on any record, because the model ignores its input" in state(page)
    assert 'class="hero unknown"' in document(page)
    assert "the model ignores its input" in markdown(page)


def test_with_a_bound_above_zero_nothing_more_is_claimed_than_is_proved(made):
    page = page_of(made, CONSTANT, upper=0.5)
    assert "nothing depends" not in state(page)
    assert "the model ignores its input" in state(page)
    assert 'class="hero unknown"' in document(page)


@pytest.mark.parametrize("quality", [None, VARIED])
def test_a_model_that_answers_with_several_labels_keeps_its_verdict(made, quality):
    page = page_of(made, quality)
    assert "ignores" not in state(page)
    assert 'class="hero proved"' in document(page)


def test_the_first_sheet_says_how_accurate_the_model_is(made):
    assert VARIED.words in document(page_of(made, VARIED)).replace("&#x27;", "'")


def test_a_refuted_statement_stays_red(made):
    page = page_of(made, CONSTANT, verdict="refuted")
    assert 'class="hero refuted"' in document(page)


def test_training_and_given_rows_are_measured_alike(tmp_path):
    table = tmp_path / "rare.csv"
    rows = [f"{at / 40},{'yes' if at == 7 or at == 30 else 'no'}" for at in range(40)]
    table.write_text("\n".join(["dose,ill", *rows, ""]))
    report = run(
        table, tmp_path / "f", label="ill", recipe=Recipe(layers=(2,), epochs=1, learning_rate=1e-6)
    )
    found = verify(report.spec, data=table, time=20)
    (own,), (answers,) = found.models, found.answers
    assert own.quality == answers.quality == report.quality
    assert own.quality.majority == 0.95
    assert len(own.quality.answers) == 1
    assert any("as if the model ignored its input" in note for note in found.notes)

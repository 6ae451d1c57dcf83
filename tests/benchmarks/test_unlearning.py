"""The benchmark of unlearning goes on where it stopped, and its arithmetic of the paper holds."""

import numpy as np
import pytest

pytest.importorskip("torch")

from leaveout.errors import AuditError
from leaveout.models.unlearning import Game, Schedule
from leaveout.verifier.audits.membership import Plan, views_of

from unlearning_paper import OF_CLASS, PAPER, TIMES, published_advantage, whole_counts
from unlearning_trials import DATA, Setting, eq_12, gather, mean_of, moved

SETTING = Setting("digits", "4", Schedule(epochs=1), Game(rounds=1, leader_steps=1, attack_steps=2))
PLANS = {"class_3": Plan(label=3), "5": Plan(forget=60)}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return DATA["digits"](tmp_path_factory.mktemp("none"))


def same(one, other):
    return all(np.array_equal(one.posteriors[a], other.posteriors[a]) for a in one.posteriors)


def test_a_benchmark_goes_on_where_it_stopped(digits, tmp_path):
    gather(SETTING, digits, PLANS, 1, tmp_path, None)
    kept = (tmp_path / "5" / "0000.npz").read_bytes()
    both = gather(SETTING, digits, PLANS, 2, tmp_path, None)
    assert (tmp_path / "5" / "0000.npz").read_bytes() == kept
    whole = gather(SETTING, digits, PLANS, 2, None, None)
    for name, trials in both.items():
        assert len(trials) == 2
        for one, other in zip(trials, whole[name], strict=True):
            assert same(one, other)
            assert one.arms["retrained"].accuracy == other.arms["retrained"].accuracy
            assert (one.arms["retrained"].forgotten_label is None) == (name == "5")
    late = gather(SETTING, digits, PLANS, 3, tmp_path, 0)
    assert [len(trials) for trials in late.values()] == [2, 2]


def test_trials_of_other_settings_are_not_mixed(digits, tmp_path):
    gather(SETTING, digits, PLANS, 1, tmp_path, 0)
    other = {"class_3": Plan(label=3, seed=1)}
    with pytest.raises(AuditError, match="other settings"):
        gather(SETTING, digits, other, 1, tmp_path, 0)


def test_what_the_tables_show_is_within_its_range(digits):
    done = gather(SETTING, digits, {"5": Plan(forget=60, rows=20)}, 4, None, None)["5"]
    assert moved(done[0], "original") == 0
    assert 0 < moved(done[0], "unlearned") < 1
    for rate in eq_12(views_of(done)).values():
        assert 0 <= rate.mean <= 0.5
        assert rate.trials == 2
    assert mean_of([0.2, 0.4]).mean == pytest.approx(0.3)


def test_the_accuracies_on_a_class_are_counts_of_960_rows():
    values = [float(word) for text in OF_CLASS.values() for word in text.split()]
    assert [rows for rows in range(50, 1001) if whole_counts(values, rows)] == [960]
    assert whole_counts([5.41], 960)
    assert not whole_counts([5.45], 960)


def test_five_times_is_the_most_that_a_fifth_of_retraining_allows():
    for name, (retrained, played) in TIMES.items():
        pairs = zip(retrained.split(), played.split(), strict=True)
        assert min(float(a) / float(b) for a, b in pairs) > 5, name
    for paper in PAPER.values():
        assert paper.seconds["retrained"] / paper.seconds["unlearned"] < 5


def test_the_published_rates_tell_the_arms_apart():
    found = published_advantage()
    assert 0.57 < found.lower < found.upper < 0.65

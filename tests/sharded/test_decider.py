"""Claims about services are decided: proved by accounting, refuted by attack, or left open."""

from __future__ import annotations

import pytest

from leaveout.errors import ShardedError
from leaveout.models.sharded import ServiceSettings, guarantee, read_settings, retrained_at_most
from leaveout.specs.deciders import Arguments
from leaveout.verifier.audits.adaptive import Duplicated
from leaveout.verifier.values.subjects.sharded import sharded, unlearns

PRIVATE = """
shards = 100
mechanism = "exponential"
epsilon = 0.001
predictions = 126
labels = 2
rows = 5000
on_exhausted = "retrain"
"""
PLAIN = 'shards = 3\nmechanism = "majority"\nrows = 1000\n'


@pytest.fixture
def decided(tmp_path):
    def decide(text, updates="adaptive", seconds=None, **more):
        (tmp_path / "service.toml").write_text(text)
        found = sharded(Arguments({"path": "service.toml"}, folder=tmp_path))
        claim = {"alpha": 1.0, "beta": 1e-3, "gamma": 1e-3, **more}
        return unlearns(Arguments({"service": found, "updates": updates, **claim}, seconds=seconds))

    return decide


@pytest.mark.parametrize("text", [PRIVATE, PLAIN])
def test_oblivious_updates_are_unlearned_exactly(decided, text, snapshot):
    found = decided(text, "oblivious", alpha=0.0, beta=0.0, gamma=0.0)
    assert found.verdict == "proved"
    assert "Lemma 5.1" in found.note
    assert found.note == snapshot


def test_predictions_within_the_budget_are_proved(decided, snapshot):
    found = decided(PRIVATE)
    assert found.verdict == "proved"
    assert found.facts["safe_predictions"] == 126
    assert found.facts["alpha_shown"] <= 1
    assert found.note == snapshot
    most = retrained_at_most(100, 0.01, 1e-6, 5000)
    assert f"{most}" in found.note


def test_beyond_the_budget_the_first_prediction_that_breaks_it_is_named(decided, snapshot):
    found = decided(PRIVATE.replace("126", "500"))
    assert found.verdict == "unknown"
    assert found.reason == snapshot
    assert "1.003" in found.reason
    assert found.note == snapshot
    settings = ServiceSettings(
        shards=100, mechanism="exponential", epsilon=0.001, predictions=1, rows=1, labels=2
    )
    assert 1 < guarantee(settings, 127).alpha <= 1.003


def test_too_loud_a_service_has_no_safe_prediction(decided, snapshot):
    found = decided(PRIVATE.replace("0.001", "1.0"))
    assert found.reason == snapshot
    assert found.facts["safe_predictions"] == 0


def test_a_majority_vote_is_refuted_with_a_script_that_replays(decided, snapshot):
    found = decided(PLAIN)
    assert found.verdict == "refuted"
    facts = found.facts
    assert facts["alpha_lower"] > 1
    assert (facts["unlearned"], facts["retrained"]) == (facts["trials"], 0)
    assert found.witness == snapshot
    assert f"{facts['trial']}" in found.witness
    attack = Duplicated.against(3, 1 / 3, 1000)
    again = attack.replay(facts["seed"], facts["trial"])
    assert again.deleted == facts["deleted"]
    assert (again.unlearned, again.retrained) == ((True,), (False,))


def test_a_majority_vote_is_left_open_where_the_attack_shows_too_little(decided, snapshot):
    found = decided(PLAIN, alpha=50.0, seconds=1.0)
    assert found.verdict == "unknown"
    # How many trials fit into a second depends on the machine.
    assert found.reason.endswith("which does not refute alpha = 50")
    found = decided(PLAIN, gamma=0.9999)
    assert found.verdict == "unknown"
    assert found.reason == snapshot
    assert decided(PLAIN.replace("rows", "inclusion = 1\nrows")).verdict == "unknown"


def test_a_claim_that_leaves_everything_out_holds(decided):
    assert decided(PLAIN, beta=1.0).verdict == "proved"
    assert decided(PLAIN, gamma=1.0).verdict == "proved"


def test_time_runs_out_before_the_first_trial(decided):
    with pytest.raises(TimeoutError):
        decided(PLAIN, seconds=0.0)


@pytest.mark.parametrize(
    "text",
    [
        "shard = 3",
        "shards = 3",
        PLAIN.replace("3", '"3"'),
        PLAIN.replace("3", "3.5"),
        PLAIN.replace("majority", "mean"),
        PLAIN.replace("3", "0"),
        PLAIN + "epsilon = 1",
        PLAIN + "predictions = 1",
        PLAIN + "inclusion = 1.5",
        PLAIN + "labels = 1",
        PRIVATE.replace("0.001", "0.0"),
        PRIVATE.replace("0.001", "nan"),
        PRIVATE.replace("0.001", "50.0"),
        PRIVATE.replace("predictions = 126", ""),
        PRIVATE.replace('"retrain"', '"stop"'),
        PRIVATE.replace("5000", "0"),
        "shards =",
    ],
)
def test_settings_that_cannot_be_used_give_one_line_with_key_and_cure(tmp_path, text, snapshot):
    path = tmp_path / "service.toml"
    path.write_text(text)
    with pytest.raises(ShardedError) as caught:
        read_settings(path)
    assert str(caught.value) == snapshot
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path, snapshot):
    with pytest.raises(ShardedError) as told:
        read_settings(tmp_path / "none.toml")
    assert str(told.value) == snapshot
    (tmp_path / "service.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ShardedError, match="UTF-8"):
        read_settings(tmp_path / "service.toml")


def test_settings_have_defaults(tmp_path):
    (tmp_path / "service.toml").write_text(PLAIN)
    found = read_settings(tmp_path / "service.toml")
    assert found.probability == pytest.approx(1 / 3)
    assert (found.on_exhausted, found.private) == ("refuse", False)

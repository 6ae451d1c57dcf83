"""A sample that was looked at is asked nothing else, and fresh ones share what may be wrong."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from msgspec import structs

from leaveout.errors import SpecError
from leaveout.models.train.draws import draw_rows
from leaveout.models.train.left_out import left_out
from leaveout.verifier.points.sampling import (
    AskedClaim,
    AskedSample,
    Looks,
    Sampling,
    tolerated_count,
)
from leaveout.verifier.run import verify

from support import children
from support.samples import CLAIM, HEAD, LEVEL, MEMBERS, ROWS, SPEC, write_sample

QUIET = f"guarantee quiet: {CLAIM.format(0.25, 5)} with confidence {LEVEL}\n"


pytestmark = pytest.mark.usefixtures("own_state")


def looks(folder):
    return sorted(folder.glob("asked-*.json"))


def test_the_same_is_asked_again_and_shares_what_it_shared(tmp_path):
    spec = write_sample(tmp_path, SPEC + QUIET)
    first = verify(spec)
    (kept,) = looks(tmp_path)
    content = kept.read_bytes()
    # One statement of three results, by another name and at another confidence.
    spec.write_text(HEAD + QUIET.replace("quiet", "again").replace("0.8", "0.7"))
    again = verify(spec).results[0]
    assert again.verdict == first.results[2].verdict == "proved"
    error = dict(again.facts[0].facts)["error"]
    assert error == float(Fraction(3, 10) / 3)
    assert kept.read_bytes() == content
    assert looks(tmp_path) == [kept]


@pytest.mark.parametrize(
    "text",
    [
        SPEC.replace("but 0.25", "but 0.5"),
        SPEC.replace("box(0, 1)", "box(0, 0.5)"),
        SPEC.replace("least b per label", "least b"),
        HEAD + QUIET,
        SPEC + QUIET,
    ],
)
def test_what_was_not_asked_at_first_takes_a_fresh_sample(tmp_path, text):
    spec = write_sample(tmp_path)
    verify(spec)
    spec.write_text(text)
    with pytest.raises(SpecError, match="--fresh"):
        verify(spec)
    # A sample of another seed was not looked at.
    write_sample(tmp_path, text, seed=4)
    verify(spec)
    assert len(looks(tmp_path)) == 2


def test_a_link_to_a_sample_is_that_sample(tmp_path):
    verify(write_sample(tmp_path / "there"))
    for name in ("full.onnx", "family.npz"):
        (tmp_path / name).symlink_to(tmp_path / "there" / name)
    spec = tmp_path / "test.spec"
    spec.write_text(SPEC.replace("box(0, 1)", "box(0, 0.5)"))
    with pytest.raises(SpecError, match="--fresh"):
        verify(spec)


def test_a_guarantee_of_another_number_is_another_claim(tmp_path, snapshot):
    spec = write_sample(tmp_path, HEAD + QUIET)
    verify(spec)
    spec.write_text(HEAD + QUIET.replace("> 5", "> 4"))
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot


def test_nothing_that_shows_no_result_is_a_look(tmp_path):
    small = SPEC.replace("but 0.25", "but 0").replace(str(LEVEL), "0.99")
    spec = write_sample(tmp_path, small)
    assert all("too small" in each.reason for each in verify(spec).results)
    assert not looks(tmp_path)


def test_a_look_that_cannot_be_counted_is_none(tmp_path, monkeypatch, snapshot):
    spec = write_sample(tmp_path)

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.link", refused)
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot
    assert not list(tmp_path.glob(".leaveout-*"))
    monkeypatch.undo()
    verify(spec)
    (kept,) = looks(tmp_path)
    for damage in (b"", b"{}", kept.read_bytes()[:40]):
        kept.write_bytes(damage)
        with pytest.raises(SpecError) as told:
            verify(spec)
        assert str(told.value) == snapshot
    claim = AskedClaim(name="g", share="0", labels=(0,), above="", about="")
    other = AskedSample(leaveout="", family="ab", results=1, claims=(claim,))
    kept.write_bytes(msgspec.json.encode(other))
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot


def test_a_look_that_is_gone_or_changed_is_still_one(tmp_path, own_state, snapshot):
    spec = write_sample(tmp_path)
    verify(spec)
    (kept,) = looks(tmp_path)
    own = own_state / "asked" / f"{msgspec.json.decode(kept.read_bytes())['family']}.json"
    assert own.read_bytes() == kept.read_bytes()
    whole = kept.read_bytes()
    kept.unlink()
    assert verify(spec).results
    spec.write_text(HEAD + QUIET)
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot
    found = msgspec.json.decode(whole, type=AskedSample)
    for changed in (
        structs.replace(found, results=found.results + 1),
        structs.replace(found, claims=found.claims[:1]),
        structs.replace(found, claims=(structs.replace(found.claims[0], share="1/3"),)),
    ):
        kept.write_bytes(msgspec.json.encode(changed))
        with pytest.raises(SpecError) as told:
            verify(spec)
        assert str(told.value) == snapshot


def test_a_look_of_another_user_is_not_believed(tmp_path, own_state, monkeypatch, snapshot):
    spec = write_sample(tmp_path)
    verify(spec)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    with pytest.raises(SpecError) as told:
        verify(spec)
    assert str(told.value) == snapshot
    monkeypatch.setenv("XDG_STATE_HOME", str(own_state.parent))
    assert verify(spec).results


ONE_OF_MANY = """
import sys
from pathlib import Path
from leaveout.verifier.points.sampling import AskedClaim, Looks
folder, name = sys.argv[1:]
sys.stdin.readline()
claim = AskedClaim(name=name, share="0", labels=(0,), above="", about=name)
at = Path(folder)
print(Looks(at / "asked-ab.json", "ab", at / "own" / "ab").look([claim], 1).claims[0].name)
"""


def test_of_many_at_once_one_is_first(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", ONE_OF_MANY, tmp_path]
    running = [children.start([*command, f"g{i}"], **pipes) for i in range(3)]
    for each in running:
        each.stdin.write("\n")
        each.stdin.flush()
    told = {each.communicate(timeout=300)[0].strip() for each in running}
    assert len(told) == 1
    first = Looks(tmp_path / "asked-ab.json", "ab", tmp_path / "own" / "ab").first()
    assert first is not None and {first.claims[0].name} == told
    assert not list(tmp_path.glob(".leaveout-*"))


def test_draws_are_fresh_and_share_what_may_be_wrong(tmp_path, snapshot):
    rows = [draw_rows(3, 1000, 100, draw) for draw in (1, 2, 3)]
    assert np.array_equal(rows[0], draw_rows(3, 1000, 100))
    common = [len(np.intersect1d(rows[i], rows[j])) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert all(0 < each < 40 for each in common)
    removed, drawn = left_out(ROWS, 3, sample=MEMBERS, draws=4)
    assert drawn is not None and (drawn.draw, drawn.draws, len(removed)) == (1, 4, MEMBERS)
    report = verify(write_sample(tmp_path, draws=4))
    asked = Sampling(ROWS, MEMBERS, Fraction(1, 4), Fraction(1, 5) / 4 / 2)
    for result in report.results:
        facts = dict(result.facts[0].facts)
        assert facts["error"] == float(asked.error)
        assert facts["above"] == tolerated_count(asked)
    assert report.notes == snapshot

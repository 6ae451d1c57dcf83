"""Claims about all rows are proved again from their sample, and nothing that was forged is."""

from __future__ import annotations

import hashlib
import json
import shutil
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from msgspec import structs

from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.claims.samples import SampledSubject
from leaveout.kernel.tails import few_drawn
from leaveout.models import Family, load_family_file, save_family_file
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run
from leaveout.verifier.run import verify

from support.certificates import Content
from support.samples import LEVEL, MEMBERS, ROWS, write_sample
from support.snapshots import passages


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    spec = write_sample(folder)
    report = verify(spec, certificate=folder / "c.npz")
    return folder, report


@pytest.fixture
def folder(written, tmp_path):
    shutil.copytree(written[0], tmp_path / "copy")
    return tmp_path / "copy"


def changed(folder, change):
    content = Content.of(folder / "c.npz")
    content.manifest["format"] = 4
    change(content.manifest)
    content.save(folder / "c.npz")
    return check(folder / "c.npz")


def with_family(folder, change):
    """Change the family too, and let the certificate name what it is now."""
    path = folder / "family.npz"
    family = load_family_file(path)
    removed, manifest = change(family.removed.copy(), family.manifest)
    save_family_file(path, Family(family.parameters, removed, manifest))

    def named(manifest):
        for each in manifest["questions"]:
            each["family"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    return named


def test_the_tail_is_that_of_all_samples_there_are():
    for rows in range(1, 9):
        for size in range(1, rows + 1):
            for marked in range(1, rows + 1):
                drawn = [sum(i < marked for i in each) for each in combinations(range(rows), size)]
                for most in range(size + 1):
                    expected = Fraction(sum(count <= most for count in drawn), len(drawn))
                    found = few_drawn(rows, size, marked, most)
                    assert expected <= found <= expected * (1 + Fraction(1, 2**100))


def test_what_was_proved_at_a_confidence_is_proved_again_at_it(written, capsys, snapshot):
    folder, report = written
    found = check(folder / "c.npz")
    assert [each.label for each in found] == [0, 1]
    for again, result in zip(found, report.results, strict=True):
        assert isinstance(again.subject, SampledSubject)
        assert result.verdict == "proved" and result.confidence == LEVEL
        assert dict(result.facts[0].facts)["above"] == len(again.subject.left_out) == 1
        assert again.upper == pytest.approx(result.upper, rel=1e-6, abs=1e-6)
        assert float(again.subject.confidence) == LEVEL
        assert again.subject.chance <= Fraction(1, 10)
        assert again.subject.members == MEMBERS
    run(["check", str(folder / "c.npz")])
    told = capsys.readouterr().out
    assert told.count("accepted with confidence 0.8") == 2
    assert passages(told, "0.25") == snapshot
    assert "accepted\n" not in told


def set_first(**values):
    return lambda manifest: manifest["samples"][0].update(values)


def set_draw(name, value):
    return lambda manifest: manifest["samples"][0]["sample"].update({name: value})


def drop_member(manifest):
    question = manifest["questions"][manifest["samples"][0]["question"]]
    others = [i for i in range(MEMBERS) if i not in question["without"]]
    question["without"] = sorted([*question["without"], others[0]])
    question["members"] -= 1


def drop_silently(manifest):
    manifest["questions"][manifest["samples"][0]["question"]]["members"] -= 1


def leave_out_another(manifest):
    question = manifest["questions"][manifest["samples"][0]["question"]]
    (worst,) = question["without"]
    question["without"] = [(worst + 1) % MEMBERS]


def lower_bound(manifest):
    manifest["samples"][0]["bounds"][0]["upper"] *= 0.5


def claim_for_certain(manifest):
    sampled = manifest["samples"].pop()
    manifest["results"] = [
        {"question": sampled["question"], "name": "bound", **each} for each in sampled["bounds"]
    ]


FORGED = {
    "share": set_first(share="1/100"),
    "no share": set_first(share="1"),
    "confidence": set_first(confidence="99/100"),
    "certainty": set_first(confidence="1"),
    "split": set_first(results=1),
    "no split": set_first(results=0),
    "a dropped member": drop_member,
    "a member not there": drop_silently,
    "another left out": leave_out_another,
    "a bound": lower_bound,
    "no bounds": set_first(bounds=[]),
    "rows": set_draw("rows", ROWS + 1),
    "size": set_draw("size", MEMBERS - 1),
    "seed": set_draw("seed", 4),
    "draw": set_draw("draw", 2),
    "draws": set_draw("draws", 2),
    "no chance": claim_for_certain,
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_claim_is_rejected_by_name(folder, forged, snapshot):
    change = FORGED[forged]
    with pytest.raises(RejectedError) as told:
        changed(folder, change)
    assert str(told.value) == snapshot


FAMILIES = {
    "another seed": (
        lambda removed, manifest: (
            removed, structs.replace(manifest, sample=structs.replace(manifest.sample, seed=5))
        ),
        set_draw("seed", 5)
    ),
    "another row": (
        lambda removed, manifest: (
            np.sort(np.append(removed[:-1], np.setdiff1d(np.arange(ROWS), removed)[0])), manifest
        ),
        lambda manifest: None
    ),
    "more rows": (
        lambda removed, manifest: (
            removed, structs.replace(manifest, data=structs.replace(manifest.data, rows=99))
        ),
        lambda manifest: None
    ),
    "no sample": (
        lambda removed, manifest: (removed, structs.replace(manifest, sample=None)),
        lambda manifest: None
    ),
    "far too many": (
        lambda removed, manifest: (
            removed,
            structs.replace(manifest, sample=structs.replace(manifest.sample, rows=10**15)),
        ),
        set_draw("rows", 10**15)
    ),
    "a draw that was not planned": (
        lambda removed, manifest: (
            removed, structs.replace(manifest, sample=structs.replace(manifest.sample, draw=2))
        ),
        set_draw("draw", 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("forged", FAMILIES)
def test_a_family_that_is_not_the_draw_is_rejected_by_name(folder, forged, snapshot):
    family, certificate = FAMILIES[forged]
    named = with_family(folder, family)

    def change(manifest):
        named(manifest)
        certificate(manifest)

    with pytest.raises(RejectedError) as told:
        changed(folder, change)
    assert str(told.value) == snapshot


def test_an_earlier_format_has_no_samples(folder):
    def change(manifest):
        manifest["format"] = 3

    with pytest.raises(CertificateError, match="format"):
        changed(folder, change)


@pytest.mark.parametrize(
    ("name", "value"), [("share", '"0"'), ("confidence", '"9/10"'), ("seed", 0), ("upper", 0)]
)
def test_a_name_that_stands_twice_is_refused(folder, name, value, snapshot):
    content = Content.of(folder / "c.npz")
    content.manifest["format"] = 4
    text = json.dumps(content.manifest)
    place = text.index(f'"{name}"', text.index('"samples"'))
    text = f'{text[:place]}"{name}": {value}, {text[place:]}'
    content.arrays["manifest"] = np.frombuffer(text.encode(), np.uint8)
    content.save(folder / "c.npz")
    with pytest.raises(CertificateError) as told:
        check(folder / "c.npz")
    assert str(told.value) == snapshot

"""What rests on a sample of the rows is nowhere said as if it were certain, or of a lower end."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from msgspec import structs

from leaveout.bab import EngineResult
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.asked import resolve_statements
from leaveout.verifier.evidence.certified import standings
from leaveout.verifier.evidence.exports import ml_bom, sarif
from leaveout.verifier.evidence.statement import Places, Subject, TamperedError, read_report
from leaveout.verifier.points.sampled_leaks import Samples, _Found
from leaveout.verifier.report_views import frame, lines

from support.attested import is_own
from support.certificates import Content
from support.files import BOUND, write_question
from support.snapshots import passages

HEAD = BOUND[: BOUND.index("find")]
CLAIM = "forall x in X, M in F but 0.5: confidence(N, x) > {} => label(M, x) == label(N, x)"
SPEC = (
    f"{HEAD}find bound: least b such that {CLAIM.format('b')} with confidence 0.6\n"
    f"guarantee quiet: {CLAIM.format('0.9')} with confidence 0.6\n"
)


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    spec = write_question(folder, text=SPEC, rows=6, sample=3)
    assert run(["verify", str(spec), "--evidence", str(folder / "proof")]) == 0
    return folder / "proof"


@pytest.fixture(scope="module")
def report(proof):
    path = proof / "result.json"
    return read_report(path.read_bytes(), path)


def test_no_lower_end_is_claimed(report):
    bound, quiet = report.results
    assert bound.is_sampled and quiet.is_sampled
    assert bound.lower is not None and bound.claimed_bounds == (None, bound.upper)


def test_the_page_and_its_summary_say_with_which_confidence(proof, snapshot):
    page = html.unescape(re.sub(r"<[^>]+>", " ", (proof / "report.html").read_text("utf-8")))
    assert "b is between" not in page
    assert not re.search(r"; no leak has a confidence above", page)
    assert (
        passages((proof / "report.html").read_text("utf-8"), "confidence 0.6", "b is") == snapshot
    )
    rows = [
        line for line in (proof / "summary.md").read_text("utf-8").splitlines() if "| all |" in line
    ]
    assert len(rows) == 2
    assert rows == snapshot


def test_files_for_other_programs_say_with_which_confidence(report, snapshot):
    listed = json.loads(sarif(report))["runs"][0]["properties"]["proved"]
    assert listed == snapshot
    models = [each for each in json.loads(ml_bom(report))["components"] if "modelCard" in each]
    figures = [
        each
        for model in models
        for each in model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    ]
    assert figures
    for figure in figures:
        assert figure["value"] == snapshot
        assert "confidenceInterval" not in figure


def test_python_says_with_which_confidence(report, snapshot):
    assert lines(report) == snapshot
    pytest.importorskip("pandas")
    assert list(frame(report)["confidence"]) == [0.6, 0.6]


def test_a_check_says_with_which_confidence(proof, capsys, snapshot):
    capsys.readouterr()
    assert run(["check", str(proof), "--files", str(proof.parent)]) == 0
    told = capsys.readouterr().out
    assert told == snapshot
    assert told.count("accepted with confidence 0.6") == 2


def held(report, checked, proof):
    """Hold results of the sample against its specification and what was checked."""
    attested = json.loads((proof / "attestation.json").read_text())
    subjects = [
        (msgspec.convert(each, Subject), proof.parent / each["name"])
        for each in attested["subject"]
        if not is_own(each)
    ]
    with resolve_statements(report, subjects, Places(proof, report.folder), "proof") as spec:
        return standings(report, checked, spec, proof)


def results_of(certificate, count, *, fewer=False):
    """Let a certificate say that so many results share what may be wrong."""
    content = Content.of(certificate)
    content.manifest["format"] = 4
    if fewer:
        content.manifest["samples"].pop()
    for each in content.manifest["samples"]:
        each["results"] = count
    content.save(certificate)
    return check(
        certificate,
        network=certificate.parents[1] / "full.onnx",
        family=certificate.parents[1] / "family.npz",
    )


@pytest.mark.parametrize(
    "forge",
    [
        lambda path: results_of(path, 1, fewer=True),
        lambda path: results_of(path, 3),
    ],
)
def test_a_certificate_shares_what_may_be_wrong_as_the_results_do(proof, tmp_path, forge, snapshot):
    shutil.copytree(proof.parent, tmp_path / "copy")
    path = tmp_path / "copy" / "proof" / "result.json"
    report = read_report(path.read_bytes(), path)
    # Taken by itself it is what it says it is.
    checked = forge(path.parent / "certificate.npz")
    with pytest.raises(TamperedError) as told:
        held(report, checked, path.parent)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": 0.7},
        {"facts": ()},
        {"members": 7},
    ],
)
def test_results_that_say_more_than_the_certificate_are_named(proof, change, snapshot):
    path = proof / "result.json"
    report = read_report(path.read_bytes(), path)
    checked = check(
        proof / "certificate.npz",
        network=proof.parent / "full.onnx",
        family=proof.parent / "family.npz",
    )
    results = tuple(structs.replace(each, **change) for each in report.results)
    with pytest.raises(TamperedError) as told:
        held(structs.replace(report, results=results), checked, proof)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.5", "0.4"),
        ("0.6", "0.7"),
        (" but 0.5", ""),
        ("box(0, 1)", "box(0, 2)"),
    ],
)
def test_a_sample_of_another_statement_proves_nothing(proof, tmp_path, old, new, snapshot):
    shutil.copytree(proof.parent, tmp_path / "copy")
    folder = tmp_path / "copy"
    text = (folder / "test.spec").read_text().replace(old, new)
    if "but" not in text:
        text = text.replace(" with confidence 0.6", "")
    (folder / "test.spec").write_text(text)
    path = folder / "proof" / "result.json"
    report = read_report(path.read_bytes(), path)
    attestation = json.loads((folder / "proof" / "attestation.json").read_text())
    for each in attestation["subject"]:
        if each["name"] == "test.spec":
            each["digest"]["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / "proof" / "attestation.json").write_text(json.dumps(attestation))
    checked = check(
        folder / "proof" / "certificate.npz",
        network=folder / "full.onnx",
        family=folder / "family.npz",
    )
    with pytest.raises(TamperedError) as told:
        held(structs.replace(report, statements=()), checked, folder / "proof")
    assert str(told.value) == snapshot


def test_a_search_that_rounding_closed_is_closed():
    def searched(lower, upper, *, closed):
        return EngineResult(
            label=0, lower=lower, upper=upper, witness=None, closed=closed, reason=None, detail="",
            member_upper=np.zeros(1), solved=0, seconds=0.0,
        )  # fmt: skip

    samples = Samples.__new__(Samples)
    samples.context = SimpleNamespace(options=SimpleNamespace(gap=1e-3))
    # Ends that differ by more than the gap, where the search put the rest down to rounding.
    for closed in (True, False):
        rest = (searched(0.5, 0.501, closed=closed),)
        found = _Found(None, (), np.zeros(1), np.zeros(1), rest)
        assert samples._is_closed(found, 0.5, 0.501) == closed
        assert not samples._is_closed(found, 0.4, 0.501)

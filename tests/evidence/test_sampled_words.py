"""What rests on a sample of the rows is nowhere said as if it were certain, or of a lower end."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

from leaveout.bab import EngineResult
from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.mlbom import ml_bom
from leaveout.verifier.evidence.reading import read_report
from leaveout.verifier.evidence.sarif import sarif
from leaveout.verifier.points.sampled_leaks import SampledLeaks, _Found
from leaveout.verifier.report_views import frame, lines

from support.files import BOUND, write_question

HEAD = BOUND[: BOUND.index("find")]
CLAIM = "forall x in X, M in F but 0.5: confidence(N, x) > {} => label(M, x) == label(N, x)"
SPEC = (
    f"{HEAD}find bound: least b such that {CLAIM.format('b')} with confidence 0.6\n"
    f"guarantee quiet: {CLAIM.format('1e6')} with confidence 0.6\n"
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
    assert bound.sampled and quiet.sampled
    assert bound.lower is not None and bound.claimed == (None, bound.upper)


def test_the_page_and_its_summary_say_with_which_confidence(proof):
    page = html.unescape(re.sub(r"<[^>]+>", " ", (proof / "report.html").read_text("utf-8")))
    assert "b is at most" in page and "b is between" not in page
    assert "in the sample no leak has a confidence above" in page
    assert not re.search(r"; no leak has a confidence above", page)
    rows = [
        line for line in (proof / "summary.md").read_text("utf-8").splitlines() if "| all |" in line
    ]
    assert len(rows) == 2
    assert all("proved with confidence 0.6" in line for line in rows)


def test_files_for_other_programs_say_with_which_confidence(report):
    listed = json.loads(sarif(report))["runs"][0]["properties"]["proved"]
    assert listed == ["bound with confidence 0.6", "quiet with confidence 0.6"]
    models = [each for each in json.loads(ml_bom(report))["components"] if "modelCard" in each]
    figures = [
        each
        for model in models
        for each in model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    ]
    assert figures
    for figure in figures:
        assert figure["value"].startswith("proved with confidence 0.6, at most")
        assert "confidenceInterval" not in figure


def test_python_says_with_which_confidence(report):
    assert all(": proved at 0.6, at most" in line for line in lines(report).splitlines())
    pytest.importorskip("pandas")
    assert list(frame(report)["confidence"]) == [0.6, 0.6]


def test_a_check_says_with_which_confidence(proof, capsys):
    capsys.readouterr()
    assert run(["check", str(proof), "--files", str(proof.parent)]) == 0
    told = capsys.readouterr().out
    assert "bound: proved at 0.6; not in the certificate" in told
    assert "quiet: proved at 0.6; not in the certificate" in told


def test_a_search_that_rounding_closed_is_closed():
    def searched(lower, upper, *, closed):
        return EngineResult(
            label=0, lower=lower, upper=upper, witness=None, closed=closed, reason=None, detail="",
            member_upper=np.zeros(1), solved=0, seconds=0.0,
        )  # fmt: skip

    decider = SampledLeaks.__new__(SampledLeaks)
    decider._gap = 1e-3
    # Ends that differ by more than the gap, where the search put the rest down to rounding.
    for closed in (True, False):
        rest = (searched(0.5, 0.501, closed=closed),)
        found = _Found((), np.zeros(1), np.zeros(1), rest)
        assert decider._closed(found, 0.5, 0.501) == closed
        assert not decider._closed(found, 0.4, 0.501)

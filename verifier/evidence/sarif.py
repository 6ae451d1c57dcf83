"""SARIF 2.1.0: refuted and unknown statements at their place, for code scanning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from leaveout.verifier.amounts import span
from leaveout.verifier.evidence.parts import Given
from leaveout.verifier.evidence.topics import TOPICS, Topic, topic_of
from leaveout.verifier.records import StatementRecord
from leaveout.verifier.report import Report, Result
from leaveout.written import printable

_SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_ROOT = "%SRCROOT%"
_LEVEL = {"refuted": "error", "unknown": "warning"}

Json = dict[str, Any]


def sarif_part(given: Given) -> bytes:
    """Return the SARIF file of an evidence folder."""
    return sarif(given.report)


def sarif(*reports: Report) -> bytes:
    """Return reports as SARIF, one run each."""
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [_run(each) for each in reports]}
    text = json.dumps(printable(log), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def _run(report: Report) -> Json:
    topics = [topic_of(each, report) for each in report.results]
    found = [
        _result(result, topic, report)
        for result, topic in zip(report.results, topics, strict=True)
        if result.verdict in _LEVEL
    ]
    run: Json = {
        "tool": {
            "driver": {
                "name": "leaveout",
                "version": report.leaveout,
                "rules": [_rule(each) for each in TOPICS],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            _ROOT: {"description": {"text": "The working directory of the run."}}
        },
        "artifacts": [_artifact(report, each.path, each.sha256) for each in report.files],
        "results": found,
        "properties": {
            "proved": [
                _result_name(each) + _confidence_suffix(each)
                for each in report.results
                if each.verdict == "proved"
            ]
        },
    }
    if report.date:
        run["invocations"] = [{"executionSuccessful": True, "endTimeUtc": report.date}]
    return run


def _rule(topic: Topic) -> Json:
    text = f"{topic.says} {topic.limit} {topic.refuted}"
    return {
        "id": f"leaveout/{topic.name}",
        "name": "".join(word.capitalize() for word in topic.name.split("-")),
        "shortDescription": {"text": topic.title},
        "fullDescription": {"text": topic.says},
        "help": {
            "text": text,
            "markdown": (
                f"**Proved** means: {topic.says}\n\n**Not covered:** {topic.limit}\n\n"
                f"**What to do:** {topic.refuted}"
            ),
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["privacy" if topic.name != "behaviour" else "correctness"]},
    }


def _result(result: Result, topic: Topic, report: Report) -> Json:
    said = next((each for each in report.statements if each.name == result.name), None)
    found: Json = {
        "ruleId": f"leaveout/{topic.name}",
        "ruleIndex": TOPICS.index(topic),
        "level": _LEVEL[result.verdict],
        "kind": "fail",
        "message": {"text": _message(result)},
        "partialFingerprints": {"statement/v1": _fingerprint(result, said)},
        "properties": {
            "verdict": result.verdict,
            "lower": result.lower,
            "upper": result.upper,
        },
    }
    if result.confidence is not None:
        found["properties"]["confidence"] = result.confidence
    place = _place(report, said)
    if place is not None:
        found["locations"] = [place]
    return found


def _result_name(result: Result) -> str:
    """Return the name of a result, with its label."""
    return result.name if result.label is None else f"{result.name}, label {result.label_text}"


def _confidence_suffix(result: Result) -> str:
    """Return the confidence of a result that rests on samples."""
    return "" if result.confidence is None else f" with confidence {result.confidence:g}"


def _message(result: Result) -> str:
    """Return the outcome and its evidence in words."""
    lines = [
        f"{_result_name(result)}: {result.verdict}{_confidence_suffix(result)}",
        *_evidence_phrases(result),
    ]
    return "; ".join(lines)


def _evidence_phrases(result: Result) -> Iterator[str]:
    """Yield phrases on the bounds, evidence and reason of a result."""
    if result.claimed_bounds != (None, None):
        yield f"its value is {span(*result.claimed_bounds)}"
    if result.witness is not None:
        yield result.witness.words
    if result.example is not None:
        yield result.example.words
    if result.reason is not None:
        yield result.reason


def _fingerprint(result: Result, said: StatementRecord | None) -> str:
    """Return an id of a result that stays the same when its line moves."""
    told = [result.name, result.kind, str(result.label), "" if said is None else said.path]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _place(report: Report, said: StatementRecord | None) -> Json | None:
    if said is not None and said.path:
        region = {
            "startLine": said.line,
            "startColumn": said.column,
            "endLine": said.end_line,
            "endColumn": said.end_column,
        }
        return {
            "physicalLocation": {"artifactLocation": _location(report, said.path), "region": region}
        }
    if said is None and "\n" not in report.spec:
        # Results of earlier versions name the file alone.
        where = {"uri": quote(Path(report.spec).as_posix()), "uriBaseId": _ROOT}
        return {"physicalLocation": {"artifactLocation": where}}
    return None


def _artifact(report: Report, path: str, sha256: str) -> Json:
    found: Json = {"location": _location(report, path)}
    if sha256:
        found["hashes"] = {"sha-256": sha256}
    return found


def _location(report: Report, path: str) -> Json:
    """Return a file relative to the folder the run was started in."""
    spec = "" if "\n" in report.spec else report.spec
    folder = PurePosixPath(Path(spec).as_posix()).parent
    joined = _normal(folder / path)
    if folder.is_absolute() or joined.startswith("../"):
        # Where that is not known, as the specification sees it.
        return {"uri": quote(path)}
    return {"uri": quote(joined), "uriBaseId": _ROOT}


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for each in path.parts:
        if each == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(each)
    return "/".join(parts)

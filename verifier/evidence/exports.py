"""Results in the formats of other programs, chosen by file name."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from leaveout.files import RESULTS, read_whole
from leaveout.verifier.amounts import bound, span
from leaveout.verifier.evidence.parts import Given
from leaveout.verifier.evidence.statement import EvidenceError, read_bytes, read_report
from leaveout.verifier.evidence.topics import TOPICS, Topic, topic_of
from leaveout.verifier.output_file import OutputFile
from leaveout.verifier.points.sentences import group_note, group_notes
from leaveout.verifier.records import FileRecord, StatementRecord, TrainingRecord
from leaveout.verifier.report import Report, Result
from leaveout.written import printable

_ML_BOM_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "https://leaveout.example/mlbom")

_MODELS = {
    "network": "a neural network",
    "family": "models of one kind, each trained without one row",
    "forest": "a random forest",
    "linear": "a linear model",
    "trees": "boosted trees or a forest",
    "ballots": "votes of base classifiers, given by their answers to test points",
    "service": "models on shards, given by the settings of their service",
    "audit": "unlearned and retrained models, given by what attacks saw of them",
}
"""Kinds of files that are models, and their descriptions."""

Json = dict[str, Any]


def ml_bom_part(given: Given) -> bytes:
    """Return the ML-BOM of an evidence folder."""
    return ml_bom(given.report)


def ml_bom(report: Report) -> bytes:
    """Return reports as a bill of materials that can be merged into a product's."""
    models = [each for each in report.files if each.kind in _MODELS]
    others = [each for each in report.files if each.kind not in _MODELS]
    components = [_model(each, report) for each in models]
    components += [_data(each) for each in report.training]
    components += [_file(each) for each in others]
    told = "\n".join([report.date, *(f"{each.path} {each.sha256}" for each in report.files)])
    bom: Json = {
        "$schema": _ML_BOM_SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMES, told)}",
        "version": 1,
        "metadata": {
            **({"timestamp": report.date} if report.date else {}),
            "tools": {
                "components": [
                    {"type": "application", "name": "leaveout", "version": report.leaveout}
                ]
            },
            "properties": [{"name": "leaveout:note", "value": each} for each in report.notes],
        },
        "components": components,
        "dependencies": [_dependency(each, report) for each in models],
    }
    return _encode(bom)


def _encode(content: Json) -> bytes:
    text = json.dumps(printable(content), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def _model(file: FileRecord, report: Report) -> Json:
    own = [each for each in report.results if _is_about(each, file, report)]
    card: Json = {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "classification",
            **_datasets(file, report),
        }
    }
    if own:
        card["quantitativeAnalysis"] = {"performanceMetrics": [_metric(each) for each in own]}
        card["considerations"] = {"technicalLimitations": list(_limits(own, report))}
    return {
        "type": "machine-learning-model",
        "bom-ref": _ref(file.path),
        "name": file.path,
        "description": _MODELS[file.kind],
        **_hashes(file.sha256),
        "modelCard": card,
        **_properties(file),
    }


def _datasets(file: FileRecord, report: Report) -> Json:
    refs = [{"ref": _data_ref(each)} for each in report.training if each.path == file.path]
    return {"datasets": refs} if refs else {}


def _metric(result: Result) -> Json:
    """Return a statement's outcome as a metric of the model."""
    found: Json = {"type": result.name, "value": _value(result)}
    about = [f"label {result.label_text}"] if result.label is not None else []
    about += [f"{result.members:,} members"] if result.members else []
    about += [f"{len(result.box.lower)} features"] if result.box.lower else []
    if about:
        found["slice"] = ", ".join(about)
    if result.confidence is not None and None not in result.claimed_bounds:
        found["confidenceInterval"] = {
            "lowerBound": bound(result.lower),
            "upperBound": bound(result.upper, up=True),
        }
    return found


def _value(result: Result) -> str:
    said = result.verdict + result.at_confidence
    lower, upper = result.claimed_bounds
    if lower is not None:
        said += f", at least {bound(lower)}"
    if upper is not None:
        said += f", at most {bound(upper, up=True)}"
    return said


def _limits(results: Sequence[Result], report: Report) -> Iterator[str]:
    """Yield what is not covered, without repetitions."""
    yield from dict.fromkeys(topic_of(each, report).limit for each in results)


def _is_about(result: Result, file: FileRecord, report: Report) -> bool:
    """Return whether the statement names a file, by its let or its path."""
    own = report.statement_of(result)
    return own is not None and bool(
        set(own.names) & set(file.called) or f'"{file.path}"' in own.text
    )


def _data(record: TrainingRecord) -> Json:
    facts = [("rows", str(record.rows)), ("features", str(record.features))]
    if record.group:
        facts.append(("rows with one", record.group))
    if record.labels:
        facts.append(("labels", ", ".join(record.labels)))
    if record.manifest_sha256:
        facts.append(("manifest SHA-256", record.manifest_sha256))
    properties = [{"name": f"leaveout:{name}", "value": value} for name, value in facts]
    return {
        "type": "data",
        "bom-ref": _data_ref(record),
        "name": f"training rows of {record.path}",
        "description": "the rows as used in training: features, then labels"
        + (f"; {group_note(record.group)}" if record.group else ""),
        **_hashes(record.sha256),
        "data": [
            {
                "type": "dataset",
                "name": f"training rows of {record.path}",
                "contents": {"properties": properties},
            }
        ],
    }


def _file(file: FileRecord) -> Json:
    return {
        "type": "file",
        "bom-ref": _ref(file.path),
        "name": file.path,
        **_hashes(file.sha256),
        **_properties(file),
    }


def _dependency(file: FileRecord, report: Report) -> Json:
    data = [_data_ref(each) for each in report.training if each.path == file.path]
    return {"ref": _ref(file.path), "dependsOn": data}


def _hashes(sha256: str) -> Json:
    known = re.fullmatch(r"[0-9a-f]{64}", sha256)
    return {"hashes": [{"alg": "SHA-256", "content": sha256}]} if known else {}


def _properties(file: FileRecord) -> Json:
    found = [{"name": "leaveout:kind", "value": file.kind}]
    found += [{"name": "leaveout:called", "value": name} for name in file.called]
    return {"properties": found}


def _ref(path: str) -> str:
    return f"file:{path}"


def _data_ref(record: TrainingRecord) -> str:
    return f"training:{record.path}"


_SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_ROOT = "%SRCROOT%"
_LEVEL = {"refuted": "error", "unknown": "warning"}


def sarif_part(given: Given) -> bytes:
    """Return the SARIF file of an evidence folder."""
    return sarif(given.report)


def sarif(*reports: Report) -> bytes:
    """Return reports as SARIF, one run each."""
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [_run(each) for each in reports]}
    return _encode(log)


def _run(report: Report) -> Json:
    topics = [topic_of(each, report) for each in report.results]
    found = [
        _result(result, topic, report)
        for result, topic in zip(report.results, topics, strict=True)
        if result.verdict in _LEVEL
    ]
    groups = " ".join(f"{note[:1].upper()}{note[1:]}." for note in group_notes(report.training))
    run: Json = {
        "tool": {
            "driver": {
                "name": "leaveout",
                "version": report.leaveout,
                "rules": [_rule(each, groups) for each in TOPICS],
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
                each.title + each.at_confidence
                for each in report.results
                if each.verdict == "proved"
            ]
        },
    }
    if report.date:
        run["invocations"] = [{"executionSuccessful": True, "endTimeUtc": report.date}]
    return run


def _rule(topic: Topic, groups: str) -> Json:
    says = f"{topic.says} {groups}".rstrip()
    text = f"{says} {topic.limit} {topic.refuted}"
    return {
        "id": f"leaveout/{topic.name}",
        "name": "".join(word.capitalize() for word in topic.name.split("-")),
        "shortDescription": {"text": topic.title},
        "fullDescription": {"text": says},
        "help": {
            "text": text,
            "markdown": (
                f"**Proved** means: {says}\n\n**Not covered:** {topic.limit}\n\n"
                f"**What to do:** {topic.refuted}"
            ),
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["privacy" if topic.name != "behaviour" else "correctness"]},
    }


def _result(result: Result, topic: Topic, report: Report) -> Json:
    said = report.statement_of(result)
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


def _message(result: Result) -> str:
    """Return the outcome and its evidence in words."""
    said = f"{result.title}: {result.verdict}{result.at_confidence}"
    return "; ".join([said, *_evidence_phrases(result)])


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
    """Return an id of a result that does not change when its line moves."""
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
        # Results of earlier versions name only the file.
        where = {"uri": quote(Path(report.spec).as_posix()), "uriBaseId": _ROOT}
        return {"physicalLocation": {"artifactLocation": where}}
    return None


def _artifact(report: Report, path: str, sha256: str) -> Json:
    found: Json = {"location": _location(report, path)}
    if sha256:
        found["hashes"] = {"sha-256": sha256}
    return found


def _location(report: Report, path: str) -> Json:
    """Return a file's path relative to the folder in which the run was started."""
    spec = "" if "\n" in report.spec else report.spec
    folder = PurePosixPath(Path(spec).as_posix()).parent
    joined = posixpath.normpath(folder / path)
    if folder.is_absolute() or joined.startswith("../"):
        # If that is unknown, relative to the specification.
        return {"uri": quote(path)}
    return {"uri": quote(joined), "uriBaseId": _ROOT}


ATTESTED = ("an attestation", ({"payloadType", "payload"}, {"_type", "predicateType"}))
SARIF = ("a SARIF file", ({"version", "runs"},))
BOM = ("a CycloneDX file", ({"bomFormat", "specVersion"},))
"""Kinds of files, each with the sets of keys that identify it."""


Kind = tuple[str, tuple[set[str], ...]]


def open_output(path: Path, kind: Kind) -> OutputFile:
    """Return an output file, which may be an earlier one of its kind."""
    what, keys = kind
    return OutputFile.open(
        "-o", path, EvidenceError, kind=what, is_one=lambda there: _is_one(there, keys)
    )


def _is_one(path: Path, keys: tuple[set[str], ...]) -> bool:
    try:
        held = msgspec.json.decode(read_whole(path, RESULTS))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(held, dict) and any(each <= set(held) for each in keys)


_MADE: Mapping[str, tuple[Kind, Callable[[Sequence[Report]], bytes]]] = {
    ".sarif": (SARIF, lambda reports: sarif(*reports)),
    ".sarif.json": (SARIF, lambda reports: sarif(*reports)),
    ".cdx.json": (BOM, lambda reports: ml_bom(reports[0])),
}
"""By suffix: what a file is, and the function that makes it."""


def is_export(output: str) -> bool:
    """Return whether a file name selects another program's format."""
    return output.endswith(tuple(_MADE))


def export(results: Sequence[str], output: str) -> None:
    """Write results in the format selected by the file name."""
    kind, make = next(each for end, each in _MADE.items() if output.endswith(end))
    if kind is BOM and len(results) > 1:
        raise EvidenceError(f"-o {output}: a bill of materials covers one results file")
    target = open_output(Path(output), kind)
    reports = []
    for name in results:
        path = Path(name)
        reports.append(read_report(read_bytes(path, "a results file of verify --json"), path))
    target.write(make(reports))

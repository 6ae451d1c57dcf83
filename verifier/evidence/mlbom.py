"""CycloneDX 1.6: models, their training data, and the figures proved of them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from leaveout.verifier.amounts import bound
from leaveout.verifier.evidence.parts import Given
from leaveout.verifier.evidence.topics import topic_of
from leaveout.verifier.records import FileRecord, TrainingRecord
from leaveout.verifier.report import Report, Result
from leaveout.written import printable

_ML_BOM_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "https://leaveout.example/mlbom")

_MODELS = {
    "network": "a neural network",
    "family": "networks of one architecture, each trained without one row",
    "forest": "a random forest",
    "ballots": "votes of base classifiers, given by their answers to test points",
    "service": "models on shards, given by the settings of their service",
    "audit": "unlearned and retrained models, given by what attacks saw of them",
}
"""Kinds of files that stand for models, and what they are."""

Json = dict[str, Any]


def ml_bom_part(given: Given) -> bytes:
    """Return the ML-BOM of an evidence folder."""
    return ml_bom(given.report)


def ml_bom(report: Report) -> bytes:
    """Return reports as a bill of materials to merge into a product's."""
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
    text = json.dumps(printable(bom), indent=2, ensure_ascii=False, allow_nan=False)
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
    """Return the outcome of a statement as a figure of the model."""
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
    said: str = result.verdict
    if result.confidence is not None:
        said += f" with confidence {result.confidence:g}"
    lower, upper = result.claimed_bounds
    if lower is not None:
        said += f", at least {bound(lower)}"
    if upper is not None:
        said += f", at most {bound(upper, up=True)}"
    return said


def _limits(results: Sequence[Result], report: Report) -> Iterator[str]:
    """Yield what is not covered, each once."""
    yield from dict.fromkeys(topic_of(each, report).limit for each in results)


def _is_about(result: Result, file: FileRecord, report: Report) -> bool:
    """Return whether the statement names a file, by its let or its path."""
    own = next((each for each in report.statements if each.name == result.name), None)
    if own is None:
        return False
    return bool(set(own.names) & set(file.called)) or f'"{file.path}"' in own.text


def _data(record: TrainingRecord) -> Json:
    facts = [("rows", str(record.rows)), ("features", str(record.features))]
    if record.labels:
        facts.append(("labels", ", ".join(record.labels)))
    if record.manifest_sha256:
        facts.append(("manifest SHA-256", record.manifest_sha256))
    properties = [{"name": f"leaveout:{name}", "value": value} for name, value in facts]
    return {
        "type": "data",
        "bom-ref": _data_ref(record),
        "name": f"training rows of {record.path}",
        "description": "the rows as used in training: features, then labels",
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

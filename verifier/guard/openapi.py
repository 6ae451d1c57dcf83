"""The OpenAPI document of a served guard, from its message types."""

from __future__ import annotations

from typing import Any

import msgspec

from leaveout.verifier.guard.server_messages import (
    About,
    Answer,
    Answers,
    Failure,
    Health,
    Question,
)
from leaveout.version import VERSION

_FAILURES = {
    "400": "The body is no JSON.",
    "401": "The server has keys, and none of them came.",
    "408": "The body did not arrive.",
    "413": "The body or the number of inputs is too large.",
    "415": "The body is not said to be JSON.",
    "421": "The server is not known under the name that the request gives it.",
    "422": "What is asked does not fit what is served, or lies outside the verified box.",
    "429": "Too much was asked for; Retry-After says in how many seconds to ask again.",
    "500": "A fault of the server.",
    "503": "The guard is closed and answers nothing, it ends, or too many requests are waiting.",
}

_KEYED: list[dict[str, list[str]]] = [{"key": []}, {}]
"""A key is needed where the server has some."""

_MESSAGES = (Question, Answer, Answers, Failure, Health, About)


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document, ready for JSON."""
    _, schemas = msgspec.json.schema_components(
        _MESSAGES, ref_template="#/components/schemas/{name}"
    )
    schemas["Question"].update(minProperties=1, maxProperties=1)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "leaveout guard",
            "version": VERSION,
            "description": "Label-only access to a model that owes nothing to any one training "
            "point.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/label": {"post": _label()},
            "/health": {
                "get": {
                    "operationId": "health",
                    "summary": "Whether label requests are answered",
                    "responses": {
                        "200": _json("They are.", "Health"),
                        **_refusals("421", "429"),
                        "503": _json("They are not, or not for long: the server ends.", "Health"),
                    },
                }
            },
            "/about": {"get": _about("about")},
            "/": {"get": _about("root")},
            "/metrics": {"get": _metrics()},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _label() -> dict[str, Any]:
    return {
        "operationId": "label",
        "summary": "Label one input, or several",
        "security": _KEYED,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _reference("Question")}},
        },
        "responses": {
            "200": _json("One label, or one for each input.", "Answer", "Answers"),
            **_refusals(*_FAILURES),
        },
    }


def _about(name: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": "What is served",
        "security": _KEYED,
        "responses": {
            "200": _json("Features, labels, box and promise.", "About"),
            **_refusals("401", "421", "429"),
        },
    }


def _metrics() -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "operationId": "metrics",
        "summary": "How much is asked, for Prometheus",
        "security": _KEYED,
        "responses": {
            "200": {"description": "Numbers, in its text format.", "content": text},
            **_refusals("401", "421", "429"),
        },
    }


def _refusals(*statuses: str) -> dict[str, Any]:
    return {status: _json(_FAILURES[status], "Failure") for status in statuses}


def _json(description: str, *names: str) -> dict[str, Any]:
    references = [_reference(name) for name in names]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}

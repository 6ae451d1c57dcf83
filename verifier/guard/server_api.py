"""JSON messages of a served guard."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from leaveout.version import VERSION

_WHOLE = 2**53  # whole numbers from here on are not exact as a float

Cell = Annotated[int, Meta(ge=-_WHOLE, le=_WHOLE)] | float | str | bool | None

Inputs = Annotated[list[float], Meta(description="As the model reads them, one per feature.")]

Row = Annotated[
    dict[str, Cell], Meta(description="Column name to value, in the units of the table.")
]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input or several, in exactly one of four forms."""

    x: Inputs | UnsetType = UNSET
    row: Row | UnsetType = UNSET
    X: list[Inputs] | UnsetType = UNSET
    rows: list[Row] | UnsetType = UNSET


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The label of one input, with its name if known."""

    label: int
    name: str | UnsetType = UNSET


class Answers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The labels of several inputs in order, with their names if known."""

    labels: list[int]
    names: list[str] | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True):
    """The reason for a missing answer, in one line."""

    error: str


class Health(msgspec.Struct, frozen=True):
    """Whether label requests are answered."""

    status: Literal["ok", "closed", "ending"]


class ListedValues(msgspec.Struct, frozen=True):
    """Features, by number, that jointly take one of ``count`` rows of values; the first ones."""

    features: list[int]
    values: list[list[float]]
    count: int


class BoxFacts(msgspec.Struct, frozen=True):
    """The inputs the promise covers."""

    lower: list[float]
    upper: list[float]
    listed: list[ListedValues]


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column in the table's own units; a category takes one of the values."""

    name: str
    kind: Literal["number", "category"]
    categories: list[str] | UnsetType = UNSET


class About(msgspec.Struct, frozen=True):
    """A description of the service, without a box where all inputs are covered."""

    features: list[str]
    columns: list[Column]
    labels: int
    names: list[str]
    box: BoxFacts | None
    outside: Literal["refuse", "noise"]
    members: int
    epsilon: float
    promise: str


_FAILURES = {
    "400": "The body is not JSON.",
    "401": "A valid key is required.",
    "408": "The body did not arrive.",
    "413": "The body or the number of inputs is too large.",
    "415": "The content type is not JSON.",
    "421": "The host name in the request is not allowed.",
    "422": "The inputs do not fit the model, or lie outside the verified box.",
    "429": "The rate limit was exceeded; Retry-After gives the seconds to wait.",
    "500": "An internal error.",
    "503": "The guard is closed, the server is shutting down, or too many requests are waiting.",
}

_KEYED: list[dict[str, list[str]]] = [{"key": []}, {}]  # a key is needed where the server has some

_MESSAGES = (Question, Answer, Answers, Failure, Health, About)


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document, ready for JSON."""
    _, schemas = msgspec.json.schema_components(
        _MESSAGES, ref_template="#/components/schemas/{name}"
    )
    schemas["Question"].update(minProperties=1, maxProperties=1)
    about = _json("Features, labels, box and promise.", "About")
    text = {"text/plain": {"schema": {"type": "string"}}}
    metrics = {"description": "Metrics in its text format.", "content": text}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "leaveout guard",
            "version": VERSION,
            "description": "Label-only access to a model such that no single training point "
            "changes the answers, or only a little.",
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
                        "503": _json("They are not, or the server is shutting down.", "Health"),
                    },
                }
            },
            "/about": _get("about", "What is served", about),
            "/": _get("root", "What is served", about),
            "/metrics": _get("metrics", "Metrics for Prometheus", metrics),
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


def _get(name: str, summary: str, answer: dict[str, Any]) -> dict[str, Any]:
    responses = {"200": answer, **_refusals("401", "421", "429")}
    parts = {"operationId": name, "summary": summary, "security": _KEYED, "responses": responses}
    return {"get": parts}


def _refusals(*statuses: str) -> dict[str, Any]:
    return {status: _json(_FAILURES[status], "Failure") for status in statuses}


def _json(description: str, *names: str) -> dict[str, Any]:
    references = [_reference(name) for name in names]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}

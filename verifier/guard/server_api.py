"""JSON messages of a served guard."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from leaveout.version import VERSION

_WHOLE = 2**53
"""Whole numbers from here on are not exact as a float."""

Cell = Annotated[int, Meta(ge=-_WHOLE, le=_WHOLE)] | float | str

Inputs = Annotated[list[float], Meta(description="As the model reads them, one a feature.")]

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
    """Features, by number, that jointly take one of the listed rows of values."""

    features: list[int]
    values: list[list[float]]


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


_STYLE = files("leaveout.verifier.guard").joinpath("docs.css").read_text("utf-8")

_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Of a response with the page."""

_EXAMPLES = {
    "label": "curl -X POST http://127.0.0.1:8000/label -H 'Content-Type: application/json' \\\n"
    "  -H 'Authorization: Bearer KEY' -d '{\"x\": [0.2, 0.5]}'",
}


def page(document: dict[str, Any]) -> str:
    """Return the page."""
    info = document["info"]
    title = escape(info["title"])
    paths = "".join(
        _operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "".join(
        _schema(name, schema) for name, schema in document["components"]["schemas"].items()
    )
    listed = "".join(
        f'<li><a href="#{method}{escape(path)}"><code>{method.upper()} {escape(path)}</code></a> '
        f"{escape(operation['summary'])}</li>"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{title}</h1><p>{escape(info['description'])}</p>"
        f"<p>Version {escape(info['version'])}. For programs: "
        '<a href="openapi.json"><code>openapi.json</code></a>.</p>'
        f"<ul>{listed}</ul><h2>Requests</h2>{paths}<h2>Messages</h2>{schemas}"
        "</main></body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<section id="{method}{escape(path)}"><h3><span class="method">{method.upper()}</span> '
        f"<code>{escape(path)}</code></h3><p>{escape(operation['summary'])}.</p>"
    ]
    if operation.get("description"):
        parts.append(f"<p>{escape(operation['description'])}</p>")
    needed = "a key, if the server has some" if operation.get("security") else "nothing"
    parts.append(f"<p>Needs {needed}.</p>")
    asked = operation.get("requestBody")
    if asked:
        kinds = ", ".join(_links(asked["content"]))
        parts.append(f"<p>Body: {kinds}</p>")
    example = _EXAMPLES.get(operation["operationId"])
    if example:
        parts.append(f"<pre><code>{escape(example)}</code></pre>")
    rows = "".join(
        f"<tr><td>{escape(status)}</td><td>{escape(response['description'])}</td>"
        f"<td>{', '.join(_links(response.get('content', {})))}</td></tr>"
        for status, response in operation["responses"].items()
    )
    parts.append(
        '<div class="wide"><table><thead><tr><th>Status</th><th>When</th><th>Body</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )
    return "".join(parts)


def _links(content: dict[str, Any]) -> Iterator[str]:
    for kind, held in content.items():
        schema = held["schema"]
        references = [each["$ref"] for each in schema.get("anyOf", [schema]) if "$ref" in each]
        if not references:
            yield escape(kind)
        for reference in references:
            yield _link(reference)


def _link(reference: str) -> str:
    name = escape(reference.rpartition("/")[2])
    return f'<a href="#{name}">{name}</a>'


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_type(what)}</td>"
        f"<td>{'always' if field in required else 'may be left out'}</td></tr>"
        for field, what in schema.get("properties", {}).items()
    )
    return (
        f'<section id="{escape(name)}"><h3>{escape(name)}</h3>'
        f"<p>{escape(schema.get('description', ''))}</p>"
        '<div class="wide"><table><thead><tr><th>Field</th><th>Value</th><th>There</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div></section>"
    )


def _type(schema: dict[str, Any]) -> str:
    said = _kind(schema)
    about = schema.get("description")
    return f"{said}. {escape(about)}" if about else said


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"])
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(each))}</code>" for each in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_plural(schema.get('items', {}))}"
    if kind == "object":
        return f"object of {_plural(schema.get('additionalProperties', {}))}"
    return escape({"null": "nothing"}.get(kind, kind))


def _plural(schema: Any) -> str:
    said = _kind(schema) if isinstance(schema, dict) and schema else "anything"
    return f"({said})" if " " in said else said

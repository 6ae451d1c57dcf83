"""The API as a readable page from its OpenAPI document, without scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

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

"""The fields of ``RESULT.json``, from the schema that ships in the package."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

__all__ = ["page"]

_FIELD = re.compile(r"^    (\w[\w, ]*?) : (.*)$")


def page() -> str:
    """Return a section a record, a row a field, as Markdown."""
    text = files("leaveout.verifier").joinpath("report.schema.json").read_text("utf-8")
    lines: list[str] = []
    for name, record in json.loads(text)["$defs"].items():
        intro, meanings = _read(record.get("description", ""))
        lines += [f"## {name}", "", intro, "", "| field | type | |", "|---|---|---|"]
        required = set(record.get("required", ()))
        for field, shape in record.get("properties", {}).items():
            may = "" if field in required else " (may be absent)"
            lines.append(f"| `{field}` | {_kind(shape)}{may} | {meanings.get(field, '')} |")
        lines.append("")
    return "\n".join(lines)


def _read(description: str) -> tuple[str, dict[str, str]]:
    """Return what a numpydoc docstring says of the whole, and of each attribute."""
    head, _, attributes = description.partition("    Attributes\n")
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in attributes.splitlines()[1:]:
        found = _FIELD.match(line)
        if found:
            names = [name.strip() for name in found[1].split(",")]
            meanings.update(dict.fromkeys(names, ""))
        elif line.strip():
            for name in names:
                meanings[name] = f"{meanings[name]} {line.strip()}".strip()
    intro = " ".join(head.split()).replace("``", "`")
    return intro, {name: text.replace("``", "`") for name, text in meanings.items()}


def _kind(shape: dict[str, Any]) -> str:
    """Return a JSON type in words."""
    if "$ref" in shape:
        name = shape["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "enum" in shape:
        return " or ".join(f"`{each}`" for each in shape["enum"])
    if "anyOf" in shape:
        return " or ".join(_kind(each) for each in shape["anyOf"])
    if "prefixItems" in shape:
        return f"list of {' and '.join(_kind(each) for each in shape['prefixItems'])}"
    if shape.get("type") == "array":
        return f"list of {_kind(shape['items'])}" if "items" in shape else "list"
    if shape.get("type") == "object":
        inner = shape.get("additionalProperties")
        return f"object of {_kind(inner)}" if isinstance(inner, dict) else "object"
    return str(shape.get("type", "any"))

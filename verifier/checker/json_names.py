"""JSON that all readers understand alike."""

from __future__ import annotations

import json


def refuse_repeated(content: bytes | str) -> None:
    """Refuse a name that stands twice in an object: of two readers each may take another."""
    json.loads(content, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, object]]) -> None:
    known: set[str] = set()
    for name, _ in pairs:
        if name in known:
            raise ValueError(f"{name!r} stands in it more than once")
        known.add(name)

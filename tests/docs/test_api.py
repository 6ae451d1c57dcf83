"""Classes that a family is made of are public, and its page describes them."""

from __future__ import annotations

import re
import types
from typing import get_args, get_type_hints

from docs.pages import text_of

import leaveout.models
from leaveout.models import Manifest


def test_what_a_manifest_holds_is_described():
    described = re.findall(r"^\.\. autoclass:: (\w+)$", text_of("docs/api/models.md"), re.MULTILINE)
    held = [
        each
        for hint in get_type_hints(Manifest).values()
        for each in (get_args(hint) if isinstance(hint, types.UnionType) else [])
        if each.__module__.startswith("leaveout.")
    ]
    assert {each.__name__ for each in held} == {"DataFacts", "Quality", "Sample"}
    for each in held:
        assert each.__name__ in described
        assert getattr(leaveout.models, each.__name__) is each

"""Objects by name, ``module:object``, resolved without importing the tables' targets."""

from __future__ import annotations

import importlib


def find_reference(reference: object) -> object:
    """Return the object a reference names; anything but text is returned unchanged."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)

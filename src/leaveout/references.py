"""Objects by name, ``module:object``, for tables that are read without importing what they name."""

from __future__ import annotations

import importlib


def find_reference(reference: object) -> object:
    """Return what a reference names; what is no text is returned as it is."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)

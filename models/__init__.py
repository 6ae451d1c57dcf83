"""Networks and families: reading, checking and conversion to one normal form."""

from __future__ import annotations

from leaveout.models.family import (
    DataFacts,
    Family,
    Manifest,
    Sample,
    load_family_file,
    save_family_file,
)
from leaveout.models.family_load import Members, load_family
from leaveout.models.graph import Layer, Stack, confidence
from leaveout.models.lowering import lower
from leaveout.models.onnx.file import Network, load_network
from leaveout.models.onnx.signature import architecture_hash
from leaveout.models.quality import Quality

__all__ = [
    "DataFacts",
    "Family",
    "Layer",
    "Manifest",
    "Members",
    "Network",
    "Quality",
    "Sample",
    "Stack",
    "architecture_hash",
    "confidence",
    "load_family",
    "load_family_file",
    "load_network",
    "lower",
    "save_family_file",
]

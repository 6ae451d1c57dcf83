"""Manifest entries on files and sets of inputs."""

from __future__ import annotations

import msgspec


class FilePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a claim is about."""

    path: str  # relative to the certificate
    sha256: str
    kind: str


class ChoicesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features that together take one of the listed rows."""

    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


class BoxPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The set of inputs of a question."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    choices: tuple[ChoicesPart, ...] = ()

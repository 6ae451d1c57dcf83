"""Provenance in results: files, training rows and statements, as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

FileKind = Literal[
    "specification", "included specification", "network", "weights", "family", "member", "forest",
    "columns", "ballots", "service", "audit", "bounds", "rows", "given rows", "file",
]  # fmt: skip
"""What a file is: ``weights`` lie beside a network, ``columns`` beside a forest, ``bounds`` are
what a guard rests on, ``rows`` are named by the specification, ``given rows`` by ``--data``."""


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a run read."""

    path: str  # seen from the folder of the specification, with ``/`` between names
    kind: FileKind  # what it is
    sha256: str  # of its bytes, in hexadecimal; empty where it was written to during the run
    called: tuple[str, ...] = ()  # the names that the specification gives it, in order


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a family or forest states of its training rows."""

    path: str  # of the family or the forest, as of its `FileRecord`
    sha256: str
    manifest_sha256: str
    rows: int
    features: int
    labels: tuple[str, ...] = ()  # their names; empty where they have none


class StatementRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the specification, as decided."""

    name: str
    text: str  # in its one layout, params as they were set
    sentence: str  # the same in words
    names: tuple[str, ...]  # the lets it is made of, in order
    definitions: tuple[str, ...]  # these lets, each in its one layout, params as they were set
    path: str
    line: int  # where, counted from 1; the end is just past its last character
    column: int  # where, counted from 1; the end is just past its last character
    end_line: int  # where, counted from 1; the end is just past its last character
    end_column: int  # where, counted from 1; the end is just past its last character

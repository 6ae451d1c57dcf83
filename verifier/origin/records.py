"""What results say of where they come from: files, training rows, statements, as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["FileKind", "FileRecord", "StatementRecord", "TrainingRecord"]

FileKind = Literal[
    "specification", "included specification", "network", "weights", "family", "member", "forest",
    "columns", "ballots", "service", "audit", "bounds", "rows", "given rows", "file",
]  # fmt: skip
"""What a file is: ``weights`` lie beside a network, ``columns`` beside a forest, ``bounds`` are
what a guard rests on, ``rows`` are named by the specification, ``given rows`` by ``--data``."""


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a run read.

    Attributes
    ----------
    path : str
        Seen from the folder of the specification, with ``/`` between names.
    kind : str
        What it is.
    sha256 : str
        Of its bytes, in hexadecimal; empty where it was written to during the run.
    called : tuple of str
        The names that the specification gives it, in order.
    """

    path: str
    kind: FileKind
    sha256: str
    called: tuple[str, ...] = ()


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a family or a forest says of the rows it was trained on.

    Attributes
    ----------
    path : str
        Of the family or the forest, as of its `FileRecord`.
    sha256 : str
        Of the rows, in hexadecimal: of features then labels, little-endian, in C order, as they
        were trained on.
    manifest_sha256 : str
        Of the JSON in which a family says so; empty for a forest, which holds the rows.
    rows : int
    features : int
    labels : tuple of str
        Their names; empty where they have none.
    """

    path: str
    sha256: str
    manifest_sha256: str
    rows: int
    features: int
    labels: tuple[str, ...] = ()


class StatementRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the specification, as it was decided.

    Attributes
    ----------
    name : str
    text : str
        In its one layout, params as they were set.
    sentence : str
        The same in words.
    names : tuple of str
        The lets it is made of, in order.
    definitions : tuple of str
        These lets, each in its one layout, params as they were set.
    path : str
        The file it stands in, as of its `FileRecord`; empty for a specification built in Python.
    line, column, end_line, end_column : int
        Where, counted from 1; the end is just past its last character.
    """

    name: str
    text: str
    sentence: str
    names: tuple[str, ...]
    definitions: tuple[str, ...]
    path: str
    line: int
    column: int
    end_line: int
    end_column: int

"""Samples: the training rows as a set to be partitioned, and the test rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.ballots import MOST_LABELS, Assumption
from leaveout.models.votes.features import Features
from leaveout.names import hint
from leaveout.written import first_few


def is_text(word: str) -> bool:
    """Return whether a word can be encoded as UTF-8."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_text(path: Path | str) -> str:
    """Return a path as printable text, with bytes that are not UTF-8 replaced."""
    return os.fsencode(path).decode(errors="replace")


def file_name(path: Path | str) -> str:
    """Return the last part of a path as printable text."""
    return path_text(Path(path).name)


NO_LABEL = -1  # the label index of a row whose label is unknown

_FEW_LABELS = 50
_ROWS_A_LABEL = 5  # least rows per label, if there are more than a few labels

BadRows = Literal["refuse", "skip"]
"""Handling of unreadable rows: refuse all data, or skip only those rows."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Training rows with labels, in any order, and test rows.

    Attributes
    ----------
    keys : list of bytes
        The values of each training row; equal for equal samples. Sorting them sorts samples.
    y : ndarray of int32, shape (rows,)
        Label of each training row; `NO_LABEL` if it is not among ``labels``.
    words : tuple of str
        The label of each training row, as given.
    truth : ndarray of int32, shape (points,)
        Labels of the test rows.
    labels : tuple of str
        One name per label.
    features : Features
        Features of the training rows, then of the test rows.
    source : str
        Name in messages.
    assumptions : tuple of Assumption
        Assumptions of a certificate about how the samples were made.
    left_aside : tuple of str
        Sentences about rows that were read but left out.
    group : str
        The column whose equal cells name rows that are in one part; empty if there is none.
    homes : list of bytes
        Its cell in each training row, hashed in place of ``keys``; empty if there is none.
    """

    keys: list[bytes]
    y: NDArray[np.int32]
    words: tuple[str, ...]
    truth: NDArray[np.int32]
    labels: tuple[str, ...]
    features: Features
    source: str = "samples"
    assumptions: tuple[Assumption, ...] = ()
    left_aside: tuple[str, ...] = ()
    group: str = ""
    homes: list[bytes] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of training rows."""
        return len(self.keys)

    @property
    def tests(self) -> NDArray[np.int64]:
        """Positions of the test rows among all rows."""
        return np.arange(len(self.keys), len(self.keys) + len(self.truth))

    def ranks(self) -> NDArray[np.int64]:
        """Return each row's rank among the sorted distinct samples, shape (rows,)."""
        place = {key: rank for rank, key in enumerate(sorted(set(self.keys)))}
        return np.array([place[key] for key in self.keys], dtype=np.int64)

    def sha256(self) -> str:
        """Return a digest of training rows and labels that ignores their order."""
        digest = hashlib.sha256()
        for key, word in sorted(zip(self.keys, self.words, strict=True)):
            for content in (key, word.encode()):
                digest.update(len(content).to_bytes(8, "little"))
                digest.update(content)
        return digest.hexdigest()


def number_labels(words: Sequence[str], names: Sequence[str]) -> NDArray[np.int32]:
    """Return the index of each label in ``names``, else `NO_LABEL`."""
    place = {name: index for index, name in enumerate(names)}
    return np.array([place.get(word, NO_LABEL) for word in words], dtype=np.int32)


def checked_names(
    source: str, names: Sequence[str], given: bool
) -> tuple[tuple[str, ...], Assumption]:
    """Return the labels and the assumption about them, or refuse unusable ones."""
    flag = f"--labels {','.join(names)}"
    if len(set(names)) < len(names) or "" in names:
        raise TrainingError(f"{flag}: a label is empty or duplicated; name each once")
    for name in names:
        if not is_text(name):
            raise TrainingError(f"--labels: {name!r} is not UTF-8 text; write it as UTF-8")
    if len(names) < 2:
        raise TrainingError(
            f"{source}: no labels besides {', '.join(names) or 'none'}; expected at least 2"
        )
    if len(names) > MOST_LABELS:
        raise TrainingError(
            f"{source}: {len(names):,} labels; expected at most {MOST_LABELS:,}; predict "
            "something coarser"
        )
    if given:
        text = (
            "the labels were fixed beforehand; a row with any other label is skipped, "
            "independently of the other rows"
        )
        return tuple(names), Assumption(text=text, checked=True)
    text = (
        f"the labels are those of {file_name(source)}, and a change of the training set neither "
        "adds nor removes one: retraining gets the same labels through --labels"
    )
    return tuple(names), Assumption(text=text, checked=False)


def refuse_measurements(source: str, words: Sequence[str], names: Sequence[str]) -> None:
    """Refuse labels that are nearly all distinct, like measurements or row names."""
    if len(names) > _FEW_LABELS and len(words) < _ROWS_A_LABEL * len(names):
        raise TrainingError(
            f"{source}: {len(names):,} different labels in {len(words):,} rows look like "
            "measurements or row names; predict a few classes (cut numbers into ranges), or "
            "list all labels with --labels"
        )


def bad_row_assumption(bad_rows: BadRows, unit: str) -> Assumption:
    """Return the certificate's assumption about inserted rows that cannot be read."""
    if bad_rows == "skip":
        return Assumption(
            text=f"a row is a {unit} of the file; one that cannot be read, or has a label "
            "outside the labels, is skipped, independently of the other rows",
            checked=True,
        )
    return Assumption(
        text="a change of the training set adds no unreadable row: one such row stops training, "
        "unless --bad-rows skip skips it, independently of the other rows",
        checked=False,
    )


def rows_with_known_labels(
    words: Sequence[str], names: Sequence[str]
) -> tuple[list[int], tuple[str, ...]]:
    """Return the test rows with known labels, and a sentence on the others."""
    known = set(names)
    kept = [row for row, word in enumerate(words) if word in known]
    lost = len(words) - len(kept)
    if not lost:
        return kept, ()
    return kept, (
        f"{lost} held-out test row{'s' * (lost != 1)} skipped: the label is not one of the labels",
    )


def checked_truth(
    words: Sequence[str], names: Sequence[str], place: Callable[[int], str]
) -> NDArray[np.int32]:
    """Return the label indices of test rows; ``place`` locates rows in messages."""
    truth = number_labels(words, names)
    if (truth == NO_LABEL).any():
        row = int(np.argmax(truth == NO_LABEL))
        raise TrainingError(
            f"{place(row)}: {words[row]!r} is not one of the labels "
            f"{first_few(names, 8)}{hint(words[row], names)}; "
            "fix the row, or list all labels with --labels"
        )
    return truth


_PART = b"leaveout part"
_FAMILY = b"leaveout f"
_TEST = b"leaveout test"
_SPREAD = b"leaveout spread"
_SIGN = np.uint64(1 << 63)
_LENGTH = 8


def array_keys(X: NDArray[np.float64]) -> list[bytes]:
    """Return each row's bytes as float64: sorted keys are rows in lexicographic order."""
    bits = np.ascontiguousarray(X + 0.0, dtype=np.float64).view(np.uint64)
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN).astype(">u8")
    return [row.tobytes() for row in ordered]


def cell_keys(rows: Iterable[Sequence[str]]) -> list[bytes]:
    """Return each row as bytes: its cells in UTF-8 after their lengths, hence unique."""
    return [b"".join(map(_length_prefixed, row)) for row in rows]


def hash_samples(
    keys: Sequence[bytes], key: str = "", labels: Sequence[str] | None = None, family: int = 0
) -> NDArray[np.uint64]:
    """Hash each sample: 64 bits of BLAKE2b."""
    secret = key.encode()
    if labels is not None:
        keys = [
            content + _length_prefixed(label) for content, label in zip(keys, labels, strict=True)
        ]
    person = b"%s%d" % (_FAMILY, family) if family else _PART
    return np.array([_digest(content, secret, person) for content in keys], dtype=np.uint64)


def hash_text(key: str, reads_label: bool, families: int = 1, of: str = "sample's values") -> str:
    """Return a description of `hash_samples` for a manifest."""
    several = ""
    if families > 1:
        several = f" of a family; in family f from 1 on the person is {_FAMILY.decode()!r} and f"
    label = " and its label" if reads_label else ", without its label"
    return (
        f"BLAKE2b (8 bytes, little-endian; person {_PART.decode()!r}, key {key!r}) of the "
        f"{of}{label}, modulo the number of members{several}"
    )


def held_out(keys: Sequence[bytes], share: float, key: str = "") -> NDArray[np.bool_]:
    """Return which samples are held out: those whose hash is below ``share``."""
    limit = int(share * 2**64)
    return np.array([_digest(content, key.encode(), _TEST) < limit for content in keys], dtype=bool)


def spread_offsets(members: int, spread: int, seed: int) -> tuple[int, ...]:
    """Return Finite Aggregation's offsets: the numbers below ``members`` with the lowest hashes."""
    # A sample with hash h reaches members (h + offset) mod members (Wang, Levine and Feizi, 2022).
    secret = str(seed).encode()
    drawn = sorted(
        range(members), key=lambda i: (_digest(i.to_bytes(_LENGTH, "little"), secret, _SPREAD), i)
    )
    return tuple(sorted(drawn[:spread]))


def _length_prefixed(text: str) -> bytes:
    """Return a text as bytes, preceded by their length."""
    content = text.encode()
    return len(content).to_bytes(_LENGTH, "little") + content


def _digest(content: bytes, key: bytes, person: bytes) -> int:
    return int.from_bytes(
        hashlib.blake2b(content, digest_size=8, key=key, person=person).digest(), "little"
    )

"""Receipts of changes: what was done to a model's rows, chained, without personal data.

A digest of a model could be compared with those of guesses of its rows. So a receipt has a digest
salted by random bytes that only it contains, and the next one repeats it: whoever keeps receipts
can follow the chain, and a folder tells nothing of the rows before its last change.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from leaveout.errors import LeaveoutError
from leaveout.files import SETTINGS, read_whole, why_unread

RECEIPT = "receipt.json"


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the last change did, and how near the model is to one trained without the rows.

    Attributes
    ----------
    action : str
        ``train``, ``delete`` or ``add``.
    rows, left : int
        How many rows the change was about, and how many the model then held.
    time : str
        UTC, ISO 8601.
    coefficients, scores : float
        At least the Euclidean distance of the coefficients from the only minimum, and what any
        score differs by from the minimum's at the inputs that the specification names.
    salt, model : str
        Random, and the SHA-256 of it and the model's digest.
    before, previous : str
        ``model`` of the receipt before this one, and its SHA-256; empty if there was none.
    """

    format: Literal["leaveout receipt 1"]
    action: str
    rows: int
    left: int
    time: str
    coefficients: float
    scores: float
    salt: str
    model: str
    before: str
    previous: str

    @staticmethod
    def of(
        action: str, rows: int, left: int, distances: tuple[float, float], digest: str,
        before: Receipt | None,
    ) -> Receipt:  # fmt: skip
        """Return the receipt of a change that ends now."""
        salt = secrets.token_hex(32)
        return Receipt(
            format="leaveout receipt 1",
            action=action,
            rows=rows,
            left=left,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            coefficients=distances[0],
            scores=distances[1],
            salt=salt,
            model=_salt(salt, digest),
            before="" if before is None else before.model,
            previous="" if before is None else before.digest,
        )

    @staticmethod
    def read(path: Path, digest: str, error: type[LeaveoutError]) -> Receipt | None:
        """Read the receipt of a model, if there is one; raise if it is of another model."""
        try:
            found = msgspec.json.decode(read_whole(path, SETTINGS), type=Receipt)
        except FileNotFoundError:
            return None
        except OSError as failed:
            raise error(f"{path}: {why_unread(failed)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failed:
            raise error(f"{path}: not a receipt: {failed}") from None
        if not found.is_of(digest):
            raise error(
                f"{path}: the receipt of another model; put back the right one, or remove it, "
                "which ends its chain"
            )
        return found

    def is_of(self, digest: str) -> bool:
        """Return whether this is the receipt of the model with a digest."""
        return self.model == _salt(self.salt, digest)

    def follows(self, before: Receipt) -> bool:
        """Return whether another receipt is the one before this one."""
        return (self.before, self.previous) == (before.model, before.digest)

    @property
    def digest(self) -> str:
        """The file's SHA-256."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the file's contents."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


def _salt(salt: str, digest: str) -> str:
    return hashlib.sha256(f"{salt} {digest}".encode()).hexdigest()

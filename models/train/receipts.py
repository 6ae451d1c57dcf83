"""The receipts of a model's folder: kept beside it, one more with each change."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.files import MODEL, SETTINGS, read_whole, refuse_unread
from leaveout.kernel.receipts import (
    Line,
    Receipt,
    check_chain,
    commitment,
    read_line,
    salt_digest,
)
from leaveout.kernel.records import encode
from leaveout.kernel.refusal import Rejected

RECEIPTS, SALT = "receipts.jsonl", "receipts.salt"

Sign = Callable[[bytes], bytes]
"""Returns the envelope of a receipt, in one line."""


@dataclass(frozen=True, eq=False)
class Receipts:
    """The receipts of a folder, and the salt of the last one's model."""

    lines: tuple[Line, ...] = ()
    salt: str = ""

    @staticmethod
    def read(directory: Path, digest: Callable[[], str], error: type[LeaveoutError]) -> Receipts:
        """Read the receipts of the model with a digest; none if there are none."""
        path, beside = directory / RECEIPTS, directory / SALT
        if not (os.path.lexists(path) or os.path.lexists(beside)):
            return Receipts()
        cure = f"put back the right file, or remove {RECEIPTS} and {SALT}, which ends the chain"
        with refuse_unread(lambda said: error(f"{said}; {cure}"), path):
            text = read_whole(path, MODEL)
        with refuse_unread(lambda said: error(f"{said}; {cure}"), beside):
            salt = read_whole(beside, SETTINGS).decode("ascii", "replace").strip()
        try:
            return Receipts(check_chain(text, salt, digest()), salt)
        except Rejected as wrong:
            raise error(f"{path}: {wrong}; {cure}") from None

    @property
    def last(self) -> Receipt | None:
        """The receipt of the last change."""
        return self.lines[-1].receipt if self.lines else None

    def then(
        self, action: str, rows: int, left: int, digest: str, distances: tuple[float, float],
        gone: Mapping[str, str], sign: Sign | None = None, unit: str = "row",
    ) -> Receipts:  # fmt: skip
        """Return the receipts after a change that ends now; ``gone``: openings of names."""
        salt, last = secrets.token_hex(32), self.last
        now = datetime.now(UTC).isoformat(timespec="seconds")
        receipt = Receipt(
            format="leaveout receipt 2",
            number=len(self.lines) + 1,
            action=action,  # type: ignore[arg-type]
            # Clocks are set back; receipts still follow one another.
            time=now if last is None else max(now, last.time),
            unit=unit,  # type: ignore[arg-type]
            rows=rows,
            left=left,
            removed=tuple(commitment(name, opening) for name, opening in gone.items()),
            coefficients=distances[0],
            scores=distances[1],
            model=salt_digest(salt, digest),
            before="" if last is None else last.model,
            previous="" if last is None else self.lines[-1].digest,
        )
        content = encode(receipt)
        line = read_line(content if sign is None else sign(content))
        return Receipts((*self.lines, line), salt)

    def files(self) -> dict[str, bytes]:
        """Return what is written, by name."""
        if not self.lines:
            return {}
        text = b"".join(each.content + b"\n" for each in self.lines)
        return {RECEIPTS: text, SALT: f"{self.salt}\n".encode()}


def openings(seed: bytes, names: Sequence[str]) -> dict[str, str]:
    """Return the openings of rows' names: random to all who do not know the seed."""
    key = hashlib.sha256(b"opening" + seed).digest()
    return {name: hmac.new(key, name.encode(), hashlib.sha256).hexdigest() for name in names}

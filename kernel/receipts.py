"""Receipts: what was done to a model's rows, chained, without personal data.

A digest of a model, or of a row's name, could be compared with those of guesses. So a receipt has
digests salted by random bytes: the salt of the model stays beside it until the next change, and
whoever asked for rows to be forgotten keeps the openings of their names. A receipt states the
digest of the one before it, so that none is changed, dropped or moved unseen.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .records import convert, decode, parse
from .refusal import Rejected

PAYLOAD_TYPE = "application/vnd.leaveout.receipt+json"
"""Of a signed receipt, a DSSE envelope."""

_HEX = re.compile("[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")


@dataclass(frozen=True)
class Receipt:
    """What one change did, and how near the model is to one trained on the rows left.

    Attributes
    ----------
    number : int
        From 1.
    action : str
        ``change``: rows left and others came.
    time : str
        UTC, ISO 8601.
    unit : str
        What is counted: rows, or groups of them that leave together.
    rows, left : int
        How many the change was about, and how many the model then held.
    removed : tuple of str
        Of each row, or group of them, that was forgotten: see `commitment`.
    coefficients, scores : float
        At least the Euclidean distance of the coefficients from those of a model trained on the
        rows left, and what any score differs by; both 0 where the two are equal bit for bit.
    model, before, previous : str
        `salt_digest` of the model, that of the receipt before, and its file's SHA-256.
    """

    format: Literal["leaveout receipt 2"]
    number: int
    action: Literal["train", "forget", "add", "change"]
    time: str
    unit: Literal["row", "group"]
    rows: int
    left: int
    removed: tuple[str, ...]
    coefficients: float
    scores: float
    model: str
    before: str
    previous: str

    def removes(self, name: str, opening: str) -> bool:
        """Return whether a row was forgotten here, as the opening of its name shows."""
        return commitment(name, opening) in self.removed


@dataclass(frozen=True)
class Line:
    """A receipt as it stands in its file, and the keys that are said to have signed it."""

    content: bytes
    receipt: Receipt
    keys: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the line."""
        return hashlib.sha256(self.content).hexdigest()


def salt_digest(salt: str, digest: str) -> str:
    """Return the salted digest of a model's digest."""
    return hashlib.sha256(f"{salt} {digest}".encode()).hexdigest()


def commitment(name: str, opening: str) -> str:
    """Return what stands for a row's name, and says nothing of it without the opening."""
    return hmac.new(opening.encode(), name.encode(), hashlib.sha256).hexdigest()


def read_line(content: bytes) -> Line:
    """Read a receipt, signed or not; raise ValueError if it is none."""
    raw = parse(content)
    keys: tuple[str, ...] = ()
    if isinstance(raw, dict) and "payload" in raw:
        keys, payload = _payload_of(raw)
        receipt = decode(payload, Receipt)
    else:
        receipt = convert(raw, Receipt)
    digests = (*receipt.removed, receipt.model, *filter(None, (receipt.before, receipt.previous)))
    if not all(map(_HEX.fullmatch, digests)):
        raise ValueError("a digest is not 64 hexadecimal digits")
    if not _TIME.fullmatch(receipt.time):
        raise ValueError("its time is not in UTC")
    if min(receipt.coefficients, receipt.scores) < 0:
        raise ValueError("a distance is below 0")
    return Line(content, receipt, keys)


def _payload_of(raw: dict[str, object]) -> tuple[tuple[str, ...], bytes]:
    if set(raw) != {"payload", "payloadType", "signatures"} or raw["payloadType"] != PAYLOAD_TYPE:
        raise ValueError("not the envelope of a receipt")
    signatures = convert(raw["signatures"], tuple[dict[str, str], ...])
    if any(set(each) != {"keyid", "sig"} for each in signatures):
        raise ValueError("not the signatures of an envelope")
    try:
        payload = base64.b64decode(convert(raw["payload"], str), validate=True)
    except binascii.Error:
        raise ValueError("its payload is not base64") from None
    return tuple(each["keyid"] for each in signatures), payload


def read_chain(text: bytes) -> tuple[Line, ...]:
    """Read receipts, a line each; raise `Rejected` at the first that does not follow."""
    found: list[Line] = []
    if not text.endswith(b"\n"):
        raise Rejected("the last receipt is cut off")
    for number, content in enumerate(text[:-1].split(b"\n"), start=1):
        try:
            line = read_line(content)
        except ValueError as error:
            raise Rejected(f"line {number}: not a receipt: {error}") from None
        wrong = _break(line.receipt, found[-1] if found else None)
        if wrong:
            raise Rejected(f"line {number}: {wrong}")
        found.append(line)
    return tuple(found)


def _break(own: Receipt, last: Line | None) -> str:
    """Return why a receipt does not follow the one before; empty if it does."""
    before = None if last is None else last.receipt
    change = {"add": own.rows, "forget": -own.rows}.get(own.action)
    units = len(own.removed)
    tests = {
        "its number is not the next": own.number == 1 + (before.number if before else 0),
        "this line or the one before was changed": own.previous == (last.digest if last else ""),
        "it is not about the model before": own.before == (before.model if before else ""),
        "it is earlier than the one before": before is None or own.time >= before.time,
        "its numbers of rows do not add up": min(own.rows, own.left) >= 0
        and (change is None or before is None or own.left == before.left + change),
        "it counts something else": before is None or own.unit == before.unit,
        "rows were trained on twice": own.action != "train" or before is None,
        "it does not say which rows": own.action == "change"
        or (units > 0) == (own.action == "forget"),
        "it names more rows than it is about": units <= own.rows,
    }
    return next((why for why, holds in tests.items() if not holds), "")


def check_chain(text: bytes, salt: str, digest: str) -> tuple[Line, ...]:
    """Read the receipts of a model; raise `Rejected` if they are not, or it is another's."""
    lines = read_chain(text)
    if lines[-1].receipt.model != salt_digest(salt, digest):
        raise Rejected("the last receipt is of another model")
    return lines


def check_claim(lines: tuple[Line, ...], own: bytes, openings: Mapping[str, str]) -> Receipt:
    """Check that a receipt which somebody kept is in a chain, and about these rows."""
    try:
        kept = read_line(own)
    except ValueError as error:
        raise Rejected(f"not a receipt: {error}") from None
    number = kept.receipt.number
    if not 0 < number <= len(lines) or lines[number - 1].content != own:
        raise Rejected(f"receipt {number} of the folder is another one")
    for name, opening in openings.items():
        if not kept.receipt.removes(name, opening):
            raise Rejected(f"the receipt is not about the row {name!r}")
    return kept.receipt

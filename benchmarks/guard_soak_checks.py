"""What must hold after a soak, of what clients were told and of what the memory holds."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from guard_soak_load import Inputs, Tally

__all__ = ["Ledger", "failures", "read_ledger"]


@dataclass(frozen=True)
class Ledger:
    """What the memory holds: the answer of each digest, the answers that are paid for, the key."""

    answers: dict[bytes, int]
    paid: int
    secret: bytes

    def key(self, point: bytes) -> bytes:
        """Return the digest of an input."""
        return hashlib.blake2b(point, key=self.secret, digest_size=32).digest()


def read_ledger(path: Path) -> Ledger:
    """Read the memory's file, as it is on the disk."""
    with closing(sqlite3.connect(path)) as database:
        (sound,) = database.execute("PRAGMA integrity_check").fetchone()
        if sound != "ok":
            raise ValueError(f"{path}: {sound}")
        answers = dict(database.execute("SELECT input, answer FROM answers"))
        (paid,) = database.execute("SELECT coalesce(sum(answers), 0) FROM spent").fetchone()
        (secret,) = database.execute("SELECT secret FROM guard").fetchone()
    return Ledger(answers, paid, secret)


def failures(inputs: Inputs, tally: Tally, ledger: Ledger) -> dict[str, list[str]]:
    """Return what is wrong, by what had to hold; nothing where it does.

    Parameters
    ----------
    inputs : Inputs
    tally : Tally
    ledger : Ledger
    """
    leaks = {index for index, tier in enumerate(inputs.tiers) if tier == 3}
    keys = {index: ledger.key(inputs.points[index].tobytes()) for index in leaks}
    answered, asked = leaks & set(tally.answers), leaks & tally.asked
    of_asked = {keys[index] for index in asked}
    return {
        "one answer for one input": [
            f"input {index}: {sorted(found)}"
            for index, found in tally.answers.items()
            if len(found) != 1
        ],
        "others answered as the network answers": [
            f"input {index}: {sorted(found)}, expected {inputs.labels[index]}"
            for index, found in tally.answers.items()
            if index not in leaks and found != {int(inputs.labels[index])}
        ],
        "every noised answer remembered as given": [
            f"input {index}: given {sorted(tally.answers[index])}, remembered "
            f"{ledger.answers.get(keys[index])}"
            for index in answered
            if tally.answers[index] != {ledger.answers.get(keys[index])}
        ],
        "nothing remembered but leaks asked for": [
            f"{key.hex()[:16]} is no leak that was asked for"
            for key in ledger.answers
            if key not in of_asked
        ],
        "each remembered answer paid for once": []
        if ledger.paid == len(ledger.answers)
        else [f"{ledger.paid} paid for, {len(ledger.answers)} remembered"],
        "between answered and asked": []
        if len(answered) <= len(ledger.answers) <= len(asked)
        else [f"{len(answered)} answered, {len(ledger.answers)} kept, {len(asked)} asked"],
        "responses as documented": tally.wrong,
    }

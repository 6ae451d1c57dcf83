"""What a kind of attack is: it makes random cases, judges an answer, and makes cases smaller."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

__all__ = [
    "KINDS",
    "Answer",
    "Case",
    "Kind",
    "Outcome",
    "digest",
    "generator",
    "imported",
    "load",
    "sort_of",
]

Case = dict[str, Any]
"""Plain JSON data (dict, list, str, int, float, bool, None), all that repeats a case."""

Answer = Literal["proved", "refuted", "unknown", "refused"]


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes
    ----------
    label : str
        The class to count it by, such as ``value<1e-9``.
    answer : {"proved", "refuted", "unknown", "refused"}
        What was answered; "refused" is a `LeaveoutError`, or a rejected certificate.
    wrong : str or None
        What was wrong, as ``sort of mistake: particulars``; None where nothing was.
    """

    label: str
    answer: Answer
    wrong: str | None = None


class Kind(Protocol):
    """A kind of random case with the truth about it.

    `make` draws from ``rng`` alone, so that a case can be made again. `check` may raise: a
    `LeaveoutError` counts as refused, anything else is a mistake.
    """

    name: str

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a case."""

    def check(self, case: Case) -> Outcome:
        """Ask leaveout, find out the truth in another way, and compare."""

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield smaller cases, the boldest first; each must be smaller by some measure."""


KINDS: dict[str, tuple[str, float]] = {
    "operators": ("attacks.operators:Operators", 8.0),
    "forests": ("attacks.forests:Forests", 3.0),
    "forest_leaks": ("attacks.forest_leaks:ForestLeaks", 3.0),
    "votes": ("attacks.votes:Votes", 6.0),
    "run_offs": ("attacks.run_offs:RunOffs", 3.0),
    "known": ("attacks.known_votes:KnownVotes", 4.0),
    "survival": ("attacks.survival:Survival", 2.0),
    "batches": ("attacks.batches:Batches", 3.0),
    "guard": ("attacks.guard:Guards", 2.0),
    "crowds": ("attacks.crowds:Crowds", 1.0),
    "leaks": ("attacks.leaks:Leaks", 4.0),
    "listed": ("attacks.listed:Listed", 4.0),
    "claims": ("attacks.claims:Claims", 4.0),
    "vnnlib": ("attacks.vnnlib:VnnLib", 3.0),
    "ends": ("attacks.ends:Ends", 3.0),
    "certificates": ("attacks.certificates:Certificates", 2.0),
    "proofs": ("attacks.proofs:Proofs", 2.0),
}
"""By name: where the class is, and how often it is drawn."""


def imported(name: str) -> type[Kind]:
    """Return the class of a kind by its name, or by ``module:Class``."""
    place = name if ":" in name else KINDS[name][0]
    module, _, attribute = place.partition(":")
    found: type[Kind] = getattr(importlib.import_module(module), attribute)
    return found


def load(name: str) -> Kind:
    """Make a kind; some take seconds to be ready."""
    return imported(name)()


def generator(seed: int, name: str, number: int) -> np.random.Generator:
    """Return what draws case ``number`` of a kind; nothing else decides the case."""
    return np.random.default_rng([seed, *name.encode(), number])


def sort_of(wrong: str) -> str:
    """Return the sort of a mistake: what stands before its particulars."""
    return wrong.partition(":")[0]


def digest(case: Case) -> str:
    """Short name of a case."""
    return hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()[:12]

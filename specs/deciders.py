"""Computation of functions other than formulas over points, such as accuracies.

A decider receives the arguments of one call and returns

* for a function whose result is a ``Number``: `Bounds`, between which the true value lies;
* for a ``Boolean``: `Decided`;
* for any other type: a Python object, such as loaded ballots, which is passed to other deciders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

Facts: TypeAlias = Mapping[str, int | float | str | tuple[int, ...]]
"""Evidence as machine-readable values, by name."""


Proof: TypeAlias = Callable[[], Mapping[str, NDArray[Any]]]
"""Returns the proof of a call's answer for a certificate: numeric arrays by name."""


Say: TypeAlias = Callable[[str], None]
"""Receives progress messages."""


def discard_message(words: str) -> None:
    """Discard a progress message."""


@dataclass(frozen=True)
class Evidence:
    """Evidence that a number cannot be better.

    Attributes
    ----------
    words : str
        As a sentence.
    facts : mapping
        The same, machine-readable.
    """

    words: str = ""
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """A number as a function of the amount of change, stored and drawn in reports.

    Attributes
    ----------
    name : str
        What the curve describes, such as ``dpa``.
    value, unit : str
        What the number is, and what is counted: ``certified accuracy`` against ``edits``.
    at : tuple of int
        Ascending.
    lower, upper : tuple of float
        Bounds of the number at each point of ``at``.
    """

    name: str
    value: str
    unit: str
    at: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True)
class LabelAccuracy:
    """Accuracy on the test points of one true label."""

    label: int
    name: str  # empty if the label has no name
    points: int  # test points of this true label
    right: int  # points of these that are answered correctly
    lower: int  # at least so many of these stay correct whatever changes
    upper: int  # at most so many of these stay correct whatever changes


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on test points by label, stored in reports with a share."""

    votes: str  # voting scheme, such as ``dpa``
    file: str  # the file of its votes
    unit: str  # unit of change, such as ``edits``
    count: int  # changes that the labels' numbers withstand; for a find, the number found
    together: bool  # whether one attack is on all test points, rather than on each separately
    points: int  # all test points
    right: int  # points answered correctly without changes
    common: int  # the most frequent true label; the smaller one on a tie
    common_name: str
    common_points: int  # test points of that label: always answering it is right this often
    undefended_right: int | None
    lower: int | None
    upper: int | None
    labels: tuple[LabelAccuracy, ...]  # the requested labels that have test points


@dataclass(frozen=True)
class Bounds:
    """A number, or bounds of it.

    Attributes
    ----------
    lower, upper : int, float or Fraction
        The true value lies between them, ends included. A float is taken as exact: round outwards,
        or give a quotient such as a share as an exact ``Fraction``. The lower end may be ``-inf``
        and the upper ``inf``.
    reason : str
        Why they differ; starts with ``time``, ``solver`` or ``numerical``.
    note : str
        Remarks for a reader of the result, one per line.
    evidence : callable
        Returns evidence that the number is no better; called once a claim is refuted.
    curve : Curve or None
    accuracy : Accuracy or None
    """

    lower: float | Fraction
    upper: float | Fraction
    reason: str = ""
    note: str = ""
    evidence: Callable[[], Evidence] = Evidence
    curve: Curve | None = None
    accuracy: Accuracy | None = None

    @classmethod
    def exactly(cls, value: float | Fraction, note: str = "") -> Bounds:
        """Return the bounds of a known number."""
        return cls(value, value, note=note)


@dataclass(frozen=True)
class Decided:
    """Whether a claim holds.

    Attributes
    ----------
    verdict : {"proved", "refuted", "unknown"}
    reason : str
        For "unknown": starts with ``time``, ``solver`` or ``numerical``.
    witness : str
        For "refuted": the evidence, as a sentence; never empty then.
    note : str
        Remarks for a reader of the result, one per line.
    facts : mapping
        The witness, machine-readable; for other verdicts, what the verdict rests on.
    """

    verdict: Literal["proved", "refuted", "unknown"]
    reason: str = ""
    witness: str = ""
    note: str = ""
    facts: Facts = field(default_factory=dict)


class Arguments(Mapping[str, object]):
    """The evaluated arguments of one call, by parameter.

    Numbers are floats, texts and bare words `str`, lists of numbers lists of floats, networks
    `leaveout.models.Network`, families `leaveout.models.Family`, sets of inputs
    `leaveout.encoders.Box`; another function's result is what its decider returned. Omitted
    optional parameters are absent.

    Parameters
    ----------
    values : mapping of str to object
    folder : Path
        Base of relative paths.
    seconds : float or None
        Time left, None for no limit. When it is over, a decider returns what it knows.
    confidence : float or None
        Probability with which an estimate from samples must lie within its bounds; None where the
        specification demands certainty.
    seed : int
        Seed of all randomness.
    solver : str
        Name of the solver back end.

    Attributes
    ----------
    told : list of mapping
        Intermediate results recorded by `tell`.
    proof : callable or None
        The proof passed to `prove`, for a certificate.
    proving : bool
        Whether a certificate is written and needs a proof.
    say : callable
        Receives progress messages of slow deciders.
    interrupted : bool
        Set by a decider that Ctrl-C ended and that returns what it knew by then. No further
        statement is decided.
    unproved : str
        Why ``leaveout check`` could not prove the answer again; empty if it can. A statement that
        rests on such a call is left out of the certificate, with a note.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        folder: Path = Path(),
        seconds: float | None = None,
        confidence: float | None = None,
        seed: int = 0,
        solver: str = "highs",
        proving: bool = False,
        say: Say = discard_message,
    ) -> None:
        self._values = dict(values)
        self.folder = folder
        self.seconds = seconds
        self.confidence = confidence
        self.seed = seed
        self.solver = solver
        self.told: list[Facts] = []
        self.proving = proving
        self.say = say
        self.proof: Proof | None = None
        self.interrupted = False
        self.unproved = ""

    def prove(self, proof: Proof) -> None:
        """Record what ``leaveout check`` needs to prove this call's answer again.

        Parameters
        ----------
        proof : callable
            Returns arrays by name; called once the certificate is written, if one is.
        """
        self.proof = proof

    def tell(self, facts: Facts) -> None:
        """Record intermediate results for a report to show, whatever the outcome.

        Parameters
        ----------
        facts : mapping
            Numbers, texts, or tuples of whole numbers by name.
        """
        self.told.append(facts)

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number, or the default if it is absent.

        Raises
        ------
        TypeError
            If it is not a number.
        """
        value = self._values.get(name, default)
        if not isinstance(value, float | int):
            raise TypeError(f"{name!r} is a {type(value).__name__}, not a number")
        return float(value)

    def path(self, name: str) -> Path:
        """Return the file or folder named by a text.

        Raises
        ------
        TypeError
            If it is not a text.
        """
        value = self._values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name!r} is a {type(value).__name__}, not a text")
        return self.folder / value


Decider: TypeAlias = Callable[[Arguments], object]
"""Computes one call.

A `leaveout.errors.LeaveoutError` it raises is shown unchanged. A `TimeoutError` means that time ran
out before any answer; the claim is then unknown.
"""

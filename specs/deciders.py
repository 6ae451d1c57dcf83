"""Computation of functions that are not formulas over points, such as accuracies.

A decider is called with the arguments of one call and returns

* for a function whose result is a ``Number``: `Bounds`, between which the true value lies;
* for a ``Boolean``: `Decided`;
* for any other type: a Python object, such as loaded ballots, that other deciders are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

Facts: TypeAlias = Mapping[str, int | float | str | tuple[int, ...]]
"""What shows something, for programs to read."""


Proof: TypeAlias = Callable[[], Mapping[str, NDArray[Any]]]
"""Returns what proves the answer to a call, for a certificate: arrays of numbers by name."""


Say: TypeAlias = Callable[[str], None]
"""Is told, in words, how far something is."""


def discard_message(words: str) -> None:
    """Discard a progress message."""


@dataclass(frozen=True)
class Evidence:
    """Evidence that a number cannot be better.

    Attributes
    ----------
    words : str
        In a sentence.
    facts : mapping
        The same, for programs to read.
    """

    words: str = ""
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """A number as a function of the amount of change, as reports keep and draw it.

    Attributes
    ----------
    name : str
        What it is of, such as ``dpa``.
    value, unit : str
        What the number is, and what is counted: ``certified accuracy`` against ``edits``.
    at : tuple of int
        Ascending.
    lower, upper : tuple of float
        Between which the number lies at each.
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
    name: str  # what the label is called; empty where it has no name
    points: int  # test points of this true label, and how many of them are answered right
    right: int  # test points of this true label, and how many of them are answered right
    lower: int  # of these, how many stay so whatever changes: at least, and at most
    upper: int  # of these, how many stay so whatever changes: at least, and at most


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on test points by label, as reports keep it beside a share."""

    votes: str  # what answers, such as ``dpa``, and the file it is read from
    file: str  # what answers, such as ``dpa``, and the file it is read from
    unit: str  # what changes, such as ``edits``
    count: int  # how many of them the labels' numbers withstand; of a find, the number it found
    together: bool  # whether one attack is on all test points, rather than on each by itself
    points: int  # test points, and how many of them are answered right where nothing changes
    right: int  # test points, and how many of them are answered right where nothing changes
    common: int  # the label that is most often true; the smaller one on a tie
    common_name: str
    common_points: int  # test points of that label: whoever answers nothing else is right as often
    undefended_right: int | None
    lower: int | None
    upper: int | None
    labels: tuple[LabelAccuracy, ...]  # those that were asked about and have test points


@dataclass(frozen=True)
class Bounds:
    """A number, or bounds of it.

    Attributes
    ----------
    lower, upper : int, float or Fraction
        The true value lies between them, ends included. A float is the very number it holds:
        round outwards, or give a quotient such as a share as an exact ``Fraction``. The lower end
        may be ``-inf`` and the upper ``inf``.
    reason : str
        Why they differ; starts with ``time``, ``solver`` or ``numerical``.
    note : str
        What a reader of the result should know; a line each.
    evidence : callable
        Returns what shows that the number is no better; called once a claim is refuted.
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
        Of "unknown": starts with ``time``, ``solver`` or ``numerical``.
    witness : str
        Of "refuted": what shows it, in a sentence; never empty there.
    note : str
        What a reader of the result should know; a line each.
    facts : mapping
        The witness for programs to read; of another verdict what it rests on.
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
    `leaveout.encoders.Box`, and what another function returned is what its decider returned.
    Optional parameters that are not given are absent.

    Parameters
    ----------
    values : mapping of str to object
    folder : Path
        What relative paths are relative to.
    seconds : float or None
        Time left, None for no limit. A decider that needs longer returns what it knows then.
    confidence : float or None
        How surely a number estimated from samples must lie within its bounds; None where the
        specification asks for certainty.
    seed : int
        Of whatever is random.
    solver : str
        Name of the back end for what needs one.

    Attributes
    ----------
    told : list of mapping
        What the decider told of the way it went.
    proof : callable or None
        What was left for a certificate, see `prove`.
    proving : bool
        Whether a certificate is written, so that a proof is wanted.
    say : callable
        Is told, in words, how far a decider that takes long is.
    interrupted : bool
        Set by a decider that Ctrl-C ended and that returns what it knew by then. Nothing is decided
        after it.
    unproved : str
        Why ``leaveout check`` could not prove the answer again; empty if it can. A statement that
        rests on such a call is not in the certificate, and a note says this.
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
        """Keep what ``leaveout check`` needs to prove this call's answer again.

        Parameters
        ----------
        proof : callable
            Returns arrays by name; called once the certificate is written, if one is.
        """
        self.proof = proof

    def tell(self, facts: Facts) -> None:
        """Keep intermediate results for a report to show, whatever the outcome.

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
            If it is no number.
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
            If it is no text.
        """
        value = self._values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name!r} is a {type(value).__name__}, not a text")
        return self.folder / value


Decider: TypeAlias = Callable[[Arguments], object]
"""Computes one call.

A `leaveout.errors.LeaveoutError` it raises is shown as it is. A `TimeoutError` says that the time
was not enough for any answer; the claim is then unknown.
"""

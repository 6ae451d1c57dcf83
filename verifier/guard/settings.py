"""Settings that the owner of a guard may choose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

from leaveout.errors import GuardError

_MOST_EPSILON = 700.0


@dataclass(frozen=True)
class GuardSettings:
    """Settings of a guard's answers.

    Attributes
    ----------
    epsilon : float
        Of each noised answer, in nats; 0 draws it uniformly.
    outside : {"refuse", "noise"}
        What happens to inputs outside the verified box, of which nothing is proved.
    cap : float or None
        What the epsilons of all noised answers may add up to; None for no limit.
    when_spent : {"refuse", "uniform"}
        What happens then: everything is refused, whether it would be noised or not, so that
        refusing tells nothing; or further noised answers are uniform, which costs nothing.
    remember : int
        Noised answers that may be kept; then everything is refused.
    seed : int or None
        None draws from the operating system. A seed is for experiments: who knows it can take
        the noise away.

    Raises
    ------
    GuardError
        If a value cannot be used.
    """

    epsilon: float
    outside: Literal["refuse", "noise"] = "refuse"
    cap: float | None = None
    when_spent: Literal["refuse", "uniform"] = "refuse"
    remember: int = 1_000_000
    seed: int | None = None

    def __post_init__(self) -> None:
        _refuse_other("epsilon", self.epsilon, Real)
        if self.cap is not None:
            _refuse_other("the cap", self.cap, Real)
        _refuse_other("the number of answers to remember", self.remember, Integral)
        if self.seed is not None:
            _refuse_other("a seed", self.seed, Integral)
        if not 0 <= self.epsilon <= _MOST_EPSILON:
            raise GuardError(
                f"epsilon must be a number from 0 to {_MOST_EPSILON:g}, got {self.epsilon}"
            )
        if self.outside not in ("refuse", "noise"):
            raise GuardError(f"outside must be refuse or noise, got {self.outside!r}")
        if self.cap is not None and not 0 <= self.cap < math.inf:
            raise GuardError(f"the cap must be a number from 0, got {self.cap}; None for no limit")
        if self.when_spent not in ("refuse", "uniform"):
            raise GuardError(f"when_spent must be refuse or uniform, got {self.when_spent!r}")
        if self.remember < 1:
            raise GuardError(f"at least one answer must be remembered, got {self.remember}")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise GuardError(f"a seed is a whole number of 64 bits, got {self.seed}")


def _refuse_other(name: str, value: object, kind: type[Real] | type[Integral]) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        whole = "a whole number" if kind is Integral else "a number"
        raise GuardError(f"{name} must be {whole}, got {value!r}")

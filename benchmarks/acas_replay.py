"""Whether an input is a counter-example: onnxruntime and exact arithmetic, nothing of leaveout.

What is read of VNN-LIB 1.0: ``and``, ``or``, ``<=``, ``<``, ``>=``, ``>`` over variables, decimal
numbers, ``+``, ``-`` and ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnxruntime

__all__ = ["MOST", "Replay", "assertions", "miss", "replay", "scores"]

MOST = 1e-6
"""By which a counter-example may miss: properties are about the reals, networks run in float32."""

Term = str | list["Term"]


@dataclass(frozen=True)
class Replay:
    """What an input leads to.

    Attributes
    ----------
    outputs : tuple of float
        As onnxruntime gives them.
    missing : float
        By how much the assertions would have to be relaxed to hold; 0 if they do.
    """

    outputs: tuple[float, ...]
    missing: float

    @property
    def holds(self) -> bool:
        """Whether it is a counter-example."""
        return self.missing <= MOST


def scores(network: Path, x: Sequence[float]) -> tuple[float, ...]:
    """Run a network of one input and one output tensor at one point."""
    session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [size if isinstance(size, int) else 1 for size in given.shape]
    value = np.asarray(x, np.float32).reshape(shape)
    return tuple(float(y) for y in session.run(None, {given.name: value})[0].ravel())


def replay(network: Path, vnnlib: Path, x: Sequence[float]) -> Replay:
    """Run the network at an input, and hold the input and its outputs against the property.

    Raises
    ------
    ValueError
        If the property has what this does not read.
    """
    outputs = scores(network, x)
    values = {f"X_{i}": Fraction(float(np.float32(v))) for i, v in enumerate(x)}
    values |= {f"Y_{j}": Fraction(v) for j, v in enumerate(outputs)}
    missing = max((miss(term, values) for term in assertions(vnnlib.read_text())), default=0)
    return Replay(outputs, float(missing))


def assertions(text: str) -> list[Term]:
    """Return what a file asserts, as nested lists of words."""
    words = re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text))
    stack: list[list[Term]] = [[]]
    for word in words:
        if word == "(":
            stack.append([])
        elif word == ")":
            if len(stack) == 1:
                raise ValueError("a parenthesis too many")
            last = stack.pop()
            stack[-1].append(last)
        else:
            stack[-1].append(word)
    if len(stack) > 1:
        raise ValueError("a parenthesis is not closed")
    return [term[1] for term in stack[0] if isinstance(term, list) and term[0] == "assert"]


def miss(term: Term, values: Mapping[str, Fraction]) -> Fraction:
    """By how much a formula is missed: of comparisons the difference of the sides, 0 if it holds.

    Of ``and`` it is the most, of ``or`` the least. A strict comparison misses a tie by nothing.

    Raises
    ------
    ValueError
        If the formula has what this does not read.
    """
    operator, rest = (term[0], term[1:]) if isinstance(term, list) else (term, [])
    if operator in ("and", "or"):
        parts = [miss(each, values) for each in rest]
        return max(parts, default=Fraction(0)) if operator == "and" else min(parts)
    if operator in ("<=", "<", ">=", ">") and len(rest) == 2:
        left, right = (_number(each, values) for each in rest)
        over = left - right if operator in ("<=", "<") else right - left
        return max(Fraction(0), over)
    raise ValueError(f"{operator!r} is not read")


def _number(term: Term, values: Mapping[str, Fraction]) -> Fraction:
    if isinstance(term, str):
        return values[term] if term in values else Fraction(term)
    operator, parts = term[0], [_number(each, values) for each in term[1:]]
    if operator == "+":
        return sum(parts, Fraction(0))
    if operator == "-":
        return -parts[0] if len(parts) == 1 else parts[0] - sum(parts[1:], Fraction(0))
    if operator == "*":
        product = Fraction(1)
        for part in parts:
            product *= part
        return product
    raise ValueError(f"{operator!r} is not read")

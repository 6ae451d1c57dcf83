"""Arithmetic of the checker: float64 with charged rounding, or exact numbers.

Every check is written once for both. Terms of sums and products that must be valid go through
`Arithmetic.number`, stored results through `up` or `down`. In float64 these do nothing. Exact
numbers are rounded once, when stored, in the safe direction. Charges for float64 rounding apply to
them, too: these only widen bounds and are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.verifier.checker.errors import OUT_OF_RANGE, RejectedError

Array = NDArray[Any]

_DIGITS = 53
_FITS = 62 - _DIGITS
_MOST_BITS = 1000
_SUBNORMAL = -1022
"""Numbers with this ``frexp`` exponent, or less, are below the smallest normal number."""
_SMALLEST, _LARGEST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)


class Exact:
    """Numbers ``integers * 2**exponent``."""

    __slots__ = ("exponent", "integers")

    def __init__(self, integers: Array, exponent: int) -> None:
        self.integers, self.exponent = integers, exponent

    @staticmethod
    def of(value: Any) -> Exact:
        """Return numbers exactly."""
        if isinstance(value, Exact):
            return value
        floats = np.asarray(value, np.float64)
        if not np.isfinite(floats).all():
            raise RejectedError(OUT_OF_RANGE)
        fraction, exponent = np.frexp(floats)
        whole = np.ldexp(fraction, _DIGITS).astype(np.int64)
        some = whole != 0
        if not some.any():
            return Exact(np.full(floats.shape, 0, object), 0)
        # Trailing zeros move into the exponent, so that integers stay short.
        zeros = np.where(some, np.frexp((whole & -whole).astype(np.float64))[1] - 1, 0)
        whole = whole >> zeros
        exponent = exponent - _DIGITS + zeros
        least = int(exponent[some].min())
        shift = np.where(some, exponent - least, 0)
        if shift.max() <= _FITS:
            return Exact(_array((whole << shift).astype(object)), least)
        return Exact(_array(whole.astype(object) << shift.astype(object)), least)

    # Properties of arrays.

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, as in numpy."""
        return self.integers.shape

    @property
    def ndim(self) -> int:
        """The number of axes, as in numpy."""
        return self.integers.ndim

    @property
    def size(self) -> int:
        """The number of elements, as in numpy."""
        return self.integers.size

    @property
    def T(self) -> Exact:  # noqa: N802
        """The transpose, as in numpy."""
        return Exact(self.integers.T, self.exponent)

    def __len__(self) -> int:
        return len(self.integers)

    def __getitem__(self, at: Any) -> Exact:
        return Exact(_array(self.integers[at]), self.exponent)

    def __setitem__(self, at: Any, value: Any) -> None:
        own, other, exponent = _align(self, Exact.of(value))
        if own is self.integers:
            own = own.copy()
        own[at] = other
        self.integers, self.exponent = own, exponent

    def copy(self) -> Exact:
        """Return a copy, as in numpy."""
        return Exact(self.integers.copy(), self.exponent)

    def transpose(self, *axes: int) -> Exact:
        """Return the transpose, as in numpy."""
        return Exact(self.integers.transpose(*axes), self.exponent)

    def reshape(self, *shape: int) -> Exact:
        """Return the numbers in another shape, as in numpy."""
        return Exact(self.integers.reshape(*shape), self.exponent)

    def sum(self, axis: int | None = None) -> Exact:
        """Return sums along an axis, as in numpy."""
        return Exact(_array(self.integers.sum(axis=axis)), self.exponent)

    def any(self, axis: int | None = None) -> Any:
        """Return whether any number is not 0, as in numpy."""
        return (self.integers != 0).astype(bool).any(axis=axis)

    # Arithmetic.

    def __add__(self, other: Any) -> Exact:
        one, two, exponent = _align(self, Exact.of(other))
        return Exact(_array(one + two), exponent)

    def __sub__(self, other: Any) -> Exact:
        one, two, exponent = _align(self, Exact.of(other))
        return Exact(_array(one - two), exponent)

    def __rsub__(self, other: Any) -> Exact:
        return Exact.of(other) - self

    def __mul__(self, other: Any) -> Exact:
        two = Exact.of(other)
        return Exact(_array(self.integers * two.integers), self.exponent + two.exponent)

    def __matmul__(self, other: Any) -> Exact:
        two = Exact.of(other)
        if not self.shape[-1]:
            # numpy's empty sum of objects is a plain 0.
            shape = np.matmul(np.zeros(self.shape), np.zeros(two.shape)).shape
            return Exact(np.full(shape, 0, object), 0)
        product = np.matmul(self.integers, two.integers)
        return Exact(_array(product), self.exponent + two.exponent)

    def __rmatmul__(self, other: Any) -> Exact:
        return Exact.of(other) @ self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Exact:
        return Exact(_array(-self.integers), self.exponent)

    def __abs__(self) -> Exact:
        return Exact(_array(np.abs(self.integers)), self.exponent)

    # Comparisons, which are exact.

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, np.less)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, np.less_equal)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, np.greater)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, np.greater_equal)

    def _compare(self, other: Any, how: np.ufunc) -> Any:
        """Compare numbers element by element."""
        one, two, _ = _align(self, Exact.of(other))
        return np.asarray(how(one, two)).astype(bool)

    # Support for numpy's functions.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        how = _UFUNCS.get(ufunc.__name__)
        if how is None or method != "__call__" or options:
            return NotImplemented
        return how(*(Exact.of(each) for each in given))

    def __array_function__(
        self, function: Callable[..., Any], types: Any, given: Any, options: Any
    ) -> Any:
        how = _FUNCTIONS.get(function.__name__)
        return NotImplemented if how is None else how(*given, **options)

    # Conversion to floats.

    def nearest(self) -> Floats:
        """Round to the nearest float64."""
        whole, exponent = self._short()
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.ldexp(whole.astype(np.float64), exponent))

    def up(self) -> Floats:
        """Round to a float64 that is not smaller; infinite beyond the range.

        Positive numbers do not become smaller than the smallest normal float64.
        """
        whole, exponent = self._short()
        floats = whole.astype(np.float64)
        # Python compares integers with floats exactly.
        short = np.asarray(whole > floats.astype(object)).astype(bool)
        floats = np.where(short, np.nextafter(floats, np.inf), floats)
        with np.errstate(over="ignore", under="ignore"):
            found = np.ldexp(floats, exponent)
        found = np.maximum(found, -_LARGEST)
        # By their exact values, not rounded ones, which may be the smallest normal number.
        tiny = (floats != 0.0) & (np.frexp(floats)[1] + exponent <= _SUBNORMAL)
        return np.asarray(np.where(tiny, np.where(floats > 0.0, _SMALLEST, 0.0), found))

    def down(self) -> Floats:
        """Round to a float64 that is not larger."""
        return np.asarray(0.0 - (-self).up())

    def _short(self) -> tuple[Array, int]:
        """Return integers that are not smaller and fit into float64, with their exponent."""
        whole = self.integers
        bits = max((abs(each).bit_length() for each in whole.flat), default=0)
        if bits <= _MOST_BITS:
            return whole, self.exponent
        spare = bits - _MOST_BITS
        return _array(-(-whole >> spare)), self.exponent + spare


def _array(value: Any) -> Array:
    """Return an array of objects, where numpy would return a single number itself."""
    if isinstance(value, np.ndarray):
        return value
    found = np.empty((), object)
    found[()] = value
    return found


def _align(one: Exact, two: Exact) -> tuple[Array, Array, int]:
    """Return the integers of two arrays over a common exponent."""
    apart = one.exponent - two.exponent
    if apart == 0:
        return one.integers, two.integers, one.exponent
    if apart > 0:
        return _array(one.integers << apart), two.integers, two.exponent
    return one.integers, _array(two.integers << -apart), one.exponent


def _extreme(how: np.ufunc) -> Callable[[Exact, Exact], Exact]:
    def pick(one: Exact, two: Exact) -> Exact:
        """Return the elementwise extreme of two arrays."""
        first, second, exponent = _align(one, two)
        return Exact(_array(how(first, second)), exponent)

    return pick


def _where(condition: Array, one: Any, two: Any) -> Exact:
    first, second, exponent = _align(Exact.of(one), Exact.of(two))
    return Exact(_array(np.where(condition, first, second)), exponent)


def _joiner(how: Callable[..., Array]) -> Callable[..., Exact]:
    """Return a function that joins exact arrays like numpy's function."""

    def together(parts: Sequence[Any], axis: int = 0) -> Exact:
        found = [Exact.of(each) for each in parts]
        exponent = min(each.exponent for each in found)
        return Exact(
            how([each.integers << (each.exponent - exponent) for each in found], axis=axis),
            exponent,
        )

    return together


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": Exact.__add__, "subtract": Exact.__sub__, "multiply": Exact.__mul__,
    "matmul": Exact.__matmul__, "negative": Exact.__neg__, "absolute": Exact.__abs__,
    "maximum": _extreme(np.maximum), "minimum": _extreme(np.minimum),
    "less": Exact.__lt__, "less_equal": Exact.__le__,
    "greater": Exact.__gt__, "greater_equal": Exact.__ge__,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": _where, "concatenate": _joiner(np.concatenate), "stack": _joiner(np.stack),
}  # fmt: skip


class Arithmetic(Protocol):
    """Protocol for adding, multiplying and storing numbers."""

    @property
    def exact(self) -> bool:
        """Whether sums and products are exact."""
        ...

    def number(self, values: Floats) -> Floats:
        """Return numbers to compute with, in place of arrays."""
        ...

    def up(self, values: Floats) -> Floats:
        """Return float64 numbers that are not smaller, apart from charged rounding."""
        ...

    def down(self, values: Floats) -> Floats:
        """Return float64 numbers that are not larger, apart from charged rounding."""
        ...

    def nearest(self, values: Floats) -> Floats:
        """Return float64 numbers for choices that do not affect soundness."""
        ...


class _Floats:
    """Float64 with charged rounding."""

    exact = False

    def number(self, values: Floats) -> Floats:
        """See `Arithmetic.number`."""
        return values

    up = down = nearest = number


class _Exact:
    """Integers times powers of two, rounded only when stored."""

    exact = True

    def number(self, values: Floats) -> Floats:
        """See `Arithmetic.number`."""
        return cast("Floats", Exact.of(values))

    def up(self, values: Floats) -> Floats:
        """See `Arithmetic.up`."""
        return Exact.of(values).up()

    def down(self, values: Floats) -> Floats:
        """See `Arithmetic.down`."""
        return Exact.of(values).down()

    def nearest(self, values: Floats) -> Floats:
        """See `Arithmetic.nearest`."""
        return Exact.of(values).nearest()


FLOATS: Arithmetic = _Floats()
EXACT: Arithmetic = _Exact()


UNIT = 2.0**-53
UNIT32 = 2.0**-24
TINY32 = 2.0**-126
"""Unit roundoffs of float64 and float32, and the smallest normal float32."""


def gamma(roundings: float, unit: float = UNIT) -> float:
    """Return the relative error of some roundings, rounded up (Higham, Lemma 3.1)."""
    product = roundings * unit
    if product >= 0.25:
        raise ArithmeticError(f"too many roundings to bound: {roundings:g}")
    return product / (1.0 - product) * (1.0 + 4.0 * UNIT)

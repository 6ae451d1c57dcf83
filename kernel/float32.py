"""Networks as a runtime computes them in float32, and how far from the exact function that is.

A runtime adds at most half a unit in the last place to every product and partial sum, in whatever
order it sums and whatever it fuses (Higham 2002, section 3.1); a partial sum is at most the sum of
the positive terms, or of the negative ones. What an operator adds moves a form of the scores by the
form's slope there, and that slope is known where ReLUs are surely on or surely off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .networks import Flags, Integers, Layer, positive
from .numbers import Floats, gamma, need
from .smooth import FUNCTIONS, KIND, Curve, declared_error

UNIT32, TINY32 = 2.0**-24, 2.0**-126
"""Half a unit in the last place of 1, and the least normal number, of float32."""

_MORE = 6  # roundings that a runtime may add to a term: scalings, folds and fusions
_WAYS = 4.0  # operations per operator that regrouping its constants may add

FOLDED = 2.0**-27
"""Effect of folding a network in float64, relative to that of float32 on the same terms."""

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Step:
    """One operator: affine if it has a matrix, a sum or difference of two, or an activation."""

    sources: tuple[int, ...]  # 0 is the input, k what step k - 1 returns
    matrix: Floats | None = None  # shape (m or 1, inputs, outputs)
    constant: Floats | None = None  # shape (m or 1, outputs)
    size: Floats | None = None  # the sum of the absolute terms that make up the constant
    moves: bool = False  # whether it only moves numbers and rounds nothing
    sign: int = 0  # of the second source
    regroup: float = 1.0  # bounds products of its own constants that the matrix does not show
    kind: int = 0  # of an activation
    groups: Integers | None = None  # of what was normalised: see `Rounding`


@dataclass(frozen=True, eq=False)
class Program:
    """The operators of some networks of one architecture, in order."""

    inputs: int
    steps: tuple[Step, ...]

    def check(self) -> None:
        """Refuse a program that is not well formed."""
        widths = [self.inputs]
        for step in self.steps:
            known = [0 <= s < len(widths) for s in step.sources]
            need(len(known) > 0 and all(known), "an operator reads what comes after it")
            need(0 <= step.kind < len(FUNCTIONS), "an unknown activation")
            width = widths[step.sources[0]]
            if step.matrix is not None:
                fixed = step.constant is not None and step.size is not None
                need(
                    fixed and step.matrix.ndim == 3 and step.matrix.shape[1] == width,
                    "an operator has no matrix of its size",
                )
                assert step.constant is not None and step.size is not None
                width = step.matrix.shape[2]
                for each in (step.constant, step.size):
                    need(each.ndim == 2 and each.shape[1] == width, "a constant of another size")
                stacks = {len(step.matrix), len(step.constant), len(step.size)}
                need(stacks <= {1, len(self)}, "operators of different numbers of networks")
                need(
                    np.isfinite(step.matrix) & np.isfinite(step.constant[:, None]),
                    "numbers out of range",
                )
                need(step.size >= np.abs(step.constant), "a constant above its terms")
                if step.moves:
                    ones = (step.matrix == 1) | (step.matrix == 0)
                    single = np.count_nonzero(step.matrix, axis=1) <= 1
                    need(np.all(ones) and np.all(single), "an operator that moves numbers computes")
                    need(step.constant == 0, "an operator that moves numbers adds some")
            elif step.groups is not None:
                own = [widths[source] for source in step.sources]
                count = own[2] if len(own) == 3 else int(step.groups.max(initial=-1)) + 1
                fine = len(own) in (2, 3) and own[0] == own[1] == len(step.groups)
                need(fine and set(step.groups) == set(range(count)), "a norm of another size")
            elif step.sign:
                need(
                    len(step.sources) == 2 and widths[step.sources[1]] == width,
                    "a sum of different widths",
                )
            widths.append(width)

    def layers(self) -> list[Layer]:
        """Fold what lies between two activations into one affine map.

        In float64: `FOLDED` of what float32, of the same terms, is charged for.
        """
        eye = np.eye(self.inputs)[None]
        forms: list[tuple[dict[int, Floats], Floats]] = [({0: eye}, np.zeros((1, self.inputs)))]
        found: list[Layer] = []
        for step in self.steps:
            linear, constant = forms[step.sources[0]]
            if step.matrix is not None and step.constant is not None:
                linear = {s: part @ step.matrix for s, part in linear.items()}
                constant = (constant[:, None] @ step.matrix)[:, 0] + step.constant
            elif step.sign:
                other, added = forms[step.sources[1]]
                linear = dict(linear)
                for s, part in other.items():
                    linear[s] = linear[s] + step.sign * part if s in linear else step.sign * part
                constant = constant + step.sign * added
            elif step.groups is None:
                found.append(self._layer(linear, constant, step.kind))
                width = constant.shape[1]
                linear, constant = {len(found): np.eye(width)[None]}, np.zeros((1, width))
            forms.append((linear, constant))
        return [*found, self._layer(*forms[-1])]

    def __len__(self) -> int:
        return max([1, *(len(s.matrix) for s in self.steps if s.matrix is not None)])

    def _layer(self, linear: dict[int, Floats], constant: Floats, kind: int = 0) -> Layer:
        m, sources = len(self), tuple(sorted(linear))
        weights = [linear[s].transpose(0, 2, 1) for s in sources]
        wide = [np.ascontiguousarray(np.broadcast_to(w, (m, *w.shape[1:]))) for w in weights]
        kinds = np.full(constant.shape[1], kind, np.int8)
        bias = np.broadcast_to(constant, (m, constant.shape[1])).copy()
        return Layer(sources, tuple(wide), bias, kinds)


@dataclass(frozen=True, eq=False)
class Region:
    """What is known of the inputs and of exact pre-activations in some nodes."""

    above: Floats  # shape (n, inputs): the largest input above 0
    below: Floats  # shape (n, inputs): the largest magnitude below 0
    low: Sequence[Floats]  # by layer, shape (n, width)
    high: Sequence[Floats]

    def take(self, nodes: Integers) -> Region:
        """Return some of the nodes."""
        low, high = ([part[nodes] for part in parts] for parts in (self.low, self.high))
        return Region(self.above[nodes], self.below[nodes], low, high)


@dataclass(frozen=True, eq=False)
class _Fused:
    """Linear operators with no ReLU in between, which a runtime may fold into one.

    Behind a product it may fold those before: onnxruntime multiplies first and scales later.
    """

    head: Floats  # the sum of all that the first operator reads, shape (n,)
    product: Floats | None = None  # what that is, if it is a product and its factors' scales wait
    factor: float = 1.0
    added: float = 0.0

    def after(self, step: Step) -> _Fused:
        assert step.matrix is not None and step.size is not None
        terms = max(1, int(np.count_nonzero(step.matrix, axis=1).max(initial=0)))
        largest = max(1.0, float(np.abs(step.matrix).max(initial=0)))
        added = float(step.size.sum(axis=1).max(initial=0))
        factor = self.factor * _WAYS * terms * largest * max(1.0, step.regroup)
        return _Fused(self.head, self.product, factor, self.added + added)

    def most(self, *, waits: bool = True) -> Floats:
        """Bound intermediate results, by at least 1, shape (n,)."""
        head = self.head
        if waits and self.product is not None:
            head = np.maximum(head, self.product)
        return np.asarray(np.maximum(1.0, head + self.added) * self.factor)


class Rounding:
    """Errors of the networks of a program in some nodes; ``which`` is each node's network.

    What is normalised is charged as a whole: see `norm_errors` and `softmax_errors`.
    """

    def __init__(self, program: Program, which: Integers, region: Region) -> None:
        self._program, self._which = program, which
        self._above, self._below = [region.above], [region.below]
        # The sum of all absolute terms since the last activation.
        self._size = [np.maximum(region.above, region.below)]
        self._error = [np.zeros_like(region.above)]
        self._added: list[Floats | None] = []
        self._slope: dict[int, tuple[Floats, Floats]] = {}
        self._fine: list[Flags] = [np.ones(len(which), bool)]
        self._forward(region)

    def of_forms(self, forms: Floats, *, subtract: bool = False) -> Floats:
        """Bound what rounding moves linear forms of the scores, shapes (n, r, labels) and (n, r).

        The forms are of the scores as computed, but denormals may be flushed when they are read;
        a form of two scores may also be subtracted in float32.
        """
        found = np.stack([self._backward(forms[:, r]) for r in range(forms.shape[1])], 1)
        size = np.maximum(self._above[-1], self._below[-1])
        if subtract:
            found = found + UNIT32 * (np.abs(forms) @ size[..., None])[..., 0] + TINY32
        else:
            found = found + TINY32 * np.abs(forms).sum(-1)
        # Sums of non-negative numbers: one factor covers their own rounding.
        longest = sum(sum(s.matrix.shape[1:]) for s in self._program.steps if s.matrix is not None)
        found = found * (1 + FOLDED + gamma(8 * longest + 64)) + TINY32
        return np.where(self._fine[-1][:, None] & (found >= 0) & (found < np.inf), found, np.inf)

    @np.errstate(over="ignore", invalid="ignore")
    def _forward(self, region: Region) -> None:
        """Bound values, and what each operator adds: bounds of exact values keep them small."""
        layer, runs, terms, lows = 0, dict[int, _Fused](), {0: 0}, dict[int, Floats]()
        products = dict[int, Floats]()
        for k, step in enumerate(self._program.steps, 1):
            first = step.sources[0]
            up, down, error = self._above[first], self._below[first], self._error[first]
            terms[k], fine = 0, self._fine[first]
            if step.matrix is not None and step.size is not None:
                plus, minus = positive(step.matrix), positive(-step.matrix)
                added_up, added_down = self._constant_terms(step)
                most = self._through(plus, up) + self._through(minus, down) + added_up
                least = self._through(plus, down) + self._through(minus, up) + added_down
                size = self._through(plus + minus, self._size[first]) + added_up + added_down
                there = ((up > 0) | (down > 0)).astype(float)
                count = self._through((step.matrix != 0).astype(float), there)
                run = runs.get(first) or self._run(first, products)
                runs[k] = run if step.moves else run.after(step)
                reach = runs[k].most()
                fine = fine & (reach < _LARGEST)
                own = np.count_nonzero((step.matrix != 0).any(axis=0), axis=0).max(initial=0)
                terms[k] = terms[first] + (0 if step.moves else int(own) + 1)
                folded = terms[first] > 0
                ways = (most, least, size, count, reach)
                added = 0 * most if step.moves else _rounding(*ways, folded)
                error = self._through(plus + minus, error) + added
            elif step.sign:
                second = step.sources[1]
                more, less = self._above[second], self._below[second]
                more, less = (less, more) if step.sign < 0 else (more, less)
                most, least = up + more, down + less
                size = self._size[first] + self._size[second]
                # It may be computed as one sum with its inputs.
                terms[k] = 1 + terms[first] + terms[second]
                every, reach = np.full_like(most, terms[k]), np.ones(len(most))
                if first in products and second in products:
                    products[k] = products[first] + products[second]
                    reach = np.maximum(1.0, products[k])
                added = _rounding(most, least, size, every, reach, True)
                error, fine = error + self._error[second] + added, fine & self._fine[second]
                fine = fine & (reach < _LARGEST)
            elif step.groups is not None:
                # Whatever the steps between would overflow: no runtime takes them.
                _, whole, *root = step.sources
                fine = self._fine[whole]
                if root:
                    own = self._error[whole], self._size[whole], lows[root[0]]
                    most, added, sound = norm_errors(step.groups, *own)
                    least, fine = most, fine & sound
                else:
                    most, added = softmax_errors(step.groups, self._error[whole])
                    least = np.zeros_like(most)
                size, error = most, added
            elif step.kind:
                known = np.isfinite(error)
                fine, error = fine & known.all(axis=1), np.where(known, error, 0.0)
                curve, low, high = Curve.of(step.kind), region.low[layer], region.high[layer]
                lows[k] = low
                low = np.maximum(low - error, curve.function.least)
                high, layer = np.maximum(low, high + error), layer + 1
                slopes, (bottom, top) = curve.steepness(low, high), curve.ends(low, high)
                most, least = (
                    positive(top - curve.function.floor),
                    positive(curve.function.floor - bottom),
                )
                size = np.maximum(np.abs(low), np.abs(high))
                added = declared_error(step.kind, size, np.maximum(most, least))
                size = np.maximum(most, least)
                if step.kind == KIND["Square"]:
                    products[k] = self._product(first, runs, products)
                error = error * np.maximum(*map(np.abs, slopes)) + added
                self._slope[k] = slopes
            else:
                low, high = region.low[layer], region.high[layer]
                on, off = low > error, high <= -error
                layer += 1
                self._slope[k] = np.where(on, 1.0, 0.0), np.where(off, 0.0, 1.0)
                most = np.minimum(up, positive(high) + error)
                self._above.append(np.where(off, 0.0, most))
                self._size.append(self._above[-1])
                self._below.append(np.zeros_like(most))
                self._error.append(np.where(off, 0.0, error))
                self._added.append(None)
                self._fine.append(fine)
                continue
            self._above.append(most + added)
            self._below.append(least + added)
            self._size.append(size + added)
            self._error.append(error)
            self._added.append(added)
            self._fine.append(fine & (self._above[-1] + self._below[-1] < _LARGEST).all(axis=1))

    def _product(self, source: int, runs: dict[int, _Fused], products: dict[int, Floats]) -> Floats:
        """Bound a square whose scales wait; one of a sum is part of a product."""
        step = self._program.steps[source - 1] if source else None
        factors = step.sources if step is not None and step.sign else (source,)
        known = [runs.get(each) or self._run(each, products) for each in factors]
        most = np.sum([each.most(waits=False) for each in known], axis=0)
        return np.asarray(most * most)

    def _run(self, source: int, products: dict[int, Floats]) -> _Fused:
        return _Fused(self._size[source].sum(axis=1), products.get(source))

    def _backward(self, form: Floats) -> Floats:
        """Sum what each operator adds, times the largest slope of the form there."""
        steps = self._program.steps
        total, slopes = np.zeros(len(form)), {len(steps): (form, form)}
        for k in range(len(steps), 0, -1):
            if k not in slopes:
                continue
            step, (low, high), added = steps[k - 1], slopes[k], self._added[k - 1]
            if added is not None:
                total = total + (np.maximum(-low, high) * added).sum(axis=1)
            ends = [(low, high)]
            if step.matrix is not None:
                back = step.matrix.transpose(0, 2, 1)
                # The matrix in halves, and what their rounding may add.
                centre = self._through(back, (low + high) * 0.5)
                spread = self._through(np.abs(back), (high - low) * 0.5)
                lost = gamma(2 * back.shape[1] + 8)
                spread = spread + lost * self._through(np.abs(back), np.maximum(-low, high))
                ends = [(centre - spread, centre + spread)]
            elif step.sign:
                ends.append((low, high) if step.sign > 0 else (-high, -low))
            elif step.groups is not None:
                continue
            else:
                least, most = self._slope[k]
                ends = (
                    [_products(least, most, low, high)]
                    if step.kind
                    else [
                        (
                            np.where(low < 0, most, least) * low,
                            np.where(high > 0, most, least) * high,
                        )
                    ]
                )
            for source, (less, more) in zip(step.sources, ends, strict=True):
                known = slopes.get(source)
                slopes[source] = (
                    (less, more) if known is None else (known[0] + less, known[1] + more)
                )
        return total

    def _constant_terms(self, step: Step) -> tuple[Floats, Floats]:
        """Return the sums of a constant's positive and negative terms: their sum is its size."""
        assert step.size is not None and step.constant is not None
        size = step.size[self._which if len(step.size) > 1 else 0]
        constant = step.constant[self._which if len(step.constant) > 1 else 0]
        return positive(size + constant) / 2, positive(size - constant) / 2

    def _through(self, matrix: Floats, values: Floats) -> Floats:
        if len(matrix) == 1:
            alike: Floats = values @ matrix[0]
            return alike
        found: Floats = np.matmul(values[:, None], matrix[self._which])[:, 0]
        return found


def norm_errors(
    groups: Integers, error: Floats, size: Floats, low: Floats
) -> tuple[Floats, Floats, Flags]:
    """Bound ``y = c / sqrt(v)`` and its error, v being the mean of c^2 in a group, and epsilon.

    Given errors and sizes of c, shape (n, width), and what `InverseRoot` takes at least over the
    reals. All terms of v are positive, so y rounds by a share of itself. Of d numbers none exceeds
    sqrt(d), and ``dy_i / dc_j`` is ``([i = j] - y_i y_j / d) / sqrt(v)``, wherever c moves.
    """
    of, count = groups[:, None] == np.arange(groups.max(initial=0) + 1), np.bincount(groups)
    root, highest = (Curve.of(KIND["InverseRoot"]).at(z)[0] for z in (low, np.zeros(1)))
    spread = np.sqrt(error * error @ (of / count))
    steep = (1 / np.maximum(1 / root - spread, 1 / highest))[:, groups]
    most = np.minimum(np.sqrt(count)[groups], size * steep)
    added = most * (count[groups] + 32) * UNIT32 + TINY32 * steep
    moved = np.minimum((error + most * spread[:, groups]) * steep, 2 * most)
    fine: Flags = (size * size * count[groups] < _LARGEST).all(axis=1) & (count.max() < 2**16)
    return most + added, moved + added, fine


def softmax_errors(groups: Integers, error: Floats) -> tuple[Floats, Floats]:
    """Bound ``p = softmax(x)`` and its error, given errors of x, shape (n, width).

    A runtime computes ``exp(x_i - max x)`` and divides by the sum. ``|x_i - max x| p_i`` is below
    1/2, and ``dp_i / dx`` is ``p_i ([i = j] - p_j)``, whose absolute values sum to 1/2 at most.
    """
    count, order = np.bincount(groups), np.argsort(groups, kind="stable")
    worst = np.maximum.reduceat(error[:, order], np.cumsum(count) - count, axis=1)
    added = (count[groups] + 32) * UNIT32 + TINY32
    moved = np.minimum(worst[:, groups] / 2, 1.0) + added
    return 1.0 + moved, np.where(count[groups] < 2**16, moved, np.inf)


def _products(*ends: Floats) -> tuple[Floats, Floats]:
    """Return the least and greatest products of numbers in two ranges."""
    found = [one * other for one in ends[:2] for other in ends[2:]]
    return np.minimum.reduce(found), np.maximum.reduce(found)


def _rounding(
    most: Floats, least: Floats, size: Floats, terms: Floats, reach: Floats, folded: bool
) -> Floats:
    """Bound the rounding of sums by their positive and negative parts, and by all absolute terms.

    Partial sums are at most one of the parts. Where a runtime may fold linear operators into one,
    each input has a sum of its own first, whose terms may have one sign: these add up to all terms.
    Underflow loses ``reach``. Too many roundings for float32 are charged with infinity.
    """
    products = (1 + _MORE) * size
    sums = terms * (size if folded else np.maximum(most, least))
    operations = terms + 2 * (1 + _MORE)
    lost = 2 * operations * TINY32 * reach[:, None]
    few = 2 * operations * UNIT32 < 0.5
    often = np.nextafter(1 / np.where(few, 1 - 2 * operations * UNIT32, 1.0), np.inf)
    return np.where(few, (UNIT32 * (products + sums) + lost) * often, np.inf)

"""The search for the worst attack on votes: a tree, closed by prices or by trying all attacks.

Its nodes are those of `leaveout.kernel.counting`, so a finished tree is a proof, and its log the
answer to what the kernel asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.member_weights import best_weights
from leaveout.deadline import NEVER, Deadline
from leaveout.kernel.counting import (
    FEW,
    MOST_WORK,
    TRY_ALL,
    WEIGHT,
    Counts,
    Gains,
    Hint,
    Node,
    Stake,
    divide,
    heaviest,
    most_gained,
    root_of,
    settle,
    share_table,
    shares_at,
    starts,
    work_to_try,
    worst_tried,
)

WORK = 3e10
"""Most numbers processed for a tree: some minutes."""

_OVERHEAD = 2e5  # numbers that could be processed in the time that a node takes anyhow
_WORD = 1.0  # numbers that could be processed in the time of one word where all attacks are tried
_PATIENCE = 0.1  # share of that work after which all attacks are tried, if the tree is not finished
_SECOND = 1e8  # numbers processed in a second, at least

_FIRST, _TURNS = 60, 15
"""Steps towards better weights of points, at the root and at other nodes."""

_STEPS = 300  # steps towards better weights of members
_MOST_GAINED = 2  # the most that members gain for which weights are sought

_WHOLE = 2**22

_HALVES = 24  # halvings of an interval of prices
_ROOM = 1e-3  # what rounding weights to integers may add to a bound


class TooLongError(Exception):
    """A tree has too many nodes to be written."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    choices: tuple[int, ...]  # of the best attack found, ascending
    lost: int  # points it loses
    upper: int  # no attack loses more
    work: float  # numbers processed


def search(stake: Stake, deadline: Deadline = NEVER, work: float = np.inf) -> SearchResult:
    """Return the attack that loses the most points, or the best one by the deadline."""
    tree = _Tree(stake, deadline, work)
    tree.try_greedily()
    finished = tree.explore()
    upper = tree.best if finished else max(tree.best, tree.bound)
    return SearchResult(tree.choices, tree.best, upper, tree.spent)


def write_tree(
    stake: Stake, upper: int, work: float = WORK, trusting: bool = False
) -> dict[str, NDArray[Any]] | None:
    """Return the log of a tree; None if an attack loses more.

    With ``trusting`` not all attacks are tried where the reader of the log tries them anyhow.
    """
    tree = _Tree(stake, NEVER, work, upper, trusting)
    if not tree.explore():
        if tree.best > upper:
            return None
        raise TooLongError
    return tree.log.arrays


def shows(stake: Stake, upper: int, work: float = WORK) -> bool:
    """Return whether a tree shows that no attack loses more than some points; False if one does."""
    return stake.count <= upper or write_tree(stake, upper, work) is not None


@dataclass(frozen=True, eq=False)
class _Begun:
    """A node whose tree is being written, and what trying all of its attacks takes instead."""

    node: Node
    gains: Gains
    waiting: int  # nodes that are not in its tree
    logged: int
    limit: float


class _Tree:
    """A search: the best attack so far, and the nodes that remain."""

    def __init__(
        self, stake: Stake, deadline: Deadline, work: float, upper: int | None = None,
        trusting: bool = False,
    ) -> None:  # fmt: skip
        self.stake, self.log, self.choices = stake, _Log(), tuple[int, ...]()
        self.best, self.bound = upper or 0, stake.count
        self._fixed, self._trusting = upper, trusting
        self._deadline, self._work, self.spent = deadline, work, 0.0

    def try_attack(self, made: tuple[int, ...], more: Counts) -> None:
        """Recount an attack, and keep it if it loses more points than the best."""
        chosen = np.unique(np.append(np.array(made, np.int64), more))
        lost = len(self.stake.lost_points(chosen))
        if lost > self.best:
            self.best, self.choices = lost, tuple(chosen.tolist())

    def try_greedily(self) -> None:
        """Repeatedly make the choice that brings open points closest to being lost."""
        node = root_of(self.stake)
        while True:
            node, gains, least = settle(self.stake, node)
            if not len(node.rows) or not len(node.free):
                break
            hint = _first_hint(self.stake, node, gains, least)
            near = shares_at(self.stake, node, gains, least, hint) / (WEIGHT * _WHOLE)
            value = (near**2).sum(axis=1) / self.stake.cost[node.free]
            if not value.any():
                break
            choice = node.free[[int(value.argmax())]]
            hint = replace(hint, weights=0 * hint.weights, branch=choice)
            node = divide(self.stake, node, gains, least, hint, -1)[0]
        self.try_attack(node.made, np.zeros(0, np.int64))

    def explore(self) -> bool:
        """Search all attacks; return whether that was finished, and none broke a fixed bound."""
        todo, begun = [(root_of(self.stake), _FIRST)], list[_Begun]()
        while todo:
            before, turns = todo.pop()
            while begun and begun[-1].waiting > len(todo):
                begun.pop()
            node, gains, least = settle(self.stake, before)
            points = len(np.unique(self.stake.points[self.stake.pairs[node.rows]]))
            if node.lost > self.best:
                self.try_attack(node.made, np.zeros(0, np.int64))
            if node.lost + points > self.best:
                self.spent += turns * gains.size + _OVERHEAD
                if self.spent > self._work or self._deadline.over:
                    return False
                effort = work_to_try(self.stake, node)
                if effort <= FEW:
                    self._try_all(node, gains)
                else:
                    limit = self.spent + _PATIENCE * _WORD * effort
                    begun.append(_Begun(node, gains, len(todo), self.log.nodes, limit))
                    hint, children = self._divide(node, gains, least, turns)
                    self.log.add(hint)
                    todo += [(child, _TURNS) for child in reversed(children)]
                    self._cut_short(begun, todo)
            if self._fixed is not None and self.best > self._fixed:
                return False
        return True

    def _cut_short(self, begun: list[_Begun], todo: list[tuple[Node, int]]) -> None:
        """Try all attacks of a node whose tree took longer than that."""
        for at, each in enumerate(begun):
            left = self._deadline.limit
            affordable = min(MOST_WORK, (self._work - self.spent) / _WORD)
            if left is not None:
                affordable = min(affordable, left * _SECOND / _WORD)
            if each.limit < self.spent and work_to_try(self.stake, each.node) < affordable:
                self.log.forget(each.logged)
                if not self._trusting:
                    self._try_all(each.node, each.gains)
                self.log.add(None)
                del todo[each.waiting :], begun[at:]
                return

    def _try_all(self, node: Node, gains: Gains) -> None:
        self.spent += _WORD * work_to_try(self.stake, node)
        most, choices = worst_tried(self.stake, node, gains, self.best - node.lost)
        if node.lost + most > self.best:
            self.try_attack(node.made, choices)

    def _divide(
        self, node: Node, gains: Gains, least: Counts, turns: int
    ) -> tuple[Hint, list[Node]]:
        """Return what closes a node, or divides it well, and its children."""
        stake = self.stake
        hint, weights = self._better(node, gains, least, turns)
        total, more = heaviest(stake, node, weights, hint.prices)
        lacks = int((WEIGHT - hint.weights).sum())
        if not node.made:
            bound = node.lost + (lacks * _WHOLE + total) // (WEIGHT * _WHOLE)
            self.bound = min(self.bound, bound)
        most = ((self.best + 1 - node.lost) * WEIGHT - lacks) * _WHOLE - 1
        if total <= most:
            return hint, []
        fits = more > most - total
        if not stake.overlaps or fits.all():
            hint = _divide_by_weight(stake, node, hint, weights, np.flatnonzero(fits), most)
        return hint, divide(stake, node, gains, least, hint, self.best)

    def _better(self, node: Node, gains: Gains, least: Counts, turns: int) -> tuple[Hint, Counts]:
        """Return a hint whose weights of points bound well what is lost, by a subgradient method.

        The attacks that weigh most by each are tried.
        """
        stake, hint = self.stake, _first_hint(self.stake, node, gains, least)
        if not stake.overlaps and int(node.left.sum()) > 1:
            shares = shares_at(stake, node, gains, least, hint) / (WEIGHT * _WHOLE)
            y, step, lowest = np.ones(shares.shape[1]), 0.3, np.inf
            for _ in range(turns):
                weights = shares @ y
                prices = _prices(stake, node, weights)
                bound = node.lost + (1.0 - y).sum() + _weight(stake, node, weights, prices)
                if bound < lowest:
                    lowest, best = bound, y
                    plan = _plan(stake, node, weights, prices)
                    self.try_attack(node.made, node.free[plan])
                if bound < self.best + 1 - _ROOM:
                    break
                taken = shares[plan].sum(axis=0)
                y = np.clip(y + step * (1.0 - taken), 0.0, 1.0)
                step *= 0.9
            hint = replace(hint, weights=np.rint(WEIGHT * best).astype(np.int64))
        whole = shares_at(stake, node, gains, least, hint).sum(axis=1)
        return replace(hint, prices=_prices(stake, node, whole)), whole


def _first_hint(stake: Stake, node: Node, gains: Gains, least: Counts) -> Hint:
    """Return a hint with whole weights of points, and the best shares."""
    rows, forms = _shares_at(stake, node, gains, least)
    points, none = len(np.unique(stake.points[stake.pairs[node.rows]])), np.zeros(0, np.int64)
    kept = _overlap_weights(stake, node)
    prices = np.zeros(len(stake.quotas), np.int64)
    return Hint(np.full(points, WEIGHT), rows, forms, prices, kept, none)


def root_shares(stake: Stake) -> tuple[Counts, NDArray[np.float64]]:
    """Return points that can be lost, and each choice's share in them, shape (choices, points)."""
    node, gains, least = settle(stake, root_of(stake))
    hint, points = _first_hint(stake, node, gains, least), stake.points[stake.pairs[node.rows]]
    shares = np.zeros((len(stake.cost), len(np.unique(points))))
    shares[node.free] = shares_at(stake, node, gains, least, hint) / (WEIGHT * _WHOLE)
    return np.unique(points), shares


def sum_hint(stake: Stake, weights: Counts) -> dict[str, NDArray[Any]]:
    """Return the shares and prices for given weights of points, as a log of one node."""
    log = _Log()
    log.add(_priced_hint(stake, weights)[1])
    return log.arrays


def weigh_points(stake: Stake, weights: Counts) -> int:
    """Return the most that an attack weighs, in 256ths, for given weights of points."""
    node, hint, whole = _priced_hint(stake, weights)
    return -(-heaviest(stake, node, whole, hint.prices)[0] // _WHOLE)


def _priced_hint(stake: Stake, weights: Counts) -> tuple[Node, Hint, Counts]:
    node, gains, least = settle(stake, root_of(stake))
    hint = replace(_first_hint(stake, node, gains, least), weights=weights)
    whole = shares_at(stake, node, gains, least, hint).sum(axis=1)
    return node, replace(hint, prices=_prices(stake, node, whole)), whole


@dataclass(eq=False)
class _Log:
    """Hints as the flat arrays that the kernel reads."""

    _rows: list[dict[str, NDArray[Any]]] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return len(self._rows)

    def forget(self, nodes: int) -> None:
        del self._rows[nodes:]

    def add(self, hint: Hint | None) -> None:
        """Add the next node's hint; None: all attacks are to be tried."""
        if hint is None:
            self._rows.append({"counts": np.array([TRY_ALL], np.int32)})
            return
        kept = {} if hint.kept is None else {"kept": hint.kept.astype(np.uint16)}
        self._rows.append(
            {
                "weights": hint.weights.astype(np.uint16),
                "rows": hint.rows.astype(np.uint16),
                "forms": hint.forms.astype(np.int16),
                "prices": hint.prices,
                "counts": np.array([len(hint.branch)], np.int32),
                "branch": hint.branch.astype(np.int32),
                **kept,
            }
        )

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        names = {name for row in self._rows for name in row}
        return {
            name: np.concatenate([row[name] for row in self._rows if name in row])
            for name in sorted(names)
        }


def _divide_by_weight(
    stake: Stake, node: Node, hint: Hint, weights: Counts, fits: Counts, most: int
) -> Hint:
    """Return a hint with the choices that divide a node: those without which too little is left."""
    if (stake.cost != 1).any():
        beyond = weights - hint.prices[0] * stake.cost[node.free]
        best = stake.group[node.free[fits[np.argmax(beyond[fits])]]]
        return replace(hint, branch=node.free[fits[stake.group[node.free[fits]] == best]])
    order = fits[np.argsort(-weights[fits], kind="stable")]
    low, high = 1, len(order)
    while low < high:
        middle = (low + high) // 2
        own = np.sort(order[middle:])
        rest = replace(node, free=node.free[own])
        if heaviest(stake, rest, weights[own], hint.prices)[0] <= most:
            high = middle
        else:
            low = middle + 1
    return replace(hint, branch=node.free[order[:low]])


def _gains_of_members(stake: Stake, node: Node) -> Counts:
    """Return what members that are not reached gain for the one demand."""
    gains: Counts = np.where(node.reached, 0, stake.gains[:, node.rows[0]]).astype(np.int64)
    return gains


def _overlap_weights(stake: Stake, node: Node) -> Counts | None:
    """Return weights of members where gains of several choices overlap."""
    if not stake.overlaps:
        return None
    own = _gains_of_members(stake, node)
    if own.max() > _MOST_GAINED:
        return WEIGHT * own
    found, fit = np.zeros(len(own), np.int64), np.zeros(len(own), np.bool_)
    fit[node.free] = True
    goal = WEIGHT * int(node.needs[0]) - 1
    offsets = np.array(stake.offsets, np.int64)
    best_weights(own, offsets, goal, int(node.left[0]), fit, _STEPS, found)
    lacks = WEIGHT * int(node.needs[0]) - int((WEIGHT * own - found).sum())
    return found if lacks >= 1 else WEIGHT * own


def _shares_at(stake: Stake, node: Node, gains: Gains, least: Counts) -> tuple[Counts, Counts]:
    """Return which demand each pair counts by, the hardest one, and by which shares."""
    pair, left = stake.pairs[node.rows], int(node.left.sum())
    first = starts(pair)
    rows = np.zeros(len(first), np.int64)
    if len(first) < len(pair):
        most = most_gained(gains, stake.family[node.free], node.left) / node.needs
        for at, (begin, end) in enumerate(zip(first, [*first[1:], len(pair)], strict=True)):
            rows[at] = most[begin:end].argmin()
    key = first + rows
    own, needs = gains[:, key], node.needs[key]
    top = own.max(axis=0, initial=0).astype(np.int64)
    density = 1.0 / stake.cost[node.free]
    counts = np.array([density @ (own == k) for k in range(int(top.max(initial=0)) + 1)])
    wholes = np.full(len(key), _WHOLE)

    def total(form: int, holds: NDArray[np.bool_]) -> NDArray[np.float64]:
        forms = np.where(holds, form, 0)
        return np.where(
            holds, (counts * share_table(needs, forms, wholes, left, top)).sum(axis=0), np.inf
        )

    totals = [total(0, needs > 0)]
    if len(stake.offsets) == 1:
        for k in range(1, int(top.max(initial=0)) + 1):
            totals.append(total(k, (needs - left * (k - 1) >= 1) & (k <= top)))
    forms = np.argmin(totals, axis=0)
    if (stake.cost != 1).any():
        paid = np.count_nonzero(own, axis=0) * _WHOLE / np.maximum(least[key], 1)
        forms[(least[key] >= 1) & (paid < np.min(totals, axis=0))] = -1
    return rows, forms


def _prices(stake: Stake, node: Node, weights: NDArray[Any]) -> NDArray[Any]:
    """Return the prices with which attacks of a node weigh least, shape (families,)."""
    cost, family = stake.cost[node.free], stake.family[node.free]
    if (cost == 1).all():
        found = np.zeros(len(stake.quotas), weights.dtype)
        for number, some in enumerate(node.left.tolist()):
            own = np.sort(weights[family == number])[::-1]
            found[number] = own[max(some - 1, 0)] if some <= len(own) and len(own) else 0
        return found
    first = starts(stake.group[node.free])
    low, high = 0.0, float((weights / cost).max(initial=0.0)) + 1.0
    for _ in range(_HALVES):
        middle = (low + high) / 2
        spent = cost[_heaviest_choices(weights - middle * cost, first)].sum()
        low, high = (middle, high) if spent > node.left[0] else (low, middle)
    return np.array([high]).astype(weights.dtype)


def _heaviest_choices(beyond: NDArray[Any], first: Counts) -> Counts:
    """Return the choice of each group that is worth most above its price, if any is."""
    best = np.maximum.reduceat(beyond, first)
    of = np.repeat(best, np.diff(np.append(first, len(beyond))))
    places = np.flatnonzero((beyond == of) & (beyond > 0))
    group = np.searchsorted(first, places, side="right")
    found: Counts = places[np.append(True, np.diff(group) != 0)[: len(places)]]
    return found


def _weight(
    stake: Stake, node: Node, weights: NDArray[np.float64], prices: NDArray[np.float64]
) -> float:
    """Return the most that an attack weighs by these prices."""
    beyond = weights - prices[stake.family[node.free]] * stake.cost[node.free]
    first = starts(stake.group[node.free])
    return float(prices @ node.left + np.maximum(np.maximum.reduceat(beyond, first), 0).sum())


def _plan(
    stake: Stake, node: Node, weights: NDArray[np.float64], prices: NDArray[np.float64]
) -> Counts:
    """Return the choices of an attack that weighs nearly as much as any."""
    cost, family = stake.cost[node.free], stake.family[node.free]
    if (cost == 1).all():
        order = np.argsort(-weights, kind="stable")
        numbers = range(len(node.left))
        chosen = [order[family[order] == each][: node.left[each]] for each in numbers]
        return np.concatenate(chosen)
    beyond = weights - prices[0] * cost + 1e-9
    places = _heaviest_choices(beyond, starts(stake.group[node.free]))
    densest = places[np.argsort(-weights[places] / cost[places], kind="stable")]
    fits: Counts = densest[np.cumsum(cost[densest]) <= node.left[0]]
    return fits

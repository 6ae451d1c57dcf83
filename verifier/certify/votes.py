"""Hints about votes: trees that show that no attack loses more than some points."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.finite_weights import best_weights
from leaveout.kernel.ballots import Ballots as KernelBallots
from leaveout.kernel.ballots import Origin
from leaveout.kernel.counting import (
    WEIGHT,
    Counts,
    Gains,
    Hint,
    Node,
    Stake,
    divide,
    heaviest,
    is_closed,
    most_gained,
    root_of,
    settle,
    share_table,
    shares_at,
    starts,
)
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Arrays, Ask
from leaveout.kernel.votes import Kind, Vote
from leaveout.models.ballots import Ballots

WORK = 3e10
"""Most numbers processed for a tree: some minutes."""

_OVERHEAD = 2e5
"""Numbers that could be processed in the time that a node takes anyhow."""

_FIRST, _TURNS = 60, 15
"""Steps towards better weights of points, at the root and at other nodes."""

_STEPS = 300
"""Steps towards better weights of members."""

_MOST_GAINED = 2
"""The most that members gain for which weights are sought."""

_WHOLE = 2**22

_HALVES = 24
"""Halvings of an interval of prices."""

_ROOM = 1e-3
"""What rounding weights to integers may add to a bound."""


class TooLongError(Exception):
    """A tree has too many nodes to be written."""


def answer(what: str, known: Arrays) -> Arrays:
    """Answer a question of the kernel about votes; nothing where no tree is found."""
    try:
        return hints(WORK)(what, known)
    except TooLongError:
        return {}


def hints(work: float) -> Ask:
    """Return what answers a question of the kernel about votes, or raises `TooLongError`."""

    def reply(what: str, known: Arrays) -> Arrays:
        stake = _stake_of(known)
        if what == "sum":
            return _sum_hint(stake, known["weights"].astype(np.int64))
        return write_tree(stake, int(known["upper"]), work) or {}

    return reply


def kernel_vote(kind: Kind, ballots: Ballots, threat: str = "edits") -> Vote:
    """Return a vote as the kernel counts it."""
    names = [each.name for each in fields(Origin) if each.name != "assumptions"]
    origin = Origin(**{name: getattr(ballots.origin, name) for name in names})
    held = ballots.votes, ballots.truth, ballots.labels, ballots.scores, ballots.thresholds
    return Vote(kind, KernelBallots(*held, origin, ballots.source), threat)


def shows(stake: Stake, upper: int, work: float = WORK) -> bool:
    """Return whether a tree shows that no attack loses more than some points; False if one does."""
    return stake.count <= upper or write_tree(stake, upper, work) is not None


def _stake_of(known: Arrays) -> Stake:
    names = "gains", "needs", "pairs", "points", "quotas", "family", "cost", "group"
    offsets = tuple(known["offsets"].tolist())
    return Stake(**{name: known[name] for name in names}, offsets=offsets)


def write_tree(stake: Stake, upper: int, work: float = WORK) -> dict[str, NDArray[Any]] | None:
    """Return the log of a tree; None if an attack loses more."""
    log, todo = _Log(), [(root_of(stake), _FIRST)]
    while todo:
        before, turns = todo.pop()
        node, gains, least = settle(stake, before)
        pairs = len(node.free) if node.left.sum() == 2 else 0
        work -= (turns + pairs) * gains.size + _OVERHEAD
        if work < 0:
            raise TooLongError
        try:
            if is_closed(stake, node, gains, upper):
                continue
        except Rejected:
            return None
        hint, children = _hint(stake, node, gains, least, upper, turns)
        log.add(hint)
        todo += [(child, _TURNS) for child in reversed(children)]
    return log.arrays


def _sum_hint(stake: Stake, weights: Counts) -> dict[str, NDArray[Any]]:
    node, gains, least = settle(stake, root_of(stake))
    rows, forms = _shares_at(stake, node, gains, least)
    none, kept = np.zeros(0, np.int64), _gains_of_members(stake, node) if stake.overlaps else None
    hint = Hint(weights, rows, forms, none, None if kept is None else WEIGHT * kept, none)
    whole = shares_at(stake, node, gains, least, hint).sum(axis=1)
    hint = replace(hint, prices=_prices(stake, node, whole))
    log = _Log()
    log.add(hint)
    return log.arrays


@dataclass(eq=False)
class _Log:
    """Hints as the flat arrays that the kernel reads."""

    _parts: dict[str, list[NDArray[Any]]] = field(default_factory=dict)

    def add(self, hint: Hint) -> None:
        """Add the next node's hint."""
        kept = {} if hint.kept is None else {"kept": hint.kept.astype(np.uint16)}
        row: dict[str, NDArray[Any]] = {
            "weights": hint.weights.astype(np.uint16),
            "rows": hint.rows.astype(np.uint16),
            "forms": hint.forms.astype(np.int16),
            "prices": hint.prices,
            "counts": np.array([len(hint.branch)], np.int32),
            "branch": hint.branch.astype(np.int32),
            **kept,
        }
        for name, array in row.items():
            self._parts.setdefault(name, []).append(array)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The log so far."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}


def _hint(
    stake: Stake, node: Node, gains: Gains, least: Counts, upper: int, turns: int
) -> tuple[Hint, list[Node]]:
    """Return what closes a node, or divides it well, and its children."""
    rows, forms = _shares_at(stake, node, gains, least)
    none = np.zeros(0, np.int64)
    points = len(np.unique(stake.points[stake.pairs[node.rows]]))
    start = Hint(
        np.full(points, WEIGHT), rows, forms, np.zeros(len(stake.quotas), np.int64),
        _overlap_weights(stake, node), none,
    )  # fmt: skip
    hint, weights = _better(stake, node, gains, least, start, upper, turns)
    total, more = heaviest(stake, node, weights, hint.prices)
    lacks = int((WEIGHT - hint.weights).sum())
    most = ((upper + 1 - node.lost) * WEIGHT - lacks) * _WHOLE - 1
    if total <= most:
        return hint, []
    fits = more > most - total
    if not stake.overlaps or fits.all():
        hint = _divide_by_weight(stake, node, hint, weights, np.flatnonzero(fits), most)
    return hint, divide(stake, node, gains, least, hint, upper)


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


def _better(
    stake: Stake, node: Node, gains: Gains, least: Counts, hint: Hint, upper: int, turns: int
) -> tuple[Hint, Counts]:
    """Return a hint whose weights of points bound well what is lost, by a subgradient method."""
    if int(node.left.sum()) > 1 and not stake.overlaps:
        shares = shares_at(stake, node, gains, least, hint) / (WEIGHT * _WHOLE)
        y, step, lowest = np.ones(shares.shape[1]), 0.3, np.inf
        for _ in range(turns):
            weights = shares @ y
            prices = _prices(stake, node, weights)
            bound = node.lost + (1.0 - y).sum() + _weight(stake, node, weights, prices)
            if bound < lowest:
                lowest, best = bound, y
            if bound < upper + 1 - _ROOM:
                break
            taken = shares[_plan(stake, node, weights, prices)].sum(axis=0)
            y = np.clip(y + step * (1.0 - taken), 0.0, 1.0)
            step *= 0.9
        hint = replace(hint, weights=np.rint(WEIGHT * best).astype(np.int64))
    whole = shares_at(stake, node, gains, least, hint).sum(axis=1)
    return replace(hint, prices=_prices(stake, node, whole)), whole


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

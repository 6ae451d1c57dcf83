"""Tables of what deciders computed: unlearning, forests, audits and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from leaveout.references import find_reference
from leaveout.specs import Function
from leaveout.verifier.amounts import bound, percent, plain
from leaveout.verifier.page.facts import fact_table as listed
from leaveout.verifier.page.foreign import call_hook
from leaveout.verifier.page.markup import Child, Html, collapsible, join_children, tag
from leaveout.verifier.page.tables import Column, table
from leaveout.verifier.records import Fact
from leaveout.verifier.report import Result

Facts = Mapping[str, Fact]
_Show = Callable[[Sequence[Facts]], object]

_OPEN_ROWS = 30
_ROUTES = {
    "pure": "the privacy of all predictions added up",
    "composed": "what answers tell bounded on average, prediction after prediction",
}


def computed_tables(result: Result, functions: Mapping[str, Function]) -> Html | None:
    """Return tables of what was computed for a result; None if there is nothing."""
    groups: dict[str, list[Facts]] = {}
    for record in result.facts:
        groups.setdefault(record.name, []).append(record.facts)
    # What shows a refutation is shown with it.
    own = result.example.facts if result.example is not None else {}
    shown = [
        _shown_by(functions.get(name), name, [each for each in found if each != own])
        for name, found in groups.items()
    ]
    known = [each for each in shown if each is not None]
    return join_children(known) if known else None


def _shown_by(function: Function | None, name: str, found: Sequence[Facts]) -> Html | None:
    if not found:
        return None
    made = None
    if function is not None and function.facts is not None:
        facts = function.facts
        made = call_hook(function, "facts", lambda: cast("_Show", find_reference(facts))(found))
    return (
        made
        if isinstance(made, Html)
        else join_children(_plainly(name, each) for each in found[:_OPEN_ROWS])
    )


def _plainly(name: str, found: Facts) -> Html:
    return collapsible(f"What {name} computed", listed(found))


def guard_bounds(found: Sequence[Facts]) -> Html | None:
    """Return a table of the bounds a guard uses."""
    (each,) = found if len(found) == 1 else (None,)
    if each is None or not {"epsilon", "members"} <= set(each):
        return None
    bounds = [key for key in each if key.startswith("bound_")]
    rows: list[list[Child]] = [
        [key.removeprefix("bound_"), _number(each, key, up=True)] for key in bounds
    ]
    said = (
        f"Labels are given with epsilon = {_number(each, 'epsilon')}. Where the confidence is "
        f"above the bound of its label, no one of {_number(each, 'members')} members answers "
        "otherwise, and the label is given as it is"
    )
    columns = [Column("Label"), Column("Bound", number=True)]
    return _with_sentence(said, table("Bounds that the guard answers by", columns, rows))


def unlearns(found: Sequence[Facts]) -> Html | None:
    """Return a table comparing a service's claim with what its accounting shows."""
    (each,) = found if len(found) == 1 else (None,)
    if each is None or "alpha_shown" not in each:
        return None
    rows: list[list[Child]] = [
        [name, _number(each, name), _fact_text(each, name)] for name in ("alpha", "beta", "gamma")
    ]
    if "predictions" in each:
        most = _number(each, "safe_predictions")
        rows.append(["predictions", _number(each, "predictions"), f"at most {most} are safe"])
    columns = [Column("Quantity"), Column("Claimed", number=True), Column("Shown", number=True)]
    way = _ROUTES.get(str(each.get("route")))
    title = "What the accounting shows"
    return _with_sentence(f"{title}, by {way}" if way else title, table(title, columns, rows))


def _fact_text(each: Facts, name: str) -> str:
    """Return a number as text, using its displayed value where one is stored."""
    value = each[f"{name}_shown"]
    return _number(each, name) if value == each.get(name) else _number(each, f"{name}_shown", True)


def deletions(found: Sequence[Facts]) -> Html | None:
    """Return a table of deleted records and how much of the forest each affected."""
    needed = ("rows", "rows_left", "trees", "rows_regrown", "rows_retrained")
    if not all(key in each for each in found for key in needed):
        return None
    rows: list[list[Child]] = [
        [
            _rows(each["rows"]),
            _number(each, "rows_left"),
            _number(each, "rows_regrown"),
            _number(each, "rows_retrained"),
            _share(each),
        ]
        for each in found
    ]
    columns = [Column("Row deleted")]
    columns += [
        Column(title, number=True)
        for title in ("Rows left", "Regrown", "Retraining grows", "Share")
    ]
    trees = _number(found[0], "trees")
    title = (
        f"Deletions from a forest of {trees} trees, each compared with training anew; rows "
        "regrown are counted over all trees"
    )
    shown = table("Deletions", columns, rows)
    return _with_sentence(
        title, shown if len(found) <= _OPEN_ROWS else collapsible(f"{len(found):,} deletions", shown)
    )


def _rows(value: Fact) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _share(each: Facts) -> str:
    part, whole = each["rows_regrown"], each["rows_retrained"]
    if not isinstance(part, int | float) or not isinstance(whole, int | float) or not whole:
        return "–"
    return percent(round(part / whole, 5))


def caches(found: Sequence[Facts]) -> Html | None:
    """Return a table of what was recomputed."""
    if not all("trees" in each and "rows" in each for each in found):
        return None
    said = [
        f"Every cached statistic of {_number(each, 'trees')} trees was computed again from "
        f"{_number(each, 'rows')} rows, and the forest trained anew."
        for each in found
    ]
    return join_children(tag("p", each) for each in said)


def same(found: Sequence[Facts]) -> Html | None:
    """Return a table of what was compared."""
    names = {
        "trees": "Trees of the one",
        "trees_other": "Trees of the other",
        "features": "Features of an input",
        "inputs_tried": "Inputs tried before all were reasoned about",
    }
    if not all(key in each for each in found for key in names):
        return None
    columns = [Column(title, number=True) for title in names.values()]
    rows = [[_number(each, key) for key in names] for each in found]
    title = "Two forests compared on every input of a box"
    return _with_sentence(title, table(title, columns, rows))


def audit_arms(found: Sequence[Facts]) -> Html | None:
    """Return a table of the two arms of an audit side by side."""
    (each,) = found if len(found) == 1 else (None,)
    if each is None or not {"lower", "upper", "trials", "estimating"} <= set(each):
        return None
    rows: list[list[Child]] = []
    arms = [(arm, each.get(arm)) for arm in ("unlearned", "retrained")]
    for arm, counted in arms:
        if isinstance(counted, tuple) and len(counted) == 2 and counted[1]:
            happened, trials = counted
            rows.append([arm, f"{happened:,}", f"{trials:,}", percent(round(happened / trials, 4))])
    advantage = (
        f"The membership advantage is between {_number(each, 'lower', up=False)} and "
        f"{_number(each, 'upper', up=True)}; {_number(each, 'estimating')} of "
        f"{_number(each, 'trials')} independent trials count, the others chose the attack."
    )
    said = tag("p", advantage)
    if not rows:
        return said
    columns = [Column("Arm")]
    columns += [Column(title, number=True) for title in ("Happened", "Trials", "Share")]
    title = "How often the event of the best attack happened"
    event = each.get("event")
    named = f"{title}: {event}" if isinstance(event, str) else title
    return join_children(said, _with_sentence(named, table(title, columns, rows)))


def _with_sentence(text: str, shown: Html) -> Html:
    """Return a table below a sentence."""
    return join_children(tag("p", f"{text}."), shown)


def _number(each: Facts, key: str, up: bool | None = None) -> str:
    value = each.get(key)
    if isinstance(value, float):
        return plain(value) if up is None else bound(value, up)
    return plain(value) if isinstance(value, int) else str(value or "–")

"""The evidence for a verdict: a leak, a counter-example or the facts of an attack."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from leaveout.models.train.encoding import cell_text, feature_text
from leaveout.names import find_reference
from leaveout.specs import Function
from leaveout.verifier.amounts import bound, count_noun, percent, plain
from leaveout.verifier.page.markup import (
    Child,
    Column,
    Html,
    collapsible,
    join_children,
    table,
    tag,
)
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.prose import call_hook
from leaveout.verifier.points.sentences import LETTERS, NOUNS, row_name
from leaveout.verifier.records import BoxRecord, CellRecord, ExampleRecord, Fact, WitnessRecord
from leaveout.verifier.report import Result

_NAMES = {
    "point": "Test point",
    "edits": "Edits",
    "poisoned": "Parts poisoned",
    "members": "Members whose vote changes",
    "votes": "Their new votes, in the same order",
    "before": "Label before",
    "after": "Label after",
    "answer": "Answer",
    "truth": "True label",
    "lost": "Test points lost",
}
_OPEN_FACTS = 24
_MOST_VALUES = 2000


def fact_table(found: Mapping[str, Fact]) -> Html | None:
    """Return a list of facts; None if there are none."""
    if not found:
        return None
    rows = [
        join_children(tag("dt", _name(key)), tag("dd", _fact_value(value)))
        for key, value in found.items()
    ]
    return tag("dl", rows, class_="facts")


def _name(key: str) -> str:
    return _NAMES.get(key, key.replace("_", " "))


def _fact_value(value: Fact) -> str | Html:
    if isinstance(value, str):
        return value
    if not isinstance(value, tuple):
        return plain(value)
    text = ", ".join(map(str, value[:_MOST_VALUES]))
    if len(value) > _MOST_VALUES:
        text += f" and {len(value) - _MOST_VALUES:,} more"
    if not value:
        return "none"
    return text if len(value) <= _OPEN_FACTS else collapsible(f"{len(value):,}", text)


_OPEN = 12
_MOST = 1000
_NAMELESS: Mapping[int, str] = {}


def evidence(page: Page, result: Result) -> Html | None:
    """Return the evidence for a result; None if there is none."""
    shown: list[Html] = []
    if not page.named:
        known = result.witness or result.example
        return None if known is None else tag("p", known.words)
    if result.witness is not None:
        block = _witness(result.witness, result.box)
        # Of a proved guarantee the worst leak lies below what was asked: no news.
        quiet = result.kind == "guarantee" and result.verdict == "proved"
        summary = "The worst leak found (not a counter-example)"
        shown.append(collapsible(summary, block) if quiet else block)
    if result.example is not None:
        shown.append(_example(result.example, result.box))
    return join_children(shown) if shown else None


def _sentence(text: str) -> Html | None:
    return tag("blockquote", tag("p", text)) if text else None


def _witness(witness: WitnessRecord, box: BoxRecord) -> Html:
    model, text = NOUNS[witness.model], _writer(witness)
    rows: list[list[Child]] = [
        [_label(witness, label), text(own), text(other)]
        for label, (own, other) in enumerate(
            zip(witness.scores, witness.member_scores, strict=False)
        )
    ]
    answers = (_label(witness, each) for each in (witness.label, witness.member_label))
    rows.append(["answer", *(f"label {each}" for each in answers)])
    removed = row_name(witness.removed, witness.removed_id, witness.group)
    member = f"member {witness.member} (lacks {removed})"
    member = f"the other {model}" if witness.other else member
    whole = f"{model} {LETTERS[model]}"
    scores = table(
        f"Scores at x of the {model} and of {'the other' if witness.other else 'the member'}",
        [Column("Label"), Column(whole, number=True), Column(member, number=True)],
        rows,
        seen=True,
    )
    own = _units(witness)
    names = {at: cell.name for cell in witness.cells for at in cell.at}
    read = _points({"x": witness.x}, box, names, text)
    if own is not None:
        read = collapsible(f"x, as the {model} reads it", read)
    return join_children(_sentence(witness.words), scores, own, read)


def _features(example: ExampleRecord) -> dict[int, str]:
    """Return the feature names if all points have the same features."""
    names = example.features
    fit = all(len(point) == len(names) for point in example.points.values())
    return dict(enumerate(names)) if fit else {}


def _label(found: WitnessRecord | ExampleRecord, label: int) -> str:
    names = found.label_names
    named = 0 <= label < len(names) and names[label] != str(label)
    return f"{label} ({names[label]})" if named else str(label)


def _units(witness: WitnessRecord) -> Html | None:
    """Return x in the units of the data, beside the values the network reads."""
    known, width = [cell for cell in witness.cells if cell.value is not None], len(witness.x)
    if not known:
        return None
    text = _writer(witness)
    rows: list[list[Child]] = [
        [cell.name, _value(cell), ", ".join(text(witness.x[at]) for at in cell.at if at < width)]
        for cell in known[:_MOST]
    ]
    title = "x, in the units of the data"
    if not witness.other:
        title += (
            f"; the member lacks {row_name(witness.removed, witness.removed_id, witness.group)}"
        )
    columns = [Column("Column"), Column("Value", number=True)]
    columns.append(Column(f"As the {NOUNS[witness.model]} reads it", number=True))
    shown = table(title, columns, rows, seen=len(known) <= _OPEN)
    return shown if len(known) <= _OPEN else collapsible(title, shown)


def _value(cell: CellRecord) -> str:
    if cell.value is None:
        return "–"
    text = cell_text(cell.value) + (f" {cell.unit}" if cell.unit else "")
    unknown = cell.nearest is None and isinstance(cell.value, str)
    return f"nearest to {text}" if cell.nearest or unknown else text


def _writer(witness: WitnessRecord) -> Callable[[float], str]:
    """Return the number formatter for the model's precision: float32 or float64."""
    return cell_text if witness.model != "network" else feature_text


def _example(example: ExampleRecord, box: BoxRecord) -> Html:
    names = [f"{name}: member {at}" for name, at in example.members.items()]
    names += [
        f"{name} lacks {row_name(row, example.removed_ids.get(name, ''))}"
        for name, row in example.removed.items()
    ]
    return join_children(
        _sentence(example.words),
        tag("p", "; ".join(names), ".") if names else None,
        _scores(example),
        _points(example.points, box, _features(example)) if example.points else None,
        fact_table(example.facts),
    )


def _scores(example: ExampleRecord) -> Html | None:
    if not example.scores:
        return None
    labels = max(len(scores) for scores in example.scores.values())
    rows: list[list[Child]] = [
        [
            _label(example, label),
            *(
                feature_text(scores[label]) if label < len(scores) else "–"
                for scores in example.scores.values()
            ),
        ]
        for label in range(min(labels, _MOST))
    ]
    answers = [example.labels.get(name) for name in example.scores]
    told = ("–" if each is None else f"label {_label(example, each)}" for each in answers)
    rows.append(["answer", *told])
    columns = [Column("Label"), *(Column(name, number=True) for name in example.scores)]
    return table("Scores", columns, rows, seen=True)


def _points(
    points: Mapping[str, Sequence[float | None]], box: BoxRecord,
    named: Mapping[int, str] = _NAMELESS,
    text: Callable[[float], str] = feature_text,
) -> Html:  # fmt: skip
    """Return the features of points, collapsed if there are many."""
    count = max((len(point) for point in points.values()), default=0)
    rows = [_feature(points, box, at, named, text) for at in range(min(count, _MOST))]
    columns = [Column("Feature"), *(Column(name, number=True) for name in points)]
    columns += [Column("least", number=True), Column("greatest", number=True)]
    name = " and ".join(points)
    caption = f"{name}: {count_noun(count, 'feature')}, each with its range in the set of inputs"
    shown = table(caption, columns, rows, seen=count <= _OPEN)
    more = None
    if count > _MOST:
        more = tag("p", f"The results file has {count - _MOST:,} more features.")
    return shown if count <= _OPEN else collapsible(caption, shown, more)


def _feature(
    points: Mapping[str, Sequence[float | None]], box: BoxRecord, at: int, named: Mapping[int, str],
    text: Callable[[float], str],
) -> list[Child]:  # fmt: skip
    cells: list[Child] = [f"{at} ({named[at]})" if at in named else str(at)]
    values = [point[at] if at < len(point) else math.inf for point in points.values()]
    cells += [
        "missing" if value is None else "–" if value == math.inf else text(value)
        for value in values
    ]
    ends: Sequence[tuple[float, ...]] = (box.lower, box.upper)
    cells += [plain(end[at]) if at < len(end) else "–" for end in ends]
    return cells


Facts = Mapping[str, Fact]
_Show = Callable[[Sequence[Facts]], object]

_OPEN_ROWS = 30
_ROUTES = {
    "pure": "the sum of the privacy losses of all predictions",
    "composed": "the average information of the answers, bounded prediction by prediction",
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
    show = None if function is None else function.facts or SHOWN_BY.get(name)
    if function is not None and show is not None:
        made = call_hook(function, "facts", lambda: cast("_Show", find_reference(show))(found))
    if isinstance(made, Html):
        return made
    title = f"What {name} computed"
    return join_children(collapsible(title, fact_table(each)) for each in found[:_OPEN_ROWS])


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
        f"Labels are returned with epsilon = {_number(each, 'epsilon')}. Where the confidence is "
        f"above the bound of its label, none of the {_number(each, 'members')} members answers "
        "differently, and the label is returned unchanged"
    )
    columns = [Column("Label"), Column("Bound", number=True)]
    return _with_sentence(said, table("Bounds that the guard relies on", columns, rows))


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
    title = "Result of the accounting"
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
        for title in ("Rows left", "Regrown", "Grown by retraining", "Share")
    ]
    trees = _number(found[0], "trees")
    title = (
        f"Deletions from a forest of {trees} trees, each compared with retraining; regrown rows "
        "are counted over all trees"
    )
    shown = table("Deletions", columns, rows)
    return _with_sentence(
        title,
        shown if len(found) <= _OPEN_ROWS else collapsible(f"{len(found):,} deletions", shown),
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
        (
            f"Every cached statistic of {_number(each, 'trees')} trees was recomputed from "
            f"{_number(each, 'rows')} rows, and the forest retrained."
        )
        for each in found
    ]
    return join_children(tag("p", each) for each in said)


def same(found: Sequence[Facts]) -> Html | None:
    """Return a table of what was compared."""
    names = {
        "trees": "Trees of the first",
        "trees_other": "Trees of the second",
        "features": "Features per input",
        "inputs_tried": "Inputs tried before the exhaustive proof",
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
        f"The membership advantage lies between {_number(each, 'lower', up=False)} and "
        f"{_number(each, 'upper', up=True)}, estimated from {_number(each, 'estimating')} of "
        f"{_number(each, 'trials')} independent trials; the others selected the attack."
    )
    said = tag("p", advantage)
    if not rows:
        return said
    columns = [Column("Arm")]
    columns += [Column(title, number=True) for title in ("Happened", "Trials", "Share")]
    title = "Frequency of the best attack's event"
    event = each.get("event")
    named = f"{title}: {event}" if isinstance(event, str) else title
    return join_children(said, _with_sentence(named, table(title, columns, rows)))


def _with_sentence(text: str, shown: Html) -> Html:
    return join_children(tag("p", f"{text}."), shown)


def _number(each: Facts, key: str, up: bool | None = None) -> str:
    value = each.get(key)
    if isinstance(value, float):
        return plain(value) if up is None else bound(value, up)
    return plain(value) if isinstance(value, int) else str(value or "–")


SHOWN_BY: Mapping[str, _Show] = {
    "caches_sound": caches,
    "idp": guard_bounds,
    "membership_advantage": audit_arms,
    "same_function": same,
    "unlearn": deletions,
    "unlearns": unlearns,
}
"""What shows the facts of a built-in function."""

"""The evidence for a verdict: a leak, a counter-example or the facts of an attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from leaveout.models.train.decoding import cell_text, feature_text
from leaveout.verifier.amounts import count_noun, plain
from leaveout.verifier.page.facts import fact_table
from leaveout.verifier.page.markup import Child, Html, collapsible, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.tables import Column, table
from leaveout.verifier.points.names import LETTERS, row_name
from leaveout.verifier.records import BoxRecord, CellRecord, ExampleRecord, WitnessRecord
from leaveout.verifier.report import Result

_OPEN = 12
_MOST = 1000
_NAMELESS: Mapping[int, str] = {}


def evidence(page: Page, result: Result) -> Html | None:
    """Return the evidence for a result; None if there is none."""
    shown: list[Html] = []
    if result.witness is not None:
        block = _witness(result.witness, result.box)
        # Of a proved guarantee the worst leak lies below what was asked: no news.
        quiet = result.kind == "guarantee" and result.verdict == "proved"
        summary = "The worst leak found, which is no counter-example"
        shown.append(collapsible(summary, block) if quiet else block)
    if result.example is not None:
        shown.append(_example(result.example, result.box))
    return join_children(shown) if shown else None


def _sentence(text: str) -> Html | None:
    return tag("blockquote", tag("p", text)) if text else None


def _witness(witness: WitnessRecord, box: BoxRecord) -> Html:
    model, text = witness.model, _writer(witness)
    rows: list[list[Child]] = [
        [_label(witness, label), text(own), text(other)]
        for label, (own, other) in enumerate(
            zip(witness.scores, witness.member_scores, strict=False)
        )
    ]
    answers = (_label(witness, each) for each in (witness.label, witness.member_label))
    rows.append(["answer", *(f"label {each}" for each in answers)])
    removed = row_name(witness.removed, witness.removed_id)
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
    read = _points({"x": witness.x}, box, _names(witness), text)
    if own is not None:
        read = collapsible(f"x as the {model} reads it", read)
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


def _names(witness: WitnessRecord) -> dict[int, str]:
    """Return the feature names of a witness."""
    return {at: cell.name for cell in witness.cells for at in cell.at}


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
    title = "x in the units of the data"
    if not witness.other:
        title += f"; the member lacks {row_name(witness.removed, witness.removed_id)}"
    columns = [Column("Column"), Column("Value", number=True)]
    columns.append(Column(f"As the {witness.model} reads it", number=True))
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
    return cell_text if witness.model == "forest" else feature_text


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
    points: dict[str, tuple[float, ...]], box: BoxRecord, named: Mapping[int, str] = _NAMELESS,
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
        more = tag("p", f"{count - _MOST:,} more features are in the file of results.")
    return shown if count <= _OPEN else collapsible(caption, shown, more)


def _feature(
    points: dict[str, tuple[float, ...]], box: BoxRecord, at: int, named: Mapping[int, str],
    text: Callable[[float], str],
) -> list[Child]:  # fmt: skip
    cells: list[Child] = [f"{at} ({named[at]})" if at in named else str(at)]
    cells += [text(point[at]) if at < len(point) else "–" for point in points.values()]
    ends: Sequence[tuple[float, ...]] = (box.lower, box.upper)
    cells += [plain(end[at]) if at < len(end) else "–" for end in ends]
    return cells

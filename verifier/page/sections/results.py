"""Each statement: its text, its result and its evidence."""

from __future__ import annotations

from leaveout.specs import Param
from leaveout.specs.deciders import Accuracy
from leaveout.verifier.amounts import (
    MISSING,
    AccuracyTable,
    baseline,
    bound,
    count_noun,
    duration,
    ends,
    label_text,
    no_better,
    right_share,
    share,
    span,
    tables,
)
from leaveout.verifier.page.charts import ranges
from leaveout.verifier.page.evidence import computed_tables, evidence
from leaveout.verifier.page.markup import (
    Child,
    Column,
    Html,
    code,
    collapsible,
    confidence_suffix,
    join_children,
    table,
    tag,
    verdict,
)
from leaveout.verifier.page.model import Page, Run, Statement, label
from leaveout.verifier.page.prose import in_words, vocabulary
from leaveout.verifier.page.spec_text import Written
from leaveout.verifier.records import AnswersRecord
from leaveout.verifier.report import Result


def statements(page: Page) -> Html | None:
    """Return the statements of all runs; None if there are none."""
    if not page.statements:
        return None
    return join_children(_run(page, run) for run in page.runs)


def _run(page: Page, run: Run) -> Html:
    missing = run.specification.missing
    head = tag("p", "Statements of ", code(run.name), ".", class_="of") if page.several else None
    left = tag("p", f"The wording of the statements is missing: {missing}.") if missing else None
    return join_children(head, left, [_statement(page, run, each) for each in run.statements])


def _statement(page: Page, run: Run, statement: Statement) -> Html:
    several = len(statement.results) > 1
    head = tag(
        "h3",
        verdict(statement.verdict, statement.confidence),
        tag("span", statement.name, class_="title"),
        tag("span", statement.kind, class_="kind"),
        id=f"{statement.anchor}-name",
    )
    return tag(
        "article",
        head,
        None if statement.written is None else _statement_text(page, run, statement.written),
        ranges(statement, page.functions),
        [_result(page, statement, each, several) for each in statement.results],
        _how(page, statement),
        id=statement.anchor,
        class_=f"statement {statement.verdict}",
        aria_labelledby=f"{statement.anchor}-name",
    )


def _statement_text(page: Page, run: Run, written: Written) -> Html:
    """Return the text of a statement and the words it uses."""
    nodes = (*written.definitions, written.statement)
    text = "\n".join(str(each) for each in nodes)
    words = [
        join_children(tag("dt", code(name)), tag("dd", meaning))
        for name, meaning in vocabulary((written.statement, *written.definitions), page.functions)
    ]
    source = tag(
        "pre",
        tag("code", text),
        tabindex=0,
        role="group",
        aria_label=f"{written.statement.name} as written",
    )
    listed = collapsible("What its functions mean", tag("dl", words)) if words else None
    set_otherwise = [tag("p", f"In this run: {note}.") for note in _params(run, written)]
    said = tag("p", in_words(written.statement, page.functions), class_="words")
    return join_children(said, source, set_otherwise, listed)


def _params(run: Run, written: Written) -> list[str]:
    """Return notes on the params of a statement that the run overrode."""
    names = [each.name for each in written.definitions if isinstance(each, Param)]
    starts = tuple(f"param {name} = " for name in names)
    return [
        note for note in run.report.notes if note.startswith(starts) and note.endswith("as written")
    ]


def _result(page: Page, statement: Statement, result: Result, several: bool) -> Html:
    head: Child = None
    if several:
        which = "All labels" if result.label is None else f"Label {result.label_text}"
        head = tag("h4", verdict(result.verdict), which)
    found = _result_words(statement, result)
    reason = None
    if result.reason is not None:
        kind, _, why = result.reason.partition(":")
        why = why.strip().removesuffix(".") or kind
        reason = tag(
            "p", tag("strong", f"Why it is unknown ({kind}): "), f"{why}.", class_="reason"
        )
    advice = [
        tag("p", tag("strong", "Advice: "), f"{each}.", class_="reason") for each in result.advice
    ]
    shown = evidence(page, result)
    seen = None if shown is None else tag("div", shown, class_="evidence")
    tables = computed_tables(result, page.functions)
    body = join_children(head, tag("p", found, class_="found"), reason, advice, seen, tables)
    return tag("div", body, class_="result")


def _result_words(statement: Statement, result: Result) -> str:
    """Return what was found for a statement, in words."""
    known = result.lower is not None or result.upper is not None
    # Of a guarantee only leaks and values are given bounds.
    # Of a sample a leak is no bound of what is sought.
    sought = result.is_sampled and statement.kind == "find"
    if (result.witness is not None and not sought) or (
        known and statement.kind == "guarantee" and result.engine != "values"
    ):
        said = _leaks(result)
        return said if statement.kind == "find" else f"{_verdict(result)} {said}"
    if statement.kind == "guarantee":
        more = f" The value compared is {span(result.lower, result.upper)}." if known else ""
        return _verdict(result) + more
    if result.verdict == "refuted":
        return "There is no such number."
    if statement.written is not None and hasattr(statement.written.statement, "variable"):
        name = statement.written.statement.variable
    else:
        name = "What is sought"
    return f"{name} is {span(*result.claimed_bounds)}{confidence_suffix(result.confidence)}."


def _leaks(result: Result) -> str:
    if result.witness is None and result.is_sampled and result.lower:
        worst = f"The worst leak found has confidence {bound(result.lower)}"
    elif result.witness is None:
        worst = "No leak was found"
    else:
        worst = f"The worst leak found has confidence {bound(result.witness.confidence)}"
    if result.upper is None:
        return f"{worst}; no upper bound is known."
    where = "in the sample " if result.is_sampled else ""
    return f"{worst}; {where}no leak has a confidence above {bound(result.upper, up=True)}."


def _verdict(result: Result) -> str:
    shown = result.example is not None or result.witness is not None
    sure = confidence_suffix(result.confidence)
    return {
        "proved": f"It holds{sure}.",
        "refuted": f"It does not hold{sure}" + (", as shown below." if shown else "."),
        "unknown": "It is neither proved nor refuted.",
    }[result.verdict]


def _how(page: Page, statement: Statement) -> Html:
    rows: list[list[Child]] = []
    for result in statement.results:
        number = page.boxes.get(result.box)
        inputs: Child = "–"
        if number is not None:
            inputs = tag("a", f"set {number}", href=f"#inputs-{number}")
        rows.append(
            [
                label(result),
                duration(result.seconds),
                result.engine,
                result.solver or "none",
                f"{result.members:,}" if result.members else "–",
                inputs,
            ]
        )
    titles = ("Label", "Time", "Engine", "Solver", "Members", "Inputs")
    columns = [Column(title, number=title in {"Time", "Members"}) for title in titles]
    seconds = sum(result.seconds for result in statement.results)
    engines = ", ".join(dict.fromkeys(result.engine for result in statement.results))
    summary = f"How it was decided: {engines}, {duration(seconds)}"
    members = max(result.members for result in statement.results)
    if members:
        summary += f", {count_noun(members, 'member')}"
    return collapsible(summary, table(f"How {statement.name} was decided", columns, rows))


def glance(page: Page) -> Html | None:
    """Return the table of results; None if there are none."""
    results = [result for run in page.runs for result in run.report.results]
    if not results:
        return None
    labels = any(result.label is not None for result in results)
    columns = [Column("Statement"), Column("Verdict")]
    columns += [Column("File")] if page.several else []
    columns += [Column("Label", number=True)] if labels else []
    columns += [Column(name, number=True) for name in ("Lower", "Upper", "Time")]
    rows = [
        _row(statement, result, run.name if page.several else None, labels)
        for run in page.runs
        for statement in run.statements
        for result in statement.results
    ]
    return table("Verdicts and bounds", columns, rows)


def _short_verdict(statement: Statement, result: Result) -> Html:
    sure = result.verdict != "unknown"
    return verdict(result.verdict, statement.confidence if sure else None)


def _row(statement: Statement, result: Result, file: str | None, labels: bool) -> list[Child]:
    name = tag("a", code(result.name), href=f"#{statement.anchor}")
    cells: list[Child] = [name, _short_verdict(statement, result)]
    if file is not None:
        cells.append(file)
    if labels:
        cells.append(label(result))
    cells += [*ends(result.lower, result.upper, MISSING), duration(result.seconds)]
    return cells


_MOST = 10  # labels that are shown unfolded: those of which the least is certified

_READING = (
    "The overall share can be high even if a rare label is nearly always answered incorrectly. "
    "Each number is the share of the test points of one true label that are answered correctly "
    "despite that many changes."
)
_TOGETHER = (
    "For one attack on all test points, the lower end of a label comes from attacks on each "
    "point separately, the upper end from the worst attack found."
)


def labels(page: Page) -> Html | None:
    """Return a table per vote that statements are about, or None."""
    found = [
        _vote(each, run.name if page.several else "")
        for run in page.runs
        for each in tables(run.report.results)
    ]
    return join_children(tag("p", _READING), join_children(found)) if found else None


def _vote(found: AccuracyTable, file: str) -> Html:
    record = found.record
    where = f" ({file})" if file else ""
    together = any(each.together for _, each in found.columns)
    order = found.worst_first()
    shown, rest = order[:_MOST], order[_MOST:]
    return join_children(
        tag("h3", code(record.votes), ", ", code(record.file), where),
        tag("p", f"{baseline(record)}."),
        [tag("p", _warning(*each)) for each in found.columns if no_better(each[1])],
        tag("p", _TOGETHER) if together else None,
        _table(found, shown) if shown else None,
        collapsible(f"The other {len(rest):,} labels", _table(found, rest)) if rest else None,
    )


def _table(found: AccuracyTable, chosen: list[int]) -> Html:
    columns = [
        Column("True label"),
        Column("Test points", number=True),
        Column("Right", number=True),
        *(Column(title, number=True) for title in found.titles()),
    ]
    rows: list[list[Child]] = [
        [
            label_text(each.label, each.name),
            f"{each.points:,}",
            right_share(each),
            *found.cells(each.label),
        ]
        for each in found.only(chosen)
    ]
    return table(f"Labels of {found.record.votes}, {found.record.file}", columns, rows)


def _warning(name: str, record: Accuracy) -> Html:
    assert record.lower is not None
    common = label_text(record.common, record.common_name)
    return join_children(
        tag("strong", "No better than a constant answer: "),
        code(name),
        f" certifies {share(record.lower / record.points)}; always answering {common} is correct "
        f"for {share(record.common_points / record.points, up=True)}, and no change lowers that.",
    )


_COLUMNS = ("Answers", "Bound", "Independent", "Not above the bound", "Bound unknown", "Outside")


def answers(page: Page) -> Html | None:
    """Return a sentence and table per network that rows were given to, or None."""
    found = [each for run in page.runs for each in run.report.answers]
    return join_children(_answers_table(each) for each in found) if found else None


def _answers_table(found: AnswersRecord) -> Html:
    """Return the table of the answers of one network."""
    rows: list[list[Child]] = [
        [
            f"{each.label} ({each.name})" if each.name else str(each.label),
            f"{each.answers:,}",
            bound(each.upper, up=True),
            *(f"{n:,}" for n in (each.owe_nothing, each.not_above, each.unknown, each.outside)),
        ]
        for each in found.labels
    ]
    columns = [Column("Label"), *(Column(title, number=True) for title in _COLUMNS)]
    outside = [tag("li", each) for each in found.outside]
    return join_children(
        tag("p", f"{found.words}."),
        table(f"Answers to {found.data}", columns, rows),
        tag("p", "Outside the set of inputs, where nothing is proved:") if outside else None,
        tag("ul", outside) if outside else None,
    )

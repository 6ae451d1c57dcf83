"""What is asked next: guard, personal data, the scale, guessing, several rows, retraining."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from leaveout.models.quality import Quality
from leaveout.verifier.amounts import baseline, count_noun, share, tables, written_number
from leaveout.verifier.page.first_page.scope import of_model
from leaveout.verifier.page.markup import (
    Child,
    Column,
    Html,
    clean,
    code,
    join_children,
    table,
    tag,
)
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.sections.confidences import count_points
from leaveout.verifier.report import Result

if TYPE_CHECKING:
    from leaveout.verifier.guard.memory import Account


def questions(page: Page) -> Html | None:
    """Return questions with answers; None for a page without statements."""
    if not page.statements:
        return None
    asked: tuple[tuple[str, Iterator[Child]], ...] = (
        ("Is a guard running, and what does it promise?", _guard(page)),
        ("Does this page hold personal data?", _personal(page)),
        ("How many answers can one record change, and is that good?", _scale(page)),
        ("Is the model better than guessing?", _accuracy(page)),
        ("What if one person has several rows?", _record_units(page)),
        ("What changes when the model is trained again?", _later_models(page)),
    )
    return tag(
        "dl", [join_children(tag("dt", each), tag("dd", found)) for each, found in asked],
        class_="questions",
    )  # fmt: skip


def _paragraph(*words: Child) -> Html:
    return tag("p", *words)


def _results(page: Page) -> Iterator[Result]:
    yield from (result for run in page.runs for result in run.report.results)


def _guard(page: Page) -> Iterator[Html]:
    for result in _results(page):
        epsilon = next((f.facts.get("epsilon") for f in result.facts if f.name == "idp"), None)
        if result.verdict == "proved" and isinstance(epsilon, float | int):
            yield _paragraph(
                "Proved: ", code(result.name), ". A guard on these files noises every answer "
                "that one record can change, at epsilon = ", written_number(epsilon, up=True), ".",
            )  # fmt: skip
    if page.guard is None:
        yield _paragraph(
            "Whether one is running is not known: results say nothing of who asks the model, and "
            "how. Without a guard, an answer that one record can change is given as it is. ",
            code("leaveout report --guard DIR"), " adds the guard's own account.",
        )  # fmt: skip
        return
    accounts = page.guard.accounts
    each = (" (" + "; ".join(f"{name}: {_costs(own)}" for name, own in accounts) + ")") * bool(
        accounts
    )
    total = float(sum(own.exact for _, own in accounts))
    yield _paragraph(
        f"The account of the guard of {clean(page.guard.models)}: "
        f"{count_noun(sum(own.answers for _, own in accounts), 'question')} answered with noise"
        f"{clean(each)}. In sum epsilon is at most {written_number(total, up=True)}, of the "
        "memories in this folder alone; others add to it. Other questions and repeated ones cost "
        "nothing, and are not counted.",
    )  # fmt: skip
    yield _paragraph(
        "Whether it is running now, and whether anybody can ask the model without it, is not known "
        "to this page."
    )


def _costs(own: Account) -> str:
    return ", ".join(f"{n:,} at epsilon = {written_number(e)}" for e, n in own.spent) or "none"


def _personal(page: Page) -> Iterator[Html]:
    words = "the specification" if page.named else "other words of the specification"
    asis = (
        f"Names of files and labels, notes and {words} stand as they were written: check that "
        "they name nobody."
    )
    if not page.named:
        yield _paragraph(
            "Names of rows, inputs that were found, ranges of columns and the numbers of sets of "
            "inputs were left out of it. Counts and bounds are left. ", asis,
            " The results file still has all of it."
        )  # fmt: skip
        return
    held = [*_personal_parts(page)]
    if not held:
        yield _paragraph(f"No training row and no input is in it. {asis}")
        return
    yield _paragraph(
        f"Yes, if the table is about people: {'; '.join(held)}. Only those who may see the "
        "training data may see this page. ", code("leaveout report --without-names"),
        " makes one without them.",
    )  # fmt: skip


def _personal_parts(page: Page) -> Iterator[str]:
    """Yield what of persons a page may hold."""
    results = [*_results(page)]
    if any(each.witness is not None or each.example is not None for each in results):
        yield "rows or inputs that show a claim, with their scores"
    if any(group.rows for each in results for tree in each.groups for group in tree.groups):
        yield "training rows that a bound may rest on"
    if any(fact.name == "unlearn" for each in results for fact in each.facts):
        yield "rows that were deleted"
    columns = [c for run in page.runs for model in run.report.models for c in model.columns]
    if any(each.zero is not None or each.categories for each in columns):
        yield "the smallest and largest value of each column, which may be one person's"
    if page.confidences or any(run.report.answers for run in page.runs):
        yield "how the rows that were given are answered, counted"


MEASURED: Final = (
    # what, answers asked for, those that one record decides, those the bound alone leaves open
    ("network, breast cancer, its own 569 rows", 569, 12, 16),
    ("network 2x50, Crypto, test rows, all records", 1_200, 10, 15),
    ("network 2x50, Adult, test rows, 500 records", 16_281, 82, 537),
    ("network 2x50, Credit, test rows, 500 records", 9_000, 9, 55),
    ("forest, breast cancer, its own 569 rows", 569, 15, None),
    ("forest, Adult, test rows", 16_281, 984, None),
)
"""From the documentation: results, guard and privacy, decisions that hinge on one other person."""


def _scale(page: Page) -> Iterator[Html]:
    known = [
        (each.network, each.data, len(each.answers), sum(own.owe_nothing for own in each.labels))
        for run in page.runs
        for each in run.report.answers
        if each.answers
    ]
    if not known:
        # Points that the page was given, by the bounds of their labels.
        for at in dict.fromkeys((each.run.number, each.network) for each in page.confidences):
            own = [e for e in page.confidences if (e.run.number, e.network) == at]
            proved = sum(count_points(each)[0] for each in own)
            known.append((at[1], page.data, sum(len(each.values) for each in own), proved))
    for network, data, count, proved in known:
        open_ = count - proved
        yield _paragraph(
            f"{share(open_ / count, up=True)} of the answers{of_model(page, network)} to "
            f"{clean(data)} ({open_:,} of {count:,}) are not proved independent of "
            f"every record. {_comparison(open_ / count)}"
        )
    if not known:
        kinds = {each.kind for run in page.runs for each in run.report.files}
        kinds |= {each.model for run in page.runs for each in run.report.models}
        cure = "leaveout verify SPEC --data rows.csv"
        if kinds & {"forest", "linear", "trees"}:
            cure = "leaveout hinges DIR decisions.csv"
        yield _paragraph(
            "Not known: no rows were asked about. ", code(cure),
            " counts the answers that no record can change.",
        )  # fmt: skip
    yield _paragraph(
        "No law and no standard names a number. A guard noises what one record decides, so a "
        "larger share costs accuracy there. Without a guard it is the share of answers that may "
        "show whether somebody's record was used. Measured with leaveout, as its documentation "
        "says (results, guard and privacy, hinges):"
    )
    columns = [Column("Case"), *(Column(each, number=True) for each in
               ("Answers", "One record decides", "Not proved by the bound"))]  # fmt: skip
    yield table(
        "Measured shares", columns,
        [[what, f"{n:,}", share(some / n, up=True),
          "not measured" if bound is None else share(bound / n, up=True)]
         for what, n, some, bound in MEASURED],
    )  # fmt: skip


def _comparison(part: float) -> str:
    """Return where a share lies among the measured ones that are proved in the same way."""
    cases = [bound / n for _, n, _, bound in MEASURED if bound is not None]
    below = sum(each < part for each in cases)
    of = "any of the" if below == len(cases) else f"{below or 'none'} of the"
    return f"That is more than in {of} {len(cases)} cases below with such a bound."


_ROWS = "the training rows"


def _accuracy(page: Page) -> Iterator[Html]:
    found: list[tuple[str, Quality]] = []
    for run in page.runs:
        report = run.report
        found += [
            (f"{_ROWS}{of_model(page, e.file)}", e.quality) for e in report.models if e.quality
        ]
        found += [
            (f"{clean(e.data)}{of_model(page, e.network)}", e.quality)
            for e in report.answers
            if e.quality
        ]
    for rows, quality in found:
        better = "Better" if quality.accuracy > quality.majority else "No better"
        yield _paragraph(f"{better} than guessing on {rows}: {quality.words}.")
    if any(rows.startswith(_ROWS) for rows, _ in found):
        yield _paragraph(
            "A model has learnt from its training rows; others may be answered worse. Accuracy on "
            "rows held out is what training printed: it is not in these results."
        )
    votes = [each.record for run in page.runs for each in tables(run.report.results)]
    yield from (_paragraph(f"{baseline(each)}.") for each in votes)
    if not found and not votes:
        yield _paragraph("Not known: these results have no true labels to compare answers with.")


def _record_units(page: Page) -> Iterator[Html]:
    known = [each for run in page.runs for each in run.report.training]
    for group in dict.fromkeys(each.group for each in known):
        if group:
            yield _paragraph(
                f"A record is all rows with the same “{clean(group)}”; they are left out together. "
                f"So all rows of a person are covered if they have the same “{clean(group)}”."
            )
        else:
            yield _paragraph(
                "A record is one row. Nothing here covers several rows of one person together. ",
                code("--group COLUMN"), " in training makes the rows of one person one record.",
            )  # fmt: skip
    if not known:
        yield _paragraph("Not known: these results do not say what a row of the table is.")


def _later_models(page: Page) -> Iterator[Html]:
    digests = any(each.sha256 for run in page.runs for each in run.report.files)
    files = "the files whose SHA-256 it lists" if digests else "the files as they were then"
    yield _paragraph(
        f"This page is about {files}, and no others. What it says of records left out is about "
        "the same training again without one: the same recipe, settings and random start."
    )
    yield _paragraph(
        "A model trained on new data, with other settings or from another random start is another "
        "model. It needs its own retrained models and a new proof, and behind a guard new "
        "bounds and a new memory. What the old answers gave away stays given away."
    )

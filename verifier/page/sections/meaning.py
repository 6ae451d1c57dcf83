"""The meaning of the page's words."""

from __future__ import annotations

from leaveout.verifier.page.icons import verdict
from leaveout.verifier.page.markup import Child, Html, join_children, tag
from leaveout.verifier.page.model import Page

_LEAKS = {
    "network": "An input whose label has a confidence above 0 in the network and at most 0 in a "
    "member: leaving one point out changes the answer, or makes it a tie.",
    "forest": "An input to which a forest and a member answer another label each: leaving one "
    "point out changes the answer.",
}


def meaning(page: Page) -> Html:
    """Return the words used on this page with their meanings."""
    results = [result for run in page.runs for result in run.report.results]
    words: list[tuple[Child, str]] = [
        (
            verdict("proved"),
            "Of a guarantee: it holds. Of a find: its lower and upper bound agree.",
        ),
        (verdict("refuted"), "It does not hold, and there is something that shows it."),
        (
            verdict("unknown"),
            "Neither, with the reason; bounds that are given hold nevertheless.",
        ),
        ("lower, upper", "The number lies between them, ends included. Both are rounded outwards."),
    ]
    models = {result.witness.model for result in results if result.witness is not None}
    if models:
        kinds = " or ".join(sorted(models, reverse=True))
        words += [
            ("member", f"A {kinds} retrained without one training point."),
            ("confidence", "The score of a label minus the best other score."),
        ]
        if "forest" in models:
            words += [("score", "Of a forest: the mean share of a label in its trees' leaves.")]
        words += [("leak", " ".join(_LEAKS[model] for model in sorted(models, reverse=True)))]
    rows = [join_children(tag("dt", word), tag("dd", text)) for word, text in words]
    return tag("dl", rows, class_="facts")

"""The verdict of a page: one sentence on all its statements."""

from __future__ import annotations

from collections import Counter

from leaveout.verifier.amounts import count_noun, plain
from leaveout.verifier.page.model import Page
from leaveout.verifier.report import Verdict


def state(page: Page) -> str:
    """Return what the page's statements amount to, without a full stop."""
    statements = page.statements
    counts = Counter(statement.verdict for statement in statements)
    total = len(statements)
    if not total:
        return "There are no results"
    if counts["proved"] == total:
        few = {1: "The one statement is", 2: "Both statements are"}
        return f"{few.get(total, f'All {total:,} statements are')} proved{_sampled_suffix(page, 'proved')}"
    worst: Verdict = "refuted" if counts["refuted"] else "unknown"
    many = counts[worst]
    head = f"{many:,} of {count_noun(total, 'statement')} {'is' if many == 1 else 'are'} {worst}"
    if total == 1:
        head = f"The one statement is {worst}"
    return head + _sampled_suffix(page, worst) if worst == "refuted" else f"{head}; none is refuted"


def _sampled_suffix(page: Page, verdict: Verdict) -> str:
    """Return how many statements with a verdict hold only with a confidence."""
    same = [each for each in page.statements if each.verdict == verdict]
    levels = [each.confidence for each in same if each.confidence is not None]
    if not levels:
        return ""
    at_least = "" if len(set(levels)) == 1 else " of at least"
    many = "one" if len(levels) == 1 else f"{len(levels):,}"
    whose = "" if len(same) == 1 else f", {many} of them"
    return f"{whose} with confidence{at_least} {plain(min(levels))}"

"""The command that gives these results again, and what tells one file from another."""

from __future__ import annotations

import shlex

from leaveout.verifier.page.markup import Html, code, joined, tag
from leaveout.verifier.page.model import Page, Run

__all__ = ["reproduce"]

_NOT_KEPT = ("--time", "--seed", "--workers", "--kernel", "--variant", "--set")


def reproduce(page: Page) -> Html:
    """Return a command a run, and the digests of its files."""
    options = [tag("code", each, class_="whole") for each in _NOT_KEPT]
    kept = (
        "The file of results does not keep ",
        [(each, ", ") for each in options[:-1]],
        "and ",
        options[-1],
        "; give them as in the first run. The value of each param is among the notes.",
    )
    return joined([_run(run) for run in page.runs], tag("p", kept))


def _run(run: Run) -> Html:
    command = _command(run)
    if command is None:
        how = tag("p", "The specification was built in Python: run the same program again.")
    else:
        how = tag(
            "pre",
            tag("code", command),
            tabindex=0,
            role="group",
            aria_label=f"The command for {run.name}",
        )
    facts = [
        ("Results", joined(code(run.name), _digest(run.digest))),
        ("Written by", f"leaveout {run.report.leaveout}"),
    ]
    if run.specification.digest:
        text = joined("as it is now", _digest(run.specification.digest))
        facts.insert(1, ("Specification", text))
    rows = [joined(tag("dt", name), tag("dd", value)) for name, value in facts]
    return joined(how, tag("dl", rows, class_="facts"))


def _digest(digest: str) -> Html:
    return joined(", sha256 ", tag("span", digest, class_="digest"))


def _command(run: Run) -> str | None:
    spec = run.report.spec
    if "\n" in spec or (spec.startswith("<") and spec.endswith(">")):
        return None
    words = ["leaveout", "verify", spec]
    engines = {result.engine for result in run.report.results} - {"values"}
    solvers = {result.solver for result in run.report.results} - {None}
    if engines == {"lucid"}:
        words += ["--engine", "lucid"]
    words += [word for solver in sorted(map(str, solvers)) for word in ("--solver", solver)]
    return shlex.join([*words, "--json", "result.json"])

"""The command that reproduces the results, and the digests of their files."""

from __future__ import annotations

import shlex

from leaveout.verifier.amounts import MISSING
from leaveout.verifier.page.first_page.named_files import named_files
from leaveout.verifier.page.markup import Html, code, join_children, tag
from leaveout.verifier.page.model import Page, Run
from leaveout.verifier.page.tables import Column, table

_NOT_KEPT = ("--time", "--seed", "--workers", "--kernel", "--variant", "--set")


def reproduce(page: Page) -> Html:
    """Return a command per run and the digests of its files."""
    options = [tag("code", each, class_="whole") for each in _NOT_KEPT]
    kept = (
        "The file of results does not keep ",
        [(each, ", ") for each in options[:-1]],
        "and ",
        options[-1],
        "; give them as in the first run. The value of each param is among the notes.",
    )
    return join_children([_run_command(run) for run in page.runs], tag("p", kept))


def _run_command(run: Run) -> Html:
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
    written = tag("p", f"Written by leaveout {run.report.leaveout}.")
    return join_children(how, written, _files(run))


def _files(run: Run) -> Html:
    """Return a table of a run's files with their full digests."""
    found = named_files(Page((run,)), everything=True)
    rows = [
        [code(each.name), each.role, tag("span", each.digest or MISSING, class_="digest")]
        for each in found
    ]
    columns = [Column("File"), Column("What it is"), Column("sha256")]
    return table(f"Files of {run.name}", columns, rows)


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

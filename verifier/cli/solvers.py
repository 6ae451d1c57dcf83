"""``leaveout solvers``: installed back ends and their features."""

from __future__ import annotations

import typer


def solvers() -> None:
    """List solver back ends: whether installed, version, features, licence limits.

    Plug-ins add theirs through the entry point group leaveout.solvers.
    """
    from rich.console import Console
    from rich.table import Table

    from leaveout.solvers import describe

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("solver", "version", "can do", "licence"):
        table.add_column(column)
    for row in describe():
        terms = [row.licence.terms]
        if row.licence.max_variables is not None:
            terms.append(f"{row.licence.max_variables:,} variables")
        if row.licence.max_rows is not None:
            terms.append(f"{row.licence.max_rows:,} rows")
        table.add_row(
            row.name,
            (row.version or "installed") if row.installed else "not installed",
            ", ".join(row.features),
            ", ".join(terms),
        )
    Console().print(table)
    raise typer.Exit(0)

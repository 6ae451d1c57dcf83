"""``leaveout functions``: the functions a specification may call."""

from __future__ import annotations

from leaveout.verifier.cli.output import write_out
from leaveout.verifier.cli.parameters import argument, flag


def functions(
    names: list[str] | None = argument(
        "Functions to describe; without any, all are listed.", default=None, metavar="NAME"
    ),
    grammar: bool = flag(
        "--grammar", "Print the TextMate grammar for syntax highlighting in editors."
    ),
) -> None:
    """List the functions of the language, including those of installed plug-ins.

    With names, describe each: its meaning, what may change in the training set, and an example.

    For example: leaveout functions certified_accuracy

    Exit status: 0, or 2 if there is no such function.
    """
    import json

    from leaveout.errors import SpecError
    from leaveout.specs import functions as known
    from leaveout.specs.table import reference
    from leaveout.specs.text.errors import nearest

    table = known()
    for name in names or ():
        if name not in table:
            raise SpecError(f"there is no function '{name}'\n{nearest(name, table)}".rstrip())
    lines = [f"{each.signature}\n    {each.doc}\n" for each in table.values()]
    if names:
        lines = ["\n".join(reference.describe_function(table[name]) for name in names)]
    if grammar:
        lines = [json.dumps(reference.grammar(table), indent=2), "\n"]
    write_out("".join(lines))

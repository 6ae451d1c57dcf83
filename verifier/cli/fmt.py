"""``leaveout fmt``: format specifications."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from leaveout.verifier.cli.parameters import argument, flag


def fmt(
    files: list[str] = argument(
        "Specifications to format; '-' reads standard input.", metavar="FILE"
    ),
    check: bool = flag("--check", "Only list the files that would change."),
) -> None:
    """Format specifications in the standard style; comments and meaning stay.

    If any file is not a valid specification, none is changed.

    For example: leaveout fmt patient.spec, or leaveout fmt - < patient.spec

    Exit status: 0 done, 1 with --check if a file would change, 2 bad input.
    """
    from leaveout.errors import SpecError
    from leaveout.files import refuse_unwritten, write_whole
    from leaveout.specs.format import format_specification
    from leaveout.specs.text.parse import decode_text, read_bytes

    changed: list[tuple[str, str]] = []
    for name in dict.fromkeys(files):
        shown = "<stdin>" if name == "-" else name
        before = sys.stdin.buffer.read() if name == "-" else read_bytes(name)
        after = format_specification(decode_text(before, shown), shown)
        if name == "-" and not check:
            sys.stdout.write(after)
            sys.stdout.flush()
        elif after.encode() != before:
            changed.append((name, after))
    for name, after in changed:
        if check:
            sys.stdout.write(f"{'<stdin>' if name == '-' else name} would change\n")
            continue
        with refuse_unwritten(SpecError, name):
            write_whole(Path(name), after.encode())
    raise typer.Exit(1 if check and changed else 0)

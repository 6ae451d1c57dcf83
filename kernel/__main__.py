"""``leaveout-check``: prove a certificate again from a recording of the answers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# Products are too small for threads, which may add in another order than was recorded.
if "numpy" not in sys.modules:
    for _library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from .claims.check import Checked, check, claim_lines
from .claims.places import Places
from .files import open_regular
from .recording import read_recording
from .refusal import Rejected, Unreadable

_PROVED, _REJECTED, _UNREADABLE = 0, 1, 2


def options() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(
        prog="leaveout-check",
        description="Prove the claims of a certificate again, with numpy and nothing else. "
        "'leaveout check CERTIFICATE --record ANSWERS' writes the answers.",
        epilog="Exit status: 0 everything is proved, 1 a claim is not proved, 2 a file is missing "
        "or unreadable.",
    )
    parser.add_argument("certificate", type=Path)
    parser.add_argument("answers", type=Path, help="recorded answers about the certificate")
    for name, what in (("network", "network"), ("family", "family"), ("files", "file or folder")):
        parser.add_argument(
            f"--{name}",
            type=Path,
            action="append",
            default=[],
            metavar="PATH",
            help=f"a {what} that has moved; may be repeated",
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = options().parse_args(arguments)
    path = given.certificate
    places = Places(path.parent, tuple(given.network), tuple(given.family), tuple(given.files))
    try:
        answers = read_recording(given.answers, _content(path))
        found = list(check(path, places, answers))
    except (Rejected, Unreadable) as error:
        print(f"leaveout-check: {error}", file=sys.stderr)  # noqa: T201
        return _REJECTED if isinstance(error, Rejected) else _UNREADABLE
    lines = [*map(_proved, found), *claim_lines(found)]
    print("\n".join(lines))  # noqa: T201
    return _PROVED


def _content(path: Path) -> bytes:
    try:
        with open_regular(path) as stream:
            return stream.read()
    except OSError as error:
        raise Unreadable(f"{path}: cannot read: {error.strerror or error}") from None


def _proved(found: Checked) -> str:
    label = "" if found.label is None else f", label {found.label}"
    upper = "" if found.upper is None else f": at most {found.upper!r}"
    return f"proved: {found.name}{label}{upper}"


if __name__ == "__main__":
    sys.exit(main())

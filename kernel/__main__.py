"""``leaveout-check``: prove a certificate again from a recording of the answers."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

# Products are too small for threads, which may add in another order than was recorded.
if "numpy" not in sys.modules:
    for _library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from .bundle import ANSWERS, CERTIFICATE, unpack
from .claims.certificate import read_certificate
from .claims.check import Checked, check, claim_lines, stated_upper
from .claims.places import Places
from .files import digest_of
from .recording import read_recording
from .refusal import Rejected, Unreadable

VERSION = "0.1.0"

_PROVED, _REJECTED, _UNREADABLE, _INTERRUPTED = 0, 1, 2, 130

_DESCRIPTION = """\
Prove the claims of a certificate again, with numpy and nothing else.

The answers are what the proof needs besides: nobody has to trust them, since a wrong one can only
make it fail. Another build of numpy may round otherwise and need answers recorded with it. The
files that the certificate names are looked for beside it, and must have the SHA-256 that it
states. Networks are of dense layers; 'leaveout check' reads others too."""

_EPILOG = """\
for example:
  leaveout check idp.cert --bundle claim.zip
  leaveout-check claim.zip

Read what is printed: the claims, and what each takes on trust.

exit status: 0 everything is proved, 1 a claim is not proved, 2 a file is missing or unreadable"""


def options() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(
        prog="leaveout-check",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "certificate", type=Path, help="of 'leaveout verify --certificate', or a whole bundle"
    )
    answers = "as 'leaveout check --record' wrote them; a bundle has its own"
    parser.add_argument("answers", type=Path, nargs="?", help=answers)
    for name, what in (("network", "network"), ("family", "family"), ("files", "file or folder")):
        parser.add_argument(
            f"--{name}",
            type=Path,
            action="append",
            default=[],
            metavar="PATH",
            help=f"a {what} that is not beside the certificate; may be repeated",
        )
    parser.add_argument("--version", action="version", version=f"leaveout-check {VERSION}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = options().parse_args(arguments)
    try:
        lines = _prove(given)
    except (Rejected, Unreadable) as error:
        _print(f"leaveout-check: {error}", sys.stderr)
        return _REJECTED if isinstance(error, Rejected) else _UNREADABLE
    except KeyboardInterrupt:
        _print("leaveout-check: interrupted; nothing is proved", sys.stderr)
        return _INTERRUPTED
    _print("\n".join(lines), sys.stdout)
    return _PROVED


def _prove(given: argparse.Namespace) -> list[str]:
    """Prove the certificate; return what was proved, in words."""
    path = given.certificate
    for each in given.files:
        if not each.exists():
            raise Unreadable(f"{each}: no such file; name another with --files")
    elsewhere = tuple(given.network), tuple(given.family), tuple(given.files)
    if given.answers is not None:
        return _lines(path, given.answers, Places(path.parent, *elsewhere))
    with unpack(path) as folder:
        # Files of a bundle are called as in it.
        inside = re.compile(rf"{re.escape(str(folder))}(?:[/\\](?:[0-9a-f]{{64}}[/\\])?)?")
        places = Places(folder, *elsewhere, bundled=True)
        try:
            found = _lines(folder / CERTIFICATE, folder / ANSWERS, places)
            places.refuse_unused()
        except (Rejected, Unreadable) as error:
            raise type(error)(f"{path}: {inside.sub('', str(error))}") from None
        return [inside.sub("", line) for line in found]


def _lines(path: Path, answers: Path, places: Places) -> list[str]:
    read_certificate(path)
    found = list(check(path, places, read_recording(answers, digest_of(path))))
    return [*map(_headline, found), "", *claim_lines(found)]


def _headline(found: Checked) -> str:
    label = "" if found.label is None else f", label {found.label}"
    upper = stated_upper(found)
    return f"proved: {found.name}{label}{'' if upper is None else f': at most {upper!r}'}"


def _print(text: str, stream: TextIO) -> None:
    """Print a text in any character set; a reader may leave."""
    content = f"{text}\n".encode(stream.encoding or "utf-8", "backslashreplace")
    try:
        stream.write(content.decode(stream.encoding or "utf-8"))
        stream.flush()
    except BrokenPipeError:
        # Nothing more can be written; the interpreter would try once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

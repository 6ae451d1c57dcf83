"""``leaveout guard``: private label-only access."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from leaveout.errors import GuardError
from leaveout.files import open_atomically, refuse_unread, refuse_unwritten
from leaveout.verifier.cli.output import reader_may_leave
from leaveout.verifier.cli.parameters import argument, flag, option
from leaveout.verifier.cli.progress import counter_bar
from leaveout.written import first_few

if TYPE_CHECKING:
    from leaveout.models.reading import Reading
    from leaveout.verifier.guard import Guard


_BATCH = 1024
_LISTED = 5
_REFUSED = 3


def guard(
    folder: Path = argument(
        "A folder made by leaveout train, with the bounds.npz that leaveout verify --bounds "
        "writes, or a folder with a forest.npz or a linear.npz.",
        metavar="DIR",
    ),
    rows: Path | None = argument(
        "Rows to answer: a CSV with a header in the table's own units, or an NPZ with X_test (or "
        "X) as the model reads them. '-' or nothing reads a CSV from standard input.",
        default=None,
        metavar="ROWS",
    ),
    epsilon: float | None = option(
        "Privacy budget of a noised answer: how much it may depend on any one training point; 0 "
        "means not at all."
    ),
    output: Path | None = option(
        "File for the labels; all are written or none.",
        "-o",
        "--output",
        metavar="FILE",
        shown="standard output",
    ),
    outside: str = option(
        "Inputs outside the verified box: refuse (an empty label) or noise. Forests and linear "
        "models have no such inputs.",
        default="refuse",
        metavar="refuse|noise",
    ),
    memory: Path | None = option(
        "SQLite file that stores noised answers; never delete it while the model is in use.",
        metavar="FILE",
        shown="DIR/answers.sqlite",
    ),
    cap: float | None = option(
        "Cap on the sum of the epsilons of all noised answers.", shown="no limit"
    ),
    when_spent: str = option(
        "When the cap is reached: refuse everything, or draw further noised answers uniformly, at "
        "no cost.",
        default="refuse",
        metavar="refuse|uniform",
    ),
    remember: int = option(
        "Most noised answers to store; beyond that everything is refused.", default=1_000_000
    ),
    seed: int | None = option(
        "For experiments only: anyone who knows the seed can remove the noise.",
        shown="the operating system's randomness",
    ),
    serve: bool = flag("--serve", "Serve over HTTP (extra 'serve')."),
    host: str = option(
        "With --serve: address to listen on. A warning is printed if others can reach it.",
        default="127.0.0.1",
    ),
    port: int = option("With --serve.", default=8000, min=0, max=65535),
    pad: float = option(
        "With --serve: send answers at multiples of this time, slightly jittered, so that timing "
        "does not reveal which inputs were noised; 0 turns padding off.",
        default=0.05,
        metavar="SECONDS",
        min=0,
    ),
    processes: int = option(
        "With --serve: number of processes; they share the socket, the memory file and the loaded "
        "model, and are restarted when they die. Linux only.",
        default=1,
        metavar="N",
    ),
    keys: Path | None = option(
        "With --serve: require Authorization: Bearer KEY with a key from this file of name:sha256 "
        "lines; see --new-key. Changes are picked up while running.",
        metavar="FILE",
        shown="no key required",
    ),
    new_key: str | None = option(
        "Only create a key: add its digest to the --keys file and print the key once.",
        metavar="NAME",
    ),
    rate: float | None = option(
        "With --serve: rows per second for each key (without keys: each address); the excess gets "
        "429.",
        metavar="ROWS",
        shown="no limit",
    ),
    burst: float | None = option(
        "With --rate: rows allowed in one burst.", metavar="ROWS", shown="ten seconds' worth"
    ),
    allow_host: list[str] | None = option(
        "With --serve: an allowed host name, such as a proxy's, besides localhost and --host. May "
        "be repeated; * allows any.",
        metavar="NAME",
    ),
    most_rows: int = option("With --serve: most rows in one request.", default=1000, metavar="N"),
    most_bytes: int = option(
        "With --serve: most bytes in one request.", default=1 << 20, metavar="N"
    ),
    most_waiting: int = option(
        "With --serve: most waiting requests; others get 503.", default=1000, metavar="N"
    ),
    grace: float = option(
        "With --serve: seconds to finish running requests after SIGTERM.",
        default=30.0,
        metavar="SECONDS",
    ),
    drain: float = option(
        "With --serve: seconds to keep accepting requests after SIGTERM while /health returns "
        "503, so that load balancers can drain.",
        default=0.0,
        metavar="SECONDS",
    ),
    adopt: bool = flag(
        "--adopt",
        "Trust bounds.npz and the memory file although this user did not write them here, or they "
        "changed since; each is named.",
    ),
    account: bool = flag(
        "--account",
        "Only report how many inputs were noised and what that cost. Keep this private.",
    ),
) -> None:
    """Answer with labels that no single training point can change, or only a little (epsilon).

    If the confidence is above the proved bound, the guard returns the network's label. Otherwise it
    evaluates the retrained networks, and only if one of them disagrees does it draw the answer at
    random, once, and store it. For a forest or a linear model it knows every member and returns the
    label unless one of them disagrees. Labels go to standard output, one per row.

    For example: leaveout guard family --epsilon 0.2 patients.csv -o labels.csv

    Over HTTP, for holders of a key: leaveout guard family --keys keys --new-key alice, then
    leaveout guard family --epsilon 0.2 --serve --keys keys --processes 4. GET /openapi.json
    describes the API.

    Exit status: 0 all rows answered, 3 some refused, 2 bad input.
    """
    from leaveout.verifier.guard import Guard

    if new_key is not None:
        sys.stdout.write(_new_key(keys, new_key))
        return
    if rows is not None and (serve or account):
        raise GuardError(f"{rows}: {'--serve' if serve else '--account'} accepts no rows")
    if account:
        epsilon = None
    elif epsilon is None:
        raise GuardError(
            "--epsilon is required: how much a noised answer may depend on one training point, "
            "e.g. --epsilon 0.2"
        )
    for name, value, known in (
        ("--outside", outside, ("refuse", "noise")),
        ("--when-spent", when_spent, ("refuse", "uniform")),
    ):
        if value not in known:
            raise GuardError(f"{name} must be {' or '.join(known)}, got {value!r}")
    if epsilon is None:
        sys.stdout.write(_account(folder, memory, adopt))
        return
    with counter_bar("leaving out each row", "done") as progress:
        loaded = Guard.load(
            folder,
            epsilon,
            outside="noise" if outside == "noise" else "refuse",
            memory=memory,
            cap=cap,
            when_spent="uniform" if when_spent == "uniform" else "refuse",
            remember=remember,
            seed=seed,
            adopt=adopt,
            progress=progress,
        )
    with loaded as opened:
        for note in opened.notes:
            sys.stderr.write(f"leaveout: {note}\n")
        if seed is not None:
            sys.stderr.write("leaveout: the noise is seeded; use this for experiments only\n")
        if serve:
            _serve(
                opened,
                host,
                port,
                pad=pad,
                processes=processes,
                keys=keys,
                rate=rate,
                burst=burst,
                hosts=tuple(allow_host or ()),
                most_rows=most_rows,
                most_bytes=most_bytes,
                most_waiting=most_waiting,
                grace=grace,
                drain=drain,
            )
            return
        _refuse_to_replace(output, folder, memory, rows)
        refused = _answer(opened, rows, output)
    if refused:
        unit = "row" if _is_archive(rows) else "line"
        sys.stderr.write(
            f"leaveout: refused {len(refused):,} row{'s' * (len(refused) != 1)} outside the "
            f"verified inputs ({unit} {first_few(refused, _LISTED)}); nothing is proved "
            "about them: check units and whole numbers, or add --outside noise\n"
        )
        raise typer.Exit(_REFUSED)


def _answer(guard: Guard, rows: Path | None, output: Path | None) -> list[int]:
    """Write one label per row; return the line numbers of refused rows."""
    from leaveout.verifier.guard.rows import answer_arrays, answer_rows, reading_of
    from leaveout.written import TableWriter

    refused = []
    names = guard.names
    with ExitStack() as stack:
        if rows is not None and _is_archive(rows):
            batch = _BATCH
            every = answer_arrays(guard, rows, batch)
        else:
            source, stream = stack.enter_context(_open_rows(rows, reading_of(guard)))
            batch = 1 if stream is sys.stdin else _BATCH
            every = answer_rows(guard, stream, source, batch)
        target = stack.enter_context(_target(output))
        stack.enter_context(reader_may_leave())
        writer = TableWriter(target)
        writer.row(["label"])
        for at, answer in enumerate(every, start=1):
            if answer.label is None:
                refused.append(answer.line)
                writer.row([""])
            else:
                writer.row([names[answer.label] if names else answer.label])
            if at % batch == 0:
                target.flush()
    return refused


def _is_archive(rows: Path | None) -> bool:
    """Return whether the rows are an NPZ; unreadable files are reported when opened."""
    from leaveout.models.archive import holds_archive

    return rows is not None and rows.is_file() and holds_archive(rows, GuardError)


def _refuse_to_replace(
    output: Path | None, folder: Path, memory: Path | None, rows: Path | None
) -> None:
    """Raise if labels would overwrite the rows or a file of the guard."""
    from leaveout.verifier.guard.loading import files_of

    if output is None:
        return
    needed = [*files_of(folder), *([memory] if memory else []), *([rows] if rows else [])]
    if output.resolve() in {path.resolve() for path in needed}:
        raise GuardError(f"-o {output}: the guard reads this file; choose another name")


@contextmanager
def _open_rows(rows: Path | None, reading: Reading) -> Iterator[tuple[str, TextIO]]:
    """Yield the name and stream of the rows."""
    if rows is None or str(rows) == "-":
        charset, binary = reading.charset, getattr(sys.stdin, "buffer", None)
        text = io.TextIOWrapper(binary, charset, newline="") if charset and binary else sys.stdin
        yield "standard input", text
        return
    with refuse_unread(GuardError, rows), reading.open(rows) as stream:
        yield str(rows), stream


@contextmanager
def _target(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    if output.is_dir():
        raise GuardError(f"-o {output}: is a folder; name a file")
    with refuse_unwritten(GuardError, f"-o {output}"), open_atomically(output) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


def _serve(guard: Guard, host: str, port: int, **settings: Any) -> None:
    from leaveout.verifier.guard.server_settings import ServeSettings

    try:
        from leaveout.verifier.guard.server import serve
    except ImportError as error:
        raise GuardError(
            f"--serve needs {error.name}, which is not installed: pip install 'leaveout[serve]'"
        ) from None
    serve(guard, host, port, ServeSettings(**settings))


def _new_key(keys: Path | None, name: str) -> str:
    from leaveout.verifier.guard.server_keys import add_key

    if keys is None:
        raise GuardError("--new-key needs --keys, the file of key digests, e.g. --keys keys.txt")
    return f"{add_key(keys, name)}\n"


def _account(folder: Path, memory: Path | None, adopt: bool) -> str:
    from leaveout.verifier.guard.access import MEMORY
    from leaveout.verifier.guard.memory import Memory

    if not folder.is_dir():
        raise GuardError(f"{folder}: no such folder")
    found = Memory.read(memory or folder / MEMORY, adopt=adopt)
    lines = [f"noised inputs  {found.answers:,}", f"epsilon spent  {found.epsilon:g}"]
    for epsilon, count in found.spent:
        lines.append(f"    {count:,} at {epsilon:g}")
    return "\n".join(lines) + "\n"

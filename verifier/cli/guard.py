"""``leaveout guard``: private label-only access."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from leaveout.errors import GuardError
from leaveout.files import open_atomically, refuse_unread, refuse_unwritten
from leaveout.verifier.cli.progress import counter_bar
from leaveout.written import first_few

if TYPE_CHECKING:
    from leaveout.models.reading import Reading
    from leaveout.verifier.guard import Guard


_BATCH = 1024
_LISTED = 5
_REFUSED = 3


def guard(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder made by leaveout train, with the bounds.npz that leaveout verify "
            "--bounds writes, or a folder with a forest.npz or a linear.npz.",
            show_default=False,
        ),
    ],
    rows: Annotated[
        Path | None,
        typer.Argument(
            metavar="ROWS",
            help="Rows to answer: a CSV with a header in the table's own units, or an NPZ with "
            "X_test (or X) as the model reads them. '-' or nothing reads a CSV from "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy budget of a noised answer: how much it may depend on any one training "
            "point; 0 means not at all.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File for the labels; all are written or none.",
            show_default="standard output",
        ),
    ] = None,
    outside: Annotated[
        str,
        typer.Option(
            metavar="refuse|noise",
            help="Inputs outside the verified box: refuse (an empty label) or noise. Forests "
            "and linear models have no such inputs.",
        ),
    ] = "refuse",
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="SQLite file that stores noised answers; never delete it while the model is in "
            "use.",
            show_default="DIR/answers.sqlite",
        ),
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option(
            help="Cap on the sum of the epsilons of all noised answers.", show_default="no limit"
        ),
    ] = None,
    when_spent: Annotated[
        str,
        typer.Option(
            metavar="refuse|uniform",
            help="When the cap is reached: refuse everything, or draw further noised answers "
            "uniformly, at no cost.",
        ),
    ] = "refuse",
    remember: Annotated[
        int, typer.Option(help="Most noised answers to store; beyond that everything is refused.")
    ] = 1_000_000,
    seed: Annotated[
        int | None,
        typer.Option(
            help="For experiments only: anyone who knows the seed can remove the noise.",
            show_default="the operating system's randomness",
        ),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve over HTTP (extra 'serve').")
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            help="With --serve: address to listen on. A warning is printed if others can reach it."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --serve.", min=0, max=65535)] = 8000,
    pad: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="With --serve: send answers at multiples of this time, slightly jittered, so "
            "that timing does not reveal which inputs were noised; 0 turns padding off.",
            min=0,
        ),
    ] = 0.05,
    processes: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="With --serve: number of processes; they share the socket, the memory file and "
            "the loaded model, and are restarted when they die. Linux only.",
        ),
    ] = 1,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --serve: require Authorization: Bearer KEY with a key from this file of "
            "name:sha256 lines; see --new-key. Changes are picked up while running.",
            show_default="no key required",
        ),
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only create a key: add its digest to the --keys file and print the key once.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="ROWS",
            help="With --serve: rows per second for each key (without keys: each address); the "
            "excess gets 429.",
            show_default="no limit",
        ),
    ] = None,
    burst: Annotated[
        float | None,
        typer.Option(
            metavar="ROWS",
            help="With --rate: rows allowed in one burst.",
            show_default="ten seconds' worth",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --serve: an allowed host name, such as a proxy's, besides localhost and "
            "--host. May be repeated; * allows any.",
            show_default=False,
        ),
    ] = None,
    most_rows: Annotated[
        int, typer.Option(metavar="N", help="With --serve: most rows in one request.")
    ] = 1000,
    most_bytes: Annotated[
        int, typer.Option(metavar="N", help="With --serve: most bytes in one request.")
    ] = 1 << 20,
    most_waiting: Annotated[
        int,
        typer.Option(metavar="N", help="With --serve: most waiting requests; others get 503."),
    ] = 1000,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="With --serve: seconds to finish running requests after SIGTERM.",
        ),
    ] = 30.0,
    drain: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="With --serve: seconds to keep accepting requests after SIGTERM while /health "
            "returns 503, so that load balancers can drain.",
        ),
    ] = 0.0,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="Trust bounds.npz and the memory file although this user did not write them "
            "here, or they changed since; each is named.",
        ),
    ] = False,
    account: Annotated[
        bool,
        typer.Option(
            "--account",
            help="Only report how many inputs were noised and what that cost. Keep this private.",
        ),
    ] = False,
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
    from leaveout.verifier.cli.options import reader_may_leave
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

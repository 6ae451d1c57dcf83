"""``leaveout forget`` and ``leaveout receipts``: rows that leave a model, and what says so."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.output import lines, say_changed, some, write_out
from leaveout.verifier.cli.parameters import argument, flag, option

if TYPE_CHECKING:
    from leaveout.models.train.changes import Deletion
    from leaveout.models.train.folder import ModelFolder
    from leaveout.models.train.receipts import Receipts


@dataclass(frozen=True)
class Held:
    """What whoever asked keeps: a line of receipts, and the openings of their rows' names."""

    receipt: str
    openings: dict[str, str]


_FOLDER = argument("A folder made by leaveout forest train, linear train or train.", metavar="DIR")


def forget(
    folder: Path = _FOLDER,
    rows: list[str] | None = argument(
        "Names from the --id or --group column; without one, numbers counted from 0 in the "
        "original table, which deletions do not shift.",
        default=None,
        metavar="ROW",
    ),
    source: Path | None = option(
        "Rows to delete, in the column of --id or --group or, without one, in a column 'row'.",
        "--from",
        metavar="CSV",
    ),
    check: bool = flag(
        "--check",
        "Also train on the remaining rows and compare: a forest bit for bit, a linear model "
        "within the proved distance.",
    ),
    receipt: Path | None = option(
        "Write the receipt for whoever asked, with what shows that it is about their rows; that "
        "is kept nowhere else.",
        metavar="FILE",
    ),
    key: Path | None = option(
        "Sign the receipt with this private key (leaveout attest --new-key).", metavar="FILE"
    ),
) -> None:
    """Make a model forget rows, and write a receipt.

    A forest then equals, bit for bit, one trained on the remaining rows; a linear model is within a
    proved distance of the one fitted to them; a network becomes the member trained without the
    row, and its family goes. Either all rows are forgotten or, on an error, none. The rewritten
    files contain neither the rows nor their names.

    For example: leaveout forget clinic 17 23, then leaveout receipts clinic
    """
    from leaveout.files import write_whole
    from leaveout.models.train import changes
    from leaveout.verifier.evidence.signing import read_signer, seal_line
    from leaveout.verifier.evidence.statement import EvidenceError
    from leaveout.verifier.warm_up import warm

    if receipt is not None:
        if receipt.exists():
            raise EvidenceError(f"--receipt {receipt}: exists; name a new file")
        if not receipt.parent.is_dir():
            raise EvidenceError(f"--receipt {receipt}: no such folder; create it first")
        if receipt.parent.resolve() == folder.resolve():
            raise EvidenceError(
                f"--receipt {receipt}: names forgotten rows; keep it outside the model's folder"
            )
    signer = None if key is None else read_signer(key)
    sign = None if signer is None else lambda content: seal_line(content, signer)
    kind = _kind(folder)
    if kind is not None and kind.subject.word == "forest":
        warm(["trees"], lambda said: typer.echo(f"leaveout: {said}", err=True))

    def tell(done: Deletion) -> None:
        if receipt is not None:
            held = Held(done.line.decode(), dict(done.openings))
            write_whole(receipt, json.dumps(asdict(held), indent=1).encode() + b"\n")
        _say_forgotten(done, receipt)
        for path in done.former:
            cure = "keep it elsewhere as the account of what its answers cost"
            typer.echo(f"note: {path} is of the network before; {cure}", err=True)

    if kind is None:
        from leaveout.errors import TrainingError
        from leaveout.models.train.forget import forget_member

        for option in ["--from"] * (source is not None) + ["--check"] * check:
            raise TrainingError(
                f"{folder}: a network forgets the one row named, which its member lacks; drop "
                f"{option}"
            )
        forget_member(folder, rows or (), tell, sign)
        return
    listed = changes.rows_of_table(kind, source, folder) if source is not None else ()
    changes.delete_rows(kind, folder, [*(rows or ()), *listed], check, tell, sign)
    for name in kind.read(folder).scales_left():
        typer.echo(
            f"note: column {name!r} keeps a scale that no remaining row spans; train again if the "
            "least or greatest number of a forgotten row must not be known",
            err=True,
        )


_ROWLESS = {
    "ballots.npz": "votes are kept here, neither the rows nor what trains a member; run leaveout "
    "partition on the table without the row",
    "state.npz": "a service trains its shards by an estimator that is not kept here; its own "
    "program deletes, and retrains them: ShardedClassifier.load(folder, estimator).delete([...])",
    "service.toml": "settings of a service hold no rows; name them where it runs: "
    "ShardedClassifier.load(folder, estimator).delete([...])",
}
"""Why a folder with a file has nothing that forgets."""


def _kind(folder: Path) -> type[ModelFolder] | None:
    """Return what a folder holds; None for a network."""
    from leaveout.errors import TrainingError
    from leaveout.models.forest.columns import FOREST
    from leaveout.models.linear.file import LINEAR
    from leaveout.models.train.export import NETWORK

    if (folder / LINEAR).exists():
        from leaveout.models.linear.folder import LinearFolder

        return LinearFolder
    if (folder / NETWORK).exists():
        return None
    if not folder.is_dir():
        raise TrainingError(f"{folder}: no such folder; name the folder of a model")
    if (folder / FOREST).exists():
        from leaveout.models.forest.folders import ForestFolder

        return ForestFolder
    if (folder / "trees.npz").exists():
        raise TrainingError(f"{folder}: trees of a library cannot forget; train them again")
    for name, why in _ROWLESS.items():
        if (folder / name).exists():
            raise TrainingError(f"{folder}: {why}")
    raise TrainingError(
        f"{folder}: no {FOREST}, {LINEAR} or {NETWORK}; leaveout forest train, linear train and "
        "train create such folders"
    )


def _say_forgotten(done: Deletion, receipt: Path | None) -> None:
    own = done.receipt
    assert own is not None
    rows = [("seconds", f"{done.seconds:.4f}")]
    compared = "" if done.retraining is None else "; training on the remaining rows agrees"
    if own.coefficients or own.scores:
        said = f"proved: at most {own.coefficients:.2g} in all coefficients{compared}"
        rows += [
            ("from minimum", said),
            ("", f"at most {own.scores:.2g} in any score of linear.spec's inputs"),
        ]
    else:
        rows.append(("equal", f"bit for bit to training without them{compared}"))
    rows.append(("receipt", f"number {own.number}" + (f", {receipt}" if receipt else "")))
    say_changed(done, ("forgotten", f"{own.unit}s left", done.left), rows)


def receipts(
    folder: Path = _FOLDER,
    own: Path | None = option(
        "A receipt that forget --receipt wrote: check that it is in the chain, and about the rows "
        "that it names.",
        "--of",
        metavar="FILE",
    ),
    key: Path | None = option(
        "Public key that must have signed every receipt of rows that were forgotten.",
        metavar="FILE",
    ),
) -> None:
    """List the receipts of a model, and check them.

    Each states the digest of the one before, and the last one that of the model in the folder, so
    that none is changed, dropped or moved unseen. Nothing of the rows is needed.

    For example: leaveout receipts clinic --of mine.json --key clinic.pub

    Exit status: 0 all hold, 2 something does not.
    """
    from leaveout.kernel.receipts import check_claim
    from leaveout.kernel.refusal import Rejected
    from leaveout.verifier.evidence.signing import read_public, verify_line
    from leaveout.verifier.evidence.statement import EvidenceError, TamperedError

    kind = _kind(folder)
    if kind is None:
        from leaveout.models.train.forget import receipts_of

        found = receipts_of(folder)
    else:
        found = kind.read(folder).receipts
    if not found.lines:
        raise EvidenceError(f"{folder}: no receipts; the first change of its rows writes one")
    if key is not None:
        public = read_public(key)
        for line in found.lines:
            if line.receipt.removed:
                name = f"{folder}: receipt {line.receipt.number}"
                try:
                    verify_line(line.content, name, public, key)
                except TamperedError as wrong:
                    raise EvidenceError(str(wrong)) from None
    said = _table(found)
    if own is not None:
        content, openings = _read_claim(own)
        try:
            receipt = check_claim(found.lines, content, openings)
        except Rejected as wrong:
            raise EvidenceError(f"{own}: {wrong}") from None
        about = some(tuple(openings))
        said += f"\n{own}: receipt {receipt.number}, of {receipt.time}, about {about}"
    write_out(said + "\n")


def _read_claim(path: Path) -> tuple[bytes, dict[str, str]]:
    """Return the receipt that somebody kept, and the openings of names."""
    from leaveout.files import SETTINGS, read_whole, why_unread
    from leaveout.kernel.records import decode
    from leaveout.verifier.evidence.statement import EvidenceError

    try:
        held = decode(read_whole(path, SETTINGS), Held)
    except OSError as error:
        raise EvidenceError(f"{path}: {why_unread(error)}") from None
    except ValueError as error:
        raise EvidenceError(f"{path}: not what forget --receipt wrote: {error}") from None
    if not held.openings:
        raise EvidenceError(f"{path}: opens no row's name, so it is about nobody")
    return held.receipt.encode(), held.openings


def _table(found: Receipts) -> str:
    rows = []
    for line in found.lines:
        own = line.receipt
        near = f"within {own.coefficients:.2g}" if own.coefficients else "bit for bit"
        signed = f", said to be signed by {', '.join(k[:8] for k in line.keys)}" * bool(line.keys)
        unit = " group" * (own.unit == "group")
        said = f"{own.time}  {own.action} {own.rows:,}{unit}, {own.left:,} left, {near}{signed}"
        rows.append((str(own.number), said))
    return lines([*rows, ("chain", "each follows the one before; the last is of this model")])

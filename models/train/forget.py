"""Forgetting a row of a network: the member that was trained without it takes its place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx

from leaveout.errors import TrainingError
from leaveout.files import (
    MODEL,
    hold_folder,
    read_whole,
    why_unread,
)
from leaveout.models.family import FAMILY, Family
from leaveout.models.family_load import load_family
from leaveout.models.onnx.file import network_from_bytes
from leaveout.models.replay import with_parameters
from leaveout.models.train.changes import Deletion, new_seed
from leaveout.models.train.export import BOUNDS, NETWORK, SPEC
from leaveout.models.train.folder import REQUEST, new_files, new_request, seed_of
from leaveout.models.train.receipts import RECEIPTS, Receipts, Sign, openings

_OF_MEMBERS = (FAMILY, SPEC, BOUNDS)
"""What is made of the members, who all but one learnt from the row."""


def receipts_of(directory: Path) -> Receipts:
    """Return the receipts of a network."""
    path = directory / NETWORK

    def digest() -> str:
        return hashlib.sha256(read_whole(path, MODEL)).hexdigest()

    return Receipts.read(directory, digest, TrainingError)


def forget_member(
    directory: Path,
    rows: Sequence[str],
    tell: Callable[[Deletion], None] = lambda done: None,
    sign: Sign | None = None,
) -> Deletion:
    """Replace a network by its member without a row, or without a group of them.

    The network is then bit for bit the one that was trained without the row. The other members
    learnt from it, so the family goes, and what was made of it.

    Parameters
    ----------
    directory : Path
        As `leaveout.models.train.run` wrote it.
    rows : sequence of str
        One name, or a number from 0 where rows have none.
    tell, sign
        As of `leaveout.models.train.changes.delete_rows`.

    Raises
    ------
    TrainingError
        If there is no such member; the folder is then as it was.
    """
    asked = tuple(row.strip() for row in rows)
    request = msgspec.json.encode(["forget", *asked])
    try:
        with hold_folder(directory):
            done = _forget(directory, asked, request, sign)
            tell(done)
            (directory / REQUEST).unlink(missing_ok=True)
            return done
    except BlockingIOError:
        raise TrainingError(f"{directory}: another program is changing it; wait for it") from None
    except OSError as error:
        raise TrainingError(f"{directory}: {why_unread(error)}") from None


def _forget(directory: Path, asked: tuple[str, ...], request: bytes, sign: Sign | None) -> Deletion:
    receipts, path = receipts_of(directory), directory / NETWORK
    if not (directory / FAMILY).exists():
        seed = seed_of(directory, request)
        if seed is None or receipts.last is None:
            raise TrainingError(
                f"{directory}: no {FAMILY}, so no member takes the network's place; train it again "
                "without the row"
            )
        return _report(directory, asked, receipts, seed, is_finished=True)
    held = read_whole(path, MODEL)
    family = load_family(directory / FAMILY, network_from_bytes(held, str(path)))
    member, left = _member_without(directory, family, asked)
    own = {name: value[0] for name, value in family.take([member]).items()}
    raw = with_parameters(onnx.load_from_string(held), own).SerializeToString()
    seed, digest = new_seed(), hashlib.sha256(raw).hexdigest()
    facts = family.manifest.data
    unit = "group" if facts is not None and facts.group else "row"
    receipts = receipts.then(
        "forget", 1, left, digest, (0.0, 0.0), openings(seed, asked), sign, unit
    )
    files = {NETWORK: raw, REQUEST: new_request(seed, request), **receipts.files()}
    with new_files(directory, files, _OF_MEMBERS):
        pass
    return _report(directory, asked, receipts, seed, is_finished=False)


def _member_without(directory: Path, family: Family, asked: Sequence[str]) -> tuple[int, int]:
    """Return the member without a row, and how many rows it was trained on."""
    facts = family.manifest.data
    if len(asked) != 1:
        raise TrainingError(
            f"{directory}: a member lacks one row, so name one; train again without several"
        )
    named = () if facts is None else facts.ids
    known = {name: row for row, name in enumerate(named)} or {
        str(row): row for row in family.removed.tolist()
    }
    found = np.flatnonzero(family.removed == known.get(asked[0], -1))
    if not len(found):
        what = "is named so" if asked[0] not in known else "lacks it"
        raise TrainingError(
            f"{directory}: no member {what} (row {asked[0]!r}); train the network again without it"
        )
    rows = len(family) if facts is None else facts.rows
    return int(found[0]), rows - 1


def _report(
    directory: Path, asked: tuple[str, ...], receipts: Receipts, seed: bytes, *, is_finished: bool
) -> Deletion:
    assert receipts.last is not None
    others = tuple(
        path
        for path in sorted(directory.iterdir())
        if path.is_file() and path.name not in {NETWORK, REQUEST, *receipts.files()}
    )
    return Deletion(
        asked, receipts.last.left, 0.0, None, None, (directory / NETWORK, directory / RECEIPTS),
        is_finished, (), others, receipts.last, openings(seed, asked), receipts.lines[-1].content,
    )  # fmt: skip

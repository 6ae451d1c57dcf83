"""Checkpoints: search states in a file from which a later run resumes."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.bab.native.files.records import BLOCK, Record, Table, pack_records, unpack_records
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Finding, Question
from leaveout.bab.native.workers.worker import FailedError, Saved, Tables, WorkerState
from leaveout.bab.result import SearchResult
from leaveout.errors import CheckpointError
from leaveout.files import ARCHIVE, OWNER_ONLY, open_atomically, open_file
from leaveout.kernel.files import refuse_damage
from leaveout.models.archive import put_array
from leaveout.user_key import bears_mark, leave_room, mark, mark_file, state_folder

_INDEX = "index.json"
_COPIED = 2**20
_PURPOSE = "checkpoint"


class DamagedError(Exception):
    """The file is not an archive, or has changed since it was written."""


class NotOwnError(Exception):
    """The file was not written by this user on this machine, or was changed since."""


class Writer:
    """Writer of one folder."""

    def __init__(self, file: zipfile.ZipFile, folder: str) -> None:
        self._file, self._folder = file, folder

    def array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array, without a copy in memory."""
        put_array(self._file, f"{self._folder}/{name}", array)


class Archive:
    """A zip of arrays, never executed, with a JSON index and a user's MAC."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: dict[str, Any] = {}
        # A missing key must fail before the search, not at its end.
        mark(_PURPOSE, ())
        if not path.exists():
            return
        try:
            with (
                refuse_damage(),
                open_file(path, ARCHIVE) as stream,
                zipfile.ZipFile(stream) as file,
            ):
                bad = file.testzip()
                if bad is not None:
                    raise DamagedError(f"{bad} is damaged")
                index = json.loads(file.read(_INDEX))
                if not bears_mark(stream, _PURPOSE):
                    raise NotOwnError
                self.index, self._stamp = index, _stamp(stream)
        except (ValueError, KeyError) as error:
            raise DamagedError(str(error)) from None
        if not isinstance(self.index, dict):
            raise DamagedError("its index is not a JSON object")

    def array(self, folder: str, name: str) -> NDArray[Any]:
        """Read an array."""
        try:
            with (
                refuse_damage(),
                self._open_checked() as stream,
                zipfile.ZipFile(stream) as file,
                file.open(f"{folder}/{name}.npy") as array,
            ):
                return np.asarray(npy.read_array(array, allow_pickle=False))
        except (ValueError, KeyError) as error:
            raise DamagedError(str(error)) from None

    def replace(self, folder: str, write: Callable[[Writer], None], index: dict[str, Any]) -> None:
        """Replace one folder and the index; other folders are unchanged.

        The file is always complete: a new one replaces the old once it is on disk.
        """
        with open_atomically(self.path, OWNER_ONLY) as stream:
            with zipfile.ZipFile(stream, "w") as new:
                self._copy(new, folder)
                write(Writer(new, folder))
                new.writestr(_INDEX, json.dumps(index, allow_nan=True))
                leave_room(new)
            mark_file(stream, _PURPOSE)
            stream.flush()
            stamp = _stamp(stream)
        self.index, self._stamp = index, stamp

    def _copy(self, new: zipfile.ZipFile, without: str) -> None:
        if not self.index:
            return
        with self._open_checked() as stream, zipfile.ZipFile(stream) as old:
            for entry in old.infolist():
                if entry.filename == _INDEX or entry.filename.startswith(f"{without}/"):
                    continue
                with (
                    old.open(entry) as source,
                    new.open(entry.filename, "w", force_zip64=True) as target,
                ):
                    shutil.copyfileobj(source, target, _COPIED)

    def _open_checked(self) -> BinaryIO:
        """Open the file whose MAC was checked, refusing a substitute."""
        stream = open_file(self.path, ARCHIVE)
        if _stamp(stream) != self._stamp:
            stream.close()
            raise DamagedError("another process changed it in the meantime")
        return stream


def _stamp(stream: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(stream.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


W = TypeVar("W", bound=Finding)

EVERY = 50.0
"""Seconds between checkpoints, unless writing one takes long."""

_SHARE = 4.0  # ... and at least this many times as long as writing the last one took

_FORMAT = 4


class Checkpoints:
    """The checkpoints of all searches of a run, in one file."""

    def __init__(self, path: Path, version: str) -> None:
        self.path, self._version = path, version
        if not path.parent.is_dir():
            raise CheckpointError(f"{path}: no such folder: {path.parent}")
        try:
            self._archive = Archive(path)
        except DamagedError as error:
            raise self._damage_error(error) from None
        except NotOwnError:
            raise CheckpointError(
                f"{path}: not written by this user here, or changed since, so it is not trusted: "
                "name another file, or remove it (a checkpoint of yours from another machine "
                f"needs that machine's key, as {state_folder() / 'key'})"
            ) from None
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror or error}") from None
        index = self._archive.index
        if index and index.get("format") != _FORMAT:
            raise CheckpointError(f"{path}: a checkpoint of another version of leaveout")

    def of(
        self, digests: dict[str, str], label: int, options: NativeOptions, name: str, statement: str
    ) -> Checkpoint:
        """Return the checkpoint of one search."""
        # The names are used in messages. Proofs of another version are not reused.
        question = {
            "version": self._version,
            **digests,
            "statement": statement,
            "gap": options.gap,
            "certificate": options.certificate,
        }
        folder = f"{name}/{label}"
        known = self._searches.get(folder, {}).get("question", question)
        for field in question:
            if field == "certificate" and known.get(field) != question[field]:
                given = "with" if known.get(field) else "without"
                raise CheckpointError(
                    f"{self.path}: a checkpoint of a run {given} --certificate, which stores "
                    f"different data; resume {given} --certificate, or name another file"
                )
            if known.get(field) != question[field]:
                raise CheckpointError(
                    f"{self.path}: a checkpoint for another question: the {field} of {name!r}, "
                    f"label {label}, differs; name another file, or remove this one"
                )
        return Checkpoint(self, folder, question)

    def only(self, wanted: Iterable[Checkpoint]) -> None:
        """Refuse a file with searches other than the requested ones."""
        folders = {each.folder for each in wanted}
        for folder in self._searches:
            if folder not in folders:
                name, _, label = folder.rpartition("/")
                raise CheckpointError(
                    f"{self.path}: a checkpoint for another specification: it contains {name!r}, "
                    f"label {label}, which is not in this one; name another file, or remove this "
                    "one"
                )

    def discard(self) -> None:
        """Discard all checkpoints, since some content is wrong."""
        self.path.unlink(missing_ok=True)
        self._archive.index = {}

    @property
    def _searches(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._archive.index.get("searches", {}))

    def _get(self, folder: str) -> dict[str, Any] | None:
        return self._searches.get(folder)

    def _put(self, folder: str, known: dict[str, Any], write: Callable[[Writer], None]) -> None:
        index = {"format": _FORMAT, "searches": {**self._searches, folder: known}}
        try:
            self._archive.replace(folder, write, index)
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot write: {error.strerror or error}") from None

    def _array(self, folder: str, name: str) -> NDArray[Any]:
        try:
            return self._archive.array(folder, name)
        except DamagedError as error:
            raise self._damage_error(error) from None

    def _damage_error(self, error: Exception) -> CheckpointError:
        """Return the error for a damaged file."""
        return CheckpointError(
            f"{self.path}: damaged, or not a checkpoint ({error}); name another file, or remove it"
        )


class Checkpoint:
    """The checkpoint of one search."""

    def __init__(self, all_: Checkpoints, folder: str, question: dict[str, Any]) -> None:
        self._all, self.folder, self._question = all_, folder, question
        self.cost = 0.0
        self._last = -math.inf

    @property
    def has_state(self) -> bool:
        """Whether there is a state or a result."""
        return self._all._get(self.folder) is not None

    @property
    def description(self) -> str:
        """A description of the saved results; empty if there are none yet."""
        known = self._all._get(self.folder)
        if known is None:
            return ""
        name, _, label = self.folder.rpartition("/")
        is_over = "result" in known
        seconds = known["result"]["seconds"] if is_over else known["seconds"]
        done = "the result is loaded from" if is_over else "resumes from"
        return f"{name}, label {label}: {done} {self._all.path}, after {seconds:.1f} s of search"

    def due(self) -> bool:
        """Return whether it is time for the next checkpoint."""
        pause = max(EVERY - 2 * self.cost, _SHARE * self.cost)
        return time.perf_counter() - self._last >= pause

    def discard(self) -> None:
        """Discard all searches in the file."""
        self._all.discard()

    def save(self, saved: Saved, tables: Tables) -> None:
        """Save the state of a search."""
        begun = time.perf_counter()

        def write(writer: Writer) -> None:
            writer.array("before", saved.before)
            if saved.point is not None:
                writer.array("point", saved.point)
            for w, state in enumerate(saved.states):
                writer.array(f"{w}/closed", state.closed)
                for i in range(state.blocks):
                    _write(writer, f"{w}/nodes/{i}", tables(w, i))
            _write_records(writer, saved.records)

        known = {
            "question": self._question,
            "member": saved.member,
            "proved": saved.proved,
            "cut": saved.cut,
            "seconds": saved.seconds,
            "records": len(saved.records),
            "states": [_plain(state) for state in saved.states],
        }
        self._all._put(self.folder, known, write)
        self.cost = time.perf_counter() - begun
        self._last = begun

    def load(self) -> Saved | None:
        """Return the saved state of the search; read its nodes with `table`."""
        known = self._all._get(self.folder)
        if known is None or "result" in known:
            return None
        return Saved(
            self._point(known),
            known["member"],
            self._array("before"),
            known["proved"],
            known["cut"],
            known["seconds"],
            self.states(),
            self._records(known["records"]),
        )

    def states(self) -> list[WorkerState]:
        """Return the saved states of the workers."""
        known = self._all._get(self.folder)
        return [
            WorkerState(closed=self._array(f"{w}/closed"), **state)
            for w, state in enumerate(known["states"] if known else [])
        ]

    def table(self, worker: int, number: int) -> Table:
        """Return a saved table of a worker's nodes."""
        return self._table(f"{worker}/nodes/{number}")

    def finish(self, question: Question[W], result: SearchResult[W], records: list[Record]) -> None:
        """Save the result of a completed search."""
        witness = result.witness

        def write(writer: Writer) -> None:
            writer.array("before", result.member_upper)
            if witness is not None:
                writer.array("point", question.witness_point(witness))
            _write_records(writer, records)

        known = {
            "question": self._question,
            "member": -1 if witness is None else witness.member,
            "records": len(records),
            "result": {
                "upper": result.upper,
                "closed": result.closed,
                "reason": result.reason,
                "detail": result.detail,
                "solved": result.solved,
                "seconds": result.seconds,
            },
        }
        self._all._put(self.folder, known, write)

    def load_result(self, question: Question[W]) -> tuple[SearchResult[W], list[Record]] | None:
        """Return the result and records of a completed search, or None."""
        known = self._all._get(self.folder)
        if known is None or "result" not in known:
            return None
        witness = self.replay(self._point(known), known["member"], question)
        result = SearchResult(
            label=question.label,
            lower=witness.value if witness else question.least,
            witness=witness,
            member_upper=self._array("before"),
            **known["result"],
        )
        return result, self._records(known["records"])

    def replay(
        self, point: NDArray[np.floating] | None, member: int, question: Question[W]
    ) -> W | None:
        """Replay a saved witness and return it."""
        if point is None:
            return None
        witness = question.replay(point, member)
        if witness is None:
            raise self._all._damage_error(
                ValueError(f"its witness for {self.folder} is not a counter-example")
            )
        return witness

    def _point(self, known: dict[str, Any]) -> NDArray[np.floating] | None:
        return self._array("point") if known["member"] >= 0 else None

    def _records(self, count: int) -> list[Record]:
        records: list[Record] = []
        for i in range(-(-count // BLOCK)):
            names = ("rows", "errors", "members", "cz", "cd", "share")
            records += unpack_records({name: self._array(f"records/{i}/{name}") for name in names})
        return records

    def _table(self, name: str) -> Table:
        return Table(self._array(f"{name}/rows"), self._array(f"{name}/members"))

    def _array(self, name: str) -> NDArray[Any]:
        return self._all._array(self.folder, name)


_LARGEST = 2**30  # bytes of nodes above which a search that pauses is not kept


class Pause(Checkpoint):
    """The state of one search in memory, from which the same run may go on."""

    def __init__(self) -> None:
        self.cost, self.folder = 0.0, "a search that paused"
        self._saved: Saved | None = None
        self._tables: dict[tuple[int, int], Table] = {}

    @property
    def has_state(self) -> bool:
        return self._saved is not None

    def due(self) -> bool:
        """See `Checkpoint.due`: the state at the end is enough."""
        return False

    def discard(self) -> None:
        self._saved, self._tables = None, {}

    def save(self, saved: Saved, tables: Tables) -> None:
        """See `Checkpoint.save`; raise `FailedError` if the state is too large."""
        self.discard()
        found, size = {}, 0
        for worker, state in enumerate(saved.states):
            for number in range(state.blocks):
                table = found[worker, number] = tables(worker, number)
                size += table.rows.nbytes + table.members.nbytes
                if size > _LARGEST:
                    raise FailedError("too many nodes to keep")
        self._saved, self._tables = saved, found

    def load(self) -> Saved | None:
        return self._saved

    def states(self) -> list[WorkerState]:
        return [] if self._saved is None else self._saved.states

    def table(self, worker: int, number: int) -> Table:
        return self._tables[worker, number]

    def finish(self, question: Question[W], result: SearchResult[W], records: list[Record]) -> None:
        """See `Checkpoint.finish`: nothing is left to go on with."""
        self.discard()

    def load_result(self, question: Question[W]) -> tuple[SearchResult[W], list[Record]] | None:
        """See `Checkpoint.load_result`: a search that is over is not asked again."""
        return None

    def replay(
        self, point: NDArray[np.floating] | None, member: int, question: Question[W]
    ) -> W | None:
        return None if point is None else question.replay(point, member)


def _write(writer: Writer, name: str, table: Table) -> None:
    writer.array(f"{name}/rows", table.rows)
    writer.array(f"{name}/members", table.members)


def _write_records(writer: Writer, records: list[Record]) -> None:
    for i, start in enumerate(range(0, len(records), BLOCK)):
        for name, array in pack_records(records[start : start + BLOCK]).items():
            writer.array(f"records/{i}/{name}", array)


def _plain(state: WorkerState) -> dict[str, Any]:
    """Return all of a state except its array."""
    return {each.name: getattr(state, each.name) for each in fields(state) if each.name != "closed"}

"""Processes that are ended, and machines that lose power, at any call by which a program writes.

A process that is ended at a call has made all calls before it. A machine that loses power keeps
what was synced: of each file its content, of each folder its names; and of the rest whatever it
likes, though a call that names, renames or removes happens as a whole or not at all.
"""

from __future__ import annotations

import builtins
import io
import itertools
import os
import re
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.models.train.folder import REQUEST

from support.depth import IS_DEEP, STRIDE, rounds

__all__ = [
    "Call",
    "Kept",
    "contents",
    "ended_at",
    "ends",
    "holding",
    "lost",
    "recorded",
    "restored",
]

Kept = dict[str, "bytes | None"]
"""What a folder holds, by path in it; None for a folder."""

_MOST = 5 if IS_DEEP else 3
"""Unsynced calls of which every subset is tried; of more, some subsets at random."""
_TRIED = rounds(24)
_ENDED = 9
_SHORT = 100
"""Bytes that are written in one call; more of them in two."""
_PATHS = {
    "mkdir": 1, "rmdir": 1, "unlink": 1, "remove": 1, "rename": 2, "replace": 2, "link": 2,
    "chmod": 1, "chown": 1, "setxattr": 1,
}  # fmt: skip
"""Calls by name, and how many paths they take."""


@dataclass(frozen=True)
class Call:
    """A call, what it is about, and what is written where."""

    name: str
    paths: tuple[str, ...]
    at: int = 0
    data: bytes = b""


@contextmanager
def _watched(on_call: Callable[[Call], None]) -> Iterator[None]:
    """Tell of every call that writes, before it is made; of a new file once it is there, too.

    Databases write by themselves: told is of every statement.
    """
    true = {name: getattr(os, name) for name in (*_PATHS, "fsync", "open")}
    opened, connected = io.open, sqlite3.connect

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            content = bytes(data)
            middle = len(content) // 2 if len(content) > _SHORT else 0
            for part in filter(None, (content[:middle], content[middle:])):
                on_call(Call("write", (_path(self.fileno()),), self.tell(), part))
                super().write(part)
            return len(content)

    def named(name: str) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            folder = options.get("dir_fd")
            where = Path.cwd() if folder is None else Path(_path(folder))
            paths = tuple(str(where / os.fspath(each)) for each in given[: _PATHS[name]])
            on_call(Call(name, paths))
            return true[name](*given, **options)

        return call

    def fsync(handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        on_call(Call("fsync", (_path(number),)))
        true["fsync"](handle)

    def open_file(path: Any, flags: int, *given: Any, **options: Any) -> int:
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
        if is_new:
            on_call(Call("about to create", ()))
        handle: int = true["open"](path, flags, *given, **options)
        if is_new:
            on_call(Call("create", (_path(handle),)))
        return handle

    def stream(file: Any, mode: str = "r", *given: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+"):
            return opened(file, mode, *given, **options)
        assert mode in ("wb", "r+b"), mode
        if not isinstance(file, int):
            more = os.O_CREAT | os.O_TRUNC if mode == "wb" else 0
            file = open_file(file, os.O_RDWR | more, 0o666)
        raw = Raw(file, "r+b")
        return raw if 0 in (*given, options.get("buffering")) else io.BufferedRandom(raw)

    class Connection(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:
            on_call(Call("execute", ()))
            return super().execute(*given)

    def connect(*given: Any, **options: Any) -> sqlite3.Connection:
        return connected(*given, **options, factory=Connection)

    changed = {name: named(name) for name in _PATHS} | {"fsync": fsync, "open": open_file}
    try:
        for name, each in changed.items():
            setattr(os, name, each)
        io.open = builtins.open = stream
        sqlite3.connect = connect
        yield
    finally:
        for name, each in true.items():
            setattr(os, name, each)
        io.open = builtins.open = opened
        sqlite3.connect = connected


def _path(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


def recorded(action: Callable[[], object]) -> list[Call]:
    """Return the calls by which an action writes."""
    calls: list[Call] = []
    with _watched(calls.append):
        action()
    return calls


def ended_at(action: Callable[[], object], number: int) -> bool:
    """Run an action in a process that is ended at its call of a number; False if it makes fewer."""
    child = os.fork()
    if not child:
        numbers = itertools.count()

        def on_call(_: Call) -> None:
            if next(numbers) == number:
                os._exit(_ENDED)

        try:
            with _watched(on_call):
                action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, _ENDED), f"the action failed: {code}"
    return code == _ENDED


def ends(
    before: Kept, folder: Path, action: Callable[[], object], *, all_of_them: bool = False
) -> Iterator[int]:
    """Leave a folder as an action does that is ended, at one call after the other; give its number.

    Unless all are asked for, a number is left out if the folder is as it was at an earlier one, but
    for what is within files that are being written; only in CI none is passed over.
    """
    seen: set[object] = set()
    for number in itertools.count(0, STRIDE):
        restored(before, folder)
        if not ended_at(action, number):
            return
        found = frozenset(
            (re.sub(r"-\w{8}\.", "", name), b"" if ".partial" in name or REQUEST in name else text)
            for name, text in contents(folder).items()
        )
        if all_of_them or found not in seen:
            yield number
        seen.add(found)


def contents(folder: Path) -> Kept:
    """Return what a folder holds."""
    return {
        str(each.relative_to(folder)): None if each.is_dir() else each.read_bytes()
        for each in sorted(folder.rglob("*"))
    }


def holding(folder: Path, words: Iterable[bytes]) -> set[str]:
    """Return the names of files that hold any of some bytes, packed or not, whole or cut short."""
    found = set()
    for name, content in contents(folder).items():
        texts = [name.encode(), content or b"", *_unpacked(content or b"")]
        if any(word in text for word in words for text in texts):
            found.add(name)
    return found


def _unpacked(content: bytes) -> Iterator[bytes]:
    """Yield what the parts of an archive hold, as far as they are there (APPNOTE, 4.3.7)."""
    start = content.find(b"PK\3\4")
    while start >= 0:
        name, extra = struct.unpack_from("<HH", content.ljust(start + 30), start + 26)
        packed, text = content[start + 30 + name + extra :], b""
        unpacker = zlib.decompressobj(-15)
        with suppress(zlib.error):
            for at in range(0, len(packed), 64):
                text += unpacker.decompress(packed[at : at + 64])
        yield text
        start = content.find(b"PK\3\4", start + 4)


def restored(kept: Kept, folder: Path) -> None:
    """Make a folder hold this and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in sorted(kept.items()):
        if content is None:
            (folder / name).mkdir(mode=0o700)
        else:
            (folder / name).write_bytes(content)


def lost(
    before: Kept, root: Path, calls: Iterable[Call], rng: np.random.Generator
) -> Iterator[tuple[int, Kept]]:
    """Yield what a folder may hold where power is lost before a call, and that call's number.

    After the last call is a number, too: nothing that was promised by then may be missing.
    """
    disk, seen = _Disk(before, root), set()
    for number, call in enumerate((*calls, None)):
        for kept in disk.lost(rng):
            key = tuple(sorted(kept.items()))
            if key not in seen or call is None:
                seen.add(key)
                yield number, kept
        if call is not None:
            disk.call(call)


@dataclass(eq=False)
class _File:
    """A file, or a folder: what programs see of it, and what is synced of it."""

    names: dict[str, _File] | None = None
    content: bytearray = field(default_factory=bytearray)
    kept_names: dict[str, _File] = field(default_factory=dict)
    kept: bytes = b""


_Part = tuple[_File, str, "_File | None"]
"""What a name in a folder is of from now on."""


class _Disk:
    def __init__(self, before: Kept, root: Path) -> None:
        self._root = root
        self._top = _File({})
        # What is not synced, in order; of a renaming what must be there for it.
        self._waiting: list[tuple[tuple[_Part, ...], _Part | None]] = []
        for name, content in sorted(before.items()):
            made = _File({}) if content is None else _File(None, bytearray(content))
            made.kept = content or b""
            folder, leaf = self._place(str(root / name))
            _set(folder.names, leaf, made)
            folder.kept_names[leaf] = made

    def _find(self, path: str) -> _File | None:
        found: _File | None = self._top
        for part in Path(path).relative_to(self._root).parts:
            found = None if found is None or found.names is None else found.names.get(part)
        return found

    def _place(self, path: str) -> tuple[_File, str]:
        folder = self._find(str(Path(path).parent))
        assert folder is not None, path
        return folder, Path(path).name

    def call(self, call: Call) -> None:
        """Make a call."""
        if not call.paths or not Path(call.paths[0]).is_relative_to(self._root):
            return
        first = self._find(call.paths[0])
        if call.name in ("create", "mkdir"):
            made = _File({} if call.name == "mkdir" else None)
            self._change((*self._place(call.paths[0]), made))
        elif first is None:
            return
        elif call.name == "write":
            first.content[call.at : call.at + len(call.data)] = call.data
        elif call.name == "fsync":
            self._sync(first)
        elif call.name in ("rename", "replace"):
            old, new = self._place(call.paths[0]), self._place(call.paths[1])
            self._change((*old, None), (*new, first), needs=(*old, first))
        elif call.name == "link":
            self._change((*self._place(call.paths[1]), first))
        elif call.name in ("unlink", "remove", "rmdir"):
            place = self._place(call.paths[0])
            self._change((*place, None), needs=(*place, first))

    def _change(self, *parts: _Part, needs: _Part | None = None) -> None:
        for folder, name, file in parts:
            _set(folder.names, name, file)
        self._waiting.append((parts, needs))

    def _sync(self, file: _File) -> None:
        file.kept = bytes(file.content)
        left = []
        for parts, needs in self._waiting:
            if any(folder is file for folder, _, _ in parts):
                for folder, name, each in parts:
                    _set(folder.kept_names, name, each)
            else:
                left.append((parts, needs))
        self._waiting = left

    def lost(self, rng: np.random.Generator) -> Iterator[Kept]:
        """Yield what may be there once the power is back."""
        count = len(self._waiting)
        chosen: Iterable[Any] = itertools.product((False, True), repeat=count)
        if count > _MOST:
            some = (rng.random((_TRIED, count)) < 0.5).tolist()
            chosen = [(False,) * count, (True,) * count, *some]
        for which in chosen:
            names: dict[_File, dict[str, _File]] = {}
            for (parts, needs), is_kept in zip(self._waiting, which):
                if not is_kept:
                    continue
                for folder, _, _ in parts:
                    names.setdefault(folder, dict(folder.kept_names))
                if needs is None or names[needs[0]].get(needs[1]) is needs[2]:
                    for folder, name, file in parts:
                        _set(names[folder], name, file)
            for is_written in (False, True):
                yield dict(_held(self._top, names, "", is_written))


def _held(
    folder: _File, names: dict[_File, dict[str, _File]], at: str, is_written: bool
) -> Iterator[tuple[str, bytes | None]]:
    for name, file in names.get(folder, folder.kept_names).items():
        if file.names is not None:
            yield at + name, None
            yield from _held(file, names, f"{at}{name}/", is_written)
        else:
            yield at + name, bytes(file.content) if is_written else file.kept


def _set(names: dict[str, _File] | None, name: str, file: _File | None) -> None:
    assert names is not None
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file

"""Finished blocks on disk, from which an interrupted run resumes.

Network 0 is trained on all rows; network ``i`` up to ``members`` is member ``i - 1``. A block is a
range of networks in one file, complete or absent, so that a later run may divide the rest
differently.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.files import clear_partials, lock, make_folder, open_atomically, write_whole

_SETTINGS = "settings.json"
_LOCK = "lock"
_SUFFIX = ".npy"

MEMBERS = "members"
"""The setting that may grow, which extends a family."""

Settings = dict[str, object]

_SAID = {
    "architecture": "the architecture of the network differs",
    "data": "the data differ",
    "encoding": "the encoding differs",
    "names": "the names or units of rows, features or labels differ",
    "sample": "the sample of rows differs (a sample is drawn once, before any result is known)",
    "trained": "the training differs: it produces a different network on all rows",
}
"""Messages for settings whose values mean nothing to users."""


def write_block(folder: Path, start: int, stop: int, parameters: NDArray[np.float32]) -> None:
    """Write the parameters of networks ``start`` to ``stop - 1`` atomically."""
    target = folder / f"{start:09d}-{stop:09d}{_SUFFIX}"
    with open_atomically(target) as stream:
        # numpy's own writing does not report why it failed.
        stream.write(_header(*parameters.shape))
        stream.write(np.ascontiguousarray(parameters, dtype=np.float32).data.cast("B"))


def differences(there: Settings, here: Settings) -> list[str]:
    """Return the settings in which two runs differ, except for a growing number of members."""
    said = []
    for name in sorted(there.keys() | here.keys()):
        old, new = there.get(name), here.get(name)
        if old == new or (name == MEMBERS and _grows(old, new)):
            continue
        if name in _SAID:
            said.append(_SAID[name])
        else:
            said.append(f"{name} is {_value_text(old)} there and {_value_text(new)} here")
    return said


class Blocks:
    """The folder ``.partial`` of an output directory."""

    def __init__(self, folder: Path, parameters: int, free: int = 0) -> None:
        self.folder = folder
        self._parameters = parameters
        self._free = free

    @contextlib.contextmanager
    def open_folder(self, settings: Settings) -> Iterator[None]:
        """Lock the folder for one run; delete it unless a failed run has finished a block."""
        path = self.folder / _SETTINGS
        made = not self.folder.parent.exists()
        make_folder(self.folder.parent)
        # Leave-one-out networks reveal rows.
        self.folder.mkdir(mode=0o700, exist_ok=True)
        try:
            with _lock_folder(self.folder / _LOCK, self.folder.parent):
                try:
                    self._claim(path, settings)
                    yield
                except BaseException:
                    if not self._worth():
                        self.delete()
                    raise
                self.delete()
        finally:
            if made:
                # rmdir removes only an empty directory.
                with contextlib.suppress(OSError):
                    self.folder.parent.rmdir()

    def _claim(self, path: Path, settings: Settings) -> None:
        stored = self._stored_settings(path) if self._worth() else None
        if stored is not None and (said := differences(stored, settings)):
            raise TrainingError(
                f"{self.folder.parent} contains an unfinished run with other settings: "
                f"{'; '.join(said)}; choose another folder, or delete {self.folder}"
            )
        clear_partials(self.folder)
        if stored is None:
            for block in self.folder.glob(f"*{_SUFFIX}"):
                block.unlink()
        if stored != settings:
            write_whole(path, msgspec.json.encode(settings))

    def _worth(self) -> bool:
        return sum(map(len, self.finished_ranges())) > self._free

    def finished_ranges(self) -> list[range]:
        """Return the ranges of networks on disk, in order, disjoint."""
        ranges: list[range] = []
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            block = self._range(path)
            if block is not None and (not ranges or block.start >= ranges[-1].stop):
                ranges.append(block)
        return ranges

    def missing_ranges(self, networks: int, block: int) -> list[range]:
        """Return the missing networks in ranges of at most ``block``."""
        gaps, reached = [], 0
        for done in [*self.finished_ranges(), range(networks, networks)]:
            end = min(done.start, networks)
            gaps += [range(start, min(start + block, end)) for start in range(reached, end, block)]
            reached = done.stop
        return gaps

    def write(self, start: int, parameters: NDArray[np.float32]) -> None:
        """Write networks from ``start`` on; parameters have shape (networks, parameters)."""
        write_block(self.folder, start, start + len(parameters), parameters)

    def read(self, block: range) -> NDArray[np.float32]:
        """Memory-map a finished block, shape (networks, parameters)."""
        stored: NDArray[np.float32] = np.load(
            self.folder / f"{block.start:09d}-{block.stop:09d}{_SUFFIX}", mmap_mode="r"
        )
        return stored

    def delete(self) -> None:
        """Remove the folder and its content."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _range(self, path: Path) -> range | None:
        start, _, stop = path.stem.partition("-")
        if not (start.isdigit() and stop.isdigit()):
            return None
        block = range(int(start), int(stop))
        # Blocks are written atomically, so only the header needs checking.
        header = _header(len(block), self._parameters)
        try:
            with path.open("rb") as stream:
                whole = stream.read(len(header)) == header
                size = stream.seek(0, io.SEEK_END)
        except OSError:
            return None
        expected = len(header) + len(block) * self._parameters * np.dtype(np.float32).itemsize
        return block if len(block) and whole and size == expected else None

    def _stored_settings(self, path: Path) -> Settings | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise TrainingError(f"{path}: damaged ({error}); delete {self.folder}") from None


def _header(networks: int, parameters: int) -> bytes:
    stream = io.BytesIO()
    descr, shape = npy.dtype_to_descr(np.dtype(np.float32)), (networks, parameters)
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@contextlib.contextmanager
def _lock_folder(path: Path, directory: Path) -> Iterator[None]:
    """Lock the folder; raise if another run has it locked."""
    with path.open("wb") as stream:
        try:
            lock(stream.fileno())
        except BlockingIOError:
            raise TrainingError(
                f"{directory}: another training is writing here; wait for it, or choose another "
                "folder"
            ) from None
        yield


def _grows(old: object, new: object) -> bool:
    return isinstance(old, int) and isinstance(new, int) and old < new


def _value_text(value: object) -> str:
    """Return a setting's value as text."""
    return "absent" if value is None else msgspec.json.encode(value).decode()

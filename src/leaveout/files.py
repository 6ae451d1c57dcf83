"""Bounded reads of regular files, and atomic writes of files and folders.

A file is written to a temporary one in the same folder, synced and renamed. Files that belong
together are written into a temporary folder there; renaming that folder to `COMMIT` commits them:
from then on, opening any file in the outer folder first moves them into place (`settle`). Once a
writer returns, its output survives a loss of power.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from leaveout.kernel.regular_files import ARCHIVE as ARCHIVE
from leaveout.kernel.regular_files import UnusualFileError as UnusualFileError
from leaveout.kernel.regular_files import open_regular, refuse_mode, size_text

SETTINGS = 2**20
"""Most bytes of a file of settings."""
RESULTS = 2**30
"""Most bytes of a file of results."""
MODEL = 2**31
"""Most bytes of an ONNX file, as of any message of protobuf."""
TABLE = 2**32
"""Most bytes of a table."""
PARTIALS = ".leaveout-*.partial"
"""Files and folders that a killed process may leave in the folder it was writing to."""
COMMIT = ".leaveout-commit"
"""The folder of committed files that are still to be moved into the folder around it."""
OWNER_ONLY = 0o600
"""Permissions of private files, such as a guard's memory."""

_PATIENCE = 60.0
"""Seconds to wait while another program moves files into place, which takes milliseconds."""
_PAUSE = 0.005


def refuse_unusual(path: Path) -> None:
    """Raise on what is not a regular file, without opening it; follows links."""
    try:
        refuse_mode(path, path.stat().st_mode)
    except FileNotFoundError:
        return


def open_file(path: Path, largest: int) -> BinaryIO:
    """Open a regular file to read its bytes."""
    try:
        settle(path.parent)
        settle(Path(os.path.realpath(path)).parent)
    except ValueError as error:
        raise UnusualFileError(errno.EINVAL, f"is not a file name: {error}", str(path)) from None
    return open_regular(path, largest)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal."""
    digest = hashlib.sha256()
    with open_file(path, ARCHIVE) as stream:
        while block := stream.read(2**22):
            digest.update(block)
    return digest.hexdigest()


def open_text_file(path: Path, largest: int) -> io.TextIOWrapper:
    """Open a regular file as UTF-8 text with its line ends, like `open_file`."""
    return io.TextIOWrapper(open_file(path, largest), encoding="utf-8-sig", newline="")


def read_whole(path: Path, largest: int) -> bytes:
    """Return a regular file's content, as `open_file`, even if it grows meanwhile."""
    with open_file(path, largest) as stream:
        # `read` allocates all it is asked for, so it is asked for no more than the file's size.
        known = os.fstat(stream.fileno()).st_size
        data = stream.read(known + 1)
        if len(data) > known:
            data += stream.read(max(0, largest + 1 - len(data)))
    if len(data) > largest:
        raise UnusualFileError(errno.EFBIG, f"is larger than {size_text(largest)}", str(path))
    return data


def why_unread(error: OSError) -> str:
    """Return why a file cannot be read, to follow its name in a message."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return f"cannot read: {error.strerror or error}"


@contextmanager
def refuse_unread(kind: Callable[[str], Exception], place: object) -> Iterator[None]:
    """Turn a failure of the system to read into an error that names the place."""
    try:
        yield
    except OSError as error:
        raise kind(f"{place}: {why_unread(error)}") from None


@contextmanager
def refuse_unwritten(kind: Callable[[str], Exception], place: object) -> Iterator[None]:
    """Turn a failure of the system to write into an error that names the place."""
    try:
        yield
    except OSError as error:
        raise kind(f"{place}: cannot write: {error.strerror or error}") from None


@contextmanager
def open_atomically(path: Path, most: int = 0o666) -> Iterator[BinaryIO]:
    """Open a stream whose content becomes the file once it is on disk.

    Follows links; on failure the old file stays. A replaced file's permissions are kept.
    """
    target = path.resolve()
    settle(target.parent)
    refuse_unusual(target)
    handle, partial = partial_file(target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        _permit(partial, target, most)
        partial.replace(target)
        sync_folder(target.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes, most: int = 0o666) -> None:
    """Write a file atomically and durably."""
    with open_atomically(path, most) as stream:
        stream.write(content)


def partial_file(folder: Path) -> tuple[int, Path]:
    """Make a file readable by its owner only; while open, no other process clears it."""
    prefix, suffix = PARTIALS.split("*")
    while True:
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
        if _is_kept(handle, name):
            return handle, Path(name)
        os.close(handle)


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """Make a folder accessible to its owner only; delete what is left of it at the end."""
    prefix, suffix = PARTIALS.split("*")
    while True:
        made = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=folder))
        if sys.platform == "win32":  # where folders cannot be opened
            handle = None
            break
        handle = os.open(made, os.O_RDONLY)
        if _is_kept(handle, str(made)):
            break
        os.close(handle)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def clear_partials(folder: Path) -> None:
    """Remove partial files that killed programs left in a folder."""
    for partial in folder.glob(PARTIALS):
        with suppress(FileNotFoundError, BlockingIOError):
            if sys.platform == "win32" or partial.is_symlink():
                partial.unlink()  # Windows does not delete open files
                continue
            try:
                handle = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    lock(handle)
                    if partial.is_dir():
                        shutil.rmtree(partial)
                    else:
                        partial.unlink()
                finally:
                    os.close(handle)
            except PermissionError as error:
                raise UnusualFileError(
                    errno.EPERM,
                    f"cannot remove {partial.name}, left half-written by an interrupted program: "
                    f"{error.strerror}",
                    str(partial),
                ) from None


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; finish interrupted commits and remove partial files."""
    with _lock_folder(folder):
        _finish(folder)
        clear_partials(folder)
        yield


def commit(staged: Path, folder: Path, gone: Iterable[str] = ()) -> None:
    """Move all files of one folder into another, or none, durably.

    Replaced files' permissions are kept.
    """
    for name in gone:
        if os.path.lexists(folder / name):
            # An empty folder marks a file to delete.
            (staged / name).mkdir()
    for each in sorted(each for each in staged.iterdir() if each.is_file()):
        target = folder / each.name
        if target.is_symlink():
            raise UnusualFileError(
                errno.ELOOP, f"{target.name} is a link; replace it by its target", str(target)
            )
        _permit(each, target, stat.S_IMODE(each.stat().st_mode))
    _sync_all(staged)
    staged.rename(folder / COMMIT)
    try:
        sync_folder(folder)
        _finish(folder)
    except OSError as error:
        raise UnusualFileError(
            error.errno or errno.EIO,
            f"the change is not finished ({error.strerror}); the next command finishes it",
            str(folder),
        ) from None


def put_folder(staged: Path, target: Path, gone: Iterable[str] = ()) -> None:
    """Put a folder at a new place, or its files into an existing one, like `commit`."""
    if target.exists():
        with hold_folder(target):
            commit(staged, target, set(gone) - {each.name for each in staged.iterdir()})
        return
    _sync_all(staged)
    staged.chmod(0o777 & ~_mask())
    staged.rename(target)
    sync_folder(target.parent)


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder, made if needed: all or none, like `commit`."""
    is_new = not folder.exists()
    make_folder(folder)
    try:
        with hold_folder(folder), partial_folder(folder) as staged:
            for name, content in contents.items():
                (staged / name).write_bytes(content)
            commit(staged, folder)
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise


def make_folder(folder: Path) -> None:
    """Make a folder and its parents if missing."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def settle(folder: Path) -> None:
    """Finish an interrupted change of a folder that was already decided (`commit`)."""
    end = time.monotonic() + _PATIENCE
    while os.path.lexists(folder / COMMIT):
        try:
            with _lock_folder(folder):
                _finish(folder)
        except BlockingIOError:
            # The program that committed it is still moving it.
            if time.monotonic() > end:
                raise _unfinished_error(folder, "another program keeps it locked") from None
            time.sleep(_PAUSE)
        except UnusualFileError:
            raise
        except OSError as error:
            raise _unfinished_error(folder, error.strerror or str(error)) from None


def lock(descriptor: int) -> None:
    """Lock an open file or folder until it is closed, where the system can."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_folder(folder: Path) -> None:
    """Flush a folder's names to disk, where possible."""
    if sys.platform == "win32":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # a folder that may be written to but not read
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise
    finally:
        os.close(handle)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":  # where folders cannot be opened
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock(handle)
        except BlockingIOError:
            raise BlockingIOError(
                errno.EAGAIN, "another program is changing this folder; wait for it", str(folder)
            ) from None
        except OSError:
            pass  # a file system without such locks
        yield
    finally:
        os.close(handle)


def _sync_all(folder: Path) -> None:
    """Flush a folder's whole content to disk."""
    for each in sorted(folder.rglob("*")):
        if each.is_dir():
            sync_folder(each)
        else:
            with each.open("r+b" if sys.platform == "win32" else "rb") as stream:
                os.fsync(stream.fileno())
    sync_folder(folder)


def _is_kept(handle: int, name: str) -> bool:
    """Lock a partial file or folder; False if another program was clearing it."""
    try:
        lock(handle)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks, where `clear_partials` cannot lock it either.
        return True
    return os.path.lexists(name)


def _finish(folder: Path) -> None:
    """Move the files of a commit that are not in their places yet."""
    staged = folder / COMMIT
    try:
        found = staged.lstat()
    except FileNotFoundError:
        return
    # A commit planted by a user without write access must not be carried out by a reader.
    trusted = {folder.stat().st_uid, *([os.geteuid()] if hasattr(os, "geteuid") else [])}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in trusted:
        raise _unfinished_error(folder, f"{COMMIT} belongs to another user")
    gone = []
    for each in sorted(staged.iterdir()):
        if each.is_dir() and not each.is_symlink() and not any(each.iterdir()):
            (folder / each.name).unlink(missing_ok=True)
            gone.append(each)
        else:
            each.replace(folder / each.name)
    sync_folder(folder)
    sync_folder(staged)
    for each in gone:
        each.rmdir()
    staged.rmdir()
    sync_folder(folder)


def _unfinished_error(folder: Path, why: str) -> UnusualFileError:
    """Return the error for a commit that cannot be finished."""
    return UnusualFileError(
        errno.EBUSY,
        f"an interrupted change of {folder} cannot be finished: {why}",
        str(folder),
    )


def _permit(made: Path, target: Path, most: int) -> None:
    """Give a replacement no more readers than the replaced file has."""
    try:
        before = target.stat()
    except FileNotFoundError:
        made.chmod(most & ~_mask())
        return
    mode = stat.S_IMODE(before.st_mode) & 0o777
    if sys.platform != "win32" and made.stat().st_gid != before.st_gid:
        try:
            os.chown(made, -1, before.st_gid)
        except OSError:
            mode &= 0o707
    if sys.platform == "linux":
        mode = _with_list(made, target, mode)
    made.chmod(mode)


def _mask() -> int:
    """Return the umask."""
    with suppress(OSError, StopIteration), Path("/proc/self/status").open() as lines:
        return int(next(line for line in lines if line.startswith("Umask:"))[6:], 8)
    # Until it is set back, files made by other threads get all permissions.
    mask = os.umask(0)
    os.umask(mask)
    return mask


_ACCESS_LIST = "system.posix_acl_access"


def _with_list(made: Path, target: Path, mode: int) -> int:
    """Copy a file's access control list to its replacement; owner-only if that fails."""
    assert sys.platform == "linux"
    try:
        found = os.getxattr(target, _ACCESS_LIST)
    except OSError:
        return mode
    try:
        os.setxattr(made, _ACCESS_LIST, found)
    except OSError:
        return mode & 0o700
    return mode

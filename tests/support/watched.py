"""Run a process and see each of its system calls that reaches out of it, those of its children too.

The kernel tells (a filter of seccomp, Linux 5.5 or newer): so what libraries do in threads of their
own is seen as well, and no tool is needed. A connection to another machine is refused, after it is
written down: nothing leaves the machine even where a test fails.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from support import children

_LAUNCHER = """
import ctypes, os, socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
code = bytes.fromhex(sys.argv[2])
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVS, SET_FILTER, NEW_LISTENER = 38, 1, 8
if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
program = Program(len(code) // 8, code)
number = int(sys.argv[3])
listener = libc.syscall(number, SET_FILTER, NEW_LISTENER, ctypes.byref(program))
if listener < 0:
    sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
socket.send_fds(channel, [b"."], [listener])
channel.close()
os.close(listener)
os.execvp(sys.argv[4], sys.argv[4:])
"""

_ARCHITECTURES = {
    "x86_64": (
        0xC000003E, 317,
        {
            "socket": 41, "connect": 42, "open": 2, "creat": 85, "openat": 257, "openat2": 437,
            "mkdir": 83, "mkdirat": 258, "rename": 82, "renameat": 264, "renameat2": 316,
            "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "mknod": 133,
            "mknodat": 259,
        },
    ),
    "aarch64": (
        0xC00000B7, 277,
        {
            "socket": 198, "connect": 203, "openat": 56, "openat2": 437, "mkdirat": 34,
            "renameat": 38, "renameat2": 276, "linkat": 37, "symlinkat": 36, "mknodat": 33,
        },
    ),
}  # fmt: skip

_PATHS = {
    "open": [(None, 0)], "creat": [(None, 0)], "openat": [(0, 1)], "openat2": [(0, 1)],
    "mkdir": [(None, 0)], "mkdirat": [(0, 1)], "rename": [(None, 1)], "renameat": [(2, 3)],
    "renameat2": [(2, 3)], "link": [(None, 1)], "linkat": [(2, 3)], "symlink": [(None, 1)],
    "symlinkat": [(1, 2)], "mknod": [(None, 0)], "mknodat": [(0, 1)],
}  # fmt: skip
"""Of each call that makes or changes a file, which arguments are the folder and the path."""

_FLAGS = {"open": 1, "openat": 2}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_AT_CWD = 0xFFFFFF9C

_ALLOW, _NOTIFY, _KILL = 0x7FFF0000, 0x7FC00000, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_CALL, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_RECEIVE, _SEND, _VALID = 0xC0502100, 0xC0182101, 0x40082102
_GO_ON = 1
_NOTICE, _REPLY = struct.Struct("QIIiIQ6Q"), struct.Struct("QqiI")


@dataclass
class Seen:
    """What a process and its children did.

    Attributes
    ----------
    sockets : list of (str, str)
        Made, other than those of this machine's own processes: family and type.
    connected : list of str
        Whom it tried to reach: an address, or the path of a socket.
    written : list of Path
        Files and folders that it made, changed or opened to write, whether it could or not.
    """

    sockets: list[tuple[str, str]] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)


class Watched:
    """A process under watch, started; `children.end_all` ends it after the test."""

    def __init__(
        self, command: Sequence[object], *, env: Mapping[str, str], cwd: Path, given: bool = False
    ) -> None:
        self.seen = Seen()
        ours, theirs = socket.socketpair()
        _, number, _ = _ARCHITECTURES[platform.machine()]
        with ours:
            with theirs:
                self.process = children.start(
                    [
                        sys.executable, "-S", "-c", _LAUNCHER, theirs.fileno(),
                        _filter().hex(), number, *command,
                    ],
                    env=dict(env), cwd=cwd, pass_fds=[theirs.fileno()],
                    stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
            _, (listener,) = _received(ours) or self._failed()
        self._thread = threading.Thread(target=self._listen, args=(listener,), daemon=True)
        self._thread.start()

    def finish(self, given: str | None = None) -> tuple[int, str, str]:
        """Wait for the end; return the exit status and what was said."""
        out, err = self.process.communicate(given, timeout=children.HANGS)
        self._thread.join(children.HANGS)
        return self.process.returncode, out, err

    def _failed(self) -> tuple[bytes, list[int]]:
        _, err = self.process.communicate(timeout=children.HANGS)
        raise AssertionError(f"the watch cannot be set: {err}")

    def _listen(self, listener: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        notice = bytearray(_NOTICE.size)
        while True:
            ((_, event),) = poll.poll()
            if not event & select.POLLIN:
                break  # All processes of the filter have ended.
            notice[:] = bytes(_NOTICE.size)
            try:
                fcntl.ioctl(listener, _RECEIVE, notice)
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.EINTR}:
                    continue  # Whoever called is gone.
                break
            name, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
            refused = self._note(pid, _NAMES[call], arguments)
            reply = _REPLY.pack(name, 0, -refused, 0 if refused else _GO_ON)
            with suppress(FileNotFoundError):
                fcntl.ioctl(listener, _SEND, bytearray(reply))
        os.close(listener)

    def _note(self, pid: int, call: str, arguments: Sequence[int]) -> int:
        """Write a call down; return the error that it is refused with, or 0."""
        if call == "socket":
            family, kind = (_low(each) for each in arguments[:2])
            self.seen.sockets.append((_family(family), _kind(kind & 0xF)))
        elif call == "connect":
            where, outside = _address(_memory(pid, arguments[1], min(_low(arguments[2]), 128)))
            self.seen.connected.append(where)
            return errno.ENETUNREACH if outside else 0
        else:
            for folder, place in _PATHS[call]:
                self.seen.written.append(_path(pid, folder, arguments, place))
        return 0


def _received(channel: socket.socket) -> tuple[bytes, list[int]] | None:
    channel.settimeout(children.HANGS)
    sent, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    return (sent, descriptors) if descriptors else None


def _filter() -> bytes:
    """Return the program of the filter: which calls the kernel tells of."""
    architecture, _, calls = _ARCHITECTURES[platform.machine()]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL),
    ]  # fmt: skip
    for name, number in calls.items():
        if name == "socket":
            code += [
                (_LOAD, 0, 0, _CALL), (_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, _ARGUMENTS), (_EQUAL, 0, 1, socket.AF_UNIX),
                (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOTIFY),
            ]  # fmt: skip
        elif name in _FLAGS:
            code += [
                (_LOAD, 0, 0, _CALL), (_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, _ARGUMENTS + 8 * _FLAGS[name]), (_ANY_BIT, 1, 0, _WRITING),
                (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _NOTIFY),
            ]  # fmt: skip
        else:
            code += [(_LOAD, 0, 0, _CALL), (_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *each) for each in code)


def _low(argument: int) -> int:
    return argument & 0xFFFFFFFF


def _memory(pid: int, start: int, size: int) -> bytes:
    with suppress(OSError, ValueError), Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        memory.seek(start)
        return memory.read(size)
    return b""


def _text(pid: int, start: int) -> str:
    """Return the path at an address; it may end at the end of a page that nothing follows."""
    found = b""
    while b"\0" not in found and len(found) < 4096:
        part = _memory(pid, start + len(found), 256 - (start + len(found)) % 256)
        if not part:
            break
        found += part
    return os.fsdecode(found.partition(b"\0")[0])


def _path(pid: int, folder: int | None, arguments: Sequence[int], place: int) -> Path:
    path = Path(_text(pid, arguments[place]))
    if path.is_absolute():
        return Path(os.path.normpath(path))
    at_cwd = folder is None or _low(arguments[folder]) == _AT_CWD
    link = "cwd" if at_cwd else f"fd/{_low(arguments[folder])}"
    with suppress(OSError):
        # As text: a folder that is gone meanwhile cannot be looked at.
        return Path(os.path.normpath(Path(f"/proc/{pid}/{link}").readlink() / path))
    return Path("?") / path


def _family(number: int) -> str:
    with suppress(ValueError):
        return socket.AddressFamily(number).name
    return str(number)


def _kind(number: int) -> str:
    with suppress(ValueError):
        return socket.SocketKind(number).name
    return str(number)


def _address(raw: bytes) -> tuple[str, bool]:
    """Return an address as text, and whether it is another machine's."""
    family = int.from_bytes(raw[:2], sys.byteorder)
    if family == socket.AF_UNIX:
        name = raw[2:]
        abstract = name.startswith(b"\0")
        return "@" * abstract + os.fsdecode(name[abstract:].partition(b"\0")[0]), False
    if family in (socket.AF_INET, socket.AF_INET6):
        start, size = (4, 4) if family == socket.AF_INET else (8, 16)
        host = socket.inet_ntop(family, raw[start : start + size].ljust(size, b"\0"))
        port = int.from_bytes(raw[2:4], "big")
        return f"{host}:{port}", not (host.startswith("127.") or host in {"::1", "::", "0.0.0.0"})
    return f"{_family(family)} {raw[2:].hex()}", True


_NAMES = {
    number: name for name, number in _ARCHITECTURES.get(platform.machine(), (0, 0, {}))[2].items()
}

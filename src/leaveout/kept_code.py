"""Machine code kept between runs, in a folder that no one else can write.

A file is named by a digest of all that its code depends on: the function and what it calls, their
options and constants, the types of arguments, the processor, and numba. So an upgrade compiles only
what it changes. Files hold pickles and machine code: what others could have written is never read.
"""

from __future__ import annotations

import contextlib
import dis
import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import llvmlite
import numba
import numpy as np
from numba.core import compiler, config, serialize, types
from numba.core.caching import _Cache
from numba.core.registry import CPUDispatcher

# Parts of numba without types.
_config: Any = config
_result: Any = compiler.CompileResult
_dumps: Any = serialize.dumps

_NAMED = "NUMBA_CACHE_DIR"

DAYS = 90  # files that no run has used for so many days are removed

_VERSIONS = (
    numba.__version__, llvmlite.__version__, np.__version__, sys.version_info[:3],
    _config.OPT, _config.BOUNDSCHECK, _config.LOOP_VECTORIZE, _config.SLP_VECTORIZE,
)  # fmt: skip
_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_Seen = dict[int, tuple[int, object]]
_EXACT = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)


def cache_folder() -> Path:
    """Return the folder for compiled code, which may not exist; none is used that is relative.

    Numba also reads NUMBA_CACHE_DIR from a file of the working folder, which others may have
    written: only the environment counts here.
    """
    named = os.environ.get(_NAMED, "")
    if named:
        return Path(named) / "leaveout"
    named = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is ignored, as the XDG specification demands.
    if Path(named).is_absolute():
        return Path(named) / "leaveout"
    home = Path("~")
    # Who has no home folder keeps nothing.
    with contextlib.suppress(RuntimeError):
        home = home.expanduser()
    return home / ".cache" / "leaveout"


def why_not_kept() -> str | None:
    """Return why code cannot be kept, or None; make the folder if there is none."""
    folder = cache_folder()
    if not folder.is_absolute():
        return f"{folder} is not an absolute path"
    try:
        folder.mkdir(mode=0o755 if os.environ.get(_NAMED) else 0o700, parents=True, exist_ok=True)
        if not _is_safe(folder.lstat(), stat.S_ISDIR):
            return f"others can write {folder}"
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return None if os.access(folder, os.W_OK) else f"{folder} is not writable"


def _is_safe(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Return whether only this user and root can have written a file or folder."""
    if not is_kind(found.st_mode):
        return False
    return os.name != "posix" or (
        found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


class KeptCode(_Cache):
    """Where a dispatcher looks for its function's code, and puts it."""

    def __init__(self, dispatcher: CPUDispatcher) -> None:
        self._dispatcher = dispatcher
        self._digest = ""

    @property
    def cache_path(self) -> str:
        """See numba."""
        return str(cache_folder())

    def enable(self) -> None:
        """See numba."""

    def disable(self) -> None:
        """See numba."""

    def flush(self) -> None:
        """See numba."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """See numba."""
        target_context.refresh()
        path, key = self._place(sig, target_context.codegen())
        if not path.is_absolute():
            return None
        # What cannot be read is compiled again.
        with contextlib.suppress(OSError):
            if not _is_safe(path.parent.lstat(), stat.S_ISDIR):
                return None
            with path.open("rb") as stream:
                found = os.fstat(stream.fileno())
                content = stream.read()
            whole = hashlib.sha256(content[64:]).digest()
            if not _is_safe(found, stat.S_ISREG) or content[:64] != key + whole:
                return None
            with contextlib.suppress(OSError):
                os.utime(path)
            return _result._rebuild(target_context, *pickle.loads(content[64:]))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """See numba."""
        if why_not_kept() or data.library.has_dynamic_globals or data.lifted:
            return
        path, key = self._place(sig, data.codegen)
        content = _dumps(data._reduce())
        # What finds no room is compiled again.
        with contextlib.suppress(OSError):
            handle, name = tempfile.mkstemp(".part", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(key + hashlib.sha256(content).digest() + content)
                Path(name).chmod(0o644)
                Path(name).replace(path)
            finally:
                Path(name).unlink(missing_ok=True)
            _forget_unused(path.parent)

    def _place(self, sig: Any, codegen: Any) -> tuple[Path, bytes]:
        """Return the file of an overload, and the digest of what it depends on."""
        function = self._dispatcher.py_func
        self._digest = self._digest or digest(self._dispatcher)
        arguments = sig[0] if isinstance(sig, tuple) and isinstance(sig[0], tuple) else sig
        about = [_VERSIONS, codegen.magic_tuple(), self._digest, *_words(arguments, {})]
        key = hashlib.sha256(repr(about).encode()).digest()
        return cache_folder() / f"{function.__name__}-{key.hex()[:32]}.code", key


def _forget_unused(folder: Path) -> None:
    oldest = time.time() - DAYS * 86_400
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def text_of(options: Mapping[str, Any]) -> str:
    """Return options of a compilation as a text that is the same in every run."""
    return str(sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in options.items()))


def digest(dispatcher: CPUDispatcher) -> str:
    """Return a digest of all code and constants that a compiled function is made of."""
    text = "\n".join(_words(dispatcher, {}))
    return hashlib.sha256(text.encode()).hexdigest()


def _words(value: Any, seen: _Seen) -> Iterator[str]:
    """Describe a value that compiled code may refer to; any that could hide a change is refused."""
    if isinstance(value, _EXACT):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value  # held, lest another value gets its identity
    if isinstance(value, tuple):
        yield f"tuple {type(value).__name__} {len(value)}"
        for each in value:
            yield from _words(each, seen)
    elif isinstance(value, frozenset):
        yield f"set {sorted(map(repr, value))}"
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, CPUDispatcher):
        yield f"compiled {text_of(value.targetoptions)}"
        yield from _words(value.py_func, seen)
    elif type(value).__name__ == "_Intrinsic":
        yield f"intrinsic {Path(inspect.getfile(value._defn)).read_text()}"
        yield from _words(value._defn, seen)
    elif isinstance(value, FunctionType) and not _is_foreign(value):
        yield from _words_of_function(value, seen)
    elif isinstance(value, types.Type):
        yield f"type {value!r} {getattr(value, 'fields', '')}"
        if isinstance(value, types.BaseTuple):
            yield from _words(tuple(cast(Any, value)), seen)
    elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        yield f"record {value.__qualname__} {value._fields}"
    elif _is_foreign(value):
        yield f"named {getattr(value, '__module__', '')} {getattr(value, '__name__', value)}"
    else:
        raise TypeError(f"compiled code refers to {value!r}, whose changes nobody would notice")


def _is_foreign(value: object) -> bool:
    """Return whether a value is code of what `_VERSIONS` tells."""
    is_module = isinstance(value, ModuleType)
    root = str(getattr(value, "__name__" if is_module else "__module__", "")).partition(".")[0]
    return (is_module or callable(value)) and root in (
        "builtins",
        "math",
        "numba",
        "numpy",
        "_operator",
        "typing",
    )


def _words_of_function(function: FunctionType, seen: _Seen) -> Iterator[str]:
    yield f"function {getattr(function, 'compiled_with', '')}"
    lines: list[str] = []
    for name in _code(function.__code__, lines):
        yield name
        if name in function.__globals__:
            yield from _words(function.__globals__[name], seen)
    yield from lines
    cells = [each.cell_contents for each in function.__closure__ or ()]
    for each in (*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()):
        yield from _words(each, seen)


def _code(code: CodeType, lines: list[str]) -> Iterator[str]:
    """Add what a function does to some lines; yield the names that it looks up."""
    constants = [each for each in code.co_consts if not isinstance(each, CodeType)]
    lines.append(f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {code.co_argcount}")
    lines.append(f"{code.co_names} {code.co_varnames} {code.co_freevars} {code.co_flags}")
    lines.extend(word for each in constants for word in _words(each, {}))
    argument = 0
    for operation, byte in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = argument << 8 | byte
        if operation == _GLOBAL:
            yield code.co_names[argument >> 1]
        if operation != dis.EXTENDED_ARG:
            argument = 0
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _code(each, lines)

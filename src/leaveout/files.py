"""Write files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content becomes the file at ``path`` once all of it is on the disk.

    A link is followed. Where anything fails, what was there is still there.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=".leaveout-", suffix=".partial", dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise

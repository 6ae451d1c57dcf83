"""Bundles: a certificate, recorded answers and the files that it names, in one file."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from zipfile import ZIP_STORED, ZipFile

from .files import refuse_damage
from .refusal import Unreadable
from .regular_files import open_regular

CERTIFICATE, ANSWERS = "certificate.npz", "answers.npz"
MODE = 0o600 << 16  # how a bundle marks each entry: as a regular file
LARGEST = 2**31 - 2**26  # most bytes of a bundle; large zip files have another format

ENTRY = re.compile(rf"{CERTIFICATE}|{ANSWERS}|[0-9a-f]{{64}}/\w[\w. +-]{{0,200}}")
"""What a bundle may hold; a file that a certificate names is in a folder called by its SHA-256."""

_HEAD, _EACH, _END = 30, 76, 22
"""Bytes of a zip file before an entry, besides its name; around it, besides two; at its end."""
_UTF8 = 0x800


@contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Unpack a bundle into a folder that lasts as long as the context."""
    with TemporaryDirectory(prefix="leaveout-check-") as folder:
        root = Path(folder).resolve()
        try:
            with open_regular(path, LARGEST) as file, refuse_damage(), ZipFile(file) as held:
                _unpack(file, held, os.fstat(file.fileno()).st_size, root)
        except OSError as error:
            raise Unreadable(f"{path}: cannot read: {error.strerror or error}") from None
        except ValueError as error:
            how = "'leaveout check CERTIFICATE --bundle FILE' writes a bundle"
            raise Unreadable(f"{path}: not a bundle, or damaged: {error}; {how}") from None
        yield root


def _unpack(file: BinaryIO, archive: ZipFile, size: int, root: Path) -> None:
    """Unpack the entries; raise unless they are all there is, in order, under such names."""
    infos, at = archive.infolist(), 0
    names = [each.filename for each in infos]
    for each in infos:
        if not ENTRY.fullmatch(each.filename):
            raise ValueError(f"it holds {each.filename[:80]!r}")
        if each.compress_type != ZIP_STORED or each.external_attr != MODE:
            raise ValueError(f"{each.filename} is compressed, or not a regular file")
        # Entries touch, and their own headers say what the list at the end does.
        name = each.filename.encode()
        told = (each.flag_bits, ZIP_STORED, each.CRC, each.file_size, each.file_size, len(name), 0)
        file.seek(at)
        head = file.read(_HEAD + len(name))
        said = struct.unpack("<4s2x2H4x3I2H", head[:_HEAD]) if len(head) >= _HEAD else ()
        plain = not each.flag_bits & ~_UTF8 and not each.extra and not each.comment
        if said != (b"PK\3\4", *told) or head[_HEAD:] != name or not plain:
            raise ValueError(f"{each.filename} has a header of its own")
        if each.header_offset != at or each.compress_size != each.file_size:
            raise ValueError(f"{each.filename} is not where it is listed")
        at += _HEAD + len(name) + each.file_size
        size -= each.file_size + _EACH + 2 * len(name)
    if names != sorted({CERTIFICATE, ANSWERS, *names}) or size != _END:
        raise ValueError("it lacks an entry, or holds one twice or something besides")
    for each in infos:
        where = root / each.filename
        where.parent.mkdir(exist_ok=True)
        # Names that a file system takes for the same one are refused.
        with archive.open(each) as source, where.open("xb") as target:
            shutil.copyfileobj(source, target)

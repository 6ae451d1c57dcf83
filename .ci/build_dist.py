"""Build the source distribution and both wheels, twice, and compare them byte by byte.

The wheel comes from the source distribution, and again from the tree: both must be the same. Times
are those of the last commit, or ``SOURCE_DATE_EPOCH``; setuptools is the one of constraints.txt.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(*words: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def copy_tree(to: Path) -> Path:
    """Copy every tracked file, links as links, with permissions that do not depend on the user."""
    for name in filter(None, git("ls-files", "-z").split("\0")):
        target = to / name
        if (ROOT / name).is_symlink() or (ROOT / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target, follow_symlinks=False)
    return to


def build(kind: str, source: Path, out: Path) -> Path:
    """Build a source distribution or a wheel; return its file."""
    before = set(out.glob("*")) if out.exists() else set()
    subprocess.run(
        [sys.executable, "-m", "build", f"--{kind}", "--outdir", out, source],
        check=True, stdout=subprocess.DEVNULL, umask=0o022,
    )  # fmt: skip
    (made,) = set(out.glob("*")) - before
    return made


def even_out(archive: Path, epoch: int) -> None:
    """Write a source distribution again, with nothing in it of this machine and this moment."""
    plain = BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for each in sorted(old.getmembers(), key=lambda member: member.name):
            each.mtime, each.uid, each.gid, each.uname, each.gname = epoch, 0, 0, "", ""
            each.mode, each.pax_headers = 0o755 if each.isdir() else 0o644, {}
            new.addfile(each, old.extractfile(each) if each.isfile() else None)
    archive.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def unpack(archive: Path, to: Path) -> Path:
    """Unpack a source distribution; return its folder."""
    with tarfile.open(archive) as file:
        file.extractall(to, filter="data")
    (folder,) = to.iterdir()
    return folder


def refuse_untracked(folder: Path) -> None:
    """Raise on a file of the source distribution that is not the repository's, or lacks there."""
    files = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    made = {name for name in files if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    if unknown := files - made - set(git("ls-files").splitlines()):
        raise SystemExit(f"the source distribution has files of its own: {sorted(unknown)}")
    if missing := {"LICENSE", "README.md", "constraints.txt", "kernel/pyproject.toml"} - files:
        raise SystemExit(f"the source distribution lacks {sorted(missing)}")


def round_of(scratch: Path, epoch: int) -> list[Path]:
    """Return the files of one round, all built from a copy of the tree."""
    tree, out = copy_tree(scratch / "tree"), scratch / "out"
    source = build("sdist", tree, out)
    even_out(source, epoch)
    unpacked = unpack(source, scratch / "unpacked")
    refuse_untracked(unpacked)
    wheel = build("wheel", unpacked, out)
    if build("wheel", tree, scratch / "direct").read_bytes() != wheel.read_bytes():
        raise SystemExit("the tree and its source distribution give different wheels")
    return [source, wheel, build("wheel", unpacked / "kernel", out)]


def main(out: Path) -> int:
    """Write the files to a folder; return 0 if both rounds agree."""
    epoch = int(
        os.environ.setdefault("SOURCE_DATE_EPOCH", git("log", "-1", "--format=%ct").strip())
    )
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second = (round_of(Path(each), epoch) for each in (one, other))
        for a, b in zip(first, second, strict=True):
            if a.read_bytes() != b.read_bytes():
                sys.stdout.write(f"{a.name}: two builds differ\n")
                return 1
        out.mkdir(parents=True, exist_ok=True)
        for each in first:
            shutil.copyfile(each, out / each.name)
            sys.stdout.write(f"{each.name}: {each.stat().st_size:,} bytes, twice the same\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

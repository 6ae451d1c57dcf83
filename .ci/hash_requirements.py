"""Write constraints-hashed.txt: the pinned versions of a served guard, with the digests of wheels.

    python .ci/hash_requirements.py 3.11 3.12 3.13

The wheels are those that pip picks on this kind of machine for each Python that is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("attest", "serve")
HEAD = """\
# The core and the extras {extras}: wheels for {machine}, Python {versions}.
# Made by .ci/hash_requirements.py from constraints.txt. Install with
#   pip install --require-hashes -r constraints-hashed.txt && pip install --no-deps leaveout
"""


def wheels(version: str, wanted: list[str]) -> dict[str, str]:
    """Return the digest of each wheel that pip would install, by name and version."""
    report = subprocess.check_output(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
            "--report", "-", "--only-binary=:all:", "--python-version", version, "--target", "-",
            "-c", "constraints.txt", *wanted,
        ],
        cwd=ROOT,
    )  # fmt: skip
    found = {}
    for each in json.loads(report)["install"]:
        metadata, archive = each["metadata"], each["download_info"]["archive_info"]
        name = metadata["name"].lower().replace("_", "-")
        found[f"{name}=={metadata['version']}"] = archive["hashes"]["sha256"]
    return found


def main(versions: list[str]) -> int:
    """Write the file; return 0."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [each for name in EXTRAS for each in extras[name]]
    digests: dict[str, set[str]] = {}
    for version in versions:
        for pinned, digest in wheels(version, wanted).items():
            digests.setdefault(pinned, set()).add(digest)
    machine = subprocess.check_output(["uname", "-sm"], text=True).strip()
    lines = [HEAD.format(extras=", ".join(EXTRAS), machine=machine, versions=", ".join(versions))]
    for pinned, known in sorted(digests.items()):
        hashes = "".join(f" \\\n    --hash=sha256:{each}" for each in sorted(known))
        lines.append(f"{pinned}{hashes}\n")
    (ROOT / "constraints-hashed.txt").write_text("".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

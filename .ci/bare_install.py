"""Install the wheel as a stranger does, run the demo from it, and print the minutes and MB.

Nothing of the checkout is in sight: an empty folder, an empty home, and on the path only what the
new environment has, so that no compiler is found and no source distribution can be built.

    python .ci/bare_install.py dist            # any Python from 3.11 on, any system
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distributions
from pathlib import Path

KEPT = ("PIP_", "SSL_", "SYSTEM", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables that only say where packages come from, or that Windows needs."""
TOOLS = {"pip", "setuptools"}
CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"


def sizes(packages: Path) -> dict[str, float]:
    """Return the MB of each library, as its own list of files says."""
    found = {}
    for each in distributions(path=[str(packages)]):
        files = [Path(str(file.locate())) for file in each.files or ()]
        mb = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        found[each.metadata["Name"]] = mb
    return {name: mb for name, mb in found.items() if name not in TOOLS}


def main(dist: Path) -> int:
    """Return 0 if the demo proves its bounds."""
    (wheel,) = dist.resolve().glob("leaveout-*.whl")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        scripts = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        kept = {k: v for k, v in os.environ.items() if k.upper().startswith(KEPT)}
        home = {"HOME": name, "USERPROFILE": name, "LOCALAPPDATA": name, "PATH": str(scripts)}
        environment = kept | home

        def run(command: str, *words: object, within: str = "") -> float:
            """Run a program of the new environment; return the minutes it took."""
            begun = time.monotonic()
            given = [str(scripts / command), *map(str, words)]
            subprocess.run(given, cwd=place / within, env=environment, check=True)
            return (time.monotonic() - begun) / 60

        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        pip = ("-m", "pip", "install", "--quiet", "--only-binary=:all:", "-c", CONSTRAINTS)
        minutes = {"install": run("python", *pip, wheel)}
        (packages,) = (place / "venv").glob("[lL]ib/**/site-packages")
        mb = sizes(packages)
        minutes["demo"] = run("leaveout", "demo", "example")
        for words in (
            "verify breast_cancer.spec --json result.json",
            "report result.json --data patients.csv -o report.html",
            "linear train patients.csv --label diagnosis -o logistic",
            "verify logistic/linear.spec",
            "guard logistic --epsilon 0.2 patients.csv -o labels.csv",
        ):
            minutes["demo"] += run("leaveout", *words.split(), within="example")
        minutes["again"] = run("leaveout", "verify", "breast_cancer.spec", within="example")
    for library, size in sorted(mb.items(), key=lambda item: -item[1])[:8]:
        sys.stdout.write(f"{library:16}{size:8.1f} MB\n")
    took = ", ".join(f"{what} {spent:.1f}" for what, spent in minutes.items())
    sys.stdout.write(
        f"Python {sys.version.split()[0]}: {sum(mb.values()):.0f} MB; minutes: {took}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

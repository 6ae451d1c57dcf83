"""From a table to answers that no single row can change, and on after a row is forgotten.

    python examples/forest/walk.py FOLDER

Each step is one command line, shown before it is run. FOLDER must not be there yet.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from leaveout.verifier.cli import run

PATIENTS = Path(__file__).resolve().parent.parent / "breast_cancer" / "patients.csv"
DELETED = "68"

Step = tuple[str, list[str]]


def steps(folder: Path) -> Iterator[Step]:
    """Yield each step: what is done, and the words of the command."""
    here = Path.cwd()
    patients = PATIENTS.relative_to(here) if PATIENTS.is_relative_to(here) else PATIENTS
    forest, table, labels = str(folder), str(patients), str(folder / "labels.csv")
    yield (
        "Train a forest on 569 patients, each of them in a tenth of the trees.",
        ["forest", "train", table, "--label", "diagnosis", "--share", "0.1", "-o", forest],
    )
    yield (
        "For each label, the confidence above which no patient's record changes the answer,\n"
        "whatever is asked. All 569 forests without one patient are known: each is a deletion.",
        ["verify", str(folder / "forest.spec")],
    )
    yield (
        "Answer all patients. An answer that some record would change is drawn at random.",
        ["guard", forest, "--epsilon", "0.2", table, "-o", labels],
    )
    yield "How many answers that was:", ["guard", forest, "--account"]
    yield (
        f"Forget patient {DELETED}: the forest is then the one trained on the others.",
        ["forget", forest, DELETED, "--check"],
    )
    yield (
        "The guard goes on, and covers the 568 who are left.",
        ["guard", forest, "--epsilon", "0.2", table, "-o", labels],
    )
    yield "Noised answers so far:", ["guard", forest, "--account"]


def walk(folder: Path) -> int:
    """Run every step; return the exit status of the first that fails, or 0."""
    for said, words in steps(folder):
        print(f"# {said.replace(chr(10), chr(10) + '# ')}", flush=True)
        print(f"$ leaveout {shlex.join(words)}", flush=True)
        status = run(words)
        if status:
            return status
        print(flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/forest/walk.py FOLDER")
    sys.exit(walk(Path(sys.argv[1])))

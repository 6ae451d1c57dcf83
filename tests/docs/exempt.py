"""What of the documentation is not run, and why: nothing is left out anywhere else.

Keys are a page and the first line of a block, or a command as it stands on the page.
"""

from __future__ import annotations

Place = tuple[str, str]

PYTHON: dict[Place, str] = {
    ("CONTRIBUTING.md", '"two_thirds": Scheme('): (
        "an entry of a dict; the test of the recipe puts it there and runs it"
    ),
    ("CONTRIBUTING.md", "def _quorum(counts: Counts) -> Counts:"): (
        "the end of a file; the test of the recipe puts it there and runs it"
    ),
    ("examples/mlflow_evaluator/README.md", "import mlflow"): (
        "MLflow is not among the test tools; the example's own tests run it where it is installed"
    ),
    ("examples/sacro_ml/README.md", "import leaveout_sacro  # registers the attack"): (
        "SACRO-ML is not among the test tools; the example's own tests run it where it is installed"
    ),
}
"""Python blocks that are not run."""

SPECS: dict[Place, str] = {}
"""Specifications that are not checked."""

COMMANDS: dict[Place, str] = {
    (
        "docs/certificates.md",
        "leaveout check FILE [--network PATH]... [--family PATH]... [--exact] [--files PATH]... "
        "[--record ANSWERS] [--bundle FILE]",
    ): ("the form of a command, in brackets what may be left out; its options are checked"),
}
"""Command lines of leaveout that the program's parser is not asked about."""

FOLLOWED: dict[str, str] = {
    "python3 -m venv .venv": "the tests run where leaveout is installed",
    ". .venv/bin/activate": "the tests run where leaveout is installed",
    "pip install -c constraints.txt -e '.[forests,train,serve]'": (
        "leaveout is installed for the tests"
    ),
    "mkdir ../tutorial": "the tests run in an empty folder of their own",
    "cd ../tutorial": "the tests run in an empty folder of their own",
}
"""Commands of pages that are followed, which are not run."""

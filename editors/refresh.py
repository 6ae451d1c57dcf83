"""Write the functions and keywords of today into the grammar for editors.

Run it after a function or a keyword was added: ``python editors/refresh.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

from leaveout.specs.table import BUILT_IN
from leaveout.specs.table.reference import grammar

GRAMMAR = Path(__file__).resolve().parent / "leaveout.tmLanguage.json"


def main() -> None:
    """Write the grammar."""
    known = grammar(function.name for function in BUILT_IN)
    GRAMMAR.write_text(json.dumps(known, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""Write what the table of functions and the keywords say into the grammar and the reference.

Run it after a function or a keyword was added: ``python editors/refresh.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from leaveout.specs.table import BUILT_IN
from leaveout.specs.table.reference import describe_function, grammar

ROOT = Path(__file__).resolve().parent.parent
GRAMMAR = ROOT / "editors" / "leaveout.tmLanguage.json"
REFERENCE = ROOT / "docs" / "language.md"

_BEGIN = "<!-- functions: written by editors/refresh.py -->\n"
_END = "<!-- end of functions -->\n"


def with_table(page: str) -> str:
    """Return the reference with the functions of today."""
    pattern = re.escape(_BEGIN) + ".*" + re.escape(_END)
    table = "\n".join(map(describe_function, BUILT_IN))
    return re.sub(pattern, lambda _: f"{_BEGIN}\n{table}\n{_END}", page, flags=re.DOTALL)


def main() -> None:
    """Write both files."""
    known = grammar(function.name for function in BUILT_IN)
    GRAMMAR.write_text(json.dumps(known, indent=2) + "\n", "utf-8")
    REFERENCE.write_text(with_table(REFERENCE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()

"""Count the house: lines, files, importers, names, words, and the files behind one bound."""

from __future__ import annotations

import argparse
import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ROOMS = ("verifier", "encoders", "bab", "specs", "models", "solvers", "kernel", "src/leaveout")

VERBS = (
    "bound cut encoding everything feed heading hit let listing meaning need nothing padding "
    "passed put read removed rounding run seed set sharded split spread string training warning"
)
"""Words that look like participles and are verbs, or the field's nouns."""

IRREGULAR = (
    "begun bought brought built chosen done drawn driven fallen felt forgotten found given gone "
    "grown held hidden kept known laid led left lent lost made meant met paid said seen sent "
    "shown sold spent spoken stolen stood struck taken taught thought thrown told torn understood "
    "won written"
)

TRACE = """
import os, sys, threading
entered = set()
def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:
        entered.add(frame.f_code.co_filename)
threading.setprofile(enter)
sys.setprofile(enter)
def stop(code):
    raise SystemExit(code)
os._exit = stop
from leaveout.__main__ import main
specification, result = sys.argv[1:]
sys.argv = ["leaveout", "verify", specification, "--json", result]
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print("\\n".join(entered), file=sys.stderr)
"""


@dataclass(frozen=True)
class Source:
    """A module: its dotted name, file, text and tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")


def sources(root: Path) -> dict[str, Source]:
    """Return the product's modules under a working tree, by dotted name."""
    found = {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            inside = path.relative_to(root / room)
            if room == "src/leaveout" and (path.parent / inside.parts[0]).is_symlink():
                continue
            if room == "src/leaveout" and len(inside.parts) > 1:
                continue
            base = ["leaveout"] if room == "src/leaveout" else ["leaveout", room]
            parts = [*base, *inside.with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text("utf-8")
            found[name] = Source(name, path, text, ast.parse(text))
    return found


def imports(tree: ast.Module, names: dict[str, Source], deep: bool = True) -> Iterator[str]:
    """Yield the product's modules that a module imports, within functions too if ``deep``."""
    for node in ast.walk(tree) if deep else tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in names else node.module


def is_participle(name: str) -> bool:
    """Return whether a function's name is one past or present participle and nothing else."""
    word = name.strip("_")
    if name.startswith("__") or "_" in word or word in VERBS.split():
        return False
    return word in IRREGULAR.split() or re.search(r"[a-z]{2}(ed|ing)$", word) is not None


def participles(found: dict[str, Source]) -> list[str]:
    """Return where functions are named by a participle alone."""
    return [
        f"{source.name}:{node.lineno} {node.name}"
        for source in found.values()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name)
    ]


def undocumented(found: dict[str, Source]) -> list[str]:
    """Return the public methods of public classes that neither have nor inherit a docstring.

    A member of a protocol without a body may go without.
    """
    classes = defaultdict[str, list[ast.ClassDef]](list)
    for source in found.values():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(node)

    def has_words(node: ast.ClassDef, name: str) -> bool:
        own = [each for each in _methods(node) if each.name == name and ast.get_docstring(each)]
        above = (each for base in node.bases for each in classes[_base_name(base)])
        return bool(own) or any(has_words(each, name) for each in above if each is not node)

    return [
        f"{source.name}:{method.lineno} {node.name}.{method.name}"
        for source in found.values()
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in _methods(node)
        if not (method.name.startswith("_") or ast.unparse(method.body[0]) == "...")
        and not has_words(node, method.name)
    ]


def _methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def _base_name(base: ast.expr) -> str:
    """Return the name of a base, without its module and what it is of."""
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def single_importers(found: dict[str, Source]) -> dict[str, str]:
    """Return the modules that one other alone imports, with that one; packages stand aside."""
    importers: dict[str, set[str]] = defaultdict(set)
    for source in found.values():
        for name in imports(source.tree, found):
            importers[name] |= {source.name} - {name}
    return {
        name: next(iter(importers[name]))
        for name, source in found.items()
        if len(importers[name]) == 1 and source.path.name != "__init__.py"
    }


def misplaced(found: dict[str, Source], most: int = 700) -> list[str]:
    """Return the modules of `single_importers` whose importer could hold all of its own.

    A package that only shows what its modules hold, or a table of commands, is no such importer;
    nor is one that imports a module on first use, to start without its libraries.
    """
    single = {
        name: importer
        for name, importer in single_importers(found).items()
        if name in set(imports(found[importer].tree, found, deep=False))
    }
    own: Counter[str] = Counter()
    for name, importer in single.items():
        own[importer] += found[name].lines
    return [
        name
        for name, importer in single.items()
        if found[importer].path.name != "__init__.py"
        and own[importer] + found[importer].lines <= most
    ]


def entered(root: Path, specification: Path) -> int:
    """Return how many files of the product a verification calls into."""
    with tempfile.TemporaryDirectory() as folder:
        result = f"{folder}/result.json"
        command = [sys.executable, "-c", TRACE, str(specification), result]
        run = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(root / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    own = {str((root / room).resolve()) for room in ROOMS}
    files = {os.path.realpath(line) for line in run.stderr.splitlines() if line.endswith(".py")}
    return sum(any(file.startswith(f"{room}/") for room in own) for file in files)


def main() -> None:
    """Print the counts of a working tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT, help="a working tree")
    parser.add_argument("--rooms", action="store_true", help="lines and files of every folder")
    parser.add_argument("--names", action="store_true", help="list participles, single importers")
    parser.add_argument("--trace", action="store_true", help="also verify an example and count")
    options = parser.parse_args()
    root = options.tree.resolve()
    found = sources(root)
    words = sum(len(path.read_text("utf-8").split()) for path in (root / "docs").rglob("*.md"))
    lengths = [source.lines for source in found.values()]
    rows = [
        ("product lines", sum(lengths)),
        ("files", len(lengths)),
        ("lines of the median file", int(statistics.median(lengths))),
        ("modules with one importer", len(single_importers(found))),
        ("of these, those that fit into it", len(misplaced(found))),
        ("functions named by a participle", len(participles(found))),
        ("words of documentation", words),
    ]
    if options.trace:
        example = root / "examples/breast_cancer/breast_cancer.spec"
        rows.append(("files entered from specification to report", entered(root, example)))
    for label, value in rows:
        print(f"{label:42} {value:8,}")
    if options.names:
        print("\nFit into their one importer:", *sorted(misplaced(found)), sep="\n  ")
        print("\nParticiples:", *participles(found), sep="\n  ")
    if options.rooms:
        lines: Counter[str] = Counter()
        files: Counter[str] = Counter()
        for source in found.values():
            lines[str(source.path.parent.relative_to(root))] += source.lines
            files[str(source.path.parent.relative_to(root))] += 1
        print()
        for room, count in lines.most_common():
            print(f"{room:42} {count:8,} {files[room]:5,}")


if __name__ == "__main__":
    main()

"""The kernel grows no further than it is, and imports numpy and Python alone."""

import ast
import sys
import tomllib
from pathlib import Path

import leaveout.kernel
from leaveout.kernel.__main__ import VERSION

_FOLDER = Path(leaveout.kernel.__file__).parent
_MOST = 16_200


def test_the_kernel_imports_numpy_and_python_alone():
    for file in sorted(_FOLDER.glob("**/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                # Relative imports stay inside: one point is a module's own folder.
                assert node.level <= len(file.relative_to(_FOLDER).parts), file.name
                names = [] if node.level else [node.module]
            for name in names:
                top = name.split(".")[0]
                assert top == "numpy" or top in sys.stdlib_module_names, (
                    f"{file.name} imports {name}"
                )


def test_the_kernel_grows_no_further():
    lines = sum(len(file.read_text().splitlines()) for file in _FOLDER.glob("**/*.py"))
    assert lines <= _MOST


def test_the_distribution_has_the_version_of_the_product():
    root = Path(__file__).resolve().parents[2]
    stated = [
        tomllib.loads((root / name).read_text())["project"]["version"]
        for name in ("pyproject.toml", "kernel/pyproject.toml")
    ]
    assert {*stated, VERSION} == {stated[0]}

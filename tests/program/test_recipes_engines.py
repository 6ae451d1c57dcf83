"""The recipes for solvers, kernels and relaxations work as they stand, in a copy of the program."""

from __future__ import annotations

import shutil

from docs.pages import ROOT

from support.recipes import copied, insert, python, steps

CONFORMS = """
from leaveout.solvers import find_solver
from leaveout.solvers.conformance import check

check(find_solver("scipy"))
print("conforms")
"""

BOUNDS = """
import numpy as np

from leaveout.bab import NativeOptions, search_native
from support.cases import BruteForce, question

instance = question(3)
best = BruteForce.of(instance, 2000).best
for label in range(instance.labels):
    one, other = (
        search_native(instance, label, NativeOptions(nodes=300, kernel=kernel))
        for kernel in ("cpu", "sparing")
    )
    assert min(one.upper, other.upper) >= best[label]
    assert abs(one.upper - other.upper) <= 1e-9 * max(1.0, one.upper)
print("equal")
"""

TESTS = "test_idp.py::test_no_encoding_is_ever_below_a_real_leak"


def test_a_recipe_adds_a_solver(tmp_path):
    (line,) = steps("## Adding a solver")
    copied(tmp_path)
    example = ROOT / "examples" / "plugin_solver" / "leaveout_scipy_milp" / "__init__.py"
    shutil.copy(example, tmp_path / "solvers" / "scipy_milp.py")
    insert(tmp_path / "solvers" / "registry.py", "BUILT_IN: Mapping[str, str] = {\n", line)
    done = python(tmp_path, "-c", CONFORMS)
    assert done.stdout == "conforms\n", done.stderr


def test_a_recipe_adds_a_kernel(tmp_path):
    code, line = steps("## Adding a kernel")
    copied(tmp_path)
    kernels = tmp_path / "bab" / "native" / "kernels"
    (kernels / "sparing.py").write_text(code)
    insert(kernels / "registry.py", "BUILT_IN: Mapping[str, str] = {\n", line)
    done = python(
        tmp_path, "-c", BOUNDS, more=[ROOT / "tests", ROOT / "examples" / "plugin_kernel"]
    )
    assert done.stdout == "equal\n", done.stderr


def relaxed(folder, method, call):
    """Copy the program with a relaxation, and hold its encodings against brute force."""
    copied(folder, "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    encodings = folder / "encoders" / "idp.py"
    added = "        self._triangle_rows(builder, u[relax[u]], lower, upper, margin)\n"
    insert(encodings, added, f"{call}\n{method}")
    drawn = ("-p", "no:cacheprovider", "--hypothesis-seed=0")
    return python(folder, "-m", "pytest", "-q", f"tests/encoders/{TESTS}", *drawn)


def test_a_recipe_adds_a_relaxation(tmp_path):
    method, call = steps("## Adding a relaxation")
    done = relaxed(tmp_path, method, call)
    assert " passed" in done.stdout, done.stdout + done.stderr


def test_a_relaxation_that_cuts_off_real_leaks_is_found_out(tmp_path):
    method, call = steps("## Adding a relaxation")
    wrong = method.replace("upper=-lower[u] + margin", "upper=-0.02 * lower[u]")
    assert wrong != method
    done = relaxed(tmp_path, wrong, call)
    assert " failed" in done.stdout, done.stdout + done.stderr

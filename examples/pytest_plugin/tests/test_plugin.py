"""What pytest makes of proved, refuted and unknown statements, and of files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).parents[2] / "breast_cancer"

LETS = f"""\
let N = network("{EXAMPLE.as_posix()}/family/full.onnx")
let F = family("{EXAMPLE.as_posix()}/family/family.npz")
let X = box(0, 1)
"""


def guarantee(name: str, bound: float) -> str:
    """Return a guarantee about answers of a confidence above a bound."""
    return (
        f"guarantee {name}: forall x in X, M in F: "
        f"confidence(N, x) > {bound} => label(M, x) == label(N, x)\n"
    )


def test_each_statement_is_a_test(pytester: pytest.Pytester) -> None:
    """Those that are proved pass, the refuted one fails with its witness in words."""
    pytester.makefile(".spec", a=LETS + guarantee("quiet", 0.8) + guarantee("loud", 0.1))
    pytester.makepyfile(test_other="def test_other(): pass")
    result = pytester.runpytest_subprocess("--leaveout", "a.spec", "-v", "test_other.py")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "a.spec::quiet PASSED*",
            "a.spec::loud FAILED*",
            "*loud*: refuted: without row * the answer at x *",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_one_statement_can_be_chosen(pytester: pytest.Pytester) -> None:
    """A node id names it."""
    pytester.makefile(".spec", a=LETS + guarantee("quiet", 0.8) + guarantee("loud", 0.1))
    pytester.runpytest_subprocess("--leaveout", "a.spec", "a.spec::quiet").assert_outcomes(passed=1)


def test_unknown_fails_or_is_skipped(pytester: pytest.Pytester) -> None:
    """Whichever is asked for, with the reason."""
    pytester.makefile(".spec", a=LETS + guarantee("close", 0.7741))
    options = ("--leaveout", "a.spec", "--leaveout-time", "0.001")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["close*: unknown, between * and *: time*"])
    skipped = pytester.runpytest_subprocess(*options, "--leaveout-unknown", "skip")
    skipped.assert_outcomes(skipped=1)


def test_what_is_no_specification_is_an_error_that_points(pytester: pytest.Pytester) -> None:
    """Of a file that cannot be read, too, nothing passes."""
    pytester.makefile(".spec", a=LETS + guarantee("quiet", 0.8).replace("forall", "foral"))
    result = pytester.runpytest_subprocess("--leaveout", "a.spec")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a.spec:4:*"])
    pytester.makefile(".spec", b=LETS.replace("full", "gone") + guarantee("quiet", 0.8))
    result = pytester.runpytest_subprocess("--leaveout", "b.spec")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*gone.onnx*"])


def test_a_folder_with_brackets_is_no_parameter(pytester: pytest.Pytester) -> None:
    """Beside other tests, and in a process of its own."""
    folder = pytester.mkdir("specs [v1]")
    (folder / "a.spec").write_text(LETS + guarantee("quiet", 0.8))
    (folder / "b.spec").write_text("no specification at all")
    pytester.makepyfile(test_other="def test_other(): pass")
    for more in ((), ("-p", "xdist", "-n", "1")):
        result = pytester.runpytest_subprocess("--leaveout", "specs [v1]/a.spec", *more)
        result.assert_outcomes(passed=2)
    chosen = pytester.runpytest_subprocess("--leaveout", "specs [v1]/a.spec", "test_other.py")
    chosen.assert_outcomes(passed=2)
    result = pytester.runpytest_subprocess("--leaveout", "specs [v1]/b.spec")
    result.assert_outcomes(errors=1)


def test_without_the_option_nothing_happens(pytester: pytest.Pytester) -> None:
    """Specifications beside tests are left alone."""
    pytester.makefile(".spec", a="no specification at all")
    pytester.makepyfile(test_other="def test_other(): pass")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)

"""``pytest --leaveout SPEC``: each statement of a specification is a test.

A statement that is proved passes. One that is refuted fails, with the witness in words; one that is
unknown fails with its bounds and the reason, unless ``--leaveout-unknown skip`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from leaveout.verifier.report import Report, Result

__all__ = ["SpecFile", "StatementItem", "UndecidedError", "WrongError"]

_COLLECTED = pytest.StashKey[set[Path]]()
"""The specifications that lie where pytest looks anyway."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("leaveout", "statements about models, proved")
    group.addoption(
        "--leaveout",
        metavar="SPEC",
        action="append",
        default=[],
        help="a specification whose statements are tests; may be given several times",
    )
    group.addoption(
        "--leaveout-time",
        metavar="SECONDS",
        type=float,
        default=None,
        help="seconds for the statements of each specification together (default: no limit)",
    )
    group.addoption(
        "--leaveout-engine",
        metavar="NAME",
        default="native",
        help="engine, as of 'leaveout verify --engine' (default: native)",
    )
    group.addoption(
        "--leaveout-unknown",
        choices=("fail", "skip"),
        default="fail",
        help="what becomes of a statement that is neither proved nor refuted (default: fail)",
    )


def _specifications(config: pytest.Config) -> list[Path]:
    base = config.invocation_params.dir
    return [(base / each).resolve() for each in config.getoption("--leaveout")]


def pytest_configure(config: pytest.Config) -> None:
    """Collect the specifications beside whatever else is asked for."""
    named = {Path(each.split("::")[0]).resolve() for each in config.args}
    plain = [each for each in _specifications(config) if "[" not in str(each)]
    config.args += [str(each) for each in plain if each not in named]


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Collect those whose path has a bracket, which pytest takes for a parameter's."""
    for path in _specifications(config):
        if "[" in str(path) and path not in config.stash.get(_COLLECTED, ()):
            items.extend(session.genitems(SpecFile.from_parent(session, path=path)))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the files that ``--leaveout`` names, and no other specification."""
    if file_path.resolve() in _specifications(parent.config):
        parent.config.stash.setdefault(_COLLECTED, set()).add(file_path.resolve())
        return SpecFile.from_parent(parent, path=file_path)
    return None


class SpecFile(pytest.File):
    """A specification. It is verified once, when its first statement runs."""

    _report: Report | None = None

    def collect(self) -> Iterator[StatementItem]:
        """Yield the statements, by name; nothing is solved and no network is read.

        Raises
        ------
        CollectError
            If the file is no specification.
        """
        from leaveout.errors import LeaveoutError
        from leaveout.specs import Find, Guarantee, expand, parse

        try:
            text = self.path.read_text(encoding="utf-8")
            spec = expand(parse(text, str(self.path)), self.path.parent, self.path)
        except (LeaveoutError, OSError, UnicodeDecodeError) as error:
            raise self.CollectError(str(error)) from None
        for statement in spec.statements:
            if isinstance(statement, Guarantee | Find):
                line = statement.name_at.line
                yield StatementItem.from_parent(self, name=statement.name, line=line)

    @property
    def report(self) -> Report:
        """What ``leaveout.verify`` says.

        Raises
        ------
        LeaveoutError
            If a file that the specification names cannot be used.
        """
        if self._report is None:
            import leaveout

            option = self.config.getoption
            self._report = leaveout.verify(
                self.path, time=option("--leaveout-time"), engine=option("--leaveout-engine")
            )
        return self._report


class StatementItem(pytest.Item):
    """A guarantee or find.

    Parameters
    ----------
    line : int
        Where it stands in the file, from 1.
    """

    parent: SpecFile

    def __init__(self, *, line: int, **given: Any) -> None:
        super().__init__(**given)
        self._line = line

    def runtest(self) -> None:
        """Pass if everything the statement asks is proved.

        Raises
        ------
        WrongError
            If it is refuted.
        UndecidedError
            If it is unknown.
        """
        results = self.parent.report[self.name]
        refuted = [each for each in results if each.verdict == "refuted"]
        if refuted:
            raise WrongError("\n".join(map(_refuted, refuted)))
        unknown = "\n".join(_unknown(each) for each in results if each.verdict == "unknown")
        if unknown and self.config.getoption("--leaveout-unknown") == "skip":
            pytest.skip(unknown)
        if unknown:
            raise UndecidedError(unknown)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say it in sentences; only what is no verdict is shown with a traceback."""
        from leaveout.errors import LeaveoutError

        if isinstance(excinfo.value, WrongError | UndecidedError | LeaveoutError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the statement stands."""
        return self.path, max(self._line - 1, 0), f"statement {self.name}"


class WrongError(AssertionError):
    """A statement is refuted."""


class UndecidedError(AssertionError):
    """A statement is neither proved nor refuted."""


def _head(result: Result) -> str:
    return f"{result.name}, label {result.label_text}" if result.label_text else result.name


def _refuted(result: Result) -> str:
    shown = result.witness or result.example
    return f"{_head(result)}: refuted" + (f": {shown.words}" if shown is not None else "")


def _unknown(result: Result) -> str:
    ends = [result.lower, result.upper]
    low, high = ("?" if each is None else f"{each:.6g}" for each in ends)
    lines = [f"{_head(result)}: unknown, between {low} and {high}: {result.reason}"]
    return "\n".join([*lines, *(f"  to know more: {each}" for each in result.advice)])

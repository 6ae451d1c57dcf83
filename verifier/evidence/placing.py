"""Results as written to a file: paths relative to its folder, none of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from leaveout.verifier.report import Report


def relative_to(folder: Path, path: Path) -> str:
    """Return a path relative to a folder, with ``/``; links are not followed."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        # On another drive there is no such path.
        return path.as_posix()


def relocate_report(report: Report, folder: Path) -> Report:
    """Return results as written to a file of a folder."""
    if not report.folder:
        return report
    own = Path(report.folder)
    # Some files are called by where they lie in the end, however the specification was given.
    for prefix in dict.fromkeys([own, own.resolve()]):
        if prefix.is_absolute():
            report = _relative(report, f"{prefix}{os.sep}")
    models = tuple(
        structs.replace(each, file=_from(own, each.file), family=_from(own, each.family))
        for each in report.models
    )
    answers = tuple(
        structs.replace(each, network=_from(own, each.network), family=_from(own, each.family))
        for each in report.answers
    )
    by_row = tuple(
        structs.replace(each, network=_from(own, each.network), family=_from(own, each.family))
        for each in report.by_row
    )
    report = structs.replace(report, models=models, answers=answers, by_row=by_row)
    spec = report.spec
    if "\n" not in spec and Path(spec).is_absolute():
        spec = relative_to(folder, Path(spec))
    return structs.replace(report, folder=relative_to(folder, own), spec=spec)


def _from(own: Path, file: str) -> str:
    """Return a file elsewhere relative to the specification's folder, following links."""
    return relative_to(own.resolve(), Path(file)) if Path(file).is_absolute() else file


def _relative(report: Report, prefix: str) -> Report:
    """Remove the specification's folder from all texts but its own path."""
    spec = report.spec
    plain: dict[str, Any] = msgspec.to_builtins(report)
    found = msgspec.convert(_without(plain, prefix), Report)
    return structs.replace(found, spec=spec, folder=report.folder)


def _without(value: Any, prefix: str) -> Any:
    match value:
        case str():
            return value.replace(prefix, "")
        case dict():
            return {key: _without(each, prefix) for key, each in value.items()}
        case list() | tuple():
            return [_without(each, prefix) for each in value]
        case _:
            return value

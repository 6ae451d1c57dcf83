"""The files of a page, each with what distinguishes it from files of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from leaveout.specs import Call, Node, Text
from leaveout.specs.text.expressions import walk
from leaveout.verifier.page.markup import clean
from leaveout.verifier.page.model import Page, Run
from leaveout.verifier.page.spec_text import Written

SHORT = 12
"""Digits of a digest on the first page."""

_CALLS: Mapping[str, str] = {
    "network": "network",
    "forest": "forest",
    "ballots": "models that vote",
    "sharded": "service",
    "audit": "audited models",
    "access": "guard",
}
"""By the function that reads a model, what it is."""

_ROLES: Mapping[str, str] = {
    "network": "network",
    "forest": "forest",
    "ballots": "models that vote",
    "service": "service",
    "audit": "audited models",
}
"""By what the results call the kind of a model's file, what it is."""

_OTHER_FILES: Mapping[str, str] = {
    "family": "networks without a record each",
    "member": "network without a record",
    "columns": "columns of the forest",
    "bounds": "bounds of the guard",
    "rows": "records named",
    "given rows": "rows given",
}
"""The same of other files that are not called by their kind."""


@dataclass(frozen=True)
class NamedFile:
    """A file with its name, kind and digest."""

    role: str  # what it is
    name: str  # its path, as short as it can be told from others
    digest: str = ""  # its sha256, in hexadecimal; empty where it is not known


def named_files(page: Page, everything: bool = False) -> tuple[NamedFile, ...]:
    """Return the files a page was made from: specifications and results."""
    found: list[NamedFile] = []
    for run in page.runs:
        found.append(NamedFile("results", run.name, run.digest))
        digest = run.report.spec_sha256 or run.specification.digest
        found.append(NamedFile("specification", spec_name(run), digest))
        found += [
            NamedFile(_ROLES.get(each.kind) or _OTHER_FILES.get(each.kind, each.kind), each.path,
                      each.sha256)
            for each in run.report.files
            if everything and each.kind != "specification"
        ]  # fmt: skip
    return tuple(dict.fromkeys(found))


def models(page: Page) -> tuple[NamedFile, ...]:
    """Return the models of the statements, as far as results or specification name them."""
    found: dict[NamedFile, None] = {}
    for run in page.runs:
        kept = [
            NamedFile(_ROLES[each.kind], short(each.path), each.sha256)
            for each in run.report.files
            if each.kind in _ROLES
        ]
        read = (each for one in run.statements for each in _read(one.written))
        known = (NamedFile(each.model, short(each.file)) for each in run.report.models)
        found |= dict.fromkeys(kept or [*read] or [*known])
    return tuple(found)


def spec_name(run: Run) -> str:
    """Return the name of a run's specification."""
    first = clean(run.report.spec.partition("\n")[0])
    built = "\n" in run.report.spec or (first.startswith("<") and first.endswith(">"))
    return "built in Python" if built else short(first)


def _read(written: Written | None) -> list[NamedFile]:
    nodes: tuple[Node, ...] = ()
    if written is not None:
        nodes = (written.statement, *written.definitions)
    found = []
    for node in walk(*nodes):
        if isinstance(node, Call) and node.function in _CALLS:
            path = next((each for each in node.arguments if isinstance(each, Text)), None)
            if path is not None:
                found.append(NamedFile(_CALLS[node.function], short(path.value)))
    return found


def short(path: str) -> str:
    """Return the end of a path: the file and its folder."""
    return "/".join(PurePath(path).parts[-2:]) if "/" in path else path

"""The questions of a specification, resolved again from its text and attested files.

What the results say about models, inputs or thresholds is not used. Files are accessed through a
folder of links to only the attested files, so that the text cannot reach any other file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from leaveout.errors import LeaveoutError, cause
from leaveout.specs import (
    CheckedSpec,
    Find,
    Guarantee,
    Let,
    Node,
    Spec,
    Text,
    check,
    expand,
    load,
    params,
    parse,
    with_params,
)
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import walk
from leaveout.verifier.engines import engines
from leaveout.verifier.evidence.statement import EvidenceError, Places, Subject, TamperedError
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.page.spec_text import overridden_params
from leaveout.verifier.points.sentences import group_notes, own_group_notes
from leaveout.verifier.provenance import Origin
from leaveout.verifier.report import Report
from leaveout.verifier.resolve_names import Reading
from leaveout.verifier.tasks import Context, Task, task_of
from leaveout.version import VERSION

_SPECIFICATION, _INCLUDED = "specification", "included specification"
_COPIED = (_SPECIFICATION, _INCLUDED, "weights")
"""Kinds of files that are copied rather than linked, since other paths are relative to them."""

N = TypeVar("N", bound=Node)


@dataclass(frozen=True, eq=False)
class Resolved:
    """The statements of a specification, each with its question."""

    names: tuple[str, ...]  # for all statements, in order
    folder: Path  # folder of the specification, with the attested files
    params: tuple[str, ...] = ()  # params whose values the run replaced
    tasks: dict[str, Task[Any]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)  # reason for statements without a question


@contextmanager
def resolve_statements(
    report: Report, subjects: Sequence[tuple[Subject, Path]], places: Places, name: str
) -> Iterator[Resolved]:
    """Resolve the questions of a specification while the context lasts."""
    with tempfile.TemporaryDirectory(prefix="leaveout-evidence-") as folder:
        root = Path(folder).resolve()
        base = _link_files(root, subjects, name)
        yield _read(report, subjects, places, root, base, name)


def _link_files(root: Path, subjects: Sequence[tuple[Subject, Path]], name: str) -> Path:
    """Link the attested files as the specification sees them; return its folder."""
    paths = [os.path.normpath(each.name) for each, _ in subjects]
    up = max((PurePosixPath(path).parts.count("..") for path in paths), default=0)
    base = root.joinpath(*["up"] * up)
    base.mkdir(parents=True, exist_ok=True)
    for path, (subject, found) in zip(paths, subjects, strict=True):
        target = Path(os.path.normpath(base / path))
        if Path(path).is_absolute() or target.exists():
            raise TamperedError(f"{name}: {subject.name!r} is not the path of a file")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if subject.annotations.kind in _COPIED or os.name == "nt":  # links need a right there
                shutil.copyfile(found, target)
            else:
                target.symlink_to(found.resolve())
        except OSError as error:
            raise EvidenceError(
                f"cannot copy {subject.name!r} into {root}: {error.strerror or error}; set "
                "TMPDIR to a folder with enough space"
            ) from None
    return base


def _read(
    report: Report,
    subjects: Sequence[tuple[Subject, Path]],
    places: Places,
    root: Path,
    base: Path,
    name: str,
) -> Resolved:
    spec = _specification(report, subjects, base, name)
    if spec is None and "\n" not in report.spec:
        names = tuple(dict.fromkeys(each.name for each in report.results))
        why = "its specification is not attested (it was made by an earlier version)"
        return Resolved(names, base, why=dict.fromkeys(names, why))
    included = [each.name for each, _ in subjects if each.annotations.kind == _INCLUDED]
    allowed = list(dict.fromkeys((base / each).parent for each in included))
    try:
        written = parse(report.spec, "<text>") if spec is None else load(spec)
        whole = expand(written, base, spec, allowed)
        values = overridden_params(report.notes, params(whole))
        whole = with_params(whole, values)
    except (LeaveoutError, Slip, RecursionError):
        # Parser messages are not shown: they would quote a file chosen by the evidence.
        shown = name if spec is None else spec.name
        raise TamperedError(f"{shown}: not a readable specification") from None
    tree = _from_here(whole, subjects, places)
    shown = "the specification" if spec is None else spec.name
    _check_results(report, whole, tree, places, shown)
    names = tuple(each.name for each in tree.statements if isinstance(each, Guarantee | Find))
    told = tuple(f"{param} = {value}" for param, value in values.items())
    found = Resolved(names, base, told)
    why = _unreachable(tree, root, base)
    if not why:
        try:
            checked = check(tree)
        except (LeaveoutError, Slip, RecursionError) as error:
            why = f"the specification cannot be checked here: {_line(error, base)}"
        else:
            origin = Origin.of(checked, base, spec)
            # A text in the results contains what it included.
            beside = ("given rows",) if spec is not None else ("given rows", _INCLUDED)
            _check_files(origin, subjects, beside, name)
            # Texts that named files of another machine are worded differently.
            otherwise = dict(_check_words(report, origin, name, same=whole == tree))
            if missing := origin.missing_files():
                why = f"{missing[0]} is not among the attested files"
            else:
                _load(found, checked)
                for each, reason in otherwise.items():
                    found.tasks.pop(each, None)
                    found.why[each] = reason
    found.why.update(dict.fromkeys(names, why) if why else {})
    return found


def _specification(
    report: Report, subjects: Sequence[tuple[Subject, Path]], base: Path, name: str
) -> Path | None:
    """Return the specification; None if the results contain its text or do not name it."""
    own = [each for each, _ in subjects if each.annotations.kind == _SPECIFICATION]
    expected = 0 if "\n" in report.spec else 1
    if len(own) != expected and (own or report.files):
        built = ", because its text is in the results" * (not expected)
        raise TamperedError(
            f"{name}: names {len(own)} files of kind {_SPECIFICATION!r}, expected "
            f"{'one' if expected else 'none'}{built}"
        )
    return Path(os.path.normpath(base / own[0].name)) if own else None


def _from_here(tree: Spec, subjects: Sequence[tuple[Subject, Path]], places: Places) -> Spec:
    """Return a specification whose attested files are named relative to its folder."""
    names = {os.path.normpath(each.name) for each, _ in subjects}
    names |= {str(above) for each in list(names) for above in PurePosixPath(each).parents}
    own = os.path.normpath(places.own.absolute() / places.folder)
    real = os.path.realpath(own)

    def relative_name(path: str) -> str:
        """Return a path as an attested file's name, if it is one."""
        # By any route: up and down again, by an absolute path, or through links.
        ways = [(own, path), (real, path)]
        if Path(path).is_absolute():
            ways.append((real, os.path.realpath(path)))
        for here, there in ways:
            found = Path(os.path.relpath(Path(here) / there, here)).as_posix()
            if found in names and found != ".":
                return found
        return path

    def rewrite_node(node: N) -> N:
        changes: dict[str, Any] = {}
        for each in fields(node):
            value = getattr(node, each.name)
            if isinstance(value, Node):
                changes[each.name] = rewrite_node(value)
            elif isinstance(value, tuple):
                changes[each.name] = tuple(
                    rewrite_node(child) if isinstance(child, Node) else child for child in value
                )
        if isinstance(node, Text) and node.value and "\0" not in node.value:
            changes["value"] = relative_name(node.value)
        return replace(node, **changes)

    return replace(tree, statements=tuple(rewrite_node(each) for each in tree.statements))


def _unreachable(tree: Spec, root: Path, base: Path) -> str:
    """Return why a file named by a specification is out of reach; empty if none is."""
    for node in walk(*tree.statements):
        if isinstance(node, Text):
            where = Path(os.path.normpath(base / node.value))
            if "\0" in node.value or not where.is_relative_to(root):
                return f"the specification names {node.value!r}, which is not attested"
    return ""


def _check_results(report: Report, whole: Spec, tree: Spec, places: Places, shown: str) -> None:
    """Check the results' statements against the text."""
    asked: dict[str, set[str]] = {}
    lets: set[str] = set()
    # Paths of this machine may be in the text but not in the results.
    own = os.path.normpath(places.own.absolute() / places.folder)
    for each in (*whole.statements, *tree.statements):
        texts = {str(each).replace(f"{here}{os.sep}", "") for here in (own, os.path.realpath(own))}
        texts.add(str(each))
        if isinstance(each, Guarantee | Find):
            asked.setdefault(each.name, set()).update(texts)
        elif isinstance(each, Let):
            lets |= texts
    for said in report.statements:
        if said.text not in asked.get(said.name, ()):
            raise TamperedError(
                f"{shown}: does not contain the statement {said.name!r} as the results state it"
            )
        for definition in said.definitions:
            if definition not in lets:
                raise TamperedError(
                    f"{shown}: does not define {definition!r}, which the results use in "
                    f"{said.name!r}"
                )
    decided = {(each.name, each.kind) for each in report.results}
    expected = {
        (each.name, "find" if isinstance(each, Find) else "guarantee")
        for each in tree.statements
        if isinstance(each, Guarantee | Find)
    }
    for name, kind in sorted(decided ^ expected):
        where = "the results omit" if (name, kind) in expected else "has no"
        raise TamperedError(f"{shown}: {where} the {kind} {name!r}")


def _check_files(
    origin: Origin,
    subjects: Sequence[tuple[Subject, Path]],
    beside: Sequence[str],
    name: str,
) -> None:
    """Check the attested facts about files against the text."""
    expected = {each.path: each for each in origin.files()}
    for subject, _ in subjects:
        notes = subject.annotations
        own = expected.get(os.path.normpath(subject.name))
        if own is None:
            if notes.kind not in beside:
                raise TamperedError(
                    f"{name}: the specification does not name the subject {subject.name!r}"
                )
            continue
        if (own.kind, own.sha256) != (notes.kind, subject.sha256) or set(own.called) != set(
            notes.called
        ):
            called = f" called {', '.join(own.called)}" if own.called else ""
            raise TamperedError(
                f"{name}: the subject {subject.name!r} is the specification's {own.kind}{called} "
                "but is attested as something else"
            )


def _check_words(
    report: Report, origin: Origin, name: str, *, same: bool
) -> Iterator[tuple[str, str]]:
    """Check training rows and sentences; yield statements another version words otherwise."""
    training = origin.training()
    if report.training != training and (report.files or not origin.missing_files()):
        raise TamperedError(f"{name}: the training rows do not belong to these files")
    if own_group_notes(report.notes) != group_notes(training):
        raise TamperedError(f"{name}: its notes of what a row is do not belong to these files")
    stated = {each.name: each for each in origin.statements()}
    for said in report.statements:
        own = stated[said.name]
        heads = [[d.partition(" = ")[0] for d in each.definitions] for each in (said, own)]
        if said.names != own.names or heads[0] != heads[1]:
            raise TamperedError(
                f"{name}: the statement {said.name!r} uses {', '.join(own.names)}, which the "
                "results do not state"
            )
        if said.sentence != own.sentence:
            if same and report.leaveout == VERSION:
                raise TamperedError(
                    f"{name}: the sentence of the statement {said.name!r} does not match the "
                    "statement"
                )
            yield said.name, f"its sentence is worded differently by this version, {VERSION}"


def _load(found: Resolved, checked: CheckedSpec) -> None:
    options = VerifyOptions(workers=1)
    resolver = Reading(checked, found.folder, "", (), "").resolver()
    made = engines(Context(checked, resolver, found.folder, options, is_asked=False))
    for statement in checked.statements:
        try:
            found.tasks[statement.name] = task_of(statement, made)
        except (LeaveoutError, Slip, RecursionError) as error:
            found.why[statement.name] = _line(error, found.folder)


def _line(error: BaseException, base: Path) -> str:
    """Return the first line of an error, with paths relative to the specification."""
    said = str(error) if isinstance(error, LeaveoutError) else cause(error)
    return said.partition("\n")[0].replace(f"{base}{os.sep}", "")

"""Descriptions of claims over points: counter-examples, files and inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ..boxes import number, runs
from ..points import Case, Form
from ..records import encode
from .networks import Applied, Points, reads_trees
from .parts import ApplicationPart, ClaimPart, FamilyPart

_CASES, _FORMS, _TERMS = 6, 12, 8
"""Most cases, forms per case and terms per form that are written out."""

_NONE = -1e290  # every goal is higher: coefficients, features and scores are far smaller


@dataclass(frozen=True)
class _OfFamily:
    """A member of a family, or any member: the file, and the network with its architecture."""

    path: Path
    part: FamilyPart
    member: int | None
    network: str


@dataclass(frozen=True, eq=False)
class PointsSubject:
    """Description of one claim over points, or of several alike but for a member."""

    name: str
    points: Points
    joined: tuple[int, ...] = ()  # the members of a family that it is claimed of, each by itself

    @property
    def members(self) -> int | None:
        """The number of members it covers; None if it does not cover a whole family."""
        families = self.points.part.applications
        asked = [each.family for each in families if each.family and each.member is None]
        return asked[0].members if asked else None

    @property
    def upper(self) -> float | None:
        """The claimed upper bound; None if no counter-example is claimed to exist."""
        part = self.points.part
        return None if part.decides or part.upper <= _NONE else part.upper

    @property
    def alike(self) -> tuple[ClaimPart, tuple[Path | None, ...]] | None:
        """What is equal in claims that differ by one member alone; None if it is of no one."""
        part = self.points.part
        own = {(_kind(each), each.member) for each in part.applications if each.family is not None}
        if len(own) != 1 or None in next(iter(own)):
            return None
        cases = tuple(replace(case, sums=(), near=False, origin=()) for case in part.cases)
        alone = replace(
            part,
            name=self.name.partition(", member ")[0],
            tree="",
            upper=0.0,
            applications=tuple(replace(each, member=None) for each in part.applications),
            cases=part.cases if self._is_cut else cases,
        )
        return alone, tuple(each.family for each in self.points.applied)

    def lines(self) -> Iterator[str]:
        """Yield the claim, a line per case, a line per file, and the inputs."""
        part = self.points.part
        where = "over the reals" if part.reals else "as evaluated in float32"
        if self._model == "trees":
            where = "as the library adds their scores"
        points = ", ".join(self._points)
        any_member = next((n for n, each in self._families.items() if each.member is None), None)
        if any_member is not None:
            points += f" and members {any_member}"
        cases = [self._conditions(case) for case in part.cases]
        bounds = list(dict.fromkeys(self._bound(case) for case in part.cases))
        if part.decides or part.upper <= _NONE:
            yield f"{self.name}: there are no {points} such that, {where},"
        elif len(bounds) == 1:
            such = " such that" if any(cases) else ""
            yield f"{self.name}: {bounds[0]} for all {points}{such}, {where}{',' * any(cases)}"
        else:
            yield f"{self.name}: for all {points}, {where},"
        common = set(cases[0]).intersection(*map(set, cases[1:]))
        always = [text for text in cases[0] if text in common]
        if always:
            yield f"  {_join_conditions(always)}{':' if len(cases) > 1 else ''}"
        both = "and" if len(bounds) > 1 else "or"
        for i, (case, own) in enumerate(zip(part.cases[:_CASES], cases, strict=False)):
            text = _join_conditions([each for each in own if each not in common])
            if len(bounds) > 1:
                text += f"{': ' if text else ''}{self._bound(case)}"
            if text or len(cases) > 1:
                yield f"  {f'{both} ' if i else ''}{text or 'whatever else holds'}"
        if self._is_cut:
            count, digest = len(part.cases), hashlib.sha256(encode(part.cases))
            what = f"all {count:,} cases" if count > 1 else "the case"
            yield f"  shortened; SHA-256 of {what} in full: {digest.hexdigest()}"
        for sha256, (path, name) in self._networks.items():
            yield f"{self._model} {name} is {path} (SHA-256 {sha256})"
        for name, each in self._families.items():
            which = "any" if each.member is None else f"number {each.member}, counted from 0,"
            if 0 < len(self.joined) < each.part.members:
                which = f"any with a number in {runs([*self.joined])}, counted from 0,"
            sha256 = each.part.file.sha256
            yield (
                f"{name} is {which} of the {each.part.members:,} members of family {each.path} "
                f"(SHA-256 {sha256}), evaluated like {self._model} {each.network}"
            )
        for name, note in self._notes:
            yield f"network {name}: {note}"
        for name, inputs in zip(self._points, self.points.inputs, strict=True):
            for line in inputs.lines():
                yield f"of {name}, {line}"
        for name, absent in zip(self._points, part.missing, strict=False):
            if absent:
                yield f"of {name}, features {', '.join(map(str, absent))} may also be missing (NaN)"

    @property
    def _model(self) -> str:
        return "trees" if reads_trees(self.points.part) else "network"

    def _conditions(self, case: Case) -> list[str]:
        own = (*case.goals, *case.conditions) if self.points.part.decides else case.conditions
        return [self._condition(form) for form in own]

    def _bound(self, case: Case) -> str:
        """Return the claimed bound of a case in words, if there is one."""
        part = self.points.part
        if part.decides or part.upper <= _NONE:
            return ""
        goals = "; ".join(self._form(form) for form in case.goals[:_FORMS])
        if len(case.goals) > 1:
            goals = f"the smallest of {goals}{'; ...' if len(case.goals) > _FORMS else ''}"
        return f"{goals} is at most {number(part.upper)}"

    @property
    def _points(self) -> list[str]:
        count = len(self.points.inputs)
        return ["x"] if count == 1 else [f"x{i}" for i in range(count)]

    @property
    def _networks(self) -> dict[str, tuple[Path, str]]:
        """File and name of each network, by digest."""
        found: dict[str, Path] = {}
        for reader, each in zip(self.points.applied, self.points.part.applications, strict=True):
            found.setdefault(each.network.sha256, reader.path)
        names = ["N"] if len(found) == 1 else [f"N{i}" for i in range(len(found))]
        return {sha: (path, name) for (sha, path), name in zip(found.items(), names, strict=True)}

    @cached_property
    def _kinds(self) -> list[tuple[str, str]]:
        """The distinct families."""
        own = [each for each in self.points.part.applications if each.family is not None]
        return list(dict.fromkeys(map(_kind, own)))

    @cached_property
    def _families(self) -> dict[str, _OfFamily]:
        """The families by the name of a member."""
        applications, kinds = self.points.part.applications, self._kinds
        found: dict[str, _OfFamily] = {}
        for reader, each in zip(self.points.applied, applications, strict=True):
            if each.family is not None and reader.family is not None:
                network = self._networks[each.network.sha256][1]
                found[_member_name(each, kinds)] = _OfFamily(
                    reader.family, each.family, each.member, network
                )
        return found

    @cached_property
    def _application_texts(self) -> list[str]:
        """The text of each application in terms."""
        applications, kinds = self.points.part.applications, self._kinds
        return [
            (
                self._networks[each.network.sha256][1]
                if each.family is None
                else _member_name(each, kinds)
            )
            + f"({self._points[each.point]})"
            for each in applications
        ]

    @property
    def _notes(self) -> list[tuple[str, str]]:
        """Notes on how networks are read."""
        listed = [
            (self._networks[each.network.sha256][1], note)
            for each, reader in zip(self.points.part.applications, self.points.applied, strict=True)
            if isinstance(reader, Applied)
            for note in reader.network.notes
        ]
        return list(dict.fromkeys(listed))

    @property
    def _is_cut(self) -> bool:
        cases = self.points.part.cases
        return len(cases) > _CASES or any(
            len(case.goals) + len(case.conditions) > _FORMS
            or any(len(f.features) + len(f.scores) > _TERMS for f in case.goals + case.conditions)
            for case in cases
        )

    def _condition(self, form: Form) -> str:
        return f"{self._form(form)} {'>' if form.strict else '>='} 0"

    def _form(self, form: Form) -> str:
        terms = [(c, f"{self._application_texts[a]}[{j}]") for a, j, c in form.scores]
        terms += [(c, f"{self._points[p]}[{i}]") for p, i, c in form.features]
        text = "".join(_term(c, what) for c, what in terms[:_TERMS])
        if len(terms) > _TERMS:
            text += f" + ... ({len(terms):,} terms)"
        if form.constant or not terms:
            text += _term(form.constant, "")
        return text.removeprefix(" + ").replace(" - ", "-", 1) if text[1] == "-" else text[3:]


T = TypeVar("T")


def join_alike(subjects: Iterable[T]) -> Iterator[T | PointsSubject]:
    """Yield subjects, claims over points as one that are alike but for the member of a family."""
    known: dict[object, list[PointsSubject]] = {}
    order: list[tuple[T, object]] = []
    for each in subjects:
        key = each.alike if isinstance(each, PointsSubject) else None
        order.append((each, key))
        if isinstance(each, PointsSubject) and key is not None:
            known.setdefault(key, []).append(each)
    for subject, own in order:
        if own is None:
            yield subject
        elif own in known:
            yield _join(known.pop(own))


def _join(claims: Sequence[PointsSubject]) -> PointsSubject:
    """Return one claim for those that are alike but for their member."""
    first = claims[0]
    if len(claims) == 1:
        return first
    members = {each.member for one in claims for each in one.points.part.applications}
    own = tuple(sorted(each for each in members if each is not None))
    part = replace(
        first.points.part,
        upper=max(each.points.part.upper for each in claims),
        applications=tuple(replace(e, member=None) for e in first.points.part.applications),
    )
    name = first.name.partition(", member ")[0]
    return PointsSubject(name, replace(first.points, part=part), own)


def _kind(application: ApplicationPart) -> tuple[str, str]:
    """Return what distinguishes families: their numbers, and what is computed from them."""
    assert application.family is not None
    return application.family.file.sha256, application.network.sha256


def _member_name(application: ApplicationPart, kinds: list[tuple[str, str]]) -> str:
    name = "M" if len(kinds) == 1 else f"M{kinds.index(_kind(application))}"
    return name if application.member is None else f"{name}[{application.member}]"


def _term(coefficient: float, what: str) -> str:
    size = abs(coefficient)
    sign = "-" if coefficient < 0 else "+"
    shown = what if what and size == 1 else f"{number(size)} {what}".rstrip()
    return f" {sign} {shown}"


def _join_conditions(conditions: list[str]) -> str:
    """Return conditions as one text, shortened if there are many."""
    text = " and ".join(conditions[:_FORMS])
    return text + (f" and ... ({len(conditions):,} in all)" if conditions[_FORMS:] else "")

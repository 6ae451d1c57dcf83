"""The members a bound rests on, as a tree of groups of similar networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leaveout.verifier.amounts import bound, count_noun
from leaveout.verifier.page.markup import Html, code, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.records import GroupRecord, GroupsRecord
from leaveout.verifier.report import Result

_FEW = 6
"""Rows that are named."""


def groups(page: Page) -> Html | None:
    """Return a tree per search; None if no search stored one."""
    found = [
        _tree(join_children(code(statement.name), _label(result, tree), where), tree)
        for run in page.runs
        for where in [f" ({run.name})" if page.several else ""]
        for statement in run.statements
        for result in statement.results
        for tree in result.groups
        if tree.groups
    ]
    if not found:
        return None
    said = (
        "Members whose networks are alike form a group. Groups that may hold the worst leak or "
        "counter-example are taken apart, as far as a small tree goes. A bar shows how bad one of "
        "a group can be at most; groups that may hold the worst one are in colour."
    )
    return join_children(tag("p", said), tag("div", found, class_="plots"))


def _label(result: Result, tree: GroupsRecord) -> str:
    return "" if tree.label is None else f", label {result.name_label(tree.label)}"


@dataclass(frozen=True)
class _Scale:
    """The scale on which the bounds of groups are shown."""

    tree: GroupsRecord

    def badness(self, group: GroupRecord) -> float:
        """Return a number that grows with how bad a group may be."""
        return -group.upper if self.tree.about == "greatest" else group.upper

    @property
    def most(self) -> float:
        """The badness of all members together."""
        return self.badness(self.tree.groups[0])

    def bound_text(self, badness: float) -> str:
        """Return a bound rounded to the side that keeps it true."""
        if self.tree.about == "greatest":
            return bound(-badness, up=False)
        return bound(badness, up=True)

    def reaches(self, group: GroupRecord) -> bool:
        """Return whether a group's displayed bound equals the worst one."""
        return self.bound_text(self.badness(group)) == self.bound_text(self.most)

    def width(self, group: GroupRecord) -> str:
        """Return the length of a bar, from 0 or from the best group if that is below."""
        least = min(0.0, *(self.badness(each) for each in self.tree.groups))
        whole = self.most - least
        return f"{100 * (self.badness(group) - least) / whole:.1f}" if whole > 0 else "0"


def _tree(name: Html, tree: GroupsRecord) -> Html:
    scale = _Scale(tree)
    parts: dict[int, list[int]] = {}
    for at in sorted(range(len(tree.groups)), key=lambda at: (-scale.badness(tree.groups[at]), at)):
        parts.setdefault(tree.groups[at].parent, []).append(at)

    def item(at: int) -> Html:
        """Return the list item of a group and its parts."""
        group = tree.groups[at]
        inner = [item(part) for part in parts.get(at, [])]
        return tag(
            "li",
            _group(group, scale, leaf=not inner),
            tag("ul", inner) if inner else None,
            class_="top" if scale.reaches(group) else None,
        )

    head = tag("h3", name)
    return tag(
        "figure",
        tag("figcaption", head, tag("p", _summary(scale))),
        tag("ul", [item(at) for at in parts.get(-1, [])], class_="tree"),
        class_="panel",
    )


_CAN: Final = {
    "leaks": ("hold a leak of up to", "above"),
    "least": ("reach", "above"),
    "greatest": ("go down to", "below"),
}


def _summary(scale: _Scale) -> str:
    """Return how many members could reach the bound, as far as the groups show."""
    tree = scale.tree
    may, beyond = _CAN[tree.about]
    whole = tree.groups[0].members
    inner = {group.parent for group in tree.groups}
    leaves = [group for at, group in enumerate(tree.groups) if at not in inner]
    high = [group for group in leaves if scale.reaches(group)]
    many = sum(group.members for group in high)
    rest = max((scale.badness(group) for group in leaves if not scale.reaches(group)), default=None)
    if rest is None or many == whole:
        return f"Any of {count_noun(whole, 'member')} may {may} {scale.bound_text(scale.most)}."
    rows = sorted(row for group in high for row in _named_rows(group))
    named = f" ({_rows(rows)})" if len(rows) == many and many <= _FEW else ""
    return (
        f"{count_noun(many, 'member')} of {whole:,}{named} may {may} "
        f"{scale.bound_text(scale.most)}, no other one {beyond} {scale.bound_text(rest)}."
    )


def _group(group: GroupRecord, scale: _Scale, leaf: bool) -> Html:
    bar = tag(
        "svg",
        tag("rect", width=f"{scale.width(group)}%", height=10, class_="filled"),
        class_="bar",
        aria_hidden="true",
    )
    told = count_noun(group.members, "member")
    listed = leaf and len(group.rows) == group.members <= _FEW
    if listed:
        told = _rows(_named_rows(group))
    least = scale.tree.about == "greatest"
    said = "worst leak" if scale.tree.about == "leaks" else "worst found"
    worst = tag("span", said, class_="mark") if group.leak and leaf else None
    # What a screen reader needs where the eye sees a bar.
    unseen = tag("span", "at least " if least else "at most ", class_="unseen")
    return tag(
        "div",
        tag("span", told, " ", worst, class_="who"),
        bar,
        tag("span", unseen, scale.bound_text(scale.badness(group)), class_="most"),
        class_="group",
    )


def _named_rows(group: GroupRecord) -> list[tuple[int, str]]:
    """Return the listed rows with their names, empty where unnamed."""
    names = group.ids if len(group.ids) == len(group.rows) else ("",) * len(group.rows)
    return list(zip(group.rows, names, strict=True))


def _rows(rows: list[tuple[int, str]]) -> str:
    told = ", ".join(f"{row} ({name})" if name else str(row) for row, name in rows)
    return f"row{'s' * (len(rows) != 1)} {told}"

"""Which members a bound rests on: a tree of groups of members whose networks are alike."""

from __future__ import annotations

from leaveout.verifier.page.amounts import bound, counted
from leaveout.verifier.page.markup import Html, code, joined, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.report import GroupRecord, GroupsRecord

__all__ = ["groups"]

_FEW = 6
"""Rows that are named."""


def groups(page: Page) -> Html | None:
    """Return a tree a search, None where no search left one."""
    found = [
        _tree(joined(code(statement.name), f", label {tree.label}{where}"), tree)
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
        "Members whose networks are alike form a group. Groups that may hold the worst leak are "
        "taken apart, as far as a small tree goes. A bar shows how high a leak of a group can be "
        "at most; those that may hold the worst one are in colour."
    )
    return joined(tag("p", said), tag("div", found, class_="plots"))


def _tree(name: Html, tree: GroupsRecord) -> Html:
    most = tree.groups[0].upper
    parts: dict[int, list[int]] = {}
    for at in sorted(range(len(tree.groups)), key=lambda at: (-tree.groups[at].upper, at)):
        parts.setdefault(tree.groups[at].parent, []).append(at)

    def shown(at: int) -> Html:
        group = tree.groups[at]
        inner = [shown(part) for part in parts.get(at, [])]
        return tag(
            "li",
            _group(group, most, leaf=not inner),
            tag("ul", inner) if inner else None,
            class_="top" if _reaches(group, most) else None,
        )

    head = tag("h3", name)
    return tag(
        "figure",
        tag("figcaption", head, tag("p", _summary(tree, most))),
        tag("ul", [shown(at) for at in parts.get(-1, [])], class_="tree"),
        class_="panel",
    )


def _summary(tree: GroupsRecord, most: float) -> str:
    """Say how many members could reach the bound, as far as the groups tell."""
    whole = tree.groups[0].members
    inner = {group.parent for group in tree.groups}
    leaves = [group for at, group in enumerate(tree.groups) if at not in inner]
    high = [group for group in leaves if _reaches(group, most)]
    many = sum(group.members for group in high)
    rest = max((group.upper for group in leaves if not _reaches(group, most)), default=None)
    if rest is None or many == whole:
        return f"Any of {counted(whole, 'member')} may hold a leak of up to {bound(most, up=True)}."
    rows = sorted(row for group in high for row in group.rows)
    named = f" ({_rows(tuple(rows))})" if len(rows) == many and many <= _FEW else ""
    return (
        f"{counted(many, 'member')} of {whole:,}{named} may hold a leak of up to "
        f"{bound(most, up=True)}, no other one above {bound(rest, up=True)}."
    )


def _reaches(group: GroupRecord, most: float) -> bool:
    """Whether a group's bound is shown as the highest is."""
    return bound(group.upper, up=True) == bound(most, up=True)


def _group(group: GroupRecord, most: float, leaf: bool) -> Html:
    wide = f"{100 * group.upper / most:.1f}" if most > 0 else "0"
    bar = tag(
        "svg",
        tag("rect", width=f"{wide}%", height=10, class_="filled"),
        class_="bar",
        aria_hidden="true",
    )
    told = counted(group.members, "member")
    listed = leaf and len(group.rows) == group.members <= _FEW
    if listed:
        told = _rows(group.rows)
    worst = tag("span", "worst leak", class_="mark") if group.leak and leaf else None
    return tag(
        "div",
        tag("span", told, " ", worst, class_="who"),
        bar,
        tag("span", _at_most(), bound(group.upper, up=True), class_="most"),
        class_="group",
    )


def _at_most() -> Html:
    """Return what a screen reader needs where the eye sees a bar."""
    return tag("span", "at most ", class_="unseen")


def _rows(rows: tuple[int, ...]) -> str:
    return f"row{'s' * (len(rows) != 1)} {', '.join(map(str, rows))}"

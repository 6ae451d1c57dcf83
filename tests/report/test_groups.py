"""The tree of groups of members: who carries the bound is said first."""

from __future__ import annotations

from leaveout.verifier.records import GroupRecord, GroupsRecord

from support.snapshots import passages


def tree(*groups):
    made = [
        GroupRecord(parent=parent, members=members, upper=upper, rows=rows, leak=leak)
        for parent, members, upper, rows, leak in groups
    ]
    return GroupsRecord(label=0, groups=tuple(made))


TREE = tree(
    (-1, 100, 0.75, tuple(range(12)), True),
    (0, 98, 0.25, tuple(range(12)), False),
    (0, 2, 0.75, (7, 31), True),
    (2, 1, 0.125, (7,), False),
    (2, 1, 0.75, (31,), True),
)


def test_it_says_which_rows_carry_the_bound(made, snapshot):
    text = made.page(made.leak(groups=(TREE,)))
    section = text[text.index('id="groups"') :]
    assert passages(text, "100") == snapshot
    assert section.index("row 31 ") < section.index("row 7 ") < section.index("98 members")
    assert section.count("worst leak</span>") == 1


def test_where_all_may_reach_the_bound_it_says_that(made, snapshot):
    text = made.page(made.leak(groups=(tree((-1, 5, 0.75, (1, 2, 3, 4, 5), True)),)))
    assert passages(text, "0.75") == snapshot


def test_a_bound_of_nothing_is_drawn(made, snapshot):
    text = made.page(made.leak(groups=(tree((-1, 2, 0.0, (1, 2), False)),)))
    assert passages(text, "2") == snapshot


def test_without_groups_there_is_no_section(made):
    assert 'id="groups"' not in made.page(made.leak(), made.leak(label=1, groups=(tree(),)))


def test_a_greatest_number_is_bounded_from_below(made, snapshot):
    members = tree(
        (-1, 3, -0.5, (4, 5, 6), True),
        (0, 2, 0.25, (4, 5), False),
        (0, 1, -0.5, (6,), True),
    )
    found = GroupsRecord(label=None, groups=members.groups, about="greatest")
    text = made.page(made.leak(groups=(found,)))
    section = text[text.index('id="groups"') :]
    assert passages(section, "-0.5") == snapshot
    assert section.index("row 6 ") < section.index("rows 4, 5")
    assert section.count("worst found</span>") == 1


def test_a_least_number_is_bounded_from_above_and_bars_start_at_the_best_below_nothing(
    made, snapshot
):
    members = tree(
        (-1, 3, -1.0, (4, 5, 6), True), (0, 2, -3.0, (4, 5), False), (0, 1, -1.0, (6,), True)
    )
    found = GroupsRecord(label=None, groups=members.groups, about="least")
    text = made.page(made.leak(groups=(found,)))
    section = text[text.index('id="groups"') :]
    assert passages(section, "-1,") == snapshot
    assert 'width="100.0%"' in section and 'width="0.0%"' in section

"""Types of expressions in specifications."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """A type; plug-ins define their own.

    Attributes
    ----------
    name : str
        Name in function signatures.
    human : str
        Name in messages, with an article.
    each : Type or None
        Type of a variable that ``forall`` binds over this type; None if it cannot be iterated.
    equates : bool
        Whether ``==`` and ``!=`` compare two values of this type.
    ordered : bool
        Whether ``<``, ``<=``, ``>`` and ``>=`` compare them.
    """

    name: str
    human: str
    each: Type | None = None
    equates: bool = False
    ordered: bool = False


NETWORK = Type("Network", "a network")
FAMILY = Type("Family", "a family of networks", each=NETWORK)
POINT = Type("Point", "a point")
INPUTS = Type("Inputs", "a set of inputs", each=POINT)
LABEL = Type("Label", "a label", equates=True)
NUMBER = Type("Number", "a number", equates=True, ordered=True)
BOOLEAN = Type("Boolean", "a claim")
TEXT = Type("Text", "a text")
LIST = Type("List", "a list of numbers")
TABLE = Type("Table", "a list of lists of numbers")
WORD = Type("Word", "a word")

BALLOTS = Type("Ballots", "a table of ballots")
EDIT_VOTES = Type("EditVotes", "a vote that withstands edits")
"""A vote certified against insertions and removals of points."""
RELABEL_VOTES = Type("RelabelVotes", "a vote that withstands relabels")
"""A vote certified against changed labels; a separate type, so that the two never mix."""

TEST_POINT = Type("TestPoint", "a test point")
TEST_POINTS = Type("TestPoints", "test points", each=TEST_POINT)

SHARDED = Type("Sharded", "a sharded service")
FOREST = Type("Forest", "a forest", equates=True)
FORESTS = Type("Forests", "a family of forests", each=FOREST)
LINEAR = Type("Linear", "a linear model")
TREES = Type("Trees", "a tree ensemble")
TREE_FAMILY = Type("TreeFamily", "a family of tree ensembles", each=TREES)
LINEARS = Type("Linears", "a family of linear models", each=LINEAR)
RECORD = Type("Record", "a record")
RECORDS = Type("Records", "a table of records", each=RECORD)
AUDIT = Type("Audit", "an audit")

ACCESS = Type("Access", "access to a network")

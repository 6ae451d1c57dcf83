"""An iDP statement about a network and its family, loaded."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.bab import Instance
from leaveout.specs import Find
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.names import label_name

__all__ = ["Job"]


@dataclass(frozen=True, eq=False)
class Job:
    """One statement, loaded.

    Attributes
    ----------
    statement : IdpStatement
    instance : Instance
    labels : tuple of int
        The labels it is about.
    pair : bool
        Whether the family is one other network of the specification.
    without : tuple of int or None
        Of what a sample says: positions of the members of its file that are left out. None where it
        is about all of them, for certain.
    certified : bool
        Whether what proves it is of any use.
    """

    statement: IdpStatement
    instance: Instance
    labels: tuple[int, ...]
    pair: bool
    without: tuple[int, ...] | None = None
    certified: bool = True

    @property
    def question(self) -> Instance:
        """See `LeakJob.question`."""
        return self.instance

    @property
    def asked(self) -> str:
        """What is asked of each label, as a checkpoint remembers it."""
        asked = self.statement.statement
        if not isinstance(asked, Find):
            return f"guarantee above {self.statement.threshold}"
        return "find per label" if asked.per_label else "find"

    def label_name(self, label: int | None) -> str:
        """Return what the training data calls a label; empty for None, and where it does not."""
        return "" if label is None else label_name(self.instance.family.manifest.data, label)

"""A loaded iDP statement about a network and its family."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.bab import Instance
from leaveout.specs import Find
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.names import label_name


@dataclass(frozen=True, eq=False)
class Job:
    """A loaded statement."""

    statement: IdpStatement
    instance: Instance
    labels: tuple[int, ...]  # the labels it is about
    pair: bool  # whether the family is one other network of the specification
    without: tuple[int, ...] | None = None
    certified: bool = True  # whether what proves it is of any use

    @property
    def question(self) -> Instance:
        """The key of the question; see `LeakJob.question`."""
        return self.instance

    @property
    def checkpoint_question(self) -> str:
        """The question about each label, as stored in checkpoints."""
        asked = self.statement.statement
        if not isinstance(asked, Find):
            return f"guarantee above {self.statement.threshold}"
        return "find per label" if asked.per_label else "find"

    def label_name(self, label: int | None) -> str:
        """Return a label's name in the training data; empty if it has none."""
        return "" if label is None else label_name(self.instance.family.manifest.data, label)

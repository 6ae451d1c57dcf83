"""Loaded statements with ``but`` a share of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leaveout.specs import Binder, Confident, Find, ForAll, Guarantee, Number
from leaveout.verifier.points.asked_samples import AskedClaim, Looks
from leaveout.verifier.points.leak_decider import floor_of
from leaveout.verifier.points.network_job import Job
from leaveout.verifier.points.sampling import Sampling


def share_of(statement: Guarantee | Find) -> Number | None:
    """Return the share of rows a statement leaves out; None if it is about all."""
    claim = statement.claim.claim if isinstance(statement.claim, Confident) else statement.claim
    shares = [each.but for each in claim.binders if each.but] if isinstance(claim, ForAll) else []
    return shares[0] if shares else None


def without_share(statement: Guarantee | Find) -> Guarantee | Find:
    """Return the same statement about all members, without a confidence."""
    confident = statement.claim
    assert isinstance(confident, Confident)
    claim = confident.claim
    assert isinstance(claim, ForAll)
    binders = tuple(Binder(each.name, each.domain, at=each.at) for each in claim.binders)
    return replace(statement, claim=replace(claim, binders=binders))


@dataclass(frozen=True, eq=False)
class SampledJob:
    """A loaded statement about all rows."""

    job: Job  # the same about the members alone
    statement: Guarantee | Find  # as written
    sampling: Sampling  # its error is that of the statement; `SampledLeaks` shares it among all
    level: float  # the confidence as written, in (0, 1)
    looks: Looks  # what the sample was asked

    @property
    def results(self) -> int:
        """The number of its results, each of which may be wrong."""
        return len(self.label_groups)

    @property
    def label_groups(self) -> list[tuple[int, ...]]:
        """The labels of each result."""
        if isinstance(self.statement, Guarantee) or not self.statement.per_label:
            return [self.job.labels]
        return [(each,) for each in self.job.labels]

    def claims(self) -> list[AskedClaim]:
        """Return its claims about the sample, one per result."""
        is_find = isinstance(self.statement, Find)
        return [
            AskedClaim(
                name=self.statement.name,
                share=str(self.sampling.share),
                labels=labels,
                above="" if is_find else repr(floor_of(self.job.statement)),
                about=AskedClaim.digest(self.job.instance),
            )
            for labels in self.label_groups
        ]

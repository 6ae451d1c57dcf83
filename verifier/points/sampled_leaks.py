"""Leaks of all rows, from members for a sample of them: statements with ``but`` a share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from leaveout.bab import EngineResult, Instance, agree, make_instance
from leaveout.models import Family
from leaveout.specs import Binder, Confident, Find, ForAll, Guarantee, Number
from leaveout.verifier.points.idp import Decider, Job
from leaveout.verifier.points.leak_decider import finite, floor_of, merged
from leaveout.verifier.points.leak_statements import IdpStatement, recognise
from leaveout.verifier.points.network_rows import tighten
from leaveout.verifier.points.sampling import (
    Sampling,
    sampling_of,
    smallest_sample,
    tolerated,
    worst_case,
)
from leaveout.verifier.records import FactsRecord
from leaveout.verifier.report import SAMPLE, Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock

__all__ = ["SampledJob", "SampledLeaks", "share_of", "without_share"]

Floats = NDArray[np.float64]

_LOOSE = "numerical: which members are the worst was not told apart by the bounds of each"


def share_of(statement: Guarantee | Find) -> Number | None:
    """Return the share of all rows that a statement leaves out, None where it is about all."""
    claim = statement.claim.claim if isinstance(statement.claim, Confident) else statement.claim
    shares = [each.but for each in claim.binders if each.but] if isinstance(claim, ForAll) else []
    return shares[0] if shares else None


def without_share(statement: Guarantee | Find) -> Guarantee | Find:
    """Return the same about all members alone, for certain."""
    confident = statement.claim
    assert isinstance(confident, Confident)
    claim = confident.claim
    assert isinstance(claim, ForAll)
    binders = tuple(Binder(each.name, each.domain, at=each.at) for each in claim.binders)
    return replace(statement, claim=replace(claim, binders=binders))


@dataclass(frozen=True, eq=False)
class SampledJob:
    """A statement about all rows, loaded.

    Attributes
    ----------
    job : Job
        The same about the members alone.
    statement : Guarantee or Find
        As written.
    sampling : Sampling
        Its error is that of the statement; `SampledLeaks` shares it among all.
    level : float
    """

    job: Job
    statement: Guarantee | Find
    sampling: Sampling
    level: float

    @property
    def results(self) -> int:
        """How many results it has, each of which may be wrong."""
        one = isinstance(self.statement, Guarantee) or not self.statement.per_label
        return 1 if one else len(self.job.labels)


@dataclass(frozen=True, eq=False)
class _Found:
    """What searches found, and what is known of each member by them.

    ``rest`` are those of the members without the worst; none where all count.
    """

    every: Sequence[EngineResult]
    lower: Floats
    upper: Floats
    rest: Sequence[EngineResult] = ()


class SampledLeaks:
    """Decides statements about all rows, and shares among them what may be wrong.

    Parameters
    ----------
    decider : Decider
        Of claims about the members. It writes no certificate.
    resolver : Resolver
    gap : float
        Relative gap at which bounds count as closed.
    """

    def __init__(self, decider: Decider, resolver: Resolver, gap: float) -> None:
        self.decider, self._resolver, self._gap = decider, resolver, gap
        self._jobs: list[SampledJob] = []
        self.notes: list[str] = []

    def load(self, statement: Guarantee | Find) -> SampledJob:
        """Load a statement that leaves out a share.

        Raises
        ------
        LeaveoutError
            If it is about no leaks, or the family is no sample of the rows.
        """
        share, confident = share_of(statement), statement.claim
        assert share is not None and isinstance(confident, Confident)
        leak = recognise(without_share(statement), self._resolver)
        if not isinstance(leak, IdpStatement):
            raise self._resolver.fail(
                share,
                "'but' a share of the rows is decided of leaks alone",
                "as in: forall x in X, M in F but 0.001: confidence(N, x) > b => "
                "label(M, x) == label(N, x)",
            )
        job = self.decider.load(leak)
        level = confident.level.value
        sampling = sampling_of(
            job.instance.family, share.value, 1 - Fraction(repr(level)), job.instance.family.source
        )
        loaded = SampledJob(job, statement, sampling, level)
        self._jobs.append(loaded)
        return loaded

    def decide(self, sampled: SampledJob, clock: Clock) -> list[Result]:
        """Return the results of one statement."""
        count = sum(each.results for each in self._jobs)
        sampling = replace(sampled.sampling, error=sampled.sampling.error / count)
        self._tell(sampling, count)
        most = tolerated(sampling)
        if most is None:
            return self._too_small(sampled, sampling, clock)
        labels = sampled.job.labels
        asked = [(each,) for each in labels] if sampled.results > 1 else [labels]
        found = [self._search(sampled, each, most, clock) for each in asked]
        return [self._result(sampled, sampling, most, each) for each in found]

    def _search(
        self, sampled: SampledJob, labels: tuple[int, ...], most: int, clock: Clock
    ) -> _Found:
        """Search the members, and once more those that are left without the worst ``most``."""
        job, is_guarantee = sampled.job, isinstance(sampled.statement, Guarantee)
        floor = floor_of(job.statement)
        # Where no member may be above the bound, the first that is ends the search.
        decide = is_guarantee and not most
        found = self.decider.in_turn(job, labels, clock, floor, decide=decide)
        lower, upper = self._known(job, found)
        if not most:
            return _Found(found, lower, upper)
        tighten(job.instance, self.decider.rows.of(job.question), clock)
        lower, upper = self._known(job, found)
        rest = np.sort(np.lexsort((upper, lower))[: len(lower) - most])
        others = replace(job, instance=_among(job.instance, rest))
        again = self.decider.in_turn(others, labels, clock, floor, decide=is_guarantee)
        low, high = self._known(others, again)
        lower[rest], upper[rest] = np.maximum(lower[rest], low), np.minimum(upper[rest], high)
        return _Found(found, lower, upper, again)

    def _result(
        self,
        sampled: SampledJob,
        sampling: Sampling,
        most: int,
        found: _Found,
    ) -> Result:
        bare = self.decider.result(sampled.job, found.every)
        lower, upper = found.lower, found.upper
        floor = floor_of(sampled.job.statement)
        # Why it did not end, of the search that counts.
        reason = bare.reason
        if found.rest:
            reason = self.decider.result(sampled.job, found.rest).reason
        facts = FactsRecord(
            name=SAMPLE,
            facts={
                "rows": sampling.rows,
                "sample": sampling.size,
                "share": float(sampling.share),
                "exceptions": sampling.exceptions,
                "above": most,
                "error": float(sampling.error),
            },
        )
        shared = structs.replace(
            bare, confidence=sampled.level, facts=(*bare.facts, facts), groups=()
        )
        if self.decider.contradicted:
            return structs.replace(shared, verdict="unknown", upper=None)
        if isinstance(sampled.statement, Find):
            low, high = (float(np.sort(each)[-1 - most]) for each in (lower, upper))
            closed = bare.verdict == "proved" if not most else self._closed(found, low, high)
            return structs.replace(
                shared,
                lower=low,
                upper=finite(high),
                witness=None if most else shared.witness,
                verdict="proved" if closed else "unknown",
                reason=None if closed else reason or _LOOSE,
            )
        enough = worst_case(sampling)
        leaking = int(np.count_nonzero(lower > floor))
        if enough is not None and leaking >= enough:
            return structs.replace(shared, verdict="refuted", reason=None)
        if int(np.count_nonzero(upper > floor)) <= most:
            return structs.replace(
                shared,
                verdict="proved",
                reason=None,
                witness=None,
                label=sampled.job.statement.label,
            )
        more = "" if enough is None else f", and {enough:,} that do would refute it"
        why = reason or f"numerical: {leaking:,} members leak above it; {most:,} may{more}"
        return structs.replace(shared, verdict="unknown", reason=why)

    def _closed(self, found: _Found, lower: float, upper: float) -> bool:
        """Whether these are the ends of the search without the worst, and it closed them."""
        rest = merged(found.rest, self._gap)
        return agree(lower, upper, self._gap) or (rest.closed and lower >= rest.lower)

    def _known(self, job: Job, found: Sequence[EngineResult]) -> tuple[Floats, Floats]:
        """Return the leaks found and bounds of each member, of the labels that were searched.

        Shape (members,) each.
        """
        kept = [self.decider.rows.of(job.question)[each.label] for each in found]
        lower = np.zeros(len(job.instance.family))
        for each in kept:
            for member, leak in each.leaks.items():
                lower[member] = max(lower[member], leak.confidence)
        return lower, np.max([each.upper for each in kept], axis=0)

    def _too_small(self, sampled: SampledJob, sampling: Sampling, clock: Clock) -> list[Result]:
        clock.skip(len(sampled.job.labels))
        least = smallest_sample(sampling)
        labels = [(each,) for each in sampled.job.labels]
        asked = labels if sampled.results > 1 else [sampled.job.labels]
        found = []
        for each in asked:
            bare = self.decider.result(
                sampled.job, [self.decider.unsearched(sampled.job, label, "") for label in each]
            )
            reason = (
                f"numerical: a sample of {sampling.size:,} of {sampling.rows:,} rows is too small "
                f"to speak of all but {sampling.exceptions:,} of them; {least:,} would do: "
                f"leaveout train ... --sample {least}"
            )
            found.append(
                structs.replace(
                    bare, verdict="unknown", lower=0.0, upper=None, reason=reason,
                    confidence=sampled.level,
                )
            )  # fmt: skip
        return found

    def _tell(self, sampling: Sampling, count: int) -> None:
        shared = ""
        if count > 1:
            shared = (
                f"; {count} results rest on samples and share what may be wrong, 1/{count} each, "
                "so that the confidence is that of all together"
            )
        note = (
            f"statistical: of {sampling.rows:,} training rows {sampling.size:,} were drawn at "
            f"random and left out; {sampling.exceptions:,} of all rows may be exceptions{shared}"
        )
        if note not in self.notes:
            self.notes.append(note)


def _among(instance: Instance, members: NDArray[np.int64]) -> Instance:
    """Return the same question about some of the members."""
    family = instance.family
    part = Family(family.take(members), family.removed[members], family.manifest)
    return make_instance(instance.network, part, instance.box)

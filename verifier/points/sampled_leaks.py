"""Leaks of all rows from a sample of members: statements with ``but`` a share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import EngineResult, agree, make_instance
from leaveout.bab.native.files.certificate import SampledClaim
from leaveout.errors import LeaveoutError
from leaveout.models import Family
from leaveout.specs import Confident, Find, Guarantee
from leaveout.verifier.points.leak_decider import finite, floor_of, merge_results
from leaveout.verifier.points.leak_statements import (
    IdpStatement,
    recognise,
    share_of,
    without_share,
)
from leaveout.verifier.points.network_leaks import NetworkJob, NetworkLeaks, Networks, tighten
from leaveout.verifier.points.sampling import (
    AskedClaim,
    AskedSample,
    Looks,
    Sampling,
    sampling_of,
    smallest_sample,
    tolerated_count,
    worst_case,
)
from leaveout.verifier.records import FactsRecord, ModelRecord
from leaveout.verifier.report import SAMPLE, Result
from leaveout.verifier.tasks import Context, Engine, Kind, Outline, Statement, Subject
from leaveout.verifier.time_sharing import Clock


@dataclass(frozen=True, eq=False)
class SampledJob:
    """A loaded statement about all rows."""

    job: NetworkJob  # the same about the members alone
    statement: Guarantee | Find  # as written
    sampling: Sampling  # its error is that of the statement; `Samples` shares it among all
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
                about=AskedClaim.digest(self.job.compared.instance),
            )
            for labels in self.label_groups
        ]


_LOOSE = "numerical: the members' bounds do not tell which members are the worst"


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found: ``rest`` without the worst members, ``job`` of those that count."""

    job: NetworkJob
    every: Sequence[EngineResult]
    lower: Floats
    upper: Floats
    rest: Sequence[EngineResult] = ()


class Samples(Engine[SampledJob]):
    """Decides statements about all rows, sharing the error probability among them."""

    subject: ClassVar[Subject] = "samples"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        # What it notes is of the members, not of all rows.
        self._leaks = NetworkLeaks(replace(context, notes=[]))
        self._jobs: list[SampledJob] = []
        self._looks: dict[Networks, Looks] = {}

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        if share_of(statement) is not None:
            return None
        wrong = "this claim leaves out no share of the rows"
        return self.context.resolver.fail(statement.claim, wrong)

    def kind(self, sampled: SampledJob) -> Kind:
        return f"leaks of samples, {self.context.options.engine}"

    def searches(self, sampled: SampledJob) -> int:
        """See `Engine.searches`: all members, and those without the worst."""
        return 2 * len(sampled.job.labels)

    def kernels(self, sampled: SampledJob) -> Sequence[str]:
        return self._leaks.kernels(sampled.job)

    def models(self, sampled: SampledJob) -> list[ModelRecord]:
        return self._leaks.models(sampled.job)

    def outline(self, sampled: SampledJob) -> Outline:
        members = self._leaks.outline(sampled.job)
        again = "the same without the worst members, where some may be exceptions"
        return replace(members, about={**members.about, "again": again})

    def load(self, statement: Statement) -> SampledJob:
        share, confident = share_of(statement), statement.claim
        assert share is not None and isinstance(confident, Confident)
        leak = recognise(without_share(statement), self.context.resolver)
        if not isinstance(leak, IdpStatement):
            raise self.context.resolver.fail(
                share,
                "'but' a share of the rows is supported for leaks only",
                "e.g. forall x in X, M in F but 0.001: confidence(N, x) > b => label(M, x) == "
                "label(N, x)",
            )
        job = self._leaks.load_leak(leak)
        level = confident.level.value
        compared, family = job.compared, job.compared.instance.family
        sampling = sampling_of(family, share.value, 1 - Fraction(repr(level)), family.source)
        if compared not in self._looks:
            self._looks[compared] = Looks.of(compared.instance, compared.files[1])
        loaded = SampledJob(job, statement, sampling, level, self._looks[compared])
        before = loaded.looks.first() if self.context.is_asked else None
        if before is not None:
            self._refuse_new(loaded, before)
        self._jobs.append(loaded)
        return loaded

    def _refuse_new(self, sampled: SampledJob, before: AskedSample) -> None:
        """Raise on a claim that was not fixed before the sample's first use."""
        if all(before.has(each) for each in sampled.claims()):
            return
        share = share_of(sampled.statement)
        assert share is not None
        known = ", ".join(dict.fromkeys(each.name for each in before.claims))
        raise self.context.resolver.fail(
            share,
            f"this sample was already used, for {known}, and this is another claim: someone who "
            "has seen results could choose the next claim accordingly",
            "use a fresh sample: leaveout train ... --sample K --fresh DIR (--draws plans their "
            f"number with the first); the earlier use is recorded in {sampled.looks.path}",
        )

    def _count_results(self, sampled: SampledJob) -> int:
        """Record the first use; return how many results share the error."""
        count = sum(each.results for each in self._jobs)
        same = [each for each in self._jobs if each.looks == sampled.looks]
        before = sampled.looks.first()
        if before is None:
            if all(tolerated_count(each.sampling.per_result(count)) is None for each in same):
                # Nothing is searched, so nothing is seen.
                return count
            asked = [claim for each in same for claim in each.claims()]
            before = sampled.looks.look(asked, count)
            for each in same:
                # Another process may have been first.
                self._refuse_new(each, before)
        return max(count, before.results)

    def decide(self, sampled: SampledJob, clock: Clock) -> list[Result]:
        count = self._count_results(sampled)
        sampling = sampled.sampling.per_result(count)
        self._tell(sampling, count)
        most = tolerated_count(sampling)
        if most is None:
            return self._too_small(sampled, sampling, clock)
        decided = []
        for labels in sampled.label_groups:
            found = self._search(sampled, labels, most, clock)
            result = self._result(sampled, sampling, most, found)
            self._certify(sampled, count, labels, found, result)
            decided.append(result)
        return decided

    def _certify(
        self,
        sampled: SampledJob,
        count: int,
        labels: tuple[int, ...],
        found: _Found,
        result: Result,
    ) -> None:
        """Store the proof of a bound of all rows."""
        upper = result.upper
        if self.context.certificate is None or result.verdict == "refuted" or upper is None:
            return
        drawn = sampled.job.compared.instance.family.manifest.sample
        assert drawn is not None
        if result.verdict == "proved" and sampled.job.statement.threshold is not None:
            # Beyond what is asked nothing needs to be proved.
            upper = max(upper, sampled.job.statement.threshold)
        said = {
            "sample": {name: getattr(drawn, name) for name in drawn.__struct_fields__},
            "share": str(sampled.sampling.share),
            "confidence": str(Fraction(repr(sampled.level))),
            "results": count,
        }
        self.context.certificate.add_sample(
            SampledClaim(sampled.statement.name, found.job.compared.instance, labels, said),
            upper,
            stopped=(result.reason or "").startswith("time"),
        )

    def _search(
        self, sampled: SampledJob, labels: tuple[int, ...], most: int, clock: Clock
    ) -> _Found:
        """Search the members, then again without the ``most`` worst."""
        job, is_guarantee = sampled.job, isinstance(sampled.statement, Guarantee)
        floor = floor_of(job.statement)
        # Where no member may be above the bound, the first that is ends the search.
        decide = is_guarantee and not most
        job = replace(job, without=(), certified=not most)
        found = self._leaks.in_turn(job, labels, clock, floor, decide=decide)
        lower, upper = self._member_bounds(job, found)
        if not most:
            return _Found(job, found, lower, upper)
        tighten(job.compared.instance, self._leaks.rows.of(job.compared), clock)
        lower, upper = self._member_bounds(job, found)
        order = np.lexsort((upper, lower))
        rest, worst = np.sort(order[: len(order) - most]), np.sort(order[len(order) - most :])
        others = replace(
            job, compared=_among(job.compared, rest), without=tuple(worst.tolist()), certified=True
        )
        again = self._leaks.in_turn(others, labels, clock, floor, decide=is_guarantee)
        low, high = self._member_bounds(others, again)
        lower[rest], upper[rest] = np.maximum(lower[rest], low), np.minimum(upper[rest], high)
        return _Found(others, found, lower, upper, again)

    def _result(
        self,
        sampled: SampledJob,
        sampling: Sampling,
        most: int,
        found: _Found,
    ) -> Result:
        bare = self._leaks.result(sampled.job, found.every)
        lower, upper = found.lower, found.upper
        floor = floor_of(sampled.job.statement)
        # Why it did not end, of the search that counts.
        reason = bare.reason
        if found.rest:
            reason = self._leaks.result(sampled.job, found.rest).reason
        facts = FactsRecord(
            name=SAMPLE,
            facts={
                "rows": sampling.rows,
                "sample": sampling.size,
                "share": float(sampling.share),
                "exceptions": sampling.exceptions,
                "above": most,
                "error": float(sampling.error),
                "draw": sampling.draw,
                "draws": sampling.draws,
            },
        )
        shared = structs.replace(
            bare, confidence=sampled.level, facts=(*bare.facts, facts), groups=()
        )
        if self._leaks.contradicted:
            return structs.replace(shared, verdict="unknown", upper=None)
        if isinstance(sampled.statement, Find):
            low, high = (max(float(np.sort(each)[-1 - most]), 0.0) for each in (lower, upper))
            closed = bare.verdict == "proved" if not most else self._is_closed(found, low, high)
            if self.context.certificate is not None and closed and found.rest:
                # What is told is what the search proves by itself, at most its gap above.
                high = max(high, *(each.upper for each in found.rest))
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
        more = "" if enough is None else f"; {enough:,} such members would refute it"
        why = reason or f"numerical: {leaking:,} members leak above it; {most:,} may{more}"
        return structs.replace(shared, verdict="unknown", reason=why)

    def _is_closed(self, found: _Found, lower: float, upper: float) -> bool:
        """Return whether the search closed the bounds without the worst."""
        gap = self.context.options.gap
        rest = merge_results(found.rest, gap)
        return agree(lower, upper, gap) or (rest.closed and lower >= rest.lower)

    def _member_bounds(
        self, job: NetworkJob, found: Sequence[EngineResult]
    ) -> tuple[Floats, Floats]:
        """Return each member's worst leak and bound, shape (members,).

        A leak is -inf where none was found; only the searched labels count.
        """
        kept = [self._leaks.rows.of(job.compared)[each.label] for each in found]
        lower = np.full(job.compared.members, -np.inf)
        for each in kept:
            for member, leak in each.leaks.items():
                lower[member] = max(lower[member], leak.confidence)
        return lower, np.max([each.upper for each in kept], axis=0)

    def _too_small(self, sampled: SampledJob, sampling: Sampling, clock: Clock) -> list[Result]:
        clock.skip(len(sampled.job.labels))
        least = smallest_sample(sampling)
        found = []
        for each in sampled.label_groups:
            bare = self._leaks.result(
                sampled.job,
                [self._leaks.unsearched_result(sampled.job, label, "") for label in each],
            )
            reason = (
                f"numerical: a sample of {sampling.size:,} of {sampling.rows:,} rows is too "
                f"small for a claim about all but {sampling.exceptions:,} of them; {least:,} "
                f"would suffice: leaveout train ... --sample {least}"
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
                f"; {count} results rest on samples and share the failure probability, 1/{count} "
                "each, so that the confidence holds for all together"
            )
        if sampling.draws > 1:
            shared += (
                f"; this is draw {sampling.draw} of {sampling.draws} planned draws, which share "
                "it too"
            )
        note = (
            f"statistical: of {sampling.rows:,} training rows {sampling.size:,} were drawn at "
            f"random and left out; {sampling.exceptions:,} of all rows may be exceptions{shared}"
        )
        self.note(note)


def _among(compared: Networks, members: NDArray[np.int64]) -> Networks:
    """Return the same question about some of the members."""
    instance = compared.instance
    family = instance.family
    part = Family(family.take(members), family.removed[members], family.manifest)
    return replace(compared, instance=make_instance(instance.network, part, instance.box))

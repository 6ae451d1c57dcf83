"""Decision of iDP statements: the engine's bounds per label become verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from leaveout.bab import EngineResult, Instance, Progress, Witness, make_instance, search_native
from leaveout.bab.native.explorer import Group
from leaveout.bab.native.files.certificate import FileFacts
from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.bab.native.files.manifest_parts import family_digest, network_digest
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.workers.pool import Executor
from leaveout.deadline import Deadline
from leaveout.specs import Find
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import (
    LeakDecider,
    StatementProgress,
    Trace,
    asked_labels,
    finite,
    merge_results,
    propagation_result,
    quick_bounds,
)
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.points.row_bounds import Kept, label_record, rows_of, with_member_bounds
from leaveout.verifier.points.sentences import (
    box_record,
    counted_rows,
    groups_record,
    label_name,
    outside_box,
    record,
    row_id,
    without_member,
)
from leaveout.verifier.records import ByRowRecord, GroupsRecord, TraceRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock


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


_MOST = 10.0
"""Seconds that bounding single members may take, where a run has no deadline."""


def tighten(instance: Instance, kept: Mapping[int, Kept[Witness]], clock: Clock) -> None:
    """Bound single members by propagation, highest bounds first, within the time left.

    A search bounds all members together, so a single member keeps the worst one's bound.
    """
    if clock.interrupted or not kept:
        return
    deadline = Deadline.after(
        _MOST if clock.seconds_left is None else min(_MOST, clock.seconds_left)
    )
    highest = np.max([each.upper for each in kept.values()], axis=0)
    try:
        for member in np.argsort(-highest, kind="stable").tolist():
            if deadline.over or not highest[member] > 0:
                return
            alone = instance.alone(member)
            for label, each in kept.items():
                each.upper[member] = min(each.upper[member], max(0.0, alone.most(label)))
    except KeyboardInterrupt:
        clock.interrupted = True


def network_rows(
    instance: Instance,
    files: tuple[Path, Path],
    statements: tuple[str, ...],
    kept: Mapping[int, Kept[Witness]],
) -> ByRowRecord:
    """Return what is known of a family's rows."""
    family, facts = instance.family, instance.family.manifest.data
    trained = 0 if facts is None else facts.rows
    fields = rows_of(family.removed, trained, lambda row: row_id(facts, row))
    return ByRowRecord(
        model="network",
        network=str(files[0]),
        family=str(files[1]),
        network_sha256=network_digest(instance.network),
        family_sha256=family_digest(family),
        statements=statements,
        box=box_record(instance.box),
        labels=tuple(
            label_record(label, label_name(facts, label), each, family.removed, fields["rows"])
            for label, each in kept.items()
        ),
        label_names=facts.labels if facts is not None else (),
        **fields,
    )


_WORTH_STARTING = 0.1
"""Seconds below which no search is started."""


class Decider(LeakDecider[Job, Witness]):
    """Decides statements one after another and remembers earlier proofs."""

    def __init__(
        self,
        resolver: Resolver,
        options: VerifyOptions,
        progress: StatementProgress | None = None,
        certificate: CertificateTarget | None = None,
        executor: Executor | None = None,
    ) -> None:
        super().__init__()
        self._certificate, self._executor = certificate, executor
        self._resolver, self._options, self._progress = resolver, options, progress
        self._instances: dict[tuple[str, ...], Instance] = {}
        self._known: dict[tuple[int, int], EngineResult] = {}
        self._checkpoints: dict[tuple[str, int], Checkpoint] = {}
        self._traces: dict[EngineResult, TraceRecord] = {}
        self._groups: dict[EngineResult, GroupsRecord] = {}
        self._digests: dict[int, dict[str, str]] = {}
        self.notes: list[str] = []
        self.contradicted = False

    def load(self, statement: IdpStatement) -> Job:
        """Load the subject of a statement.

        Raises
        ------
        LeaveoutError
            If a file cannot be used or the label is out of range.
        """
        resolver = self._resolver
        key = tuple(
            str(resolver.value(part))
            for part in (statement.network, statement.family, statement.box)
        )
        if key not in self._instances:
            network = resolver.network(statement.network)
            family = resolver.family(statement.family, network)
            reader = InputReader(resolver, network.inputs)
            instance = make_instance(network, family, reader.read(statement.box))
            self._instances[key] = instance
            self._note(*reader.notes)
            said = (outside_box(instance), without_member(family))
            self._note(*(each for each in said if each))
        instance = self._instances[key]
        count = instance.labels
        known = f"{instance.network.source} has the labels 0 to {count - 1}"
        labels = asked_labels(statement, resolver, count, known)
        pair = resolver.is_network(statement.family)
        return Job(statement, instance, labels, pair)

    def resume(self, job: Job, store: Checkpoints) -> list[Checkpoint]:
        """Resume from checkpoints; return those of this statement."""
        options = self._options.native(None)
        name, instance = job.statement.statement.name, job.instance
        if id(instance) not in self._digests:
            self._digests[id(instance)] = Leaks(instance, job.labels[0]).digests()
        digests, asked = self._digests[id(instance)], job.checkpoint_question
        found = {
            (name, label): store.of(digests, label, options, name, asked) for label in job.labels
        }
        self._checkpoints.update(found)
        return list(found.values())

    def explores(self, job: Job) -> bool:
        """Return whether the compiled kernel is needed beyond propagation."""
        options = self._options
        if options.engine != "native" or options.kernel != "cpu":
            return False
        if options.certificate:
            return True
        threshold = job.statement.threshold
        floor = 0.0 if threshold is None else max(threshold, 0.0)
        return any(job.instance.most(label) > floor for label in job.labels)

    def known_results(self, instance: Instance) -> list[EngineResult | None]:
        """Return the last result of each label; None where not searched.

        Member bounds include all that was proved, of groups and of single members.
        """
        found = [self._known.get((id(instance), label)) for label in range(instance.labels)]
        kept = self.rows.of(instance)
        return [
            each
            if each is None or each.label not in kept
            else with_member_bounds(each, kept[each.label])
            for each in found
        ]

    def by_row(self, jobs: Sequence[Job], clock: Clock) -> tuple[ByRowRecord, ...]:
        """Return what is proved of each row, per question about a family.

        The remaining time is spent on bounding single rows.
        """
        asked: dict[Instance, list[IdpStatement]] = {}
        for job in jobs:
            if not job.pair:
                asked.setdefault(job.instance, []).append(job.statement)
        found, file = [], self._resolver.file
        for instance, statements in asked.items():
            kept = self.rows.of(instance)
            if not self.contradicted:
                tighten(instance, kept, clock)
                self.contradicted = any(each.has_contradiction for each in kept.values())
            files = file(statements[0].network), file(statements[0].family)
            names = dict.fromkeys(each.statement.name for each in statements)
            found.append(network_rows(instance, files, tuple(names), kept))
        return tuple(found)

    def _note(self, *notes: str) -> None:
        self.notes += [note for note in notes if note not in self.notes]

    def decide(self, job: Job, clock: Clock) -> list[Result]:
        """Return the results of one statement."""
        if self.contradicted:
            self.rows.forget()
        self._look_ahead(job, clock)
        results = super().decide(job, clock)
        for result in results:
            self._account(job, result)
        return results

    def _look_ahead(self, job: Job, clock: Clock) -> None:
        """Get quick bounds of each label before the first long search."""
        asked = job.statement.statement
        if not isinstance(asked, Find) or not asked.per_label or self._options.engine != "native":
            return
        for label in job.labels[1:]:
            key = (id(job.instance), label)
            seen = (asked.name, label) in self._checkpoints or key in self._known
            if seen or clock.interrupted or self.contradicted:
                continue
            try:
                found = quick_bounds(
                    job.instance, label, self._options.native(None), clock.seconds_left
                )
            except KeyboardInterrupt:
                clock.interrupted = True
                return
            if found is not None:
                self._known[key] = found

    def search(
        self, job: Job, label: int, clock: Clock, floor: float, *, decide: bool
    ) -> EngineResult:
        """Search one label; see `LeakDecider.search`."""
        seconds = clock.next()
        key = (id(job.instance), label)
        known = self._known.get(key)
        if self.contradicted:
            return self._solver_free_result(job.instance, label, known)
        if known is not None and decide:
            leaks = known.witness is not None and known.lower > floor
            if leaks or known.upper <= floor:
                return replace(known, seconds=0.0)
        if clock.interrupted:
            return self.unsearched_result(job, label, "interrupted")
        if seconds is not None and seconds < _WORTH_STARTING:
            return self.unsearched_result(job, label, "no time was left to search")
        name = job.statement.statement.name
        records: list[Record] = []
        groups: list[Group] = []
        trace = Trace()

        def report(progress: Progress) -> None:
            trace.add(progress)
            if self._progress is not None:
                self._progress(name, progress)

        result = self._engine(seconds, self._checkpoints.get((name, label)))(
            job.instance, label, floor=floor, decide=decide, known=known, progress=report,
            **self._result_sinks(records if job.certified else None, None if decide else groups),
        )  # fmt: skip
        self.contradicted = self.contradicted or result.contradicted
        self._known[key] = result
        self._certify(job, result, records)
        course = trace.record(result)
        if course is not None:
            self._traces[result] = course
        if groups:
            worst = None if result.witness is None else result.witness.member
            family = job.instance.family
            self._groups[result] = groups_record(family, worst, groups, label=result.label)
            for each in groups:
                self.rows.cap(job.question, label, each.members, each.upper, len(family))
        return result

    def _result_sinks(
        self, records: list[Record] | None, groups: list[Group] | None
    ) -> dict[str, Callable[..., None]]:
        """Return the sinks for what a search finds beside its bounds."""
        kept: dict[str, Callable[..., None]] = {}
        if self._certificate is not None and records is not None:
            kept["proofs"] = records.extend
        if groups is not None and self._options.engine == "native":
            kept["groups"] = groups.extend
        return kept

    def _certify(self, job: Job, result: EngineResult, records: list[Record]) -> None:
        if self._certificate is None or not job.certified:
            return
        # What a sample says is a claim of its own.
        name = job.statement.statement.name if job.without is None else ""
        files = self.files(job)
        self._certificate.add(name, result.label, result.upper, records, job.instance, files)

    def files(self, job: Job) -> FileFacts:
        """Return the files of a statement's network and family."""
        statement = job.statement
        return FileFacts(
            self._resolver.file(statement.network),
            self._resolver.file(statement.family),
            job.pair,
            job.without or (),
        )

    def _account(self, job: Job, result: Result) -> None:
        """Report what part of a result the certificate lacks."""
        if self._certificate is None or result.verdict == "refuted" or result.upper is None:
            return
        upper, asked = result.upper, None
        if result.verdict == "proved" and job.statement.threshold is not None:
            # Beyond what is asked nothing needs to be proved, and nothing less is enough.
            upper = asked = job.statement.threshold
        self._certificate.check_labels(
            job.statement.statement.name,
            job.labels if result.label is None else (result.label,),
            upper,
            job.instance,
            exactly=asked is not None,
            stopped=(result.reason or "").startswith("time"),
        )

    def _engine(
        self, seconds: float | None, checkpoint: Checkpoint | None
    ) -> Callable[..., EngineResult]:
        options = self._options
        if options.engine == "lucid":
            from leaveout.bab import search

            lucid = options.lucid(seconds)
            return lambda instance, label, **given: search(instance, label, lucid, **given)
        native = options.native(seconds)
        return lambda instance, label, **given: search_native(
            instance, label, native, checkpoint=checkpoint, executor=self._executor, **given
        )

    def _solver_free_result(
        self, instance: Instance, label: int, known: EngineResult | None
    ) -> EngineResult:
        """Return the result without solver bounds: propagation and witnesses."""
        bare = propagation_result(instance, label, "")
        witness = known.witness if known else None
        return replace(
            bare,
            lower=witness.confidence if witness else 0.0,
            witness=witness,
            closed=False,
            reason="numerical",
            detail=f"a replayed leak exceeds a bound that {self._options.proves_with} gave",
        )

    def unsearched_result(self, job: Job, label: int, detail: str) -> EngineResult:
        """Return what is known of a label without a search."""
        known = self._known.get((id(job.instance), label))
        if known is not None:
            return known.as_timed_out(detail, self._options.gap)
        return propagation_result(job.instance, label, detail)

    def result(self, job: Job, found: Sequence[EngineResult]) -> Result:
        """Return the result of some labels; see `LeakDecider.result`."""
        statement = job.statement.statement
        known = merge_results(found, self._options.gap)
        witness = known.witness
        counted = counted_rows(job.instance.family)
        if counted is not None and witness is not None and not job.pair:
            self._note(counted)
        return Result(
            name=statement.name,
            kind="find" if isinstance(statement, Find) else "guarantee",
            verdict="proved" if known.closed else "unknown",
            lower=finite(known.lower),
            upper=finite(known.upper),
            label=known.label,
            witness=record(job.instance, witness, job.pair) if witness is not None else None,
            seconds=known.seconds,
            engine=self._options.engine,
            solver=self._options.solver if self._options.engine == "lucid" else None,
            reason=known.reason,
            box=box_record(job.instance.box),
            members=len(job.instance.family),
            label_name=job.label_name(known.label),
            traces=tuple(self._traces[each] for each in found if each in self._traces),
            groups=tuple(self._groups[each] for each in found if each in self._groups),
        )

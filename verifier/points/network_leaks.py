"""Leaks of networks: the engine's bounds per label become verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import (
    EngineResult,
    Instance,
    NativeOptions,
    Witness,
    make_instance,
    search_native,
)
from leaveout.bab.native.explorer import Group
from leaveout.bab.native.files.certificate import FileFacts
from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints, Pause
from leaveout.bab.native.files.manifest_parts import family_digest, network_digest
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.leaks import Leaks
from leaveout.deadline import Deadline
from leaveout.errors import LeaveoutError
from leaveout.models import DataFacts
from leaveout.models.train.encoding import encoding_of
from leaveout.specs import Find, Guarantee
from leaveout.verifier.points.advice import Case
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import (
    Compared,
    LeakEngine,
    LeakJob,
    Trace,
    column_records,
)
from leaveout.verifier.points.leak_statements import IdpStatement, recognise
from leaveout.verifier.points.row_bounds import Kept, with_member_bounds
from leaveout.verifier.points.sentences import (
    counted_rows,
    groups_record,
    label_name,
    outside_box,
    record,
    row_id,
    without_member,
)
from leaveout.verifier.records import ByRowRecord, ModelRecord, WitnessRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Kind, Statement, Subject
from leaveout.verifier.time_sharing import Clock


@dataclass(frozen=True, eq=False)
class Networks(Compared):
    """A network, and its family or another network."""

    instance: Instance

    model = "network"

    @property
    def facts(self) -> DataFacts | None:
        """What is known of the training data."""
        return self.instance.family.manifest.data

    @property
    def labels(self) -> int:
        return self.instance.labels

    @property
    def known_labels(self) -> str:
        return f"{self.instance.network.source} has the labels 0 to {self.labels - 1}"

    @property
    def members(self) -> int:
        return len(self.instance.family)

    def label_name(self, label: int | None) -> str:
        return "" if label is None else label_name(self.facts, label)

    def witness_record(self, witness: Witness) -> WitnessRecord:
        return record(self.instance, witness, self.pair)

    def model_record(self, statement: str) -> ModelRecord:
        network, family = self.instance.network, self.instance.family
        facts = None if self.pair else self.facts
        members = 0 if self.pair else len(np.unique(family.removed))
        return ModelRecord(
            model="network",
            file=network.source,
            family=family.source,
            statements=(statement,),
            members=members,
            rows=None if facts is None else max(facts.rows, members),
            labels=() if facts is None else facts.labels,
            columns=()
            if self.pair
            else column_records(encoding_of(family.manifest), {} if facts is None else facts.units),
            quality=None if self.pair else family.manifest.quality,
        )

    def row_record(self, statements: tuple[str, ...], kept: Mapping[int, Kept]) -> ByRowRecord:
        family, facts = self.instance.family, self.facts
        return self._row_record(
            statements,
            kept,
            family.removed,
            0 if facts is None else facts.rows,
            lambda row: row_id(facts, row),
            (network_digest(self.instance.network), family_digest(family)),
            () if facts is None else facts.labels,
            "" if facts is None else facts.group,
        )

    def replay(self, x: NDArray[Any], member: int, label: int) -> Witness | None:
        return Leaks(self.instance, label).replay(x, member)

    def outline(self) -> dict[str, str]:
        network, family, box = self.instance.network, self.instance.family, self.box
        layers = [layer.width for layer in network.stack.layers]
        widths = ", ".join(f"{width:,}" for width in layers)
        members = f"{self.members:,} member{'s' * (self.members != 1)}"
        against = {"against": str(self.files[1])}
        source = f"{family.source}: " if family.source else ""
        listed = sum(len(each.columns) for each in box.choices)
        return {
            "network": f"{network.source}: {network.inputs:,} inputs, layers of {widths} "
            f"({sum(layers[:-1]):,} {network.stack.unit}), {self.labels} labels",
            **(against if self.pair else {"members": f"{source}{members}"}),
            "inputs": f"{network.inputs - listed:,} continuous, {listed:,} listed",
        }


NetworkJob = LeakJob[Networks]


def file_facts(job: NetworkJob) -> FileFacts:
    """Return the files of a statement's network and family."""
    return FileFacts(*job.compared.files, job.compared.pair, job.without or ())


def checkpoint_question(job: NetworkJob) -> str:
    """Return the question about each label, as stored in checkpoints."""
    asked = job.statement.statement
    if not isinstance(asked, Find):
        return f"guarantee above {job.statement.threshold}"
    return "find per label" if asked.per_label else "find"


_MOST_FOR_ROWS = 10.0  # seconds that bounding single members may take, where a run has no deadline


def tighten(instance: Instance, kept: Mapping[int, Kept], clock: Clock) -> None:
    """Bound single members by propagation, highest bounds first, within the time left.

    A search bounds all members together, so a single member keeps the worst one's bound.
    """
    if clock.interrupted or not kept:
        return
    deadline = Deadline.after(
        _MOST_FOR_ROWS if clock.seconds_left is None else min(_MOST_FOR_ROWS, clock.seconds_left)
    )
    if deadline.over:
        return
    highest = np.max([each.upper for each in kept.values()], axis=0)
    try:
        order = np.argsort(-highest, kind="stable")
        for members, uppers in instance.uppers(order[highest[order] > 0], list(kept)):
            for each, upper in zip(kept.values(), uppers, strict=True):
                each.upper[members] = np.minimum(each.upper[members], np.maximum(upper, 0.0))
            if deadline.over:
                return
    except KeyboardInterrupt:
        clock.interrupted = True


_SHARE = 0.04  # share of the time left that a look may take ...
_MOST_SECONDS = 10.0  # ... and seconds


def quick_bounds(
    instance: Instance, label: int, options: NativeOptions, left: float | None
) -> EngineResult | None:
    """Bound a label's leaks by propagation, and attack it for a few seconds."""
    question = Leaks(instance, label)
    if not question.opens_slowly:
        return None
    begun = time.perf_counter()
    deadline = Deadline.after(_MOST_SECONDS if left is None else min(_MOST_SECONDS, _SHARE * left))
    witness = question.first(options, deadline)
    known = propagation_result(instance, label, "it was attacked briefly, but not searched")
    return replace(
        known,
        lower=0.0 if witness is None else witness.confidence,
        witness=witness,
        closed=known.closed and witness is None,
        seconds=time.perf_counter() - begun,
        leaks=question.leaks,
    )


def propagation_result(instance: Instance, label: int, detail: str) -> EngineResult:
    """Return what propagation proves, with the reason it is not closed."""
    most = max(0.0, instance.most(label))
    everyone = np.full(len(instance.family), most)
    return EngineResult(label, 0.0, most, None, most == 0, "time", detail, everyone, 0, 0.0)


_WORTH_STARTING = 0.1  # seconds below which no search is started


@dataclass(frozen=True, eq=False)
class _Search:
    """A search of this run, which may go on once the others have ended."""

    result: EngineResult
    trace: Trace
    checkpoint: Checkpoint | None
    is_begun: bool = True

    @property
    def goes_on(self) -> bool:
        """Whether only time was missing, and it was not begun or its state is kept."""
        if self.result.closed or self.result.reason != "time":
            return False
        has_state = self.checkpoint is not None and self.checkpoint.has_state
        return has_state or not self.is_begun


class NetworkLeaks(LeakEngine[Networks]):
    """Leaks of networks, decided one after another; earlier proofs are remembered."""

    subject: ClassVar[Subject] = "networks"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._notes = context.notes  # where they come first
        self.solver = context.options.solver if context.options.engine == "lucid" else None
        self._known: dict[tuple[Networks, int], EngineResult] = {}
        self._checkpoints: dict[tuple[str, int], Checkpoint] = {}
        self._searched: dict[tuple[str, int], _Search] = {}
        self._digests: dict[Networks, dict[str, str]] = {}

    @property
    def notes(self) -> list[str]:
        """See `Engine.notes`: none beside those of the run."""
        return []

    @property
    def engine(self) -> str:
        return self.context.options.engine

    def kind(self, job: NetworkJob) -> Kind:
        return f"leaks, {self.engine}"

    def kernels(self, job: NetworkJob) -> Sequence[str]:
        """See `Engine.kernels`: none where propagation is enough."""
        options = self.context.options
        if options.engine != "native" or options.kernel != "cpu":
            return ()
        floor = max(0.0, job.statement.threshold or 0.0)
        needed = options.certificate or any(
            job.compared.instance.most(label) > floor for label in job.labels
        )
        return ("points",) if needed else ()

    def compare(self, leak: IdpStatement) -> Networks:
        resolver = self.context.resolver
        network = resolver.network(leak.network)
        family = resolver.family(leak.family, network)
        reader = InputReader(resolver, network.inputs)
        instance = make_instance(network, family, reader.read(leak.box))
        self.note(*reader.notes)
        self.note(*filter(None, (outside_box(instance), without_member(family))))
        files = resolver.file(leak.network), resolver.file(leak.family)
        return Networks(files, instance.box, resolver.is_network(leak.family), instance)

    def explain(self, job: NetworkJob) -> Case:
        instance, pair = job.compared.instance, job.compared.pair
        return Case(instance.box, None if pair else instance.family.manifest, instance)

    def resume(self, job: NetworkJob, store: Checkpoints) -> list[Checkpoint]:
        options, compared = self.context.options.native(None), job.compared
        if compared not in self._digests:
            self._digests[compared] = Leaks(compared.instance, job.labels[0]).digests()
        digests, asked = self._digests[compared], checkpoint_question(job)
        found = {
            (job.name, label): store.of(digests, label, options, job.name, asked)
            for label in job.labels
        }
        self._checkpoints.update(found)
        return list(found.values())

    def known_results(self, compared: Networks) -> list[EngineResult | None]:
        """Return the last result of each label; None where not searched.

        Member bounds include all that was proved, of groups and of single members.
        """
        found = [self._known.get((compared, label)) for label in range(compared.labels)]
        kept = self.rows.of(compared)
        return [
            each
            if each is None or each.label not in kept
            else with_member_bounds(each, kept[each.label])
            for each in found
        ]

    def settle(self, compared: Networks, kept: Mapping[int, Kept], clock: Clock) -> None:
        """See `LeakEngine.settle`: the remaining time is spent on bounding single rows."""
        if not self.contradicted:
            tighten(compared.instance, kept, clock)
            self.contradicted = any(each.has_contradiction for each in kept.values())

    def prepare(self, job: NetworkJob, clock: Clock) -> None:
        """See `LeakEngine.prepare`: quick bounds of each label before the first long search."""
        if self.contradicted:
            self.rows.forget()
        asked, options = job.statement.statement, self.context.options
        if not isinstance(asked, Find) or not asked.per_label or options.engine != "native":
            return
        for label in job.labels[1:]:
            key = job.compared, label
            seen = (asked.name, label) in self._checkpoints or key in self._known
            if seen or clock.interrupted or self.contradicted:
                continue
            try:
                found = quick_bounds(
                    job.compared.instance, label, options.native(None), clock.seconds_left
                )
            except KeyboardInterrupt:
                clock.interrupted = True
                return
            if found is not None:
                self._known[key] = found

    def open_searches(self, job: NetworkJob) -> int:
        if self.context.certificate is not None:
            return 0
        found = (self._searched.get((job.name, label)) for label in job.labels)
        return sum(each is not None and each.goes_on for each in found)

    def search(
        self, job: NetworkJob, label: int, clock: Clock, floor: float, *, decide: bool
    ) -> EngineResult:
        compared, name = job.compared, (job.name, label)
        key = compared, label
        known = self._known.get(key)
        if self.contradicted:
            return self._solver_free_result(compared.instance, label, known)
        before = self._searched.get(name) if clock.goes_on else None
        if before is not None and not before.goes_on:
            return before.result
        seconds = clock.next()
        if known is not None and decide:
            leaks = known.witness is not None and known.lower > floor
            if leaks or known.upper <= floor:
                return replace(known, seconds=0.0)
        is_late = seconds is not None and seconds < _WORTH_STARTING
        if before is not None and (clock.interrupted or is_late):
            return before.result
        if clock.interrupted:
            return self.unsearched_result(job, label, "interrupted")
        if is_late:
            result = self.unsearched_result(job, label, "no time was left for the search")
            self._searched[name] = _Search(result, Trace(), self._checkpoints.get(name), False)
            return result
        records: list[Record] = []
        groups: list[Group] = []
        trace = Trace() if before is None else before.trace
        checkpoint = self._checkpoints.get(name) if before is None else before.checkpoint
        if checkpoint is None and self._may_go_on(job, clock):
            checkpoint = Pause()
        result = self._engine(seconds, checkpoint)(
            compared.instance, label, floor=floor, decide=decide, known=known,
            progress=self.reporter(job, trace),
            **self._result_sinks(records if job.certified else None, None if decide else groups),
        )  # fmt: skip
        self.contradicted = self.contradicted or result.contradicted
        self._known[key] = result
        if before is not None and result.reason == "time" and not result.interrupted:
            result = replace(result, detail=f"stopped after its share of {result.seconds:.4g} s")
        self._searched[name] = _Search(result, trace, checkpoint)
        self._certify(job, result, records)
        self.keep(result, trace)
        if groups:
            worst = None if result.witness is None else result.witness.member
            family = compared.instance.family
            self._groups[result] = groups_record(family, worst, groups, label=result.label)
            for each in groups:
                self.rows.cap(compared, label, each.members, each.upper, len(family))
        return result

    def _may_go_on(self, job: NetworkJob, clock: Clock) -> bool:
        """Return whether searches to come may leave time; that of certificates is for checks."""
        if clock.seconds_left is None or self.context.certificate is not None:
            return False
        return self.engine == "native" and job.without is None and clock.jobs_left > 0

    def _result_sinks(
        self, records: list[Record] | None, groups: list[Group] | None
    ) -> dict[str, Callable[..., None]]:
        """Return the sinks for what a search finds beside its bounds."""
        kept: dict[str, Callable[..., None]] = {}
        if self.context.certificate is not None and records is not None:
            kept["proofs"] = records.extend
        if groups is not None and self.engine == "native":
            kept["groups"] = groups.extend
        return kept

    def _certify(self, job: NetworkJob, result: EngineResult, records: list[Record]) -> None:
        if self.context.certificate is None or not job.certified:
            return
        # What a sample says is a claim of its own.
        name, instance = job.name if job.without is None else "", job.compared.instance
        self.context.certificate.add(
            name, result.label, result.upper, records, instance, file_facts(job)
        )

    def account(self, job: NetworkJob, result: Result, clock: Clock) -> None:
        """See `LeakEngine.account`: searches have put in what they proved."""
        certificate = self.context.certificate
        if certificate is None or result.verdict == "refuted" or result.upper is None:
            return
        upper, asked = result.upper, None
        if result.verdict == "proved" and job.statement.threshold is not None:
            # Beyond what is asked nothing needs to be proved, and nothing less is enough.
            upper = asked = job.statement.threshold
        certificate.check_labels(
            job.name,
            job.labels if result.label is None else (result.label,),
            upper,
            job.compared.instance,
            exactly=asked is not None,
            stopped=(result.reason or "").startswith("time"),
        )

    def _engine(
        self, seconds: float | None, checkpoint: Checkpoint | None
    ) -> Callable[..., EngineResult]:
        options = self.context.options
        if options.engine == "lucid":
            from leaveout.bab import search

            lucid = options.lucid(seconds)
            return lambda instance, label, **given: search(instance, label, lucid, **given)
        native, executor = options.native(seconds), self.context.executor
        return lambda instance, label, **given: search_native(
            instance, label, native, checkpoint=checkpoint, executor=executor, **given
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
            detail=f"a replayed leak exceeds a bound from {self.context.options.proves_with}",
        )

    def unsearched_result(self, job: NetworkJob, label: int, detail: str) -> EngineResult:
        known = self._known.get((job.compared, label))
        if known is not None:
            return known.as_timed_out(detail, self.context.options.gap)
        return propagation_result(job.compared.instance, label, detail)

    def result(self, job: NetworkJob, found: Sequence[EngineResult]) -> Result:
        result = super().result(job, found)
        counted = counted_rows(job.compared.instance.family)
        if counted is not None and result.witness is not None and not job.compared.pair:
            self.note(counted)
        return result


class NativeLeaks(NetworkLeaks):
    """The same by branch and bound over pairs of neurons."""

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        resolver = self.context.resolver
        leak = recognise(statement, resolver)
        if not isinstance(leak, IdpStatement):
            return leak
        if resolver.is_network(leak.family):
            other = resolver.network(leak.family)
            own, copied = map(resolver.first_alike, (leak.network, leak.family))
            if isinstance(statement, Guarantee) and own is copied:
                wrong = (
                    "both are the same network, which always agrees with itself; compare "
                    "two different networks"
                )
                return resolver.fail(leak.family, wrong)
            if other.architecture != resolver.network(leak.network).architecture:
                wrong = "neurons of networks with different architectures cannot be paired"
                return resolver.fail(leak.family, wrong)
        return None

"""Decision of leaks of forests: changes by one row, or between two forests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Progress, ProgressCallback, SearchResult
from leaveout.bab.forests import ForestWitness, Question, search_forests
from leaveout.bab.forests.proving import NotProvedError, margin_of
from leaveout.cores import cores
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box
from leaveout.errors import ForestError
from leaveout.models.forest import Forest, exact_forest
from leaveout.models.forest.family import ForestFamily
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.reading import scored_with_rows
from leaveout.models.forest.scored import ScoredForest
from leaveout.specs import Call, Find
from leaveout.verifier.by_row import ByRowRecord
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.forest_proofs import ForestBook, ForestFiles
from leaveout.verifier.points.forest_rows import forest_rows
from leaveout.verifier.points.forest_words import ForestNames, outside_inputs, witness_record
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import (
    LeakDecider,
    StatementProgress,
    asked_labels,
    finite,
    merge_results,
)
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.points.sentences import box_record
from leaveout.verifier.points.trace import Trace
from leaveout.verifier.records import TraceRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock

ENGINE = "forests"
"""What the results of these statements name as their engine."""

NO_LEAK = -1e-9
"""What is claimed where there is no leak at all: no confidence is below 0."""

_EVERYTHING = 1.0
"""No confidence of a forest is greater."""


@dataclass(frozen=True, eq=False)
class ForestJob:
    """A loaded statement about leaks of a forest."""

    statement: IdpStatement
    forest: Forest
    whole: ScoredForest  # the same, as what it answers
    rows: NDArray[np.float64]  # shape (rows, features)
    other: ScoredForest | None  # the other forest; None where every row's deletion is asked about
    box: Box
    labels: tuple[int, ...]  # the labels it is about, by their position in ``whole.classes``
    names: ForestNames
    key: tuple[str, ...]
    file: Path  # the forest's

    @property
    def members(self) -> int:
        """The number of forests it is compared with."""
        return 1 if self.other is not None else len(self.rows)

    @property
    def question(self) -> tuple[str, ...]:
        """The key of the question; see `LeakJob.question`."""
        return self.key

    def label_name(self, label: int | None) -> str:
        """Return a label's name in the training data; empty if it has none."""
        return "" if label is None else self.names.label_name(label)


class ForestDecider(LeakDecider[ForestJob, ForestWitness]):
    """Decides statements one after another."""

    def __init__(
        self,
        resolver: Resolver,
        options: VerifyOptions,
        progress: StatementProgress | None = None,
        certificate: CertificateTarget | None = None,
    ) -> None:
        super().__init__()
        self._resolver, self._options, self._progress = resolver, options, progress
        self._certificate = certificate
        self._book = ForestBook(options.workers or cores())
        self._searched: dict[int, SearchResult[ForestWitness]] = {}
        self._families: dict[int, ForestFamily] = {}
        self._questions: dict[tuple[str, ...], Question] = {}
        # Leaks that earlier statements about the same question found.
        self._found: dict[tuple[tuple[str, ...], int], ForestWitness] = {}
        self._traces: dict[SearchResult[ForestWitness], TraceRecord] = {}
        self.notes: list[str] = []

    def load(self, statement: IdpStatement) -> ForestJob:
        """Load the subject of a statement.

        Raises
        ------
        LeaveoutError
            If a file cannot be used, the forests do not fit together, or the label is out of
            range.
        """
        resolver = self._resolver
        forest = resolver.forest(statement.network)
        whole, rows = scored_with_rows(forest)
        other = None
        if resolver.is_forest(statement.family):
            compared = resolver.forest(statement.family)
            if compared.n_features_in_ != forest.n_features_in_:
                raise resolver.fail(
                    statement.family,
                    f"the forests read {forest.n_features_in_} and {compared.n_features_in_} "
                    "features; compare forests of the same data",
                )
            other, _ = scored_with_rows(compared)
        else:
            self._refuse_other_family(statement)
        reader = InputReader(resolver, forest.n_features_in_, "forest")
        box = reader.read(statement.box)
        file, features = resolver.forest_file(statement.network), forest.n_features_in_
        try:
            names = ForestNames.of(file, whole, features)
        except ForestError as error:
            raise resolver.fail(statement.network, str(error)) from None
        self._note(*reader.notes, *outside_inputs(rows, box))
        count = len(whole.classes)
        known = f"the forest has the labels 0 to {count - 1}: {names.every_label}"
        labels = asked_labels(statement, resolver, count, known)
        key = tuple(
            str(resolver.value(part))
            for part in (statement.network, statement.family, statement.box)
        )
        return ForestJob(statement, forest, whole, rows, other, box, labels, names, key, file)

    def _refuse_other_family(self, statement: IdpStatement) -> None:
        """Raise if the family belongs to a different forest."""
        resolver = self._resolver
        family = resolver.value(statement.family)
        if not (isinstance(family, Call) and family.function == "leave_one_out"):
            raise resolver.fail(
                statement.family, "expected a family of forests", "as in leave_one_out(T)"
            )
        of = resolver.bound_arguments(family)["forest"]
        try:
            exact_forest(resolver.forest(of))
        except ForestError as error:
            raise resolver.fail(statement.family, str(error)) from None
        if resolver.forest(of) is not resolver.forest(statement.network):
            raise resolver.fail(
                statement.family,
                f"this family is of another forest than {statement.network}",
                "the family and the confidence must be of one forest",
            )

    def decide(self, job: ForestJob, clock: Clock) -> list[Result]:
        """Decide one statement; see `LeakDecider.decide`."""
        self._searched.clear()
        results = super().decide(job, clock)
        if self._certificate is not None:
            for result in results:
                if clock.interrupted:
                    self._certificate.without(result.name, "the run was interrupted")
                else:
                    self._certify(job, result, self._certificate)
        return results

    def _certify(self, job: ForestJob, result: Result, certificate: CertificateTarget) -> None:
        """Add a bound's proof to the certificate, or note why it is missing."""
        name, labels = result.name, job.labels if result.label is None else (result.label,)
        if result.verdict == "refuted" or result.upper is None:
            return
        found = [self._searched[label] for label in labels if label in self._searched]
        if len(found) < len(labels):
            certificate.without(name, "not all labels were searched; let the run take longer")
            return
        question = self._questions[job.key]
        claimed = max(NO_LEAK, *(each.upper + margin_of(question) for each in found))
        if result.kind == "guarantee" and result.verdict == "proved":
            # Beyond what is asked nothing needs to be proved.
            asked = job.statement.threshold
            claimed = NO_LEAK if asked is None else max(asked, NO_LEAK)
        try:
            for label in labels:
                self._book.add(name, label, claimed, question, self.files(job))
        except NotProvedError as error:
            certificate.without(name, str(error))
        certificate.forests(self._book)

    def files(self, job: ForestJob) -> ForestFiles:
        """Return the files of a statement's forests."""
        return ForestFiles(
            self._resolver.forest_file(job.statement.network),
            None if job.other is None else self._resolver.forest_file(job.statement.family),
        )

    def replayed_confidence(
        self, job: ForestJob, x: NDArray[np.float64], member: int, label: int
    ) -> float | None:
        """Return a leak's confidence in the forests; None if it is not a leak."""
        question = self._question(job, label, NEVER, lambda _: None)
        found = question.replay(x, member, label)
        return None if found is None else found.confidence

    def search(
        self, job: ForestJob, label: int, clock: Clock, floor: float, *, decide: bool
    ) -> SearchResult[ForestWitness]:
        """Search one label; see `LeakDecider.search`."""
        seconds = clock.next()
        if clock.interrupted:
            return self.unsearched_result(job, label, "interrupted")
        started, name = time.perf_counter(), job.statement.statement.name
        deadline, trace = Deadline.after(seconds, started), Trace()

        def report(progress: Progress) -> None:
            trace.add(progress)
            if self._progress is not None:
                self._progress(name, progress)

        try:
            question = self._question(job, label, deadline, report)
        except TimeoutError:
            return self.unsearched_result(
                job, label, "the deletion of every row was not found in time"
            )
        except ForestError as error:
            raise self._resolver.fail(job.statement.family, str(error)) from None
        found = search_forests(
            question.whole, question.others, job.box, label, floor=floor, decide=decide,
            seconds=deadline.limit, gap=self._options.gap,
            threads=self._options.workers or cores(), tries=job.rows,
            progress=report, question=question, known=self._found.get((job.key, label)),
        )  # fmt: skip
        self._searched[label] = found
        if found.witness is not None:
            self._found[job.key, label] = found.witness
        course = trace.record(found)
        if course is not None:
            self._traces[found] = course
        return found

    def unsearched_result(
        self, job: ForestJob, label: int, detail: str
    ) -> SearchResult[ForestWitness]:
        """Return what is known of a label without a search."""
        everyone = np.full(job.members, _EVERYTHING)
        return SearchResult(label, 0.0, _EVERYTHING, None, False, "time", detail, everyone, 0, 0.0)

    def result(self, job: ForestJob, found: Sequence[SearchResult[ForestWitness]]) -> Result:
        """Return the result of some labels; see `LeakDecider.result`."""
        statement, known = job.statement.statement, merge_results(found, self._options.gap)
        witness = known.witness
        return Result(
            name=statement.name,
            kind="find" if isinstance(statement, Find) else "guarantee",
            verdict="proved" if known.closed else "unknown",
            lower=finite(known.lower),
            upper=finite(known.upper),
            label=known.label,
            witness=None
            if witness is None
            else witness_record(job.names, witness, job.whole, job.other),
            seconds=known.seconds,
            engine=ENGINE,
            solver=None,
            reason=known.reason,
            box=box_record(job.box),
            members=job.members,
            label_name=job.label_name(known.label),
            traces=tuple(self._traces[each] for each in found if each in self._traces),
        )

    def by_row(self, jobs: Sequence[ForestJob]) -> tuple[ByRowRecord, ...]:
        """Return what is proved of each row, per question about a family."""
        asked: dict[tuple[str, ...], list[ForestJob]] = {}
        for job in jobs:
            if job.other is None:
                asked.setdefault(job.key, []).append(job)
        for key in asked:
            if any(each.has_contradiction for each in self.rows.of(key).values()):
                # Where a bound is wrong nothing is to be concluded.
                raise AssertionError("a replayed leak is above what was proved of its row")
        return tuple(
            forest_rows(
                own[0].file,
                exact_forest(own[0].forest).ensemble(),
                own[0].box,
                own[0].names,
                tuple(dict.fromkeys(job.statement.statement.name for job in own)),
                self.rows.of(key),
            )
            for key, own in asked.items()
        )

    def _question(
        self, job: ForestJob, label: int, deadline: Deadline, report: ProgressCallback
    ) -> Question:
        """Return the question that labels and statements share."""
        if job.key not in self._questions:
            others = job.other or self._family(job, label, deadline, report)
            self._questions[job.key] = Question.of(job.whole, others, job.box)
        return self._questions[job.key]

    def _family(
        self, job: ForestJob, label: int, deadline: Deadline, report: ProgressCallback
    ) -> ForestFamily:
        made = self._families.get(id(job.forest))
        if made is not None:
            return made
        started = time.perf_counter()

        def tell(done: int, of: int) -> None:
            if deadline.over and done < of:
                raise TimeoutError
            seconds = time.perf_counter() - started
            report(Progress(label, 0.0, _EVERYTHING, of - done, done, seconds, deadline.limit))

        ensemble = exact_forest(job.forest).ensemble()
        made = leave_one_out(ensemble, threads=self._options.workers, progress=tell)
        self._families[id(job.forest)] = made
        return made

    def _note(self, *notes: str) -> None:
        self.notes += [note for note in notes if note not in self.notes]

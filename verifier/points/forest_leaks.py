"""Leaks of forests: changes by one row, or between two forests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import EngineResult, Progress, ProgressCallback, SearchResult, Witness
from leaveout.bab.forests.box_trees import BoxTrees, NotProvedError, margin_of, record_boxes
from leaveout.bab.forests.search import Question, search_forests
from leaveout.bab.native.files.manifest_parts import box_part, file_part
from leaveout.cores import cores
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import ForestError
from leaveout.models.forest import DareForestClassifier, Forest, exact_forest
from leaveout.models.forest.family import ForestFamily
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import forest_digest
from leaveout.models.forest.reading import scored_with_rows
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.quality import Quality
from leaveout.specs import Call
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import (
    NO_LEAK,
    Compared,
    LeakEngine,
    LeakJob,
    Trace,
    claimed_bound,
    column_records,
)
from leaveout.verifier.points.leak_statements import FORESTS, IdpStatement
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.points.row_bounds import Kept
from leaveout.verifier.points.sentences import NO_CONFIDENCE, outside_inputs
from leaveout.verifier.points.table_names import TableNames, forest_names
from leaveout.verifier.records import ByRowRecord, ModelRecord, WitnessRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Subject
from leaveout.verifier.time_sharing import Clock


def witness_record(
    names: TableNames, witness: Witness, whole: ScoredForest, other: ScoredForest | None
) -> WitnessRecord:
    """Return a witness as stored in the report."""
    known = whole.classes.tolist()
    theirs = known if other is None else other.classes.tolist()
    every = known + [label for label in theirs if label not in known]
    names = replace(names, labels=tuple(map(str, every)))
    place = [every.index(label) for label in theirs]
    scores, member_scores = np.zeros(len(every)), np.zeros(len(every))
    scores[: len(known)], member_scores[place] = witness.scores, witness.member_scores
    answer = place[int(np.argmax(witness.member_scores))]
    return names.leak(witness, scores, member_scores, answer, "forest", other is not None)


_MOST = 2**22  # boxes of one label, at most: some 40 MB


@dataclass(eq=False)
class _Claim:
    names: list[str]
    question: int
    label: int
    upper: float
    trees: BoxTrees


@dataclass(eq=False)
class ForestBook:
    """Collects trees of boxes, once per question and label."""

    threads: int  # that record them
    _questions: list[tuple[Question, Forests]] = field(default_factory=list)
    _claims: list[_Claim] = field(default_factory=list)

    def add(self, name: str, label: int, upper: float, question: Question, about: Forests) -> None:
        """Store the proof that no leak of a label exceeds a bound."""
        place = self._place(question, about)
        for claim in self._claims:
            if (claim.question, claim.label) == (place, label) and claim.upper <= upper:
                if name not in claim.names:
                    claim.names.append(name)
                return
        trees = record_boxes(question, label, upper, most=_MOST, threads=self.threads)
        self._claims.append(_Claim([name], place, label, upper, trees))

    def _place(self, question: Question, about: Forests) -> int:
        for i, (known, _) in enumerate(self._questions):
            if known is question:
                return i
        self._questions.append((question, about))
        return len(self._questions) - 1

    def __bool__(self) -> bool:
        return bool(self._claims)

    @property
    def files(self) -> list[Path]:
        """The files of the claims."""
        found: dict[Path, None] = {}
        for claim in self._claims:
            found |= dict.fromkeys(self._questions[claim.question][1].files)
        return list(found)

    def proofs(self) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
        """Yield the key and the arrays of each claim's trees."""
        for i, claim in enumerate(self._claims):
            trees = claim.trees
            yield str(i), {"size": trees.size, "feature": trees.feature, "value": trees.value}

    def part(self, folder: Path, prefixes: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims' part of a manifest."""
        questions = []
        for question, about in self._questions:
            forest, other = about.files
            questions.append(
                {
                    "forest": file_part(forest, folder, "file"),
                    "other": file_part(other, folder, "file") if about.pair else None,
                    "members": question.members,
                    "box": box_part(question.overlay.cells.box),
                }
            )
        results = [
            {
                "question": claim.question,
                "name": ", ".join(claim.names),
                "label": claim.label,
                "upper": claim.upper,
                "proof": prefixes[str(i)],
            }
            for i, claim in enumerate(self._claims)
        ]
        return {"questions": questions, "results": results}


_EVERYTHING = 1.0  # no confidence of a forest is greater


@dataclass(eq=False)
class Deletions:
    """A forest without each of its rows, made once for all questions."""

    forest: Forest
    threads: int | None
    _made: ForestFamily | None = None

    def family(self, label: int, deadline: Deadline, report: ProgressCallback) -> ForestFamily:
        """Return the family; raise `TimeoutError` if it cannot be made in time."""
        started = time.perf_counter()

        def tell(done: int, of: int) -> None:
            if deadline.over and done < of:
                raise TimeoutError
            seconds = time.perf_counter() - started
            report(Progress(label, 0.0, _EVERYTHING, of - done, done, seconds, deadline.limit))

        if self._made is None:
            ensemble = exact_forest(self.forest).ensemble()
            self._made = leave_one_out(ensemble, threads=self.threads, progress=tell)
        return self._made


@dataclass(frozen=True, eq=False)
class Forests(Compared):
    """A forest, and its deletions or another forest."""

    whole: ScoredForest  # as what it answers
    rows: NDArray[np.float64]  # shape (rows, features)
    leaving: int  # how many rows, or groups of them, can leave
    other: ScoredForest | None  # the other forest; None where every row's deletion is asked about
    names: TableNames
    deletions: Deletions
    _questions: list[Question] = field(default_factory=list)

    model = "forest"

    @property
    def labels(self) -> int:
        return len(self.whole.classes)

    @property
    def known_labels(self) -> str:
        return f"the forest has the labels 0 to {self.labels - 1}: {self.names.every_label}"

    @property
    def members(self) -> int:
        return 1 if self.pair else self.leaving

    def label_name(self, label: int | None) -> str:
        return "" if label is None else self.names.label_name(label)

    def witness_record(self, witness: Witness) -> WitnessRecord:
        return witness_record(self.names, witness, self.whole, self.other)

    def model_record(self, statement: str) -> ModelRecord:
        """See `Compared.model_record`: its family has no file."""
        columns = self.names.columns
        return ModelRecord(
            model="forest",
            file=str(self.files[0]),
            family="",
            statements=(statement,),
            members=0 if self.pair else self.members,
            rows=self.leaving or None,
            labels=self.names.labels,
            columns=() if columns is None else column_records(columns.encoding, columns.units),
            quality=self._quality(),
        )

    def _quality(self) -> Quality | None:
        if self.pair or not len(self.rows):
            return None
        answers = self.whole.probabilities(self.rows).argmax(axis=1)
        y = exact_forest(self.deletions.forest).ensemble().y.astype(np.int64)
        return Quality.of(answers, y, self.names.labels)

    def row_record(self, statements: tuple[str, ...], kept: Mapping[int, Kept]) -> ByRowRecord:
        """See `Compared.row_record`: each row has a member."""
        ensemble, names = exact_forest(self.deletions.forest).ensemble(), self.names
        digests = (forest_digest(ensemble),) * 2
        return self._row_record(
            statements, kept, ensemble.unit_names, 0, names.row_id, digests, names.labels,
            names.group,
        )  # fmt: skip

    def replay(self, x: NDArray[Any], member: int, label: int) -> Witness | None:
        return self.question(label, NEVER, lambda _: None).replay(x, member, label)

    def outline(self) -> dict[str, str]:
        return {
            "forest": f"{self.files[0]}: {self.box.dimension:,} inputs, "
            f"{len(self.whole.trees):,} trees, {len(self.rows):,} rows",
            **(
                {"against": str(self.files[1])}
                if self.pair
                else {"members": f"{self.leaving:,}, one per {self.names.group or 'row'}"}
            ),
        }

    def question(self, label: int, deadline: Deadline, report: ProgressCallback) -> Question:
        """Return the question that labels and statements share."""
        if not self._questions:
            others = self.other or self.deletions.family(label, deadline, report)
            self._questions.append(Question.of(self.whole, others, self.box))
        return self._questions[0]


ForestJob = LeakJob[Forests]


class ForestLeaks(LeakEngine[Forests]):
    """Leaks of forests, by branch and bound over the cells of their trees."""

    subject: ClassVar[Subject] = "forests"
    claims = "leaks, forests"
    decides, alone = FORESTS, "forest"
    engine = "forests"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._threads = context.options.workers or cores()
        self._book = ForestBook(self._threads)
        self._searched: dict[int, EngineResult] = {}
        self._deletions: dict[int, Deletions] = {}
        # Leaks that earlier statements about the same question found.
        self._found: dict[tuple[Forests, int], Witness] = {}

    def kernels(self, job: ForestJob) -> Sequence[str]:
        return ("forest_leaks",)

    def compare(self, leak: IdpStatement) -> Forests:
        resolver = self.context.resolver
        forest = resolver.forest(leak.network)
        whole, rows = scored_with_rows(forest)
        other = None
        if resolver.is_forest(leak.family):
            compared = resolver.forest(leak.family)
            if compared.n_features_in_ != forest.n_features_in_:
                raise resolver.fail(
                    leak.family,
                    f"the forests read {forest.n_features_in_} and {compared.n_features_in_} "
                    "features; compare forests trained on the same data",
                )
            other, _ = scored_with_rows(compared)
        else:
            self._refuse_other_family(leak)
        reader = InputReader(resolver, forest.n_features_in_, "forest")
        box = reader.read(leak.box)
        file, features = resolver.forest_file(leak.network), forest.n_features_in_
        try:
            held = forest.ensemble() if isinstance(forest, DareForestClassifier) else None
            names = forest_names(file, whole, features, held)
        except ForestError as error:
            raise resolver.fail(leak.network, str(error)) from None
        called = "table rows" if names.group else "rows"
        self.note(*reader.notes, *outside_inputs(rows, box, "forest", called))
        files = file, file if other is None else resolver.forest_file(leak.family)
        made = Deletions(forest, self.context.options.workers)
        deletions = self._deletions.setdefault(id(forest), made)
        leaving = 0 if held is None else len(held.unit_names)
        return Forests(files, box, other is not None, whole, rows, leaving, other, names, deletions)

    def _refuse_other_family(self, statement: IdpStatement) -> None:
        """Raise if the family belongs to a different forest."""
        resolver = self.context.resolver
        family = resolver.value(statement.family)
        if not (isinstance(family, Call) and family.function == "leave_one_out"):
            raise resolver.fail(
                statement.family, "expected a family of forests", "e.g. leave_one_out(T)"
            )
        of = resolver.bound_arguments(family)["forest"]
        try:
            exact_forest(resolver.forest(of))
        except ForestError as error:
            raise resolver.fail(statement.family, str(error)) from None
        if resolver.forest(of) is not resolver.forest(statement.network):
            raise resolver.fail(
                statement.family,
                f"this family belongs to a forest other than {statement.network}",
                "the family and the confidence must belong to the same forest",
            )

    def prepare(self, job: ForestJob, clock: Clock) -> None:
        self._searched.clear()

    def account(self, job: ForestJob, result: Result, clock: Clock) -> None:
        if result.upper is not None and result.upper >= _EVERYTHING:
            self.note(f"a bound of 1 or more says nothing: {NO_CONFIDENCE}")
        if self.context.certificate is None:
            return
        if clock.interrupted:
            self.context.certificate.without(result.name, "the run was interrupted")
        else:
            self._certify(job, result, self.context.certificate)

    def _certify(self, job: ForestJob, result: Result, certificate: CertificateTarget) -> None:
        """Add a bound's proof to the certificate, or note why it is missing."""
        name, labels = result.name, job.labels if result.label is None else (result.label,)
        if result.verdict == "refuted" or result.upper is None:
            return
        found = [self._searched[label] for label in labels if label in self._searched]
        if len(found) < len(labels):
            certificate.without(name, "not all labels were searched; raise the time limit")
            return
        question = job.compared.question(labels[0], NEVER, lambda _: None)
        most = max(NO_LEAK, *(each.upper + margin_of(question) for each in found))
        claimed = claimed_bound(job, result, most)
        try:
            for label in labels:
                self._book.add(name, label, claimed, question, job.compared)
        except NotProvedError as error:
            certificate.without(name, str(error))
        certificate.forests(self._book)

    def search(
        self, job: ForestJob, label: int, clock: Clock, floor: float, *, decide: bool
    ) -> EngineResult:
        seconds = clock.next()
        if clock.interrupted:
            return self.unsearched_result(job, label, "interrupted")
        deadline, trace, compared = Deadline.after(seconds), Trace(), job.compared
        report = self.reporter(job, trace)
        try:
            question = compared.question(label, deadline, report)
        except TimeoutError:
            return self.unsearched_result(
                job, label, "not every row's deletion was computed in time"
            )
        except ForestError as error:
            raise self.context.resolver.fail(job.statement.family, str(error)) from None
        found = search_forests(
            question.whole, question.others, compared.box, label, floor=floor, decide=decide,
            seconds=deadline.limit, gap=self.context.options.gap, threads=self._threads,
            tries=compared.rows, progress=report, question=question,
            known=self._found.get((compared, label)),
        )  # fmt: skip
        self._searched[label] = found
        if found.witness is not None:
            self._found[compared, label] = found.witness
        self.keep(found, trace)
        return found

    def unsearched_result(self, job: ForestJob, label: int, detail: str) -> EngineResult:
        everyone = np.full(job.compared.members, _EVERYTHING)
        return SearchResult(label, 0.0, _EVERYTHING, None, False, "time", detail, everyone, 0, 0.0)

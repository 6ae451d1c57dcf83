"""Decision of leaks of forests: changes by one row, or between two forests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Progress, ProgressCallback, SearchResult
from leaveout.bab.forests import ForestWitness, Question, search_forests
from leaveout.bab.forests.box_trees import BoxTrees, NotProvedError, margin_of, record_boxes
from leaveout.bab.native.files.manifest_parts import box_part, file_part
from leaveout.cores import cores
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box
from leaveout.errors import ForestError
from leaveout.models.forest import Forest, exact_forest
from leaveout.models.forest.columns import COLUMNS, ForestColumns, load_columns
from leaveout.models.forest.family import ForestFamily
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import Ensemble, forest_digest
from leaveout.models.forest.reading import scored_with_rows
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.train.encoding import CategoryColumn, cell_text, decode_row
from leaveout.specs import Call, Find
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import (
    LeakDecider,
    StatementProgress,
    Trace,
    asked_labels,
    finite,
    merge_results,
)
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.points.row_bounds import Kept, label_record, rows_of
from leaveout.verifier.points.sentences import box_record, label_phrase, row_name
from leaveout.verifier.records import ByRowRecord, CellRecord, TraceRecord, WitnessRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock

Floats = NDArray[np.float64]

_SHOWN = 12


@dataclass(frozen=True, eq=False)
class ForestNames:
    """Names of labels, rows and columns."""

    labels: tuple[str, ...]  # the labels themselves, in words
    columns: ForestColumns | None

    @staticmethod
    def of(path: Path, forest: ScoredForest, features: int) -> ForestNames:
        """Return the names in the file of a forest with ``features`` features."""
        beside = path.with_name(COLUMNS)
        columns = load_columns(beside, features) if beside.exists() else None
        return ForestNames(tuple(map(str, forest.classes.tolist())), columns)

    @property
    def every_label(self) -> str:
        """All labels with their numbers."""
        return ", ".join(f"{at} is {name!r}" for at, name in enumerate(self.labels))

    def label_name(self, label: int) -> str:
        """Return the name of a label; empty if it only has a number."""
        return "" if self.labels[label] == str(label) else self.labels[label]

    def row_id(self, row: int) -> str:
        """Return a row's name in the table; empty if it has none."""
        return "" if self.columns is None else self.columns.ids.get(row, "")

    def cells(self, x: Floats) -> tuple[CellRecord, ...]:
        """Return an input by table columns; empty if there are none."""
        known = self.columns
        if known is None or known.encoding is None or len(known.features) != len(x):
            return ()
        values = decode_row(known.encoding, x)
        cells, first = [], 0
        for column in known.encoding.columns:
            at = tuple(range(first, first + len(column.features)))
            first += len(at)
            value = values[column.name]
            if isinstance(column, CategoryColumn):
                possible = sorted(x[list(at)].tolist()) == [0.0] * (len(at) - 1) + [1.0]
            else:
                possible = not column.whole or float(value).is_integer()
            unit = known.units.get(column.name, "")
            cells.append(
                CellRecord(name=column.name, at=at, value=value, nearest=not possible, unit=unit)
            )
        return tuple(cells)

    def point(self, x: Floats) -> str:
        """Return an input in words, by columns or else feature numbers."""
        cells = self.cells(x)
        parts = [
            f"{cell.name} = {cell_text('' if cell.value is None else cell.value)}"
            f"{f' {cell.unit}' if cell.unit else ''}"
            for cell in cells
        ]
        parts = parts or [cell_text(value) for value in x.tolist()]
        more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
        shown = f"({', '.join(parts[:_SHOWN])}{more})"
        wrong = ", ".join(cell.name for cell in cells if cell.nearest)
        return f"nearest to {shown} but no possible record in {wrong}" if wrong else shown


def witness_record(
    names: ForestNames, witness: ForestWitness, whole: ScoredForest, other: ScoredForest | None
) -> WitnessRecord:
    """Return a witness as stored in the report."""
    pair, known = other is not None, whole.classes.tolist()
    theirs = known if other is None else other.classes.tolist()
    every = known + [label for label in theirs if label not in known]
    names = replace(names, labels=tuple(map(str, every)))
    place = [every.index(label) for label in theirs]
    scores, member_scores = np.zeros(len(every)), np.zeros(len(every))
    scores[: len(known)], member_scores[place] = witness.scores, witness.member_scores
    answer = place[int(np.argmax(witness.member_scores))]
    told = [label_phrase(each, names.label_name(each)) for each in (witness.label, answer)]
    row = names.row_id(witness.removed)
    without = "in the other forest" if pair else f"without {row_name(witness.removed, row)}"
    return WitnessRecord(
        x=tuple(witness.x.tolist()),
        member=witness.member,
        removed=witness.removed,
        confidence=witness.confidence,
        scores=tuple(scores.tolist()),
        member_scores=tuple(member_scores.tolist()),
        label=witness.label,
        member_label=answer,
        words=f"{without} the answer at x flips from {told[0]} to {told[1]}, confidence "
        f"{witness.confidence:.4g}, where x is {names.point(witness.x)}",
        cells=names.cells(witness.x),
        other=pair,
        removed_id="" if pair else row,
        label_names=names.labels if any(map(names.label_name, range(len(names.labels)))) else (),
        model="forest",
    )


def outside_inputs(rows: Floats, box: Box) -> list[str]:
    """Return a note on a forest's rows outside the input set."""
    left = int(np.count_nonzero(~box.contains(rows)))
    if not left:
        return []
    return [
        f"{left:,} of the forest's {len(rows):,} rows lie outside the set of inputs; nothing is "
        "claimed of them"
    ]


def forest_rows(
    path: Path,
    ensemble: Ensemble,
    box: Box,
    names: ForestNames,
    statements: tuple[str, ...],
    kept: Mapping[int, Kept[ForestWitness]],
) -> ByRowRecord:
    """Return what is known of a forest's rows, each of which has a member."""
    digest = forest_digest(ensemble)
    fields = rows_of(ensemble.names, 0, names.row_id)
    return ByRowRecord(
        model="forest",
        network=str(path),
        family=str(path),
        network_sha256=digest,
        family_sha256=digest,
        statements=statements,
        box=box_record(box),
        labels=tuple(
            label_record(label, names.label_name(label), each, ensemble.names, fields["rows"])
            for label, each in kept.items()
        ),
        label_names=names.labels,
        **fields,
    )


_MOST = 2**22
"""Boxes of one label, at most: some 40 MB."""


@dataclass(frozen=True)
class ForestFiles:
    """The files of a question's forests."""

    forest: Path
    other: Path | None  # None where it is the forest without each of its rows


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
    _questions: list[tuple[Question, ForestFiles]] = field(default_factory=list)
    _claims: list[_Claim] = field(default_factory=list)

    def add(
        self, name: str, label: int, upper: float, question: Question, files: ForestFiles
    ) -> None:
        """Store the proof that no leak of a label exceeds a bound."""
        place = self._place(question, files)
        for claim in self._claims:
            if (claim.question, claim.label) == (place, label) and claim.upper <= upper:
                if name not in claim.names:
                    claim.names.append(name)
                return
        trees = record_boxes(question, label, upper, most=_MOST, threads=self.threads)
        self._claims.append(_Claim([name], place, label, upper, trees))

    def _place(self, question: Question, files: ForestFiles) -> int:
        for i, (known, _) in enumerate(self._questions):
            if known is question:
                return i
        self._questions.append((question, files))
        return len(self._questions) - 1

    def __bool__(self) -> bool:
        return bool(self._claims)

    @property
    def files(self) -> list[Path]:
        """The files of the claims."""
        found: dict[Path, None] = {}
        for claim in self._claims:
            files = self._questions[claim.question][1]
            found |= {each: None for each in (files.forest, files.other) if each is not None}
        return list(found)

    def proofs(self) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
        """Yield the key and the arrays of each claim's trees."""
        for i, claim in enumerate(self._claims):
            trees = claim.trees
            yield str(i), {"size": trees.size, "feature": trees.feature, "value": trees.value}

    def part(self, folder: Path, prefixes: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims' part of a manifest."""
        questions = []
        for question, files in self._questions:
            other = None if files.other is None else file_part(files.other, folder, "file")
            questions.append(
                {
                    "forest": file_part(files.forest, folder, "file"),
                    "other": other,
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

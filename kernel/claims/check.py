"""``check``: from a certificate to what it proves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from ..leaks import Leaks
from ..onnx_file import DenseReader, Reader
from ..refusal import Rejected, Unreadable
from ..tree_forms import TreePoints
from ..values import Answers, HeldFile, Topic
from .certificate import Certificate, read_certificate
from .evaluate import Ground
from .forests import ForestQuestion, ForestSubject, check_forest, read_forests
from .linear import LinearQuestion, LinearSubject, Members, check_linear, read_linear
from .networks import (
    Question,
    Shelf,
    Subject,
    facts_of,
    read_points,
    read_question,
    read_tree_points,
    reads_trees,
)
from .parts import (
    ClaimPart,
    ForestResultPart,
    ForestsPart,
    LinearPart,
    LinearResultPart,
    ResultPart,
    SampledPart,
    StatementPart,
    ValuesPart,
)
from .places import Places
from .samples import SampledSubject, read_sampled
from .statements import Statements, ValueSubject
from .words import PointsSubject, join_alike

Progress = Callable[[str, int | None, int, int], None]

About = Subject | SampledSubject | PointsSubject | ValueSubject | ForestSubject | LinearSubject
_Walk = Callable[[], tuple[int, About]]


@dataclass(frozen=True)
class Checked:
    """One claim that was proved again."""

    name: str
    label: int | None  # None for claims not about leaks
    upper: float | None
    leaves: int  # leaves of the tree that proves it; 0 without a tree
    seconds: float
    subject: About


def check(
    path: Path,
    places: Places,
    answers: Answers,
    reader: Reader | None = None,
    *,
    exact: bool = False,
    progress: Progress | None = None,
) -> Iterator[Checked]:
    """Prove every claim of a certificate again, one after the other.

    Raises
    ------
    Unreadable
        If the certificate, or a file it names, is missing, damaged or in another format.
    Rejected
        If a claim is not proved; the message names the first part that fails.
    """
    checker = Checker(
        read_certificate(path), places, answers, reader or DenseReader(), exact, progress
    )
    return chain(checker.trees(), checker.others())


class Checker:
    """The claims of one certificate."""

    def __init__(
        self,
        certificate: Certificate,
        places: Places,
        answers: Answers,
        reader: Reader,
        exact: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._certificate, self._answers, self._progress = certificate, answers, progress
        self._exact, self._reader = exact, reader
        self._shelf = Shelf(places, reader)
        self._ready: dict[int, tuple[Question, Leaks]] = {}
        self._forests: dict[int, ForestQuestion] = {}
        self._linear: dict[int, LinearQuestion] = {}
        self._members: Members = {}

    def trees(self) -> Iterator[Checked]:
        """Check the claims over networks, which have trees."""
        manifest = self._certificate.manifest
        yield from map(self._result, manifest.results)
        yield from map(self._sample, manifest.samples)
        yield from map(self._claim, manifest.claims)

    def others(self) -> Iterator[Checked]:
        """Check the claims over forests, linear models and values."""
        manifest = self._certificate.manifest
        if manifest.forests is not None:
            for forest in manifest.forests.results:
                yield self._forest(forest, manifest.forests)
        if manifest.linear is not None:
            for linear in manifest.linear.results:
                yield self._linear_claim(linear, manifest.linear)
        if manifest.values is not None:
            yield from self._values(manifest.values)

    def _result(self, result: ResultPart) -> Checked:
        """Check a claim about leaks."""

        def run() -> tuple[int, Subject]:
            if self._certificate.manifest.questions[result.question].without:
                raise Rejected("it leaves members out, which only a claim about a sample may do")
            return self._leaks(result), self._prepare(result.question)[0].subject

        return self._run(result.name, result.label, result.upper, run)

    def _sample(self, part: SampledPart) -> Checked:
        """Check a claim about all rows from a sample of members: the draw, and the bounds."""

        def run() -> tuple[int, SampledSubject]:
            together = len(self._certificate.manifest.samples)
            subject = read_sampled(part, self._prepare(part.question)[0], together)
            bounds = [
                ResultPart(part.question, part.name, each.label, each.upper, each.tree)
                for each in part.bounds
            ]
            return sum(map(self._leaks, bounds)), subject

        label = part.bounds[0].label if len(part.bounds) == 1 else None
        upper = max((each.upper for each in part.bounds), default=math.nan)
        return self._run(part.name, label, upper, run)

    def _claim(self, claim: ClaimPart) -> Checked:
        """Check a claim over points."""

        def run() -> tuple[int, PointsSubject]:
            self._refuse_exact()
            proof = self._certificate.under(claim.tree)
            report = self._report(claim.name, None)
            if reads_trees(claim):
                points = read_tree_points(claim, self._shelf)
                assert isinstance(points.claim, TreePoints)
                return points.claim.check(proof, report), PointsSubject(claim.name, points)
            points = read_points(claim, self._shelf)
            assert not isinstance(points.claim, TreePoints)
            facts = {
                "members": points.claim.members,
                "hidden": points.claim.hidden_width,
                "short": int(self._certificate.short),
            }
            ask = self._answers(Topic("point tree", claim.tree, proof, facts))
            leaves = points.claim.check(ask, report)
            return leaves, PointsSubject(claim.name, points)

        return self._run(claim.name, None, claim.upper, run)

    def _prepare(self, place: int) -> tuple[Question, Leaks]:
        """Return a question, which is read only once, and what all its claims share."""
        self._refuse_exact()
        if place not in self._ready:
            question = read_question(self._certificate.manifest.questions[place], self._shelf)
            self._ready[place] = question, question.leaks(self._answers(Topic("bounds")))
        return self._ready[place]

    def _refuse_exact(self) -> None:
        if self._exact:
            raise Unreadable(
                "claims over networks are proved in float64, with every rounding charged; leave "
                "out --exact"
            )

    def _leaks(self, result: ResultPart) -> int:
        """Prove the bound of a label's leaks; return the number of leaves."""
        _, leaks = self._prepare(result.question)
        facts = facts_of(leaks, result.label, short=self._certificate.short)
        proof = self._certificate.under(result.tree)
        ask = self._answers(Topic("leak tree", result.tree, proof, facts))
        return leaks.check(result.label, result.upper, ask, self._report(result.name, result.label))

    def _forest(self, result: ForestResultPart, part: ForestsPart) -> Checked:
        """Check a claim about leaks of forests."""

        def run() -> tuple[int, ForestSubject]:
            if result.question not in self._forests:
                asked = part.questions[result.question]
                self._forests[result.question] = read_forests(asked, self._shelf.places)
            question = self._forests[result.question]
            proof = self._certificate.under(result.proof)
            ask = self._answers(Topic("leaf boxes", result.proof, proof))
            report = self._report(result.name, result.label)
            return check_forest(result, question, proof, ask, report), question.subject

        return self._run(result.name, result.label, result.upper, run)

    def _linear_claim(self, result: LinearResultPart, part: LinearPart) -> Checked:
        """Check a claim about a linear model."""

        def run() -> tuple[int, LinearSubject]:
            if result.question not in self._linear:
                asked, under = part.questions[result.question], self._certificate.under
                found = read_linear(asked, self._shelf.places, under, self._members)
                self._linear[result.question] = found
            question = self._linear[result.question]
            proof = self._certificate.under(result.proof)
            return 0, check_linear(result, question, proof, self._exact)

        label = None if result.kind == "threshold" else result.label
        return self._run(result.name, label, result.upper, run)

    def _values(self, part: ValuesPart) -> Iterator[Checked]:
        """Check the statements about values."""
        held: dict[int, HeldFile] = {}

        def file(place: int) -> HeldFile:
            if not 0 <= place < len(part.files):
                raise Rejected("it refers to a file that the manifest does not list")
            if place not in held:
                each = part.files[place]
                held[place] = HeldFile(self._shelf.places.find(each, "files"), each.sha256)
            return held[place]

        ground = Ground(self._answers, self._reader, self._exact)
        statements = Statements(part, file, self._certificate.under, ground)

        def check_statement(statement: StatementPart) -> Checked:
            return self._run(statement.name, None, None, lambda: (0, statements.check(statement)))

        yield from map(check_statement, part.statements)

    def _run(self, name: str, label: int | None, upper: float | None, walk: _Walk) -> Checked:
        """Run a check and return its outcome."""
        begun, path = time.perf_counter(), self._certificate.path
        try:
            if upper is not None and not math.isfinite(upper):
                raise Rejected("its claimed bound is not finite")
            # Overflow of float64 is detected where it matters.
            with np.errstate(over="ignore", invalid="ignore"):
                leaves, subject = walk()
            if not all(line.isprintable() for line in _lines_of(subject)):
                raise Rejected("what it says of files or models cannot be printed in lines")
        except Rejected as error:
            what = name if label is None else f"{name}, label {label}"
            raise Rejected(f"{path}: rejected: {what}: {error}") from None
        except RecursionError:
            raise Rejected(f"{path}: rejected: {name}: it is nested too deeply") from None
        return Checked(name, label, upper, leaves, time.perf_counter() - begun, subject)

    def _report(self, name: str, label: int | None) -> Callable[[int, int], None]:
        def report(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(name, label, done, total)

        return report


def _lines_of(subject: About) -> Iterator[str]:
    yield from subject.lines()
    if isinstance(subject, ValueSubject):
        yield from subject.rests_on()


def stated_upper(found: Checked) -> float | None:
    """Return the upper bound that a claim states; None where it says something else."""
    subject = found.subject
    if isinstance(subject, PointsSubject):
        return subject.upper
    if isinstance(subject, LinearSubject) and subject.claim is not None:
        return None if subject.claim.kind == "threshold" else found.upper
    return found.upper


def claim_lines(found: Sequence[Checked]) -> Iterator[str]:
    """Yield what was proved in words: each subject once, then what it all rests on."""
    for subject in join_alike({id(each.subject): each.subject for each in found}.values()):
        yield from subject.lines()
        if isinstance(subject, Subject | ForestSubject | LinearSubject):
            own = [each.label for each in found if each.subject is subject]
            labels = [label for label in own if label is not None]
            if labels:
                yield subject.claim_text(labels)
    stated = [each.subject for each in found if isinstance(each.subject, ValueSubject)]
    # Assumptions of several statements are told once.
    yield from dict.fromkeys(line for subject in stated for line in subject.rests_on())

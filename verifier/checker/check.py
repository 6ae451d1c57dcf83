"""``check``: from a certificate to what it proves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.leaks import Leaks
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import HeldFile
from leaveout.verifier.certify.tree_arrays import TreePart
from leaveout.verifier.certify.trees import TreeAnswers, Used, leak_tree
from leaveout.verifier.checker.claim_words import PointsSubject
from leaveout.verifier.checker.expressions.parts import StatementPart, ValuesPart
from leaveout.verifier.checker.expressions.statements import Statements, ValueSubject
from leaveout.verifier.checker.files import found_file
from leaveout.verifier.checker.forest_claims import ForestResultPart, ForestsPart, ForestSubject
from leaveout.verifier.checker.linear import (
    LinearPart,
    LinearQuestion,
    LinearResultPart,
    LinearSubject,
    Members,
    check_linear,
    read_linear,
)
from leaveout.verifier.checker.manifest import (
    Certificate,
    ClaimPart,
    ResultPart,
    SampledPart,
    read_certificate,
)
from leaveout.verifier.checker.points import read_points
from leaveout.verifier.checker.question import Question, Subject, read_question
from leaveout.verifier.checker.readers import Given, Shelf
from leaveout.verifier.checker.sampled import SampledSubject, read_sampled

if TYPE_CHECKING:
    from leaveout.verifier.checker.forests import ForestQuestion


Progress = Callable[[str, int | None, int, int], None]

_About = Subject | SampledSubject | PointsSubject | ValueSubject | ForestSubject | LinearSubject
_Walked = Callable[[], tuple[int, _About]]


@dataclass(frozen=True)
class Checked:
    """One claim that was proved again."""

    name: str
    label: int | None  # None for claims not about leaks
    upper: float | None
    leaves: int  # leaves of the tree that proves it; 0 without a tree
    seconds: float
    subject: _About


def check(
    path: Path,
    *,
    network: Path | Sequence[Path] | None = None,
    family: Path | Sequence[Path] | None = None,
    files: Path | Sequence[Path] | None = None,
    exact: bool = False,
    progress: Progress | None = None,
) -> list[Checked]:
    """Prove every claim of a certificate again."""
    given = Given(_as_tuple(network), _as_tuple(family), _as_tuple(files))
    checker = _Checker(read_certificate(path), given, exact, progress)
    manifest = checker.certificate.manifest
    found = [checker.result(each) for each in manifest.results]
    found += [checker.sampled_claim(each) for each in manifest.samples]
    found += [checker.claim(each) for each in manifest.claims]
    if manifest.forests is not None:
        found += [checker.forest(each, manifest.forests) for each in manifest.forests.results]
    if manifest.linear is not None:
        found += [checker.linear(each, manifest.linear) for each in manifest.linear.results]
    values = manifest.values
    return found + ([] if values is None else checker.values(values))


def used_parts(
    path: Path,
    *,
    network: Sequence[Path],
    family: Sequence[Path],
    progress: Progress | None = None,
) -> dict[str, Used]:
    """Prove every claim that has a tree; return the parts used by each walk, by tree name.

    Parameters and errors are those of `check`.
    """
    given = Given(_as_tuple(network), _as_tuple(family))
    checker = _Checker(read_certificate(path), given, False, progress)
    checker.used = {}
    manifest = checker.certificate.manifest
    for result in manifest.results:
        checker.result(result)
    for sampled in manifest.samples:
        checker.sampled_claim(sampled)
    for claim in manifest.claims:
        checker.claim(claim)
    return checker.used


def _as_tuple(paths: Path | Sequence[Path] | None) -> tuple[Path, ...]:
    """Return one path, several or none as a tuple."""
    return () if paths is None else (paths,) if isinstance(paths, Path) else tuple(paths)


class _Checker:
    def __init__(
        self,
        certificate: Certificate,
        given: Given,
        exact: bool,
        progress: Progress | None,
    ) -> None:
        self.certificate, self._given, self._progress = certificate, given, progress
        self._exact = exact
        self._shelf = Shelf(certificate.path.parent, given)
        self._ready: dict[int, tuple[Question, Leaks]] = {}
        self._forests: dict[int, ForestQuestion] = {}
        self._linear: dict[int, LinearQuestion] = {}
        self._members: Members = {}
        self.used: dict[str, Used] | None = None

    def result(self, result: ResultPart) -> Checked:
        """Check a claim about leaks."""
        return self._run_check(result.name, result.label, result.upper, lambda: self._leaks(result))

    def sampled_claim(self, part: SampledPart) -> Checked:
        """Check a claim about all rows from a sample of members."""
        label = part.bounds[0].label if len(part.bounds) == 1 else None
        upper = max((each.upper for each in part.bounds), default=math.nan)
        return self._run_check(part.name, label, upper, lambda: self._check_sample(part))

    def claim(self, claim: ClaimPart) -> Checked:
        """Check a claim over points."""
        return self._run_check(claim.name, None, claim.upper, lambda: self._points(claim))

    def forest(self, result: ForestResultPart, part: ForestsPart) -> Checked:
        """Check a claim about leaks of forests, importing what it needs first."""
        from leaveout.verifier.checker.forests import check_forest, read_forests

        def report(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(result.name, result.label, done, total)

        def run() -> tuple[int, ForestSubject]:
            if result.question not in self._forests:
                asked, folder = part.questions[result.question], self.certificate.path.parent
                self._forests[result.question] = read_forests(asked, folder, self._given)
            question = self._forests[result.question]
            proof = self.certificate.under(result.proof)
            return check_forest(result, question, proof, report), question.subject

        return self._run_check(result.name, result.label, result.upper, run)

    def linear(self, result: LinearResultPart, part: LinearPart) -> Checked:
        """Check a claim about a linear model."""

        def run() -> tuple[int, LinearSubject]:
            if result.question not in self._linear:
                asked, folder = part.questions[result.question], self.certificate.path.parent
                self._linear[result.question] = read_linear(
                    asked, folder, self._given, self.certificate.under, self._members
                )
            question = self._linear[result.question]
            proof = self.certificate.under(result.proof)
            return 0, check_linear(result, question, proof, self._exact)

        label = None if result.kind == "threshold" else result.label
        return self._run_check(result.name, label, result.upper, run)

    def values(self, part: ValuesPart) -> list[Checked]:
        """Check the statements about values."""
        held: dict[int, HeldFile] = {}

        def file(place: int) -> HeldFile:
            if not 0 <= place < len(part.files):
                raise RejectedError("it refers to a file that the manifest does not list")
            if place not in held:
                each, folder = part.files[place], self.certificate.path.parent
                where = found_file(each, folder, self._given.files, "files", self._given.roots)
                held[place] = HeldFile(where, each.sha256)
            return held[place]

        statements = Statements(part, file, self.certificate.under, self._exact)

        def check_statement(statement: StatementPart) -> Checked:
            """Check a statement about values."""

            def run() -> tuple[int, ValueSubject]:
                return 0, statements.check(statement)

            return self._run_check(statement.name, None, None, run)

        return [check_statement(each) for each in part.statements]

    def _run_check(
        self, name: str, label: int | None, upper: float | None, walk: _Walked
    ) -> Checked:
        """Run a check and return its outcome."""
        begun = time.perf_counter()
        try:
            if upper is not None and not math.isfinite(upper):
                raise RejectedError("its claimed bound is not finite")
            # Overflow of float64 is detected where it matters; products are too small for threads.
            with np.errstate(over="ignore", invalid="ignore"), threadpool_limits(1, "blas"):
                leaves, subject = walk()
        except Rejected as error:
            what = name if label is None else f"{name}, label {label}"
            raise RejectedError(f"{self.certificate.path}: rejected: {what}: {error}") from None
        except RecursionError:
            what = f"{self.certificate.path}: rejected: {name}"
            raise RejectedError(f"{what}: it is nested too deeply") from None
        return Checked(name, label, upper, leaves, time.perf_counter() - begun, subject)

    def _leaks(self, result: ResultPart) -> tuple[int, Subject]:
        if self.certificate.manifest.questions[result.question].without:
            raise RejectedError("it leaves members out, which only a claim about a sample may do")
        return self._check_leaks(result), self._prepare(result.question)[0].subject

    def _check_sample(self, part: SampledPart) -> tuple[int, SampledSubject]:
        """Check the draw and the bounds of a claim about all rows."""
        together = len(self.certificate.manifest.samples)
        subject = read_sampled(part, self._prepare(part.question)[0], together)
        bounds = [
            ResultPart(part.question, part.name, each.label, each.upper, each.tree)
            for each in part.bounds
        ]
        return sum(map(self._check_leaks, bounds)), subject

    def _prepare(self, place: int) -> tuple[Question, Leaks]:
        """Return a question, which is read only once, and what all its claims share."""
        self._refuse_exact()
        if place not in self._ready:
            asked = self.certificate.manifest.questions[place]
            question = read_question(asked, self.certificate.path.parent, self._given)
            self._ready[place] = question, question.leaks()
        return self._ready[place]

    def _refuse_exact(self) -> None:
        if self._exact:
            raise CertificateError(
                "claims over networks are proved in float64, with every rounding charged; leave "
                "out --exact"
            )

    def _check_leaks(self, result: ResultPart) -> int:
        """Prove the bound of a label's leaks; return the number of leaves."""
        question, leaks = self._prepare(result.question)
        part = self.certificate.tree(result.tree, leaks=True)
        tree = leak_tree(part, result.label, leaks.net.labels)
        ask = TreeAnswers(
            tree, len(question.members), leaks.net.hidden, self._use(result.tree, tree)
        )
        return leaks.check(result.label, result.upper, ask, self._report(result.name, result.label))

    def _use(self, name: str, tree: TreePart) -> Used | None:
        return None if self.used is None else self.used.setdefault(name, Used.of(len(tree)))

    def _report(self, name: str, label: int | None) -> Callable[[int, int], None]:
        def report(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(name, label, done, total)

        return report

    def _points(self, claim: ClaimPart) -> tuple[int, PointsSubject]:
        self._refuse_exact()
        part = self.certificate.tree(claim.tree, leaks=False)
        points = read_points(claim, self._shelf)
        ask = TreeAnswers(
            part, points.claim.members, points.claim.hidden_width, self._use(claim.tree, part)
        )
        leaves = points.claim.check(ask, self._report(claim.name, None))
        return leaves, PointsSubject(claim.name, points)

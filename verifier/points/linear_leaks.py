"""Leaks of linear models: changes by one row, or by rows that leave together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import EngineResult, SearchResult, Witness
from leaveout.bab.linear import Found, Goal, Search, leak_goals
from leaveout.bab.linear.search import flips, region_of, witness_of
from leaveout.bab.native.files.manifest_parts import box_part, file_part
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import LinearError
from leaveout.kernel.family import Family
from leaveout.kernel.model import LinearModel
from leaveout.models.linear.family import bound_members, hints_of, refine
from leaveout.models.linear.folder import COLUMNS, FEATURES
from leaveout.models.linear.folder import LINEARS as LINEARS_FILES
from leaveout.models.quality import Quality
from leaveout.specs import Call, Expression
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import (
    Compared,
    LeakEngine,
    LeakJob,
    Trace,
    claimed_bound,
    column_records,
)
from leaveout.verifier.points.leak_statements import LINEARS, IdpStatement
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.points.row_bounds import Kept
from leaveout.verifier.points.sentences import outside_inputs
from leaveout.verifier.points.table_names import TableNames
from leaveout.verifier.records import ByRowRecord, ModelRecord, WitnessRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Subject
from leaveout.verifier.time_sharing import Clock


def load_names(path: Path, model: LinearModel) -> TableNames:
    """Return the names of a linear model's labels, rows and columns."""
    beside, columns = path.with_name(COLUMNS), None
    if beside.exists():
        columns = LINEARS_FILES.load_columns(beside, model.inputs)
        if columns.width is None:
            # A network reads the table, and the model what the network makes of it.
            columns = msgspec.structs.replace(columns, encoding=None)
    return TableNames.of(model.labels, columns, model)


@dataclass(eq=False)
class Fitted:
    """A linear model, and its members as far as they are known."""

    model: LinearModel
    file: Path
    names: TableNames
    _family: Family | None = None

    @property
    def family(self) -> Family:
        """The members, bounded on first use."""
        if self._family is None:
            self._family = bound_members(self.model)
        return self._family

    def take(self, family: Family) -> None:
        """Keep members of which more is known."""
        self._family = family

    def of(self, unit: int) -> Family:
        """Return the members with one unit refitted."""
        self.take(refine(self.family, np.array([unit])))
        return self.family

    def quality(self) -> Quality | None:
        """Return how well it answers its own rows; None if it has no labels."""
        if not self.model.labels:
            return None
        answers = self.model.answers(self.model.X)
        return Quality.of(answers, self.model.y.astype(np.int64), self.model.labels)

    @property
    def claim_notes(self) -> Iterator[str]:
        """What a claim covers, in words."""
        exactly = "is the exact minimum without its row"
        if self.names.group:
            exactly = f"is the exact minimum without the rows of its {self.names.group}"
        if self.model.tolerance > 0:
            exactly = (
                "is any result of a solver without its row that leaves a gradient of at most "
                f"{self.model.tolerance:g}"
            )
        fixed = "the encoding of the inputs is fixed"
        if self.file.with_name(FEATURES).exists():
            fixed = f"the inputs are the outputs of {FEATURES}, which stays as it is"
        yield f"{self.file.name}: a member {exactly}; {fixed}"


@dataclass(frozen=True, eq=False)
class Linears(Compared):
    """A linear model and its members over a set of inputs."""

    fitted: Fitted

    model = "linear"

    @property
    def labels(self) -> int:
        return len(self.fitted.model.labels)

    @property
    def known_labels(self) -> str:
        names = self.fitted.names
        return f"the model has the labels 0 to {self.labels - 1}: {names.every_label}"

    @property
    def members(self) -> int:
        return len(self.fitted.model.unit_names)

    def label_name(self, label: int | None) -> str:
        return "" if label is None else self.fitted.names.label_name(label)

    def witness_record(self, witness: Witness) -> WitnessRecord:
        answer = int(np.argmax(witness.member_scores))
        scores, theirs = witness.scores, witness.member_scores
        return self.fitted.names.leak(witness, scores, theirs, answer, "linear")

    def model_record(self, statement: str) -> ModelRecord:
        """See `Compared.model_record`: its family has no file."""
        columns, names = self.fitted.names.columns, self.fitted.names
        return ModelRecord(
            model="linear",
            file=str(self.fitted.file),
            family="",
            statements=(statement,),
            members=self.members,
            rows=self.members,
            labels=names.labels,
            columns=() if columns is None else column_records(columns.encoding, columns.units),
            quality=self.fitted.quality(),
        )

    def row_record(self, statements: tuple[str, ...], kept: Mapping[int, Kept]) -> ByRowRecord:
        """See `Compared.row_record`: each row has a member."""
        model, names = self.fitted.model, self.fitted.names
        digests = (model.digest,) * 2
        return self._row_record(
            statements, kept, model.unit_names, 0, names.row_id, digests, names.labels, names.group
        )

    def replay(self, x: NDArray[Any], member: int, label: int) -> Witness | None:
        """See `Compared.replay`: a member certainly answers otherwise."""
        x = np.asarray(x, np.float64)
        family = self.fitted.of(member)
        leak = witness_of(family, Found(x, member, 0.0), label)
        inside = bool(self.box.contains(x[None])[0])
        sure = inside and flips(family, region_of(family, self.box), x, member, label)
        return leak if sure and leak.confidence > 0 else None

    def outline(self) -> dict[str, str]:
        model = self.fitted.model
        return {
            "model": f"{self.fitted.file}: {model.inputs:,} inputs, {model.design.width:,} "
            f"columns, {len(model.X):,} rows",
            "members": f"{self.members:,}, one per {self.fitted.names.group or 'row'}",
        }


LinearJob = LeakJob[Linears]


@dataclass(eq=False)
class _Claim:
    names: list[str]
    about: Linears
    said: dict[str, Any]  # what the manifest says of it
    goals: tuple[Goal, ...]  # none where the kernel needs no multipliers
    rivals: tuple[str, ...]  # what names the multipliers of each goal
    t: Floats
    weights: Floats | None
    upper: float

    @property
    def label(self) -> int:
        """The label whose leaks are bounded; -1 if it is about no leaks."""
        return int(self.said["label"]) if self.said["kind"] == "leaks" else -1


@dataclass(eq=False)
class LinearBook:
    """Collects multipliers, once per question and label."""

    target: CertificateTarget
    _claims: list[_Claim] = field(default_factory=list)

    def add(
        self, name: str, about: Linears, said: dict[str, Any], search: Search, upper: float
    ) -> None:
        """Store what proves that no goal of a search exceeds a bound."""
        for claim in self._claims:
            if claim.about is about and claim.said == said and claim.upper <= upper:
                claim.names += [name] if name not in claim.names else []
                return
        keys: tuple[str, ...] = ("t",) * (said["kind"] == "threshold")
        if said["kind"] == "leaks":
            rivals = (each for each in range(about.labels) if each != said["label"])
            keys = tuple(f"t{rival}" for rival in rivals)
        self._claims.append(
            _Claim([name], about, said, search.goals, keys, search.t, search.weights, upper)
        )

    def add_change(self, name: str, about: Linears, said: dict[str, Any], upper: float) -> None:
        """Store a claim about a change of rows, which the kernel proves without multipliers."""
        self._claims.append(_Claim([name], about, said, (), (), np.zeros((0, 0)), None, upper))

    def __bool__(self) -> bool:
        return bool(self._claims)

    @property
    def files(self) -> list[Path]:
        """The files of the claims."""
        return list(dict.fromkeys(each.about.fitted.file for each in self._claims))

    @property
    def _models(self) -> list[Fitted]:
        return list({id(each.about.fitted): each.about.fitted for each in self._claims}.values())

    @property
    def _questions(self) -> list[Linears]:
        return list({id(each.about): each.about for each in self._claims}.values())

    def proofs(self) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
        """Yield the key and the arrays of each model's members, and of each claim's multipliers."""
        for k, fitted in enumerate(self._models):
            arrays: dict[str, NDArray[Any]] = {}
            for i, hint in enumerate(hints_of(fitted.family)):
                arrays |= {f"R{i}": hint.R, f"measured{i}": hint.measured}
                arrays[f"centres{i}"] = hint.centres
            yield f"members {k}", arrays
        for i, claim in enumerate(self._claims):
            if not claim.goals:
                yield str(i), {}
                continue
            # Members that were refitted since then have other centres.
            again = Search(
                claim.about.fitted.family, claim.about.box, claim.goals, claim.upper, 0.0, NEVER,
                claim.label,
            )  # fmt: skip
            again.start(claim.t, claim.weights)
            if again.with_margin(again.upper) > claim.upper:
                again.run()
            now = again.with_margin(again.upper)
            if now > claim.upper + 1e-6 * (1.0 + abs(claim.upper)):
                names = ", ".join(claim.names)
                self.target.notes.append(f"{names}: the certificate proves only {now!r}")
            claim.upper = max(claim.upper, now)
            # Differences need no multipliers, and two labels no means.
            arrays = dict(zip(claim.rivals, again.t, strict=False))
            for rival, weights in zip(
                claim.rivals, () if again.weights is None else again.weights, strict=False
            ):
                if weights.any():
                    arrays[rival.replace("t", "w")] = weights
            yield str(i), arrays

    def part(self, folder: Path, prefixes: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims' part of a manifest."""
        questions = [
            {
                "model": file_part(each.fitted.file, folder, "file"),
                "members": each.members,
                "hints": prefixes[f"members {self._models.index(each.fitted)}"],
                "box": box_part(each.box),
            }
            for each in self._questions
        ]
        results = [
            {
                "question": self._questions.index(claim.about),
                "name": ", ".join(claim.names),
                **claim.said,
                "upper": claim.upper,
                "proof": prefixes[str(i)],
            }
            for i, claim in enumerate(self._claims)
        ]
        return {"questions": questions, "results": results}


class LinearLeaks(LeakEngine[Linears]):
    """Leaks of linear models, by a multiplier a member."""

    subject: ClassVar[Subject] = "linear"
    claims = "linear"
    decides, alone = LINEARS, "linear"
    engine = "linear"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._fitted: dict[int, Fitted] = {}
        self._searched: dict[int, tuple[EngineResult, Search]] = {}
        self._asked: dict[tuple[str, ...], Linears] = {}
        self.book = None if context.certificate is None else LinearBook(context.certificate)

    def compare(self, leak: IdpStatement) -> Linears:
        self.refuse_other_families(leak.family)
        about = self.linears(leak.network, leak.family, leak.box)
        if not about.fitted.model.labels:
            raise self.context.resolver.fail(
                leak.network,
                "a regression has no labels",
                "claim difference(L, M, x) <= d, or score(L, x) >= b => score(M, x) >= t",
            )
        return about

    def refuse_other_families(self, family: Expression) -> None:
        """Raise unless members lack one row each."""
        call = self.context.resolver.value(family)
        if not (isinstance(call, Call) and call.function == "leave_one_out"):
            wrong = "expected the members without one row each"
            raise self.context.resolver.fail(family, wrong, "e.g. leave_one_out(L)")

    def refuse_loose_scores(self, node: Expression, about: Linears) -> None:
        """Raise where only differences of a model's scores are known."""
        if about.fitted.model.kind == "softmax" and about.fitted.model.tolerance > 0:
            raise self.context.resolver.fail(
                node,
                "with a tolerance, only differences of softmax's scores are known",
                "claim labels, or set no tolerance",
            )

    def linears(self, model: Expression, family: Expression, box: Expression) -> Linears:
        """Return a model and its members over a set of inputs, read once."""
        resolver = self.context.resolver
        call = resolver.value(family)
        key = tuple(str(resolver.value(each)) for each in (model, family, box))
        if key in self._asked:
            return self._asked[key]
        held, file = resolver.linear(model), resolver.linear_file(model)
        arguments = resolver.bound_arguments(call)  # type: ignore[arg-type]
        given = arguments.get("forest") or arguments["model"]
        if resolver.linear(given) is not held:
            raise resolver.fail(
                family,
                f"this family belongs to a linear model other than {model}",
                "the family and the scores must belong to the same model",
            )
        if id(held) not in self._fitted:
            try:
                self._fitted[id(held)] = Fitted(held, file, load_names(file, held))
            except LinearError as error:
                raise resolver.fail(model, str(error)) from None
        fitted = self._fitted[id(held)]
        reader = InputReader(resolver, held.inputs, "linear model")
        inputs = reader.read(box)
        outside = outside_inputs(held.X, inputs, "model")
        self.note(*reader.notes, *outside, *fitted.claim_notes)
        self._asked[key] = Linears((file, file), inputs, False, fitted)
        return self._asked[key]

    def prepare(self, job: LinearJob, clock: Clock) -> None:
        self._searched.clear()

    def account(self, job: LinearJob, result: Result, clock: Clock) -> None:
        if self.book is None or result.verdict == "refuted" or result.upper is None:
            return
        name, labels = result.name, job.labels if result.label is None else (result.label,)
        if any(label not in self._searched for label in labels):
            self.book.target.without(name, "not all labels were searched; raise the time limit")
            return
        for label in labels:
            found, search = self._searched[label]
            said = {"kind": "leaks", "label": label, "sign": 1, "level": 0.0}
            claimed = claimed_bound(job, result, found.upper)
            self.book.add(name, job.compared, said, search, claimed)
        self.book.target.linear(self.book)

    def family_of(self, about: Linears, node: Expression) -> Family:
        """Return the members of a model; a slip if nothing can be told of them."""
        try:
            return about.fitted.family
        except LinearError as error:
            raise self.context.resolver.fail(node, f"{about.fitted.file}: {error}") from None

    def search(
        self, job: LinearJob, label: int, clock: Clock, floor: float, *, decide: bool
    ) -> EngineResult:
        seconds = clock.next()
        if clock.interrupted:
            return self.unsearched_result(job, label, "interrupted")
        deadline, trace, about = Deadline.after(seconds), Trace(), job.compared
        family = self.family_of(about, job.statement.family)
        search = Search(
            family, about.box, leak_goals(family, label), floor if decide else None,
            self.context.options.gap, deadline, label, self.reporter(job, trace),
        )  # fmt: skip
        search.run()
        about.fitted.take(search.family)
        found = search.result()
        leaks = tuple(witness_of(search.family, each, label) for each in found.leaks)
        best = max(leaks, key=lambda each: each.confidence, default=None)
        result = EngineResult(
            label, max(found.lower, 0.0), found.upper, best, found.closed, found.reason,
            found.detail, found.member_upper, found.solved, found.seconds, found.interrupted,
            leaks=leaks,
        )  # fmt: skip
        self._searched[label] = result, search
        self.keep(result, trace)
        return result

    def unsearched_result(self, job: LinearJob, label: int, detail: str) -> EngineResult:
        everyone = np.full(job.compared.members, np.inf)
        return SearchResult(label, 0.0, np.inf, None, False, "time", detail, everyone, 0, 0.0)

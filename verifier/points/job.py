"""Loading of statements over points and networks, with their questions."""

from __future__ import annotations

import itertools
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from leaveout.bab.native.claims import Claims
from leaveout.bab.native.files.certificate import (
    FamilySource,
    PointsClaim,
    ProvedPoints,
    Source,
    form_part,
    prove_points,
)
from leaveout.bab.native.files.manifest_parts import box_part, file_part
from leaveout.bab.native.files.records import Record
from leaveout.encoders import Box
from leaveout.encoders.query import Application, Condition, Form, Query
from leaveout.encoders.query import Case as QueryCase
from leaveout.errors import LeaveoutError
from leaveout.models import Family, Manifest, Members, Network
from leaveout.models.archive import put_array
from leaveout.models.replay import with_parameters
from leaveout.models.trees.model import TreeModel
from leaveout.specs import (
    And,
    Binder,
    Call,
    Compare,
    Expression,
    Find,
    ForAll,
    Guarantee,
    Name,
    Node,
    Number,
)
from leaveout.specs.text.expressions import children
from leaveout.specs.types import NETWORK, POINT, TREE_FAMILY, TREES, Type
from leaveout.verifier.points.claims import Case, ClaimReader, Lin, TooManyError
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.resolve_names import Resolver

if TYPE_CHECKING:
    from leaveout.kernel.trees import Ensemble
    from leaveout.models.trees.family import TreeFamily

_LEAST, _MOST = Fraction(1e-150), Fraction(1e150)
"""What is multiplied by scores and features is to stay far from where float64 ends."""

_AT_ONCE = 4  # members of trees kept in memory, for those that are asked of next


@dataclass(frozen=True, eq=False)
class Asked:
    """A question of a statement: cases over one set of networks."""

    query: Query
    cases: tuple[QueryCase, ...]  # ways to be a counter-example; of a guarantee they have no goals
    label: int | None  # of ``per label``
    members: tuple[tuple[str, int, int], ...] = ()
    shared: tuple[tuple[str, Family], ...] = ()
    sources: tuple[Source, ...] = ()  # of each application of the query
    trees: tuple[TreesAt, ...] = ()  # instead of applications, where the claim is about trees
    manifests: tuple[tuple[str, Manifest], ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()  # what members of trees lack, where it has a name


@dataclass(frozen=True, eq=False)
class TreesAt:
    """A tree ensemble applied to a point."""

    model: TreeModel
    point: int
    name: str


@dataclass(frozen=True)
class FormulaJob:
    """A loaded statement."""

    statement: Guarantee | Find
    points: tuple[str, ...]  # names of the points
    boxes: tuple[Box, ...]  # of each
    questions: tuple[Asked, ...]
    labels: tuple[int | None, ...]  # one result each
    members: int
    sign: float  # 1, or -1 where the greatest is to be found
    notes: tuple[str, ...]
    missing: tuple[tuple[int, ...], ...] = ()  # features of each point that may be missing


def why_no_formula(statement: Guarantee | Find, resolver: Resolver) -> LeaveoutError | None:
    """Return why a statement is not a claim over points; None if it is one."""
    if _Loader(statement, resolver).spots:
        return None
    return resolver.fail(
        statement.claim,
        "this statement cannot be decided: it binds no point",
        "begin with: forall x in X: ...",
    )


def load_formula(statement: Guarantee | Find, resolver: Resolver) -> FormulaJob:
    """Load a statement and its questions."""
    return _Loader(statement, resolver).load()


@dataclass(frozen=True, eq=False)
class _Member:
    """A member of a family, or a generic one, as its own network."""

    network: Network
    source: Source


@dataclass(frozen=True, eq=False)
class _OfFamily:
    """A family, and a network of its architecture."""

    network: Network
    family: Family
    source: FamilySource

    @property
    def any(self) -> _Member:
        """The generic member that stands for all."""
        source, model, graph = self.network.source, self.network.model, self.network.graph
        standing = Network(f"a member of {source}", model, graph)
        return _Member(standing, Source(Path(source), self.source))

    def member(self, index: int) -> _Member:
        network = self.network
        taken = {key: value[0] for key, value in self.family.take([index]).items()}
        name, model = f"member {index} of {network.source}", with_parameters(network.model, taken)
        source = Source(Path(network.source), self.source, index)
        return _Member(Network(name, model, network.graph), source)


@dataclass(frozen=True, eq=False)
class _OfTrees:
    """A family of trees, and its whole model."""

    whole: TreeModel
    family: TreeFamily
    path: Path

    def member(self, index: int) -> TreeModel:
        whole, count = self.whole, len(self.family)
        return TreeModel(whole.path, whole.whole, self.path, index, count, self._takes)

    @cached_property
    def _takes(self) -> Callable[[int], Ensemble]:
        # Only what is searched is in memory: all members' trees together may be far too large.
        return lru_cache(_AT_ONCE)(self.family.member)


class _Loader:
    def __init__(self, statement: Guarantee | Find, resolver: Resolver) -> None:
        self.statement, self.resolver = statement, resolver
        self.notes: list[str] = []
        claim: Expression = statement.claim
        self.binders: list[Binder] = []
        while isinstance(claim, ForAll):
            self.binders += claim.binders
            claim = claim.body
        self.is_trees = any(
            isinstance(each, Call) and resolver.type_of(each) == TREES
            for each in self._calls(claim)
        ) or any(resolver.type_of(each.domain) == TREE_FAMILY for each in self.binders)
        self.body = self._at_points(claim)
        self.spots = [each for each in self.binders if resolver.is_inputs(each.domain)]
        self.missing: list[tuple[int, ...]] = []

    def _at_points(self, claim: Expression) -> Expression:
        """Return a claim that says at a point of its own what ``same_function`` says of a set."""
        named = self.resolver.value(claim)
        if isinstance(named, And):
            return replace(
                named, left=self._at_points(named.left), right=self._at_points(named.right)
            )
        if not self.is_trees or not isinstance(named, Call) or named.function != "same_function":
            for call in self._calls(claim) if self.is_trees else ():
                if call.function == "same_function":
                    wrong = "this is not claimed as it stands, but within another claim"
                    raise self.resolver.fail(call, wrong, "state it by itself, or join with 'and'")
            return claim
        given = self.resolver.bound_arguments(named)
        taken = {*self.resolver.lets, *(each.name for each in self.binders)}
        names = ("x", *(f"x{number}" for number in range(len(taken))))
        name = next(each for each in names if each not in taken)
        self.binders.append(Binder(name, given["inputs"], at=named.at))
        gap = Call("difference", (given["forest"], given["other"], Name(name)), at=named.at)
        return Compare(gap, "<=", Number(0.0), at=named.at)

    def load(self) -> FormulaJob:
        others = [each for each in self.binders if each not in self.spots]
        boxes = [self._box(each) for each in self.spots]
        labels = self._labels()
        questions: list[Asked] = []
        if self.is_trees:
            trees = {each.name: self._tree_family(each) for each in others}
            sizes = [len(of.family) for of in trees.values()]
            for label in labels:
                questions += self._tree_questions(boxes, trees, label)
        else:
            families = {each.name: self._family(each) for each in others}
            sizes = [len(of.family) for of in families.values()]
            for label in labels:
                questions += self._questions(boxes, families, label)
        return FormulaJob(
            self.statement, tuple(each.name for each in self.spots), tuple(boxes), tuple(questions),
            tuple(labels), math.prod(sizes) if sizes else 0, -1.0 if self._is_greatest else 1.0,
            tuple(self.notes), tuple(self.missing),
        )  # fmt: skip

    def _questions(
        self,
        boxes: list[Box],
        families: dict[str, _OfFamily],
        label: int | None,
    ) -> list[Asked]:
        """Ask about all members at once if applied once, else about each."""
        whole = self._make_question(boxes, {name: of.any for name, of in families.items()}, label)
        if not families:
            return [whole]
        manifests = tuple((name, of.family.manifest) for name, of in families.items())
        applied = [source.family is not None for source in whole.sources]
        if len(families) == 1 and sum(applied) == 1:
            ((name, of),) = families.items()
            applications = tuple(
                replace(each, family=0 if by_family else None)
                for each, by_family in zip(whole.query.applications, applied, strict=True)
            )
            members = (Members(of.network.graph, of.family),)
            query = replace(whole.query, applications=applications, families=members)
            return [replace(whole, query=query, shared=((name, of.family),), manifests=manifests)]
        found = []
        for chosen in itertools.product(*(range(len(of.family)) for of in families.values())):
            picked = list(zip(families, families.values(), chosen, strict=True))
            networks = {name: of.member(index) for name, of, index in picked}
            own = tuple((name, index, int(of.family.removed[index])) for name, of, index in picked)
            asked = self._make_question(boxes, networks, label)
            found.append(replace(asked, members=own, manifests=manifests))
        return found

    def _tree_questions(
        self, boxes: list[Box], families: dict[str, _OfTrees], label: int | None
    ) -> Iterator[Asked]:
        """Ask about each combination of members."""
        for chosen in itertools.product(*(range(len(of.family)) for of in families.values())):
            picked = list(zip(families, families.values(), chosen, strict=True))
            own = tuple((name, index, int(of.family.removed[index])) for name, of, index in picked)
            members = {name: of.member(index) for name, of, index in picked}
            lacking = tuple(
                (name, of.family.names[index]) for name, of, index in picked if of.family.names
            )
            asked = self._make_question(boxes, members, label)
            yield replace(asked, members=own, lacking=lacking)

    def _tree_family(self, binder: Binder) -> _OfTrees:
        whole = self._example(binder)
        assert isinstance(whole, TreeModel)
        path, family = self.resolver.tree_members(binder.domain, whole)
        if family.group:
            self._note(f"'row' means all rows with the same {family.group!r}, which leave together")
        if len(family) < family.rows:
            self._note(
                f"only {len(family):,} of {family.rows:,} training rows have a member; nothing is "
                "claimed about the others"
            )
        return _OfTrees(whole, family, path)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def _is_greatest(self) -> bool:
        return isinstance(self.statement, Find) and self.statement.direction == "greatest"

    def _labels(self) -> list[int | None]:
        if not (isinstance(self.statement, Find) and self.statement.per_label):
            return [None]
        bare = [
            call
            for call in self._calls(self.body)
            if call.function == "confidence" and "label" not in self.resolver.bound_arguments(call)
        ]
        if not bare:
            raise self.resolver.fail(
                self.statement.claim, "'per label' needs confidence(...) without a label"
            )
        return list(range(self._network_of(bare[0]).labels))

    def _calls(self, node: Node) -> Iterator[Call]:
        """Yield the calls of an expression and of its named lets, each once."""
        stack, seen = [node], set[int]()
        while stack:
            each = stack.pop()
            if isinstance(each, Name):
                each = self.resolver.value(each)
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, Call):
                yield each
            stack.extend(reversed(list(children(each))))

    def _arguments_of_kind(self, call: Call, kind: Type) -> list[Expression]:
        """Return the arguments of a call whose parameters accept a type."""
        given, parameters = (
            self.resolver.bound_arguments(call),
            self.resolver.function(call).parameters,
        )
        return [given[p.name] for p in parameters if kind in p.types and p.name in given]

    def _network_of(self, call: Call) -> Network | TreeModel:
        node = self._arguments_of_kind(call, NETWORK)[0]
        for binder in self.binders:
            if isinstance(node, Name) and node.name == binder.name:
                return self._example(binder)
        return self.resolver.trees(node) if self.is_trees else self.resolver.network(node)

    def _example(self, binder: Binder) -> Network | TreeModel:
        """Return a network with the architecture of a family, or a family's whole model."""
        if self.is_trees:
            for name, let in self.resolver.lets.items():
                if self.resolver.type_of(let.value) == TREES:
                    return self.resolver.trees(Name(name))
            raise self.resolver.fail(
                binder.domain, "it is not clear which model these were retrained from",
                'name it first: let T = trees("trees.npz")',
            )  # fmt: skip
        if self.resolver.is_network(binder.domain):
            return self.resolver.network(binder.domain)
        for name, let in self.resolver.lets.items():
            if self.resolver.type_of(let.value) == NETWORK:
                return self.resolver.network(Name(name))
        raise self.resolver.fail(
            binder.domain,
            "it is not clear which network these were retrained from",
            'name it first: let N = network("full.onnx")',
        )

    def _family(self, binder: Binder) -> _OfFamily:
        network = self._example(binder)
        assert isinstance(network, Network)
        family = self.resolver.family(binder.domain, network)
        file = self.resolver.file(binder.domain)
        alone = self.resolver.is_network(binder.domain)
        return _OfFamily(network, family, FamilySource(file, alone, len(family)))

    def _box(self, binder: Binder) -> Box:
        for call in self._calls(self.body):
            names = [at.name for at in self._arguments_of_kind(call, POINT) if isinstance(at, Name)]
            if binder.name in names and self._arguments_of_kind(call, NETWORK):
                network = self._network_of(call)
                model: Literal["trees", "network"] = "trees" if self.is_trees else "network"
                reader = InputReader(self.resolver, network.inputs, model)
                box = reader.read(binder.domain)
                self.missing.append(tuple(sorted(reader.missing)))
                if reader.missing:
                    listed = ", ".join(map(str, sorted(reader.missing)))
                    reader.notes.append(
                        f"features that may also be missing in {binder.name}: {listed}"
                    )
                for note in reader.notes:
                    self._note(note)
                return box
        raise self.resolver.fail(
            binder.domain, f"no network is applied to '{binder.name}', so it has no features"
        )

    def _make_question(
        self, boxes: list[Box], members: Mapping[str, _Member | TreeModel], label: int | None
    ) -> Asked:
        statement = self.statement
        reader = ClaimReader(
            self.resolver, {each.name: i for i, each in enumerate(self.spots)}, boxes,
            {
                name: member.network if isinstance(member, _Member) else member
                for name, member in members.items()
            },
            statement.variable if isinstance(statement, Find) else "", label, self.is_trees,
        )  # fmt: skip
        try:
            cases = reader.cases(self.body, False)
        except TooManyError as error:
            raise self.resolver.fail(
                self.body, f"this claim splits into {error}", "split it into several guarantees"
            ) from None
        trees = tuple(
            TreesAt(model, point, name)
            for model, point, name in reader.applications
            if isinstance(model, TreeModel)
        )
        applications = tuple(
            Application(model, point, name)
            for model, point, name in reader.applications
            if isinstance(model, Network)
        )
        known = {
            id(member.network): member.source
            for member in members.values()
            if isinstance(member, _Member)
        }
        sources = tuple(
            known.get(id(each.network), Source(Path(each.network.source))) for each in applications
        )
        asked = tuple(QueryCase(*self._goals(case)) for case in cases)
        query = Query(tuple(boxes), applications, ())
        return Asked(query, asked, label, sources=sources, trees=trees)

    def _goals(self, case: Case) -> tuple[tuple[Condition, ...], tuple[Form, ...]]:
        """Split a case into conditions and goals, whose least bounds the unknown."""
        plain = [
            Condition(self._form(test.lin), test.strict) for test in case if not test.lin.unknown
        ]
        if not isinstance(self.statement, Find):
            return tuple(plain), ()
        sign = -1 if self._is_greatest else 1
        zero = Fraction(0)
        upper, lower = [], []
        for test in case:
            slope = sign * test.lin.unknown
            if slope < 0:
                upper.append(Lin(test.lin.terms, zero, test.lin.constant).times(-1 / slope))
            elif slope > 0:
                lower.append(Lin(test.lin.terms, zero, test.lin.constant).times(-1 / slope))
        if not upper:
            other = "least" if self._is_greatest else "greatest"
            raise self.resolver.fail(
                self.statement.claim,
                f"a counter-example exists however {'small' if self._is_greatest else 'large'} "
                f"'{self.statement.variable}' is: there is nothing to find",
                f"did you mean '{other}'?" if lower else "",
            )
        if lower:
            self._note_both_ways()
        plain += [Condition(self._form(a.plus(b, Fraction(-1)))) for a in upper for b in lower]
        return tuple(plain), tuple(self._form(each) for each in upper)

    def _note_both_ways(self) -> None:
        """Note what is found if the truth of a claim is not monotone."""
        assert isinstance(self.statement, Find)
        name = self.statement.variable
        where = f"greatest '{name}' up to" if self._is_greatest else f"least '{name}' from"
        self._note(
            f"{self.statement.name}: the bounds are those of the {where} which the claim always "
            f"holds; beyond them it may hold again for some '{name}'"
        )

    def _form(self, lin: Lin) -> Form:
        """Round a linear form to float64."""
        for number in (*lin.terms.values(), lin.constant):
            if number and not _LEAST <= abs(number) <= _MOST:
                raise self.resolver.fail(
                    self.body,
                    "a number in this claim is too large or too small",
                    "numbers from 1e-150 to 1e150 are supported",
                )
        features = tuple(
            (p, i, float(c)) for (kind, p, i), c in lin.terms.items() if kind == "feature"
        )
        scores = tuple((a, j, float(c)) for (kind, a, j), c in lin.terms.items() if kind == "score")
        numbers = (*lin.terms.values(), lin.constant)
        rounded = any(Fraction(float(number)) != number for number in numbers)
        return Form(features, scores, float(lin.constant), rounded)


@dataclass(frozen=True, eq=False)
class Solved:
    """A searched question."""

    claims: Claims
    sources: tuple[Source, ...]  # of each application
    upper: float  # no counter-example has a larger least goal
    records: list[Record]  # all nodes that were bounded


@dataclass(frozen=True, eq=False)
class ProvedTrees(PointsClaim):
    """A claim over points and trees with its proof."""

    name: str
    upper: float
    decides: bool
    asked: Asked
    missing: tuple[tuple[int, ...], ...]
    proof: Mapping[str, NDArray[Any]]

    def put(self, archive: zipfile.ZipFile, name: str) -> None:
        for key, array in self.proof.items():
            put_array(archive, f"{name}.{key}", array, packed=True)

    @property
    def files(self) -> dict[str, list[Path]]:
        models = [each.model for each in self.asked.trees]
        families = dict.fromkeys(each.family for each in models if each.family is not None)
        found = {"network": list(dict.fromkeys(each.path for each in models))}
        return {**found, "family": list(families)} if families else found

    def part(self, tree: str, folder: Path) -> dict[str, object]:
        said = trees_part(self.asked, self.missing, folder, decides=self.decides)
        return {"name": self.name, "upper": self.upper, "tree": tree, **said}


def trees_part(
    asked: Asked, missing: tuple[tuple[int, ...], ...], folder: Path, *, decides: bool
) -> dict[str, object]:
    """Return the manifest's entry on a claim over points and trees, whatever its proof."""
    applications = [
        {"network": file_part(each.model.path, folder, "trees"), "point": each.point,
         "family": _tree_family_part(each.model, folder), "member": each.model.member}
        for each in asked.trees
    ]  # fmt: skip
    cases = []
    for case in asked.cases:
        parts = [form_part(each.form, each.strict) for each in case.conditions]
        goals = [form_part(each, strict=False) for each in case.goals] or parts[:1]
        cases.append({
            "goals": goals, "conditions": parts if case.goals else parts[1:], "inside": [],
            "sums": [], "near": False, "origin": [],
        })  # fmt: skip
    return {
        "decides": decides, "reals": False, "cases": cases, "missing": missing,
        "points": [box_part(each) for each in asked.query.points], "applications": applications,
    }  # fmt: skip


def _tree_family_part(model: TreeModel, folder: Path) -> dict[str, object] | None:
    if model.family is None:
        return None
    return {"file": file_part(model.family, folder, "tree members"), "members": model.members}


class Unproved(Exception):  # noqa: N818
    """A claim that cannot be in a certificate; the message says why, after its name."""


def proved_points(name: str, solved: Solved, *, decides: bool) -> ProvedPoints:
    """Return a claim over points as stated in a certificate."""
    for source in solved.sources:
        if not source.network.is_file() or source.network.suffix == ".gz":
            raise Unproved(f"{source.network} is not a single ONNX file")
    chosen = dict.fromkeys(
        (source.family.path, source.member)
        for source in solved.sources
        if source.family is not None and source.member is not None
    )
    if chosen:
        name += f", member {' and '.join(str(member) for _, member in chosen)}"
    found = prove_points(
        name, solved.upper, solved.claims, solved.records, solved.sources, decides=decides
    )
    if found is None and decides and solved.upper < 0.0:
        raise Unproved(
            "it holds with so little margin that part of it was settled exactly, which "
            "certificates cannot record"
        )
    if found is None:
        raise Unproved("its search did not get far enough; raise the time limit")
    return found

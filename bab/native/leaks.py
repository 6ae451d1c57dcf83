"""Leaks of one label as a question: the iDP-DB of LUCID."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.bab.attack.leak_attack import find_leak, improve_many
from leaveout.bab.forms import leak_forms
from leaveout.bab.instance import Clusters, Instance, overflow_error
from leaveout.bab.native.explorer import Group
from leaveout.bab.native.files.checkpoint import Checkpoint
from leaveout.bab.native.files.manifest_parts import box_digest, family_digest, network_digest
from leaveout.bab.native.files.proof_trees import Room
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Hint, LeakRounding, Prepared, rounding_near
from leaveout.bab.native.search import search_question
from leaveout.bab.native.space import make_space
from leaveout.bab.native.workers.pool import Executor
from leaveout.bab.result import EngineResult, ProgressCallback
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import Deadline
from leaveout.encoders import Box, PairBounds
from leaveout.errors import FamilyError
from leaveout.models import Family, Members, load_family_file
from leaveout.models.onnx.file import network_from

_BY_PATH = 2**25  # families of at least this many bytes are sent to workers by file name


class Leaks:
    """A `Question`: the largest confidence of N in a label that some member lacks."""

    least = 0.0
    seeks_first = True

    def __init__(self, instance: Instance, label: int) -> None:
        self.instance, self.label = instance, label
        self.members = len(instance.family)
        self.rounding = instance.network_error + instance.member_error

    @property
    def opens_slowly(self) -> bool:
        """See `Question.opens_slowly`."""
        return _size(self.instance.family) >= _BY_PATH

    @cached_property
    def most(self) -> float:
        """The bound proved by propagation for all members."""
        return self.instance.most(self.label)

    @property
    def room(self) -> Room:
        """See `Question.room`."""
        rivals, instance = self.instance.labels - 1, self.instance
        rounding = np.full((rivals, rivals + 1), instance.network_error)
        rounding[:, -1] = instance.member_error
        return Room(rounding, np.ones(rivals))

    @cached_property
    def _replayer(self) -> Replayer:
        return Replayer(self.instance)

    @property
    def leaks(self) -> tuple[Witness, ...]:
        """The worst replayed leak of each member that has one."""
        return self._replayer.worst(self.label)

    def prepare(self, options: NativeOptions) -> Prepared:
        """See `Question.prepare`."""
        instance, label = self.instance, self.label
        first, clusters = instance.network.stack, instance.clusters
        space = make_space(first, instance.members, instance.box, clusters)
        if space.overflows:
            raise overflow_error(instance.network)
        errors = instance.network_error, instance.member_error
        forms = leak_forms(label, instance.labels, space.layout.inputs, *errors)
        return Prepared(
            space=space,
            forms=space.read(forms),
            clusters=clusters,
            bound_rounding=LeakRounding(instance, label, space),
            ties=(False,) * forms.cases if first.is_smooth else None,
        )

    def payload(self) -> LeakPayload:
        """See `Question.payload`; a large family stays in its file."""
        instance = self.instance
        family = instance.family
        by_path = bool(family.source) and _size(family) >= _BY_PATH
        return LeakPayload(
            model=instance.network.model.SerializeToString(),
            source=instance.network.source,
            family=None if by_path else replace(family, parameters=dict(family.parameters)),
            path=family.source if by_path else "",
            digest=family_digest(family) if by_path else "",
            box=instance.box,
            pair=instance.pair,
            clusters=instance.clusters,
            network_error=instance.network_error,
            member_error=instance.member_error,
            label=self.label,
        )

    def first(
        self, options: NativeOptions, deadline: Deadline, enough: float = math.inf
    ) -> Witness | None:
        """See `Question.first`."""
        given = (self.instance, self.label, self._replayer)
        return find_leak(*given, seed=options.seed, deadline=deadline, enough=enough)

    def follow(self, hints: list[Hint], at_least: float, deadline: Deadline) -> Witness | None:
        """See `Question.follow`."""
        return improve_many(
            self.instance,
            self.label,
            self._replayer,
            np.stack([hint.point for hint in hints]),
            np.array([hint.member for hint in hints], np.int64),
            at_least=at_least,
        )

    def rounding_near(self, found: Witness) -> float:
        """See `Question.rounding_near`."""
        return rounding_near(self.instance, found)

    def enough(self, lower: float, gap: float) -> float:
        """See `Question.enough`."""
        return max(lower, 0.0) / (1.0 - gap)

    def witness_point(self, found: Witness) -> NDArray[np.floating]:
        """See `Question.witness_point`."""
        return found.x

    def replay(self, point: NDArray[np.floating], member: int) -> Witness | None:
        """See `Question.replay`."""
        return self._replayer.replay(point.astype(np.float64), member, self.label)

    def digests(self) -> dict[str, str]:
        """See `Question.digests`."""
        return {
            "network": network_digest(self.instance.network),
            "family": family_digest(self.instance.family),
            "box": box_digest(self.instance.box),
        }


@dataclass(frozen=True, eq=False)
class LeakPayload:
    """Leaks of one label, without large parts and parts that can be rebuilt."""

    model: bytes  # ONNX file of the network
    source: str  # name of its file
    family: Family | None
    path: str  # file of the family, if the family itself is absent
    digest: str  # digest that this file must have
    box: Box
    pair: PairBounds
    clusters: Clusters  # computed once for all workers and labels
    network_error: float
    member_error: float
    label: int

    def open(self) -> Leaks:
        """Return the question."""
        network = network_from(onnx.load_model_from_string(self.model), self.source)
        family = self.family
        if family is None:
            family = load_family_file(self.path)
            if family_digest(family) != self.digest:
                raise FamilyError(f"{self.path}: the file was changed while it was in use")
        members = Members(network.graph, family)
        errors = self.network_error, self.member_error
        instance = Instance(network, family, members, self.box, self.pair, *errors)
        # Sets a cached property.
        vars(instance)["clusters"] = self.clusters
        return Leaks(instance, self.label)


def _size(family: Family) -> int:
    return sum(stack.nbytes for stack in family.parameters.values())


def search(
    instance: Instance,
    label: int,
    options: NativeOptions,
    *,
    floor: float = 0.0,
    decide: bool = False,
    known: EngineResult | None = None,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
    proofs: Callable[[list[Record]], None] | None = None,
    groups: Callable[[list[Group]], None] | None = None,
    executor: Executor | None = None,
) -> EngineResult:
    """Bound the largest confidence of a leak with one label, from both sides."""
    question = Leaks(instance, label)
    found = search_question(
        question, options, floor=floor, decide=decide, known=known,
        progress=progress, checkpoint=checkpoint, proofs=proofs, groups=groups, executor=executor,
    )  # fmt: skip
    return replace(found, leaks=question.leaks)

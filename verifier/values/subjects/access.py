"""Whether a guard noises every leak: each of its bounds is proved again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import EngineResult, Instance, NativeOptions, Witness, make_instance
from leaveout.bab.native.files.certificate import leak_tree
from leaveout.bab.native.files.proof_trees import ProofTree, tree_arrays
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.leaks import Leaks, search
from leaveout.deadline import Deadline
from leaveout.models import Family
from leaveout.models.train.encoding import encoding_of
from leaveout.specs.deciders import Arguments, Decided, Facts
from leaveout.verifier.amounts import bound
from leaveout.verifier.guard.access import MEMORY, Access, load_access, memory_epsilon
from leaveout.verifier.guard.leaks import LeakTest
from leaveout.verifier.points.sentences import record, without_member
from leaveout.written import first_few

_LISTED = 6  # bounds that a note lists


@dataclass(frozen=True, eq=False)
class _Part:
    """Members that share a bound: none has a leak of this label above it."""

    label: int
    bound: float
    members: NDArray[np.int64]


def access(given: Arguments) -> Access:
    """Read the folder that a guard serves."""
    return load_access(given.path("path"))


def idp(given: Arguments) -> Decided:
    """Decide epsilon-iDP of a guard: no leak exceeds its member's bound (LUCID, Lemma 3.2)."""
    served = given["access"]
    assert isinstance(served, Access)
    epsilon = given.number("epsilon")
    deadline = Deadline.after(given.seconds)
    parts = list(_parts(served))
    open_ones: list[str] = []
    trees: list[ProofTree | None] = []
    for done, part in enumerate(parts):
        seconds = deadline.share(len(parts) - done)
        if seconds is not None:
            seconds = max(1e-3, seconds)
        options = NativeOptions(seconds=seconds, seed=given.seed, certificate=given.proving)
        found = None
        if given.proving:
            found, tree = _prove_part(served.instance, part, options)
            trees.append(tree)
        if found is None:
            own = _of(served.instance, part)
            found = search(own, part.label, options, floor=part.bound, decide=True)
        if found.interrupted:
            raise KeyboardInterrupt
        if found.contradicted:
            return Decided("unknown", f"numerical: {found.detail}")
        if found.upper <= part.bound:
            continue
        if found.witness is None or not found.lower > part.bound:
            open_ones.append(_open(part, found))
            continue
        leak = _refute_part(served, part, found.witness)
        if leak is not None:
            given.unproved = "certificates do not cover leaks: they can be tested directly"
            return leak
        open_ones.append(
            f"numerical: label {part.label}: member {part.members[found.witness.member]} leaks "
            "above its bound, where the guard noises because of another member"
        )
    notes = "\n".join(_notes(served, epsilon))
    if open_ones:
        return Decided("unknown", open_ones[0], note=notes)
    whole = [tree for tree in trees if tree is not None]
    if given.proving and len(whole) == len(parts):
        given.prove(lambda: _arrays(whole))
    elif given.proving:
        missing = parts[trees.index(None)]
        given.unproved = (
            f"no proof for label {missing.label}, bound {missing.bound:.6g}, was found that "
            "leaves room for rounding; allow more time, or write the bounds again"
        )
    return Decided("proved", note=notes, facts=_facts(served, epsilon))


def _parts(served: Access) -> Iterator[_Part]:
    """Yield members by bound, highest first, where leaks are likeliest."""
    for label, upper in enumerate(served.bounds.upper):
        for level in np.unique(upper)[::-1].tolist():
            yield _Part(label, level, np.flatnonzero(upper == level))


def _of(instance: Instance, part: _Part) -> Instance:
    family = instance.family
    if len(part.members) == len(family):
        return instance
    chosen = Family(family.take(part.members), family.removed[part.members], family.manifest)
    return make_instance(instance.network, chosen, instance.box)


def _prove_part(
    instance: Instance, part: _Part, options: NativeOptions
) -> tuple[EngineResult | None, ProofTree | None]:
    """Search to slightly below the bound, leaving a proof room for rounding."""
    own, records = _of(instance, part), list[Record]()
    below = part.bound - Leaks(own, part.label).room.below(part.bound)
    found = search(own, part.label, options, floor=below, decide=True, proofs=records.extend)
    if found.interrupted or found.contradicted:
        return found, None
    if found.upper > part.bound:
        return (found if found.lower > part.bound else None), None
    tree = None
    if records:
        proved, tree = leak_tree(records, max(found.upper, below), own, part.label)
        tree = tree if proved <= part.bound else None
    return found, tree


def _arrays(trees: Sequence[ProofTree]) -> dict[str, NDArray[Any]]:
    """Return the proofs of all bounds, one tree each, numbered in order."""
    found: dict[str, NDArray[Any]] = {}
    for number, tree in enumerate(trees):
        found |= tree_arrays(f"tree{number}", tree)
    return found


def _open(part: _Part, found: EngineResult) -> str:
    reason = found.reason or "numerical"
    detail = f": {found.detail}" if found.detail else ""
    return (
        f"{reason}: label {part.label}: for {len(part.members):,} members, leaks up to "
        f"{bound(found.upper, up=True)} are not excluded; the guard relies on "
        f"{part.bound:.6g}{detail}"
    )


def _refute_part(served: Access, part: _Part, witness: Witness) -> Decided | None:
    """Refute with a leak that the guard answers without noise, if it does."""
    if LeakTest(served.instance, served.bounds).find(witness.x).leak:
        return None
    member = int(part.members[witness.member])
    shown = record(served.instance, witness, pair=False)
    words = (
        f"the guard answers label {witness.label} without noise, though its bound is "
        f"{part.bound:.6g}: {shown.words}"
    )
    facts: Facts = {
        "label": witness.label,
        "bound": part.bound,
        "confidence": witness.confidence,
        "member": member,
        "removed": witness.removed,
        "x": " ".join(f"{value:.9g}" for value in witness.x),
    }
    return Decided("refuted", witness=words, facts=facts)


def _notes(served: Access, epsilon: float) -> Iterator[str]:
    bounds = (bound(each, up=True) for each in served.bounds.thresholds.tolist())
    yield (
        f"{served.folder}: a guard with --epsilon {epsilon:g} or less noises every leak of "
        f"{len(served.instance.family):,} members; above {first_few(bounds, _LISTED)} (by "
        "label) no member is evaluated"
    )
    drawn = memory_epsilon(served.folder)
    if drawn is not None and drawn != epsilon:
        yield (
            f"{served.folder / MEMORY}: stores answers drawn with epsilon = {drawn:g}: a claim "
            f"about {epsilon:g} does not cover what is served there"
        )
    yield (
        "covers the removal of one row that has a member, for labels only, from a network "
        "trained with the same recipe and seed; the epsilons of distinct noised inputs add up"
    )
    network, family = served.instance.network, served.instance.family
    for note in network.graph.notes:
        yield f"{network.source}: {note}"
    if encoding_of(family.manifest) is not None:
        yield (
            "ranges and categories of the columns are those of the whole table, for every "
            "member: what they reveal is not covered"
        )
    if family.manifest.data is None:
        yield "it is not known whether every training row has a member"
    missing = without_member(family)
    if missing:
        yield missing


def _facts(served: Access, epsilon: float) -> Facts:
    facts: dict[str, int | float | str | tuple[int, ...]] = {
        "epsilon": epsilon,
        "members": len(served.instance.family),
    }
    for label, threshold in enumerate(served.bounds.thresholds.tolist()):
        facts[f"bound_{label}"] = threshold
    return facts

"""Leaks of one label as a question: the form of LUCID's iDP-DB."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.bab.native.clusters import make_clusters
from leaveout.bab.native.digests import box_digest, family_digest, network_digest
from leaveout.bab.native.forms import leak_forms
from leaveout.bab.native.gauge import LeakGauge, blur_at
from leaveout.bab.native.handoff import Handoff
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.pairs import make_space
from leaveout.bab.native.parcels import LeakParcel, wrap
from leaveout.bab.native.quest import Hint, Prepared
from leaveout.bab.scout import improve_many, scout
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import Deadline

__all__ = ["Leaks"]


class Leaks:
    """A `Quest`: the largest confidence of N in a label that some member does not share.

    Parameters
    ----------
    instance : Instance
    label : int
    """

    least = 0.0
    seeks_first = True

    def __init__(self, instance: Instance, label: int) -> None:
        self.instance, self.label = instance, label
        self.members = len(instance.family)
        self.blur = instance.network_error + instance.member_error

    @cached_property
    def most(self) -> float:
        """What propagation proves of all members."""
        return self.instance.most(self.label)

    @cached_property
    def _replayer(self) -> Replayer:
        return Replayer(self.instance)

    def prepare(self, options: NativeOptions) -> Prepared:
        """See `Quest.prepare`."""
        instance, label, first = self.instance, self.label, self.instance.network.stack
        space = make_space(first, instance.members, instance.box)
        errors = instance.network_error, instance.member_error
        forms = leak_forms(label, instance.labels, space.layout.inputs, *errors)
        return Prepared(
            space,
            forms.over(space.numbers, space.origin, space.lower, space.upper),
            make_clusters(first, instance.members, options.seed),
            LeakGauge(instance, label, space),
            Handoff(space, instance, label, options.solver),
        )

    def parcel(self) -> LeakParcel:
        """See `Quest.parcel`."""
        return wrap(self.instance, self.label)

    def first(self, options: NativeOptions, deadline: Deadline) -> Witness | None:
        """See `Quest.first`."""
        given = (self.instance, self.label, self._replayer)
        return scout(*given, seed=options.seed, deadline=deadline)

    def follow(self, hints: list[Hint], at_least: float, deadline: Deadline) -> Witness | None:
        """See `Quest.follow`."""
        return improve_many(
            self.instance,
            self.label,
            self._replayer,
            np.stack([hint.point for hint in hints]),
            np.array([hint.member for hint in hints], np.int64),
            at_least=at_least,
        )

    def blur_near(self, found: Witness) -> float:
        """See `Quest.blur_near`."""
        return blur_at(self.instance, found)

    def enough(self, lower: float, gap: float) -> float:
        """See `Quest.enough`."""
        return max(lower, 0.0) / (1.0 - gap)

    def saved(self, found: Witness) -> NDArray[np.floating]:
        """See `Quest.saved`."""
        return found.x

    def replayed(self, point: NDArray[np.floating], member: int) -> Witness | None:
        """See `Quest.replayed`."""
        return self._replayer.replay(point.astype(np.float64), member, self.label)

    def digests(self) -> dict[str, str]:
        """See `Quest.digests`."""
        return {
            "network": network_digest(self.instance.network),
            "family": family_digest(self.instance.family),
            "box": box_digest(self.instance.box),
        }

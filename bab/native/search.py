"""Bound the leaks of one label: explorers from above, scouting from below."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.bab.native.checkpoint import Checkpoint
from leaveout.bab.native.crew import OverdueError, WorkerLostError
from leaveout.bab.native.executors import make_executor
from leaveout.bab.native.groups import Group
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.quest import Finding, Hint, Quest
from leaveout.bab.native.records import Record
from leaveout.bab.native.saved import Saved
from leaveout.bab.native.site import SiteState, TornError
from leaveout.bab.native.team import Team
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, Reason, SearchResult
from leaveout.deadline import NEVER, Deadline

__all__ = ["NativeSearch", "Stop", "search", "searched"]

Floats = NDArray[np.float64]

W = TypeVar("W", bound=Finding)

_ROUND = 1.0
"""Seconds explorers go on before they report."""

_FIRST = 0.2
"""Seconds of the first rounds, when much changes."""

_SCOUTING = 0.2
"""Share of the time that may go into the first scouting."""

_IMPROVING = 0.25
"""Share of the time that may go into following the explorers' hints."""

_LEAST_GRACE = 0.5
_GRACE = 0.02
"""Seconds, and share of the time, that workers may be late; then what they are at is lost."""

_BLURRED = 0.01
"""Largest relative gap that is put down to float32 evaluation and still called closed."""

_NOTHING = -1e300
"""No goal is below this: coefficients and scores are far smaller."""

_CLOSED, _ENOUGH = 4.0, 2.0
"""How many times what float32 evaluation blurs still counts as closed, and ends a search."""


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
) -> EngineResult:
    """Bound the largest confidence of a leak with one label, from both sides.

    Parameters and result are those of `leaveout.bab.lucid.search`, but for ``checkpoint``: where
    the search goes on from, and where it says how far it got; ``proofs``: called with what a
    certificate needs, where the options ask for one; and ``groups``: called with the members in
    groups, each with its bound, where there was something to search.
    """
    return searched(
        Leaks(instance, label), options, floor=floor, decide=decide, known=known,
        progress=progress, checkpoint=checkpoint, proofs=proofs, groups=groups,
    )  # fmt: skip


def searched(
    quest: Quest[W],
    options: NativeOptions,
    *,
    floor: float,
    decide: bool = False,
    known: SearchResult[W] | None = None,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
    proofs: Callable[[list[Record]], None] | None = None,
    groups: Callable[[list[Group]], None] | None = None,
) -> SearchResult[W]:
    """Bound the largest value of a counter-example, from both sides; see `search`."""
    given = (floor, decide, known, progress, checkpoint)
    made = NativeSearch(quest, options, *given)
    made.grouping = groups is not None
    result = made.run()
    if groups is not None:
        groups(made.groups)
    if proofs is not None:
        proofs(made.records)
    return result


class Stop(StrEnum):
    """What ended a search whose question is not settled; of several, the first is told."""

    INTERRUPTED = "interrupted"
    FAILED = "failed"
    LATE = "late"
    NODES = "nodes"


@dataclass(eq=False)
class _Spent:
    """Seconds spent on each side."""

    exploring: float = 0.0
    improving: float = 0.0


class NativeSearch(Generic[W]):
    """The state of one search.

    The upper bound rests on the explorers' open nodes and on the cuts under which the others were
    settled. What either proved at a moment when all explorers stood still holds ever after: it is
    kept, so that a bound holds wherever an interrupt, an error or the death of a worker strikes.
    """

    def __init__(
        self,
        quest: Quest[W],
        options: NativeOptions,
        floor: float,
        decide: bool,
        known: SearchResult[W] | None,
        progress: ProgressCallback | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.quest, self.label, self.options = quest, quest.label, options
        self.asked, self.decide, self.progress = floor, decide, progress
        self.checkpoint = checkpoint
        self.started = time.perf_counter()
        self.deadline = Deadline.after(options.seconds, self.started)
        self.witness: W | None = None
        # A contradicted bound is told whatever ended the search.
        self.betrayed = False
        self.stop: Stop | None = None
        self.failure = ""
        self.grouping = False
        self.groups: list[Group] = []
        self.earlier: list[Record] = []
        self.earlier_seconds = 0.0
        self.team: Team | None = None
        self.proved, self.met = math.inf, -math.inf
        self.most = quest.most
        self.before = np.full(quest.members, self.most)
        self.values = np.full(quest.members, math.inf)
        self.spent = _Spent()
        self._near: float | None = None
        if known is not None:
            self.before = np.minimum(self.before, known.member_upper)
            self._keep(known.witness)

    @property
    def lower(self) -> float:
        """Value of the best counter-example, or what is known without one."""
        return self.witness.value if self.witness else self.quest.least

    @property
    def blur(self) -> float:
        """How far float32 evaluation may shift a bound."""
        return self.quest.blur if self._near is None else self._near

    @property
    def target(self) -> float:
        """Value, as computed in float32, that need not be bounded any further."""
        if self.decide:
            return max(self.asked, _NOTHING)
        # A hair below, so that a bound by the target does agree with the lower one.
        enough = self.quest.enough(self.lower, self.options.gap)
        return max(self.asked, enough - 1e-12 * abs(enough), _NOTHING)

    @property
    def records(self) -> list[Record]:
        """What a certificate needs, where one is asked for."""
        return self.earlier + (self.team.records if self.team else [])

    @property
    def upper(self) -> float:
        """No counter-example has a higher value, as computed in float32."""
        # A certificate does not hold what was proved before or otherwise.
        before = math.inf if self.options.certificate else float(self.before.max())
        return max(self.lower, min(self.proved, before))

    def run(self) -> SearchResult[W]:
        """Search until the question is settled, the time is over, or Ctrl-C.

        Raises
        ------
        LeaveoutError
            If an option or the checkpoint cannot be used.
        """
        if self.checkpoint is not None:
            finished = self.checkpoint.finished(self.quest)
            if finished is not None:
                result, self.earlier = finished
                return result
        try:
            try:
                self._search()
            except KeyboardInterrupt:
                self.stop = Stop.INTERRUPTED
            except OverdueError:
                self.stop = Stop.LATE
            except (WorkerLostError, MemoryError) as error:
                self._fail(error)
            answering = self._collect()
            result = self._result()
            self._conclude(result, answering)
            if answering:
                self._group(result)
        except KeyboardInterrupt:
            self.stop = Stop.INTERRUPTED
            result = self._result()
        finally:
            if self.team is not None:
                self.team.close()
        return result

    def _search(self) -> None:
        saved = self.checkpoint.load() if self.checkpoint is not None else None
        if saved is not None:
            self._recall(saved)
        self._tell()
        if saved is None and self.quest.seeks_first:
            self._scout()
        elif saved is None and not self._settled():
            # Samples alone take no time, and some bound from below is better than none.
            self._keep(self.quest.first(self.options, Deadline.after(0.0)))
        if self._settled():
            return
        self.team = Team(
            make_executor(self.options).crew(self.quest, self.options),
            self.quest.members,
            self.checkpoint,
            self.options.certificate,
            self.deadline.later(max(_LEAST_GRACE, _GRACE * (self.options.seconds or 0.0))),
        )
        if saved is not None:
            self.team.resume(saved, self.target)
            self._prove(self.team)
        else:
            self.team.start(self.target)
            self._prove(self.team)
            self._tell()
            if not self.quest.seeks_first:
                self._scout()
        self._explore(self.team)

    def _recall(self, saved: Saved) -> None:
        assert self.checkpoint is not None
        self.before = np.minimum(self.before, saved.before)
        self.proved, self.met = saved.proved, saved.met
        self.earlier, self.earlier_seconds = saved.records, saved.seconds
        found = self.checkpoint.replayed(saved.point, saved.member, self.quest)
        self._keep(found)

    def _scout(self) -> None:
        if self._settled():
            return
        limit = self.deadline
        if self.options.seconds is not None:
            limit = Deadline.after(_SCOUTING * self.options.seconds, self.started)
        self._keep(self.quest.first(self.options, limit))
        self._tell()

    def _explore(self, team: Team) -> None:
        rounds = 0
        while not self._over(team):
            begun = time.perf_counter()
            seconds = min(_FIRST * (1 + rounds), _ROUND, self.deadline.left)
            together = team.crew.size > 1 and rounds > 0
            team.step(self.target, seconds, self._inform if together else _nothing)
            self._prove(team)
            self.spent.exploring += time.perf_counter() - begun
            if team.crew.size > 1:
                team.share(self.target)
                self._prove(team)
            if not together:
                self._follow()
            self._save(team)
            self._tell()
            rounds += 1

    def _prove(self, team: Team) -> None:
        """Keep what the reports prove of all members: it holds whatever happens next.

        Where no node is open, there is no leak above the targets that were met.
        """
        self.met = max(self.met, self.target)
        self.proved = min(self.proved, max(team.value, self.met))

    def _inform(self) -> None:
        """While workers explore, climb from what they saw last, and tell them what was found."""
        assert self.team is not None
        self._follow()
        self.team.crew.tell(self.target)

    def _save(self, team: Team, *, at_once: bool = False) -> None:
        if self.checkpoint is None or self.betrayed or not (at_once or self.checkpoint.due()):
            return
        witness = self.witness

        def make(states: list[SiteState], records: list[Record]) -> Saved:
            return Saved(
                self.quest.saved(witness) if witness else None,
                witness.member if witness else -1,
                self.before,
                self.proved,
                self.met,
                self._seconds,
                states,
                self.earlier + records,
            )

        team.save(make)

    @property
    def _seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self.started

    def _follow(self) -> None:
        """Climb from where the explorers see the highest bounds."""
        total = self.spent.exploring + self.spent.improving
        team = self.team
        if team is None or self.spent.improving > _IMPROVING * total or self._over(team):
            return
        begun = time.perf_counter()
        hints: list[Hint] = [hint for report in team.reports for hint in report.hints]
        hints = [hint for hint in hints if hint.value > self.target]
        if hints:
            self._keep(self.quest.follow(hints, self.lower, self.deadline))
        self.spent.improving += time.perf_counter() - begun

    def _keep(self, found: W | None) -> None:
        if found is None:
            return
        if found.value > self.before[found.member]:
            # Something proved earlier is wrong; nothing of it is used any more.
            self.betrayed = True
            self.before[:] = self.most
            self.proved = math.inf
        if self.witness is None or found.value > self.witness.value:
            self.witness, self._near = found, self.quest.blur_near(found)

    def _settled(self) -> bool:
        if self.decide and self.witness is not None and self.lower > self.asked:
            return True
        return self.upper <= max(self.asked, self.quest.least, _NOTHING) or self._agree(
            self.upper, _ENOUGH
        )

    def _agree(self, upper: float, times: float) -> bool:
        """Whether the bounds agree, to the gap or so many times what float32 evaluation blurs."""
        if self.decide or self.witness is None or math.isinf(upper):
            return False
        blurred = min(_BLURRED * abs(upper), times * self.blur)
        enough = self.quest.enough(self.lower, self.options.gap)
        return upper <= enough or upper - self.lower <= blurred

    def _over(self, team: Team) -> bool:
        saving = self.checkpoint.cost if self.checkpoint is not None else 0.0
        self.stop = None
        if self.deadline.left <= saving:
            self.stop = Stop.LATE
        elif self.options.nodes is not None and team.bounded >= self.options.nodes:
            self.stop = Stop.NODES
        given_up = self.stop is not None or self.betrayed
        return given_up or self._settled() or not team.worth_going_on

    def _fail(self, error: Exception) -> None:
        if self.stop is not Stop.INTERRUPTED:
            self.stop, self.failure = Stop.FAILED, str(error) or "out of memory"

    def _collect(self) -> bool:
        """Ask the workers what they know of each member; return whether they still answer."""
        # Before all have reported once, some may not have been given what is theirs.
        if self.team is None or not self.team.reports or self.stop is Stop.FAILED:
            return False
        try:
            self.values = self.team.values()
        except TornError:
            # They do, but this cannot be told.
            return True
        except OverdueError:
            return False
        except (WorkerLostError, MemoryError) as error:
            self._fail(error)
            return False
        return True

    def _conclude(self, result: SearchResult[W], answering: bool) -> None:
        """Save the result, or how far it got."""
        if self.checkpoint is None:
            return
        if self.betrayed:
            self.checkpoint.discard()
        elif result.closed or result.reason == "numerical":
            self.checkpoint.finish(self.quest, result, self.records)
        elif self.team is not None and answering:
            self.team.deadline = NEVER
            with contextlib.suppress(TornError):
                self._save(self.team, at_once=True)

    def _group(self, result: SearchResult[W]) -> None:
        """Ask which members the bound rests on; where that cannot be told, do without."""
        team = self.team
        if not self.grouping or team is None or len(self.before) < 2:
            return
        if self.betrayed or self.stop is Stop.INTERRUPTED:
            return
        late = self.stop is Stop.LATE
        with contextlib.suppress(TornError, OverdueError, WorkerLostError, MemoryError):
            self.groups = team.groups(result.member_upper, self.lower, late)

    def _tell(self) -> None:
        if self.progress is None:
            return
        team = self.team
        self.progress(
            Progress(
                self.label,
                self.lower,
                _bound(self.upper),
                team.open_nodes if team else 0,
                team.bounded if team else 0,
                self._seconds,
                self.deadline.limit,
            )
        )

    def _result(self) -> SearchResult[W]:
        member_upper = np.minimum(np.minimum(self.before, self.values), self.proved)
        member_upper = np.maximum(member_upper, self.quest.least)
        if self.witness is not None:
            worst = self.witness.member
            if self.witness.value > member_upper[worst]:
                self.betrayed = True
        if self.betrayed:
            member_upper[:] = max(self.most, self.quest.least)
        upper = max(self.lower, float(member_upper.max()))
        if self.options.certificate:
            # Workers may know more than they reported in time; a certificate holds reports only.
            upper = max(upper, min(self.proved, float(self.before.max())))
        closed, reason, detail = self._verdict(upper)
        return SearchResult(
            self.label,
            self.lower,
            _bound(upper),
            self.witness,
            closed,
            reason,
            detail,
            member_upper,
            self.team.bounded if self.team else 0,
            self._seconds,
            self.stop is Stop.INTERRUPTED,
            self.betrayed,
        )

    def _verdict(self, upper: float) -> tuple[bool, Reason | None, str]:
        if self.betrayed:
            what = "a replayed counter-example exceeds a bound; please report this"
            return False, "numerical", what
        if self.decide and self.lower > self.asked:
            return True, None, ""
        if upper <= max(self.asked, self.quest.least, _NOTHING):
            return True, None, ""
        if self._agree(upper, _CLOSED):
            return True, None, ""
        match self.stop:
            case Stop.INTERRUPTED:
                return False, "time", "interrupted"
            case Stop.FAILED:
                return False, "solver", self.failure
            case Stop.LATE:
                return False, "time", f"stopped after its share of {self.options.seconds:.4g} s"
            case Stop.NODES:
                return False, "time", f"stopped after {self.options.nodes} nodes"
        return False, "numerical", f"float32 evaluation blurs what is asked by {self.blur:.2g}"


def _bound(upper: float) -> float:
    """Return an upper bound; minus infinity where it says that there is nothing at all."""
    return upper if upper > _NOTHING else -math.inf


def _nothing() -> None:
    """Between rounds of one worker, which uses every core, there is nothing to do meanwhile."""

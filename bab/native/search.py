"""Bound the leaks of one label: explorers from above, scouting from below."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.bab.native.checkpoint import Checkpoint
from leaveout.bab.native.crew import OverdueError, WorkerLostError
from leaveout.bab.native.executors import make_executor
from leaveout.bab.native.gauge import blur_at
from leaveout.bab.native.groups import Group
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.records import Record
from leaveout.bab.native.saved import Saved
from leaveout.bab.native.site import Hint, SiteState, TornError
from leaveout.bab.native.team import Team
from leaveout.bab.result import EngineResult, Progress, ProgressCallback, Reason, agree
from leaveout.bab.scout import better, improve_many, scout
from leaveout.bab.witness import Replayer, Witness

__all__ = ["NativeSearch", "search"]

Floats = NDArray[np.float64]

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
    given = (floor, decide, known, progress, checkpoint)
    made = NativeSearch(instance, label, options, *given)
    made.grouping = groups is not None
    result = made.run()
    if groups is not None:
        groups(made.groups)
    if proofs is not None:
        proofs(made.records)
    return result


@dataclass(eq=False)
class _Spent:
    """Seconds spent on each side."""

    exploring: float = 0.0
    improving: float = 0.0


class NativeSearch:
    """The state of one search.

    The upper bound rests on the explorers' open nodes and on the cuts under which the others were
    settled. What either proved at a moment when all explorers stood still holds ever after: it is
    kept, so that a bound holds wherever an interrupt, an error or the death of a worker strikes.
    """

    def __init__(
        self,
        instance: Instance,
        label: int,
        options: NativeOptions,
        floor: float,
        decide: bool,
        known: EngineResult | None,
        progress: ProgressCallback | None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.instance, self.label, self.options = instance, label, options
        self.asked, self.decide, self.progress = floor, decide, progress
        self.checkpoint = checkpoint
        self.started = time.perf_counter()
        self.deadline = math.inf if options.seconds is None else self.started + options.seconds
        self.replayer = Replayer(instance)
        self.witness: Witness | None = None
        self.interrupted = self.betrayed = self.late = self.spent_nodes = self.overdue = False
        self.failed = ""
        self.grouping = False
        self.groups: list[Group] = []
        self.earlier: list[Record] = []
        self.earlier_seconds = 0.0
        self.team: Team | None = None
        self.proved, self.met = math.inf, -math.inf
        self.most = instance.most(label)
        self.before = np.full(len(instance.family), self.most)
        self.values = np.full(len(instance.family), math.inf)
        self.spent = _Spent()
        self._near: float | None = None
        if known is not None:
            self.before = np.minimum(self.before, known.member_upper)
            self._keep(known.witness)

    @property
    def lower(self) -> float:
        """Confidence of the best leak, or 0."""
        return self.witness.confidence if self.witness else 0.0

    @property
    def blur(self) -> float:
        """How far float32 evaluation of N and of a member may shift a bound."""
        if self._near is None:
            return self.instance.network_error + self.instance.member_error
        return self._near

    @property
    def target(self) -> float:
        """Float32 confidence that need not be bounded any further."""
        if self.decide:
            return self.asked
        # A hair below, so that a bound by the target does agree with the lower one.
        return max(self.asked, self.lower / (1.0 - self.options.gap) * (1.0 - 1e-12))

    @property
    def records(self) -> list[Record]:
        """What a certificate needs, where one is asked for."""
        return self.earlier + (self.team.records if self.team else [])

    @property
    def upper(self) -> float:
        """No leak has a higher float32 confidence."""
        # A certificate does not hold what was proved before or otherwise.
        before = math.inf if self.options.certificate else float(self.before.max())
        return max(self.lower, min(self.proved, before))

    def run(self) -> EngineResult:
        """Search until the question is settled, the time is over, or Ctrl-C.

        Raises
        ------
        LeaveoutError
            If an option or the checkpoint cannot be used.
        """
        if self.checkpoint is not None:
            finished = self.checkpoint.finished(self.label, self.replayer)
            if finished is not None:
                result, self.earlier = finished
                return result
        try:
            try:
                self._search()
            except KeyboardInterrupt:
                self.interrupted = True
            except OverdueError:
                self.late = True
            except (WorkerLostError, MemoryError) as error:
                self.failed = str(error) or "out of memory"
            self._collect()
            result = self._result()
            self._conclude(result)
            self._group(result)
        except KeyboardInterrupt:
            self.interrupted = True
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
        if saved is None and not self._settled():
            self._scout()
            self._tell()
        if self._settled():
            return
        crew = make_executor(self.options).crew(self.instance, self.label, self.options)
        self.team = Team(
            crew,
            len(self.instance.family),
            self.checkpoint,
            self.options.certificate,
            self.deadline + max(_LEAST_GRACE, _GRACE * (self.options.seconds or 0.0)),
        )
        if saved is None:
            self.team.start(self.target)
            self._prove(self.team)
            self._tell()
        else:
            self.team.resume(saved, self.target)
            self._prove(self.team)
        self._explore(self.team)

    def _recall(self, saved: Saved) -> None:
        assert self.checkpoint is not None
        self.before = np.minimum(self.before, saved.before)
        self.proved, self.met = saved.proved, saved.met
        self.earlier, self.earlier_seconds = saved.records, saved.seconds
        found = self.checkpoint.replayed(saved.point, saved.member, self.label, self.replayer)
        self._keep(found)

    def _scout(self) -> None:
        limit = self.deadline
        if self.options.seconds is not None:
            limit = self.started + _SCOUTING * self.options.seconds
        self._keep(
            scout(self.instance, self.label, self.replayer, seed=self.options.seed, deadline=limit)
        )

    def _explore(self, team: Team) -> None:
        rounds = 0
        while not self._over(team):
            begun = time.perf_counter()
            seconds = min(_FIRST * (1 + rounds), _ROUND, max(0.0, self.deadline - begun))
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
                witness.x if witness else None,
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
            found = improve_many(
                self.instance,
                self.label,
                self.replayer,
                np.stack([hint.point for hint in hints]),
                np.array([hint.member for hint in hints], np.int64),
                at_least=self.lower,
            )
            self._keep(found)
        self.spent.improving += time.perf_counter() - begun

    def _keep(self, found: Witness | None) -> None:
        if found is not None and found.confidence > self.before[found.member]:
            # Something proved earlier is wrong; nothing of it is used any more.
            self.betrayed = True
            self.before[:] = self.most
            self.proved = math.inf
        best = better(self.witness, found)
        if best is not None and best is not self.witness:
            self.witness, self._near = best, blur_at(self.instance, best)

    def _settled(self) -> bool:
        if self.decide and self.witness is not None and self.lower > self.asked:
            return True
        return self.upper <= max(self.asked, 0.0) or self._agree(self.upper, _ENOUGH)

    def _agree(self, upper: float, times: float) -> bool:
        """Whether the bounds agree, to the gap or so many times what float32 evaluation blurs."""
        if self.decide or self.witness is None or math.isinf(upper):
            return False
        blurred = min(_BLURRED, times * self.blur / upper)
        return agree(self.lower, upper, max(self.options.gap, blurred))

    def _over(self, team: Team) -> bool:
        saving = self.checkpoint.cost if self.checkpoint is not None else 0.0
        self.late = time.perf_counter() + saving >= self.deadline
        self.spent_nodes = self.options.nodes is not None and team.bounded >= self.options.nodes
        given_up = self.late or self.spent_nodes or self.betrayed
        return given_up or self._settled() or not team.worth_going_on

    def _collect(self) -> None:
        """Ask the workers what they know of each member; where they cannot tell, do without."""
        # Before all have reported once, some may not have been given what is theirs.
        if self.team is None or not self.team.reports or self.failed:
            return
        try:
            self.values = self.team.values()
        except TornError:
            return
        except OverdueError:
            self.overdue = True
        except (WorkerLostError, MemoryError) as error:
            self.failed = str(error) or "out of memory"

    def _conclude(self, result: EngineResult) -> None:
        """Save the result, or how far it got."""
        if self.checkpoint is None:
            return
        if self.betrayed:
            self.checkpoint.discard()
        elif result.closed or result.reason == "numerical":
            self.checkpoint.finish(result, self.records)
        elif self.team is not None and self.team.reports and not (self.failed or self.overdue):
            self.team.until = math.inf
            with contextlib.suppress(TornError):
                self._save(self.team, at_once=True)

    def _group(self, result: EngineResult) -> None:
        """Ask which members the bound rests on; where that cannot be told, do without."""
        team = self.team
        if not self.grouping or team is None or not team.reports or len(self.before) < 2:
            return
        if self.betrayed or self.failed or self.overdue or self.interrupted:
            return
        with contextlib.suppress(TornError, OverdueError, WorkerLostError, MemoryError):
            self.groups = team.groups(result.member_upper, self.lower, self.late)

    def _tell(self) -> None:
        if self.progress is None:
            return
        now = time.perf_counter()
        left = None if math.isinf(self.deadline) else max(0.0, self.deadline - now)
        team = self.team
        self.progress(
            Progress(
                self.label,
                self.lower,
                self.upper,
                team.open_nodes if team else 0,
                team.bounded if team else 0,
                self._seconds,
                left,
            )
        )

    def _result(self) -> EngineResult:
        member_upper = np.minimum(np.minimum(self.before, self.values), self.proved)
        member_upper = np.maximum(member_upper, 0.0)
        if self.witness is not None:
            worst = self.witness.member
            if self.witness.confidence > member_upper[worst]:
                self.betrayed = True
        if self.betrayed:
            member_upper[:] = max(self.most, 0.0)
        upper = max(self.lower, float(member_upper.max()))
        if self.options.certificate:
            # Workers may know more than they reported in time; a certificate holds reports only.
            upper = max(upper, min(self.proved, float(self.before.max())))
        closed, reason, detail = self._verdict(upper)
        return EngineResult(
            self.label,
            self.lower,
            upper,
            self.witness,
            closed,
            reason,
            detail,
            member_upper,
            self.team.bounded if self.team else 0,
            self._seconds,
            self.interrupted,
            self.betrayed,
        )

    def _verdict(self, upper: float) -> tuple[bool, Reason | None, str]:
        if self.betrayed:
            return False, "numerical", "a replayed leak exceeds a bound; please report this"
        if self.decide and self.lower > self.asked:
            return True, None, ""
        if upper <= max(self.asked, 0.0):
            return True, None, ""
        if self._agree(upper, _CLOSED):
            return True, None, ""
        if self.interrupted:
            return False, "time", "interrupted"
        if self.failed:
            return False, "solver", self.failed
        if self.late:
            return False, "time", f"stopped after its share of {self.options.seconds:.4g} s"
        if self.spent_nodes:
            return False, "time", f"stopped after {self.options.nodes} nodes"
        return False, "numerical", f"float32 evaluation blurs confidences by {self.blur:.2g}"


def _nothing() -> None:
    """Between rounds of one worker, which uses every core, there is nothing to do meanwhile."""

"""Claims about all rows from a sample: the draw, and its exact tail."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..boxes import Inputs, runs
from ..numbers import need
from ..tails import few_drawn
from ..values import number
from .networks import Question, Subject
from .parts import DrawPart, SampledPart

_MOST_ROWS = 10**8  # most rows to draw from: a permutation of them is held in memory
_STREAM = 3  # the seed's random stream from which training draws rows

_NAMED = 8


@dataclass(frozen=True, eq=False)
class SampledSubject:
    """Description of a claim about all rows."""

    part: SampledPart
    members: int  # members of the sample
    left_out: NDArray[np.int64]  # shape (k,): rows of the members that are not bounded
    share: Fraction
    confidence: Fraction
    chance: Fraction
    base: Subject  # files and inputs; the bounded members

    @property
    def exceptions(self) -> int:
        """The number of all rows that may exceed the bound."""
        return math.floor(self.share * self.part.sample.rows)

    @property
    def inputs(self) -> Inputs:
        """The inputs that it covers."""
        return self.base.inputs

    def lines(self) -> Iterator[str]:
        """Yield a line per file and a line per range of inputs."""
        part, drawn = self.part, self.part.sample
        level, asked = float(self.confidence), sorted({each.label for each in part.bounds})
        yield (
            f"{part.name}, with confidence {level:g} over the draw: of {drawn.rows:,} training "
            f"rows at most {self.exceptions:,} (a share of {float(self.share):g}) cause a leak "
            f"above upper, {self.claim_text(asked)}"
        )
        yield (
            f"redrawn: {drawn.size:,} rows with seed {drawn.seed}, draw {drawn.draw} of "
            f"{drawn.draws} planned; the bounds cover the members of {self.base.members:,} of "
            f"them{self._without}"
        )
        yield (
            f"probability of such a draw if the claim were wrong: {_up(self.chance):.3g}, of the "
            f"{float(1 - self.confidence):.3g} shared by {part.results} "
            f"result{'s' * (part.results > 1)} of {drawn.draws} draw{'s' * (drawn.draws > 1)}"
        )
        yield (
            "taken on trust: that the seed, the claims and the number of draws were chosen "
            "before anything was known about the sample, and that each member is the network "
            "retrained without its row"
        )
        _, *others = self.base.lines()
        yield from others

    @property
    def _without(self) -> str:
        if not len(self.left_out):
            return ""
        shown = ", ".join(map(str, self.left_out[:_NAMED]))
        more = f" and {len(self.left_out) - _NAMED:,} more" if len(self.left_out) > _NAMED else ""
        return f", without {shown}{more}"

    def claim_text(self, labels: Collection[int]) -> str:
        """Return in words which labels are claimed."""
        plural = "s" * (len(labels) > 1)
        return f"with label{plural} {runs(sorted(labels))} of {self.base.labels}"


def read_sampled(part: SampledPart, question: Question, together: int) -> SampledSubject:
    """Check everything in a claim about all rows except the bounds of its members."""
    drawn, removed = part.sample, question.removed
    single = len(part.bounds) == len({each.label for each in part.bounds}) > 0
    need(single, "it does not have exactly one bound for each label that it is about")
    share, confidence = number(part.share), number(part.confidence)
    need(0 <= share < 1, f"{part.share} is not a share of the rows")
    need(0 < confidence < 1, f"{part.confidence} is not a confidence")
    need(
        part.results >= together,
        f"it divides the failure probability among {part.results} results, but the certificate "
        f"alone has {together} that rest on samples",
    )
    _hold_draw(drawn, question)
    without = len(removed) - len(question.members)
    exceptions = math.floor(share * drawn.rows)
    chance = few_drawn(drawn.rows, drawn.size, exceptions + 1, without)
    error = (1 - confidence) / (part.results * drawn.draws)
    need(
        chance <= error,
        f"{without:,} of {drawn.size:,} sampled rows are left out of the bound: a draw contains "
        f"so few of the {exceptions + 1:,} worst rows with probability {_up(chance):.4g}, but at "
        f"most {float(error):.4g} is allowed",
    )
    bounded = question.members.removed
    left_out = np.sort(removed[~np.isin(removed, bounded)])
    return SampledSubject(part, len(removed), left_out, share, confidence, chance, question.subject)


def _hold_draw(drawn: DrawPart, question: Question) -> None:
    """Repeat the draw of rows, and compare it with everything that identifies them."""
    members, family = question.members, question.subject.family
    said = members.sample
    need(said is not None, f"{family}: its manifest does not describe a sample")
    assert said is not None
    for name, own in vars(drawn).items():
        need(
            own == said[name],
            f"the certificate states {name} {own} for the sample, but the manifest of {family} "
            f"states {said[name]}",
        )
    sized = 1 <= drawn.size <= drawn.rows <= _MOST_ROWS
    need(sized, f"{drawn.size} rows are not a sample of {drawn.rows}")
    there = 1 <= drawn.draw <= drawn.draws and drawn.seed >= 0
    need(there, f"there is no draw {drawn.draw} among {drawn.draws} with seed {drawn.seed}")
    rows = drawn.rows if members.rows is None else members.rows
    need(
        rows == drawn.rows,
        f"{family}: was trained on {rows:,} rows, but the sample is of {drawn.rows:,}",
    )
    key = (_STREAM,) if drawn.draw == 1 else (_STREAM, drawn.draw)
    source = np.random.PCG64(np.random.SeedSequence((drawn.seed, *key)))
    chosen = np.random.Generator(source).permutation(drawn.rows)[: drawn.size]
    need(
        np.array_equal(np.sort(chosen), question.removed),
        f"{family}: its members do not lack the {drawn.size:,} rows that seed {drawn.seed} draws "
        f"from {drawn.rows:,}",
    )


def _up(chance: Fraction) -> float:
    """Return a float that is not smaller, and exactly 0 for 0."""
    return math.nextafter(float(chance), math.inf) if chance else 0.0

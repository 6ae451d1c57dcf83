"""A picture of the utility of a service's private answers, by how many are given."""

from __future__ import annotations

from leaveout.models.sharded.planning import Plan, Trained
from leaveout.verifier.page.markup import Html, tag
from leaveout.verifier.page.plot import (
    Frame,
    axes,
    chart_frame,
    linear,
    logarithmic,
    outline,
    picture,
)

_SIZE = (760, 420)
_COLOURS = 6
_LEGEND = 24  # height of a line of the legend


def draw_plan(plan: Plan) -> Html:
    """Return an SVG file of expected accuracy by answers, a line per number of shards."""
    shown = [each for each in plan.trained if each.offers]
    asked = [offer.asked for each in shown for offer in each.offers]
    right = [offer.accuracy for each in shown for offer in each.offers]
    right += [plan.frequent, *(each.majority for each in shown)]
    frame = chart_frame(
        logarithmic(min(asked), max(asked), "answers between two full retrainings"),
        linear(100 * min(right), 100 * max(right), "correct answers in %, expected"),
        _SIZE,
    )
    lines = [_line(frame, each, at) for at, each in enumerate(shown)]
    level = 100 * plan.frequent
    ends = [frame.at(at, level) for at in (frame.x.low, frame.x.high)]
    always = tag("path", d=outline(ends), class_="line dashed soft")
    below = _SIZE[1] + 10
    words = [
        (
            f"line c{at % _COLOURS}",
            f"{each.shards:,} shards; their majority is correct for {100 * each.majority:.1f} %",
        )
        for at, each in enumerate(shown)
    ]
    words.append(
        ("line dashed soft", f"always the most frequent label: {100 * plan.frequent:.1f} %")
    )
    legend = [_entry(below + _LEGEND * at, *each) for at, each in enumerate(words)]
    said = (
        f"Expected accuracy of private answers at alpha = {plan.claim.alpha:g} against the "
        "number of answers, for several numbers of shards"
    )
    height = below + _LEGEND * len(words)
    return picture(_SIZE[0], height, said, axes(frame, always, lines), legend)


def _line(frame: Frame, each: Trained, at: int) -> Html:
    places = [frame.at(offer.asked, 100 * offer.accuracy) for offer in each.offers]
    dots = [tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, class_="marks") for x, y in places]
    path = tag("path", d=outline(places), class_="line")
    return tag("g", path, dots, class_=f"c{at % _COLOURS}")


def _entry(down: float, style: str, words: str) -> Html:
    mark = tag("path", d=outline([(24, down - 4), (52, down - 4)]), class_=style)
    return tag("g", mark, tag("text", words, x=62, y=f"{down:g}", class_="name"))

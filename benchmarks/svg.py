"""A small drawing surface: axes, lines, labels, as SVG that reads in light and dark mode."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

__all__ = ["DARK", "LIGHT", "Panel", "Sheet"]

Point = tuple[float, float]

LIGHT = {
    "paper": "#ffffff",
    "ink": "#24292f",
    "soft": "#8c959f",
    "blue": "#0969da",
    "orange": "#bc4c00",
    "green": "#1a7f37",
    "purple": "#8250df",
}
DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#8b949e",
    "blue": "#58a6ff",
    "orange": "#f0883e",
    "green": "#3fb950",
    "purple": "#bc8cff",
}


def _rules(colours: dict[str, str]) -> str:
    return "".join(f".f-{n}{{fill:{c}}}.s-{n}{{stroke:{c}}}" for n, c in colours.items())


@dataclass
class Sheet:
    """A picture.

    Attributes
    ----------
    width, height : int
        In pixels.
    title : str
        Read out in place of the picture.
    """

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def line(
        self,
        points: Iterable[Point],
        colour: str,
        width: float = 1.5,
        *,
        dash: str = "",
    ) -> None:
        """Draw a line."""
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<path d="{path}" class="s-{colour}" stroke-width="{width:g}" fill="none"{dashes}/>'
        )

    def shapes(self, shapes: Iterable[Iterable[Point]], colour: str, opacity: float) -> None:
        """Fill shapes as one, so that no seams show between them."""
        path = "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in s) + "Z" for s in shapes)
        self.parts.append(f'<path d="{path}" class="f-{colour}" fill-opacity="{opacity:g}"/>')

    def segments(
        self, segments: Iterable[tuple[Point, Point]], colour: str, width: float = 2
    ) -> None:
        """Draw many short lines at once."""
        path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in segments)
        self.parts.append(
            f'<path d="{path}" class="s-{colour}" stroke-width="{width:g}" fill="none" '
            'stroke-linecap="round"/>'
        )

    def dot(self, at: Point, colour: str, radius: float = 3.0) -> None:
        """Draw a dot with a rim, so that it shows on any ground."""
        self.parts.append(
            f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}" '
            f'class="f-{colour} s-paper" stroke-width="1"/>'
        )

    def text(
        self, at: Point, words: str, *, colour: str = "ink", anchor: str = "start", size: int = 12
    ) -> None:
        """Write words."""
        self.parts.append(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" class="f-{colour}" text-anchor="{anchor}" '
            f'font-size="{size}">{escape(words)}</text>'
        )

    def save(self, path: Path) -> None:
        """Write the picture."""
        path.parent.mkdir(parents=True, exist_ok=True)
        body = "\n".join(self.parts)
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" '
            f'font-family="Helvetica, Arial, sans-serif">\n<title>{escape(self.title)}</title>\n'
            f"<style>{_rules(LIGHT)}@media(prefers-color-scheme:dark){{{_rules(DARK)}}}</style>\n"
            f'<rect width="100%" height="100%" rx="6" class="f-paper"/>\n{body}\n</svg>\n'
        )


@dataclass(frozen=True)
class Panel:
    """A rectangle of a sheet with axes.

    Attributes
    ----------
    sheet : Sheet
    left, top, width, height : float
    x, y : tuple of float
        Ends of the axes.
    log_x, log_y : bool
    """

    sheet: Sheet
    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False
    log_y: bool = False

    def at(self, x: float, y: float) -> Point:
        """Where a point lies on the sheet; points outside are moved to the edge."""
        return (
            self.left + self.width * _share(x, self.x, self.log_x),
            self.top + self.height * (1 - _share(y, self.y, self.log_y)),
        )

    def axes(self, ticks_x: Sequence[float], ticks_y: Sequence[float]) -> None:
        """Draw the frame's left and bottom, with ticks."""
        low, right = self.top + self.height, self.left + self.width
        self.sheet.line([(self.left, self.top), (self.left, low), (right, low)], "soft", 1)
        for tick in ticks_x:
            x, _ = self.at(tick, self.y[0])
            self.sheet.line([(x, low), (x, low + 4)], "soft", 1)
            self.sheet.text((x, low + 16), f"{tick:g}", anchor="middle", size=11)
        for tick in ticks_y:
            _, y = self.at(self.x[0], tick)
            self.sheet.line([(self.left - 4, y), (self.left, y)], "soft", 1)
            self.sheet.text((self.left - 7, y + 4), f"{tick:g}", anchor="end", size=11)


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    low, high = ends
    value = min(max(value, low), high)
    if log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)

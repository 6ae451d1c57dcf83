"""Draw the pictures of the documentation into ``docs/pictures``, from runs made here.

    python benchmarks/idp.py --data ../shared/data --only crypto/2x50,adult/2x50 --trace runs.jsonl
    python benchmarks/pictures.py --trace runs.jsonl

Without ``--trace`` the picture of bounds over time is left as it is; ``--only histogram`` draws the
picture of the demo's patients alone, which trains nothing.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from histogram import answered, histogram

from leaveout.bab import EngineResult, Instance
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.kernels.interface import OPEN
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.search import NativeSearch
from leaveout.models.train import Recipe
from leaveout.verifier.amounts import bound, span
from leaveout.verifier.page.markup import Child, Html, tag
from leaveout.verifier.page.plot import Axis, Frame, axes, outline, picture
from leaveout.verifier.page.sections.charts import course
from leaveout.verifier.records import TraceRecord

from families import OUT, question

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"

BLUE, ORANGE, GREEN, PURPLE, SOFT, INK = "c0", "c1", "c2", "c3", "soft", "ink"

KINDS = {"members": GREEN, "input": BLUE, "phase": PURPLE}

Floats = np.ndarray
Point = tuple[float, float]


def line(*lines: Iterable[Point], colour: str, wide: float = 2.0, dashed: bool = False) -> Html:
    """Return lines of one colour."""
    path = " ".join(outline(each) for each in lines)
    style = f"line {'dashed ' if dashed else ''}{colour}"
    return tag("path", d=path, class_=style, style=f"stroke-width:{wide:g}")


def area(*shapes: Iterable[Point], colour: str, opacity: float) -> Html:
    """Fill shapes as one, so that no seams show between them."""
    path = " ".join(outline(each, closed=True) for each in shapes)
    return tag("path", d=path, class_=f"between {colour}", style=f"opacity:{opacity:g}")


def dot(at: Point, colour: str, radius: float = 3.0) -> Html:
    """Return a dot with a rim, so that it shows on any ground."""
    return tag("circle", cx=f"{at[0]:.1f}", cy=f"{at[1]:.1f}", r=radius, class_=f"marks {colour}")


def text(at: Point, words: str, style: str = "name") -> Html:
    """Return words."""
    return tag("text", words, x=f"{at[0]:.1f}", y=f"{at[1]:.1f}", class_=style)


def save(path: Path, size: tuple[int, int], said: str, *drawn: Child) -> None:
    """Write a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{picture(*size, said, *drawn)}\n", encoding="utf-8")


def moons(width: int, epochs: int, members: int | None = None) -> Instance:
    """Train a family on 80 points of two half moons, or on the first so many left out."""
    from sklearn.datasets import make_moons

    X, y = make_moons(80, noise=0.18, random_state=3)
    X = ((X - X.min(axis=0)) / np.ptp(X, axis=0)).astype(np.float32)
    data = OUT / "moons.npz"
    data.parent.mkdir(exist_ok=True)
    np.savez(data, X_train=X, y_train=y.astype(np.int64))
    recipe = Recipe(layers=(width, width), batch=20, epochs=epochs)
    return question(f"moons_2x{width}", data, recipe, members).instance


def searched(instance: Instance, label: int, gap: float) -> tuple[EngineResult, list[Record]]:
    """Run the native engine and keep its tree."""
    options = NativeOptions(seconds=60.0, gap=gap, certificate=True)
    search = NativeSearch(Leaks(instance, label), options)
    return search.run(), search.records


def hull(path: Path) -> None:
    """Draw where (z, e) can be, for a pair of ReLUs and for a tied pair."""
    least, most, low, high = -2.4, 2.0, -0.7, 1.0
    p, q = max(high, 0.0), max(-low, 0.0)
    z = np.linspace(least, most, 89)
    relu = np.maximum(z, 0)
    above, below = np.maximum(z + high, 0) - relu, np.maximum(z + low, 0) - relu
    pair = [*zip(z, above, strict=True), *zip(z[::-1], below[::-1], strict=True)]
    drawn: list[Html] = []
    for number, name in enumerate(("true pair", "tied pair: on or off")):
        left = 48 + 320 * number
        frame = Frame(Axis(least, most, ()), Axis(-1.1, 1.4, ()), left, 44, left + 262, 224)
        for edge, word in ((-p, "−p"), (q, "q")):
            ends = [frame.at(edge, -1.1), frame.at(edge, 1.4)]
            drawn += [line(ends, colour=SOFT, wide=1, dashed=True)]
            drawn += [text((ends[0][0], ends[0][1] + 16), word, "name along")]
        drawn += [line([frame.at(least, 0), frame.at(most, 0)], colour=SOFT, wide=1)]
        shape = [frame.at(*each) for each in pair]
        drawn += [area(shape, colour=BLUE, opacity=0.13 if number else 0.3)]
        if number:
            tied = [(-p, low), (most, low), (most, high), (-p, high), (-p, low)]
            drawn += [line([frame.at(*each) for each in tied], colour=PURPLE)]
            drawn += [line([frame.at(least, 0), frame.at(q, 0)], colour=ORANGE, wide=4)]
            x, y = frame.at(1.45, high)
            drawn += [text((x, y - 7), "on: e = d", f"label along {PURPLE}")]
            x, y = frame.at(least, 0)
            drawn += [text((x, y - 9), "off: e = 0", f"label {ORANGE}")]
        else:
            drawn += [line([*shape, shape[0]], colour=BLUE, wide=1.5)]
        x, y = frame.at(least, 1.4)
        drawn += [text((x, y - 16), name, f"label {INK}"), text((x - 8, y + 8), "e", "name end")]
        drawn += [text(frame.at(most, -1.1), "z", "name end")]
        for value, word in ((high, "du"), (low, "dl")):
            x, y = frame.at(least, value)
            drawn += [text((x - 8, y + 4), word, "end")]
    said = "What e can be given z: the true pair, and the two cases of a tied one"
    save(path, (660, 270), said, drawn)


def contour(values: Floats, level: float = 0.0) -> list[tuple[Floats, Floats]]:
    """Return the segments along which a function on a grid has a level, in grid units."""
    segments = []
    high = values > level
    mixed = high[:-1, :-1].astype(int) + high[1:, :-1] + high[:-1, 1:] + high[1:, 1:]
    for i, j in np.argwhere((mixed > 0) & (mixed < 4)):
        corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
        cuts = []
        for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
            first, second = values[a] - level, values[b] - level
            if (first > 0) != (second > 0):
                share = first / (first - second)
                cuts.append(np.asarray(a) + share * (np.asarray(b) - np.asarray(a)))
        segments += list(zip(cuts[::2], cuts[1::2], strict=True))
    return segments


def leak(path: Path, instance: Instance, result: EngineResult) -> None:
    """Draw N's and a member's decision boundaries, and where the member leaks."""
    witness = result.witness
    assert witness is not None
    label, size = witness.label, 161
    along = np.linspace(0.0, 1.0, size)
    points = np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)
    scores = instance.network.stack.scores(points[None])[0]
    other = instance.members.take([witness.member]).scores(points[None])[0]
    own = (scores[:, label] - scores[:, 1 - label]).reshape(size, size)
    its = (other[:, label] - other[:, 1 - label]).reshape(size, size)
    axis = Axis(0.0, 1.0, (0.0, 0.5, 1.0))
    frame = Frame(axis, axis, 40, 28, 350, 338)
    leaks = (own > 0) & (its <= 0)
    half = 0.51 / (size - 1)
    cells = []
    for i in range(size):
        row = np.flatnonzero(np.diff(np.concatenate([[0], leaks[i].astype(int), [0]])))
        for start, stop in zip(row[::2], row[1::2], strict=True):
            low, high = along[start] - half, along[stop - 1] + half
            corners = [(-half, low), (half, low), (half, high), (-half, high)]
            cells.append([frame.at(along[i] + dx, y) for dx, y in corners])
    drawn: list[Html] = [area(*cells, colour=ORANGE, opacity=0.5)]
    for values, colour in ((own, BLUE), (its, PURPLE)):
        ends = [[frame.at(*(each / (size - 1))) for each in pair] for pair in contour(values)]
        drawn += [line(*ends, colour=colour)]
    drawn += [dot(frame.at(float(witness.x[0]), float(witness.x[1])), INK, 5)]
    legend = [
        (BLUE, ["N's boundary"]),
        (PURPLE, [f"without point {witness.removed}"]),
        (ORANGE, [f"leak: N answers {label},", f"the member {1 - label}"]),
        (INK, ["worst leak found:", f"confidence {bound(witness.confidence)}"]),
    ]
    said: list[Html] = []
    y = 60
    for colour, words in legend:
        mark = [(371, y - 4), (387, y - 4)]
        said += [dot((379, y - 4), INK, 5) if colour == INK else line(mark, colour=colour, wide=4)]
        said += [text((396, y + 17 * at), word) for at, word in enumerate(words)]
        y += 17 * len(words) + 13
    said += [text((396, y - 13), "over all members proved:")]
    said += [text((396, y + 4), f"none above {bound(result.upper, up=True)}")]
    title = "Decision boundaries of N and of one member, and where it leaks"
    save(path, (590, 376), title, axes(frame, drawn), said)


def tree(path: Path, records: list[Record], result: EngineResult) -> None:
    """Draw the nodes of a search, by kind of split."""
    children: dict[int, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda each: each.ident):
        children[record.parent].append(record)
    places: dict[int, tuple[float, int]] = {}
    leaves = 0

    def place(record: Record, depth: int) -> float:
        nonlocal leaves
        below = [place(child, depth + 1) for child in children[record.ident]]
        if below:
            x = (below[0] + below[-1]) / 2
        else:
            x, leaves = float(leaves), leaves + 1
        places[record.ident] = (x, depth)
        return x

    for root in children[-1]:
        place(root, 0)
    deepest = max(depth for _, depth in places.values())
    drawn: list[Html] = []

    def at(ident: int) -> tuple[float, float]:
        x, depth = places[ident]
        return 24 + 712 * (x + 0.5) / leaves, 66 + 26 * depth

    for record in records:
        if record.parent >= 0:
            colour = KINDS[record.split.kind]
            drawn += [line([at(record.parent), at(record.ident)], colour=colour, wide=1.2)]
    left_open = False
    for record in records:
        inner = bool(children[record.ident])
        still = not (result.closed or inner) and record.status == OPEN
        left_open |= still
        drawn += [dot(at(record.ident), ORANGE if still else INK if inner else SOFT, 3.2)]
    x = 24.0
    entries = [(GREEN, "members split"), (BLUE, "input split"), (PURPLE, "phase tied")]
    for colour, words in entries:
        drawn += [line([(x, 22), (x + 18, 22)], colour=colour, wide=3)]
        drawn += [text((x + 24, 26), words)]
        x += 40 + 7.6 * len(words)
    states = [(INK, "split"), (SOFT, "closed")]
    if left_open:
        states.append((ORANGE, "open at the end"))
    for colour, words in states:
        drawn += [dot((x + 6, 22), colour, 4), text((x + 14, 26), words)]
        x += 34 + 7.6 * len(words)
    said = (
        f"{len(places)} nodes over {len(result.member_upper)} members: "
        f"no leak above {bound(result.upper, up=True)}, one at {bound(result.lower)}"
    )
    title = f"A tree of {len(places)} nodes"
    save(path, (760, 96 + 26 * deepest), title, drawn, text((24, 46), said, ""))


def gap(path: Path, traces: list[Path]) -> None:
    """Draw lower and upper bounds over time."""
    runs: dict[tuple[str, int, int], list[tuple[float, float, float]]] = defaultdict(list)
    for trace in traces:
        for each in map(json.loads, trace.read_text().splitlines()):
            if each["engine"] == "native":
                key = each["row"], each["label"], each["members"]
                runs[key].append((each["seconds"], each["lower"], each["upper"]))
    drawn = [text((24, 26), "upper bound, proved", f"label {BLUE}")]
    drawn += [text((190, 26), "lower bound, replayed (dashed)", f"label {ORANGE}")]
    for number, ((name, label, members), moments) in enumerate(runs.items()):
        times, lower, upper = zip(*moments, strict=True)
        x, y = 20 + 460 * (number % 2), 62 + 290 * (number // 2)
        chart = course(TraceRecord(label=label, seconds=times, lower=lower, upper=upper))
        title = f"{name.replace('/', ' ')}, label {label}, {members:,} members"
        ends = f"at last {span(lower[-1], upper[-1])}"
        drawn += [text((x, y), title, f"label {INK}"), text((x, y + 17), ends, "")]
        drawn += [tag("svg", chart, x=x, y=y + 24, width=440, height=240)]
    size = 920, 60 + 290 * -(-len(runs) // 2)
    save(path, size, "Lower and upper bounds over time", drawn)


def main() -> None:
    """Draw what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, nargs="*", default=[], help="written by idp.py")
    parser.add_argument("--to", type=Path, default=PICTURES)
    parser.add_argument("--only", choices=["histogram"])
    given = parser.parse_args()
    histogram(given.to / "histogram.svg", answered())
    if given.only:
        return
    hull(given.to / "hull.svg")
    instance = moons(10, 4000)
    results = [searched(instance, label, 0.01)[0] for label in range(2)]
    leak(given.to / "leak.svg", instance, max(results, key=lambda each: each.lower))
    result, records = searched(moons(8, 1500, 24), 1, 0.3)
    tree(given.to / "tree.svg", records, result)
    if given.trace:
        gap(given.to / "gap.svg", given.trace)


if __name__ == "__main__":
    main()

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
from pathlib import Path

import numpy as np
from histogram import answered, histogram
from svg import Panel, Sheet

from leaveout.bab import EngineResult, Instance
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.kernels.batch import OPEN
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.search import NativeSearch
from leaveout.models.train import Recipe

from families import OUT, question

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"

KINDS = {"members": "green", "input": "blue", "phase": "purple"}

Floats = np.ndarray


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
    least, most, low, high = -2.0, 2.0, -0.7, 1.0
    p, q = max(high, 0.0), max(-low, 0.0)
    sheet = Sheet(660, 270, "What e can be given z: the true pair, and the two cases of a tied one")
    z = np.linspace(least, most, 81)
    relu = np.maximum(z, 0)
    above, below = np.maximum(z + high, 0) - relu, np.maximum(z + low, 0) - relu
    for number, name in enumerate(("true pair", "tied pair: on or off")):
        panel = Panel(sheet, 48 + 320 * number, 44, 262, 180, (least, most), (-1.1, 1.4))
        for edge, word in ((-p, "−p"), (q, "q")):
            sheet.line([panel.at(edge, -1.1), panel.at(edge, 1.4)], "soft", 1, dash="3 3")
            at = panel.at(edge, -1.1)
            sheet.text((at[0], at[1] + 16), word, anchor="middle")
        sheet.line([panel.at(least, 0), panel.at(most, 0)], "soft", 1)
        area = [panel.at(a, b) for a, b in zip(z, above, strict=True)]
        area += [panel.at(a, b) for a, b in zip(z[::-1], below[::-1], strict=True)]
        sheet.shapes([area], "blue", 0.3 if number == 0 else 0.13)
        if number == 0:
            sheet.line([*area, area[0]], "blue", 1.5)
        else:
            corners = [(-p, low), (most, low), (most, high), (-p, high), (-p, low)]
            sheet.line([panel.at(*c) for c in corners], "purple", 2)
            sheet.line([panel.at(least, 0), panel.at(q, 0)], "orange", 4)
            at = panel.at(1.45, high)
            sheet.text((at[0], at[1] - 7), "on: e = d", colour="purple", anchor="middle")
            at = panel.at(least, 0)
            sheet.text((at[0], at[1] - 9), "off: e = 0", colour="orange")
        at = panel.at(least, 1.4)
        sheet.text((at[0], at[1] - 16), name, size=13)
        sheet.text(panel.at(most, -1.1), "z", anchor="end")
        sheet.text((at[0] - 8, at[1] + 8), "e", anchor="end")
        for value, word in ((high, "du"), (low, "dl")):
            at = panel.at(least, value)
            sheet.text((at[0] - 8, at[1] + 4), word, anchor="end", size=11)
    sheet.save(path)


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
    axis = np.linspace(0.0, 1.0, size)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    scores = instance.network.stack.scores(points[None])[0]
    other = instance.members.take([witness.member]).scores(points[None])[0]
    own = (scores[:, label] - scores[:, 1 - label]).reshape(size, size)
    its = (other[:, label] - other[:, 1 - label]).reshape(size, size)
    sheet = Sheet(580, 376, "Decision boundaries of N and of one member, and where it leaks")
    panel = Panel(sheet, 40, 28, 310, 310, (0, 1), (0, 1))
    leaks = (own > 0) & (its <= 0)
    half = 0.51 / (size - 1)
    cells = []
    for i in range(size):
        row = np.flatnonzero(np.diff(np.concatenate([[0], leaks[i].astype(int), [0]])))
        for start, stop in zip(row[::2], row[1::2], strict=True):
            low, high = axis[start] - half, axis[stop - 1] + half
            corners = [(-half, low), (half, low), (half, high), (-half, high)]
            cells.append([panel.at(axis[i] + dx, y) for dx, y in corners])
    sheet.shapes(cells, "orange", 0.5)
    for values, colour in ((own, "blue"), (its, "purple")):
        ends = contour(values)
        scaled = ((a / (size - 1), b / (size - 1)) for a, b in ends)
        sheet.segments(((panel.at(*a), panel.at(*b)) for a, b in scaled), colour)
    panel.axes([0, 0.5, 1], [0, 0.5, 1])
    sheet.dot(panel.at(float(witness.x[0]), float(witness.x[1])), "ink", 5)
    legend = [
        ("blue", ["N's boundary"]),
        ("purple", [f"without point {witness.removed}"]),
        ("orange", [f"leak: N answers {label},", f"the member {1 - label}"]),
        ("ink", ["worst leak found:", f"confidence {witness.confidence:.4f}"]),
    ]
    y = 60
    for colour, words in legend:
        if colour == "ink":
            sheet.dot((379, y - 4), colour, 5)
        else:
            sheet.line([(371, y - 4), (387, y - 4)], colour, 4)
        for word in words:
            sheet.text((396, y), word)
            y += 17
        y += 13
    sheet.text((396, y - 13), "over all members proved:")
    sheet.text((396, y + 4), f"none above {result.upper:.4f}")
    sheet.save(path)


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
    sheet = Sheet(760, 96 + 26 * deepest, f"A tree of {len(places)} nodes")

    def at(ident: int) -> tuple[float, float]:
        x, depth = places[ident]
        return 24 + 712 * (x + 0.5) / leaves, 66 + 26 * depth

    for record in records:
        if record.parent >= 0:
            colour = KINDS[record.split.kind]
            sheet.line([at(record.parent), at(record.ident)], colour, 1.2)
    left_open = False
    for record in records:
        inner = bool(children[record.ident])
        still = not (result.closed or inner) and record.status == OPEN
        left_open |= still
        sheet.dot(at(record.ident), "orange" if still else "ink" if inner else "soft", 3.2)
    x = 24.0
    entries = [
        ("green", "members split"),
        ("blue", "input split"),
        ("purple", "phase tied"),
    ]
    for colour, words in entries:
        sheet.line([(x, 22), (x + 18, 22)], colour, 3)
        sheet.text((x + 24, 26), words)
        x += 40 + 6.6 * len(words)
    states = [("ink", "split"), ("soft", "closed")]
    if left_open:
        states.append(("orange", "open at the end"))
    for colour, words in states:
        sheet.dot((x + 6, 22), colour, 4)
        sheet.text((x + 14, 26), words)
        x += 34 + 6.6 * len(words)
    sheet.text(
        (24, 46),
        f"{len(places)} nodes over {len(result.member_upper)} members: "
        f"no leak above {result.upper:.4f}, one at {result.lower:.4f}",
        colour="soft",
        size=11,
    )
    sheet.save(path)


def gap(path: Path, traces: list[Path]) -> None:
    """Draw lower and upper bounds over time."""
    runs: dict[tuple[str, int, int], list[tuple[float, float, float]]] = defaultdict(list)
    for trace in traces:
        for text in trace.read_text().splitlines():
            line = json.loads(text)
            if line["engine"] == "native":
                key = line["row"], line["label"], line["members"]
                runs[key].append((line["seconds"], line["lower"], line["upper"]))
    columns = 2
    rows = -(-len(runs) // columns)
    sheet = Sheet(720, 40 + 206 * rows, "Lower and upper bounds over time")
    sheet.text((52, 22), "upper bound, proved", colour="blue")
    sheet.text((190, 22), "lower bound, replayed", colour="orange")
    for number, ((name, label, members), moments) in enumerate(runs.items()):
        left, top = 52 + 350 * (number % columns), 66 + 206 * (number // columns)
        end = max(10.0, moments[-1][0])
        found = [moment for moment in moments if moment[1] > 0]
        bottom = 0.7 * found[-1][1]
        ends = bottom, 1.2 * max(high for _, _, high in found)
        panel = Panel(sheet, left, top, 240, 118, (0.1, end), ends, log_x=True, log_y=True)
        upper = steps(panel, [(seconds, high) for seconds, _, high in moments])
        lower = steps(panel, [(seconds, max(low, bottom)) for seconds, low, _ in moments])
        sheet.shapes([[*upper, *lower[::-1]]], "soft", 0.18)
        sheet.line(upper, "blue", 2)
        sheet.line(lower, "orange", 2)
        panel.axes([t for t in (0.1, 1, 10, 100, 1000) if t <= end], ticks(ends))
        title = f"{name.replace('/', ' ')}, label {label}, {members:,} members"
        sheet.text((left, top - 10), title, size=13)
        sheet.text((left + 240, top + 150), "seconds", anchor="end", size=11)
        # Beside the ends of the lines, apart where these meet.
        (x, high), (_, low) = upper[-1], lower[-1]
        apart = max(0.0, 14 - (low - high)) / 2
        sheet.text((x + 6, high + 4 - apart), f"{moments[-1][2]:.4f}", colour="blue", size=11)
        sheet.text((x + 6, low + 4 + apart), f"{moments[-1][1]:.4f}", colour="orange", size=11)
    sheet.save(path)


def ticks(ends: tuple[float, float]) -> list[float]:
    """Return a few round numbers between two."""
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        values = [d * 10.0**e for e in range(-5, 4) for d in digits]
        values = [value for value in values if ends[0] <= value <= ends[1]]
        if len(values) >= 3:
            return values
    return values


def steps(panel: Panel, moments: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of a step function that keeps each value until the next."""
    corners: list[tuple[float, float]] = []
    before = None
    for seconds, value in moments:
        if before is not None:
            corners.append(panel.at(seconds, before))
        corners.append(panel.at(seconds, value))
        before = value
    return corners


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

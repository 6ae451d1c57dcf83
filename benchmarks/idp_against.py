"""Bounds of this tree beside those of an older commit: ``idp.py --against COMMIT``.

Families are trained by this tree and read by both. Each label is searched by both, one after the
other and each first in turn, in processes of their own; what was compiled is compiled before.
Under each line of this tree stands the older one's, and below them ratios, new over old: below 1
is better but for ``lower``. ``cpu`` are seconds of processor time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory

from leaveout.errors import LeaveoutError

from families import MissingError, question
from idp_checkout import Checkout, CheckoutError, Found, Search, here, search, unpack
from paper import Row

__all__ = ["Pair", "compare", "ratios", "shown", "summary"]

HEAD = (
    f"{'data':8s}{'network':8s}{'members':>8s}{'label':>6s}  {'tree':10s}{'lower':>10s}"
    f"{'upper':>10s}{'gap':>8s}{'seconds':>9s}{'cpu':>9s}{'nodes':>10s}"
)

_WARM = 1.0
"""Seconds of a first search whose result nobody reads: it compiles."""


@dataclass(frozen=True)
class Pair:
    """One label, searched by both.

    Attributes
    ----------
    row : str
    label : int
    new, old : Found
    """

    row: str
    label: int
    new: Found
    old: Found


def ratios(pair: Pair) -> dict[str, float | None]:
    """Return new over old, None where that is not known."""
    new, old = pair.new, pair.old
    sides = {
        "lower": (new.lower, old.lower),
        "upper": (new.upper, old.upper),
        "gap": (new.gap, old.gap),
        "seconds": (new.seconds, old.seconds),
        "cpu": (new.cpu, old.cpu),
        "nodes": (new.nodes, old.nodes),
    }
    return {name: a / b if a is not None and b else None for name, (a, b) in sides.items()}


def shown(pair: Pair, older: str) -> str:
    """Format three lines: new, old, and the ratios."""
    data, _, network = pair.row.partition("/")
    first = f"{data:8s}{network:8s}{pair.new.members:8,d}{pair.label:6d}  "
    found = {name: "-" if value is None else f"{value:.3f}" for name, value in ratios(pair).items()}
    margin = " " * len(first)
    return "\n".join(
        (
            f"{first}{'this tree':10s}{_numbers(pair.new)}",
            f"{margin}{older:10s}{_numbers(pair.old)}",
            f"{margin}{'new/old':10s}{found['lower']:>10s}{found['upper']:>10s}{found['gap']:>8s}"
            f"{found['seconds']:>9s}{found['cpu']:>9s}{found['nodes']:>10s}",
        )
    )


def _numbers(found: Found) -> str:
    gap = "-" if found.gap is None else f"{found.gap:.3f}"
    return (
        f"{found.lower:10.5f}{found.upper:10.5f}{gap:>8s}{found.seconds:9.1f}{found.cpu:9.1f}"
        f"{found.nodes:10,d}"
    )


def summary(pairs: Sequence[Pair]) -> str:
    """Format geometric means of the ratios: bounds over all, times over what both closed.

    What Ctrl-C ended is left out.
    """
    texts = []
    whole = [pair for pair in pairs if not (pair.new.interrupted or pair.old.interrupted)]
    closed = [pair for pair in whole if pair.new.closed and pair.old.closed]
    for name, over in (("upper", whole), ("gap", whole), ("seconds", closed), ("cpu", closed)):
        values = [value for value in (ratios(pair)[name] for pair in over) if value]
        mean = f"{geometric_mean(values):.3f}" if values else "-"
        texts.append(f"{name} {mean} over {len(values)}")
    return "geometric means, new/old: " + ", ".join(texts)


def entry(pair: Pair) -> dict[str, object]:
    """Return what ``--json`` says of one label."""
    sides = {"new": asdict(pair.new), "old": asdict(pair.old)}
    return {"row": pair.row, "label": pair.label, **sides, "new_over_old": ratios(pair)}


def _measure(
    row: Row, members: int | None, given: argparse.Namespace, old: Checkout, pairs: list[Pair]
) -> bool:
    """Search all labels of a row with both; False if the user wants no more."""
    own = question(
        row.folder,
        given.data / row.file,
        row.recipe(given.seed),
        members,
        out=given.out,
        train=not given.trained,
    )
    count = len(own.instance.family)
    for label in range(own.instance.labels):
        asked = Search(own.folder, label, count, given.time, given.seed, given.kernel)
        trees = [here(), old]
        if not pairs and not label:
            for tree in trees:
                search(tree, Search(own.folder, 0, count, _WARM, given.seed, given.kernel))
        if len(pairs) % 2:
            trees.reverse()
        found: dict[Path, Found] = {}
        for tree in trees:
            found[tree.folder] = search(tree, asked)
            if found[tree.folder].interrupted:
                break
        if len(found) == len(trees):
            pairs.append(Pair(row.name, label, found[here().folder], found[old.folder]))
            print(shown(pairs[-1], old.name), flush=True)
        if any(each.interrupted for each in found.values()):
            return False
    return True


def compare(
    given: argparse.Namespace, rows: Sequence[tuple[Row, int | None]]
) -> tuple[str, list[dict[str, object]]]:
    """Print the table.

    Parameters
    ----------
    given : argparse.Namespace
        Of idp.py.
    rows : sequence of (Row, int or None)
        With how many members each is asked about.

    Returns
    -------
    str
        The older commit.
    list of dict
        An entry a label.

    Raises
    ------
    CheckoutError
        If there is no such commit.
    """
    pairs: list[Pair] = []
    with TemporaryDirectory(prefix="leaveout-against-") as name:
        old = unpack(given.against, Path(name))
        print(HEAD, flush=True)
        try:
            for row, members in rows:
                try:
                    if not _measure(row, members, given, old, pairs):
                        break
                except (MissingError, CheckoutError) as error:
                    print(f"{row.data:8s}{row.network:8s}  {error}", flush=True)
                except LeaveoutError as error:
                    print(f"{row.data:8s}{row.network:8s}  {error}", flush=True)
                    if error.exit_code == 130:
                        break
        except KeyboardInterrupt:
            sys.stderr.write("stopped\n")
        print(summary(pairs))
        return old.name, [entry(pair) for pair in pairs]

"""Whether an exported model is the model: two ensembles of trees, compared over all inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from leaveout.arrays import Bools, Floats
from leaveout.bab.forests.tree_comparison import (
    LARGEST,
    Difference,
    Inputs,
    margins,
    path_apart,
    view_of,
)  # fmt: skip
from leaveout.bab.forests.tree_comparison import Comparison as Search
from leaveout.deadline import Deadline
from leaveout.errors import TreesError
from leaveout.exit_codes import ExitCode
from leaveout.kernel.trees import Ensemble
from leaveout.models.reading import Reading, read_table
from leaveout.models.table import number
from leaveout.models.train.encoding import is_missing_value
from leaveout.models.trees.reading import of_model, read_trees
from leaveout.verifier.library_replay import Replay, replay
from leaveout.verifier.warm_up import warm
from leaveout.written import first_few

Bounds = Mapping[str | int, tuple[float, float]]
"""The least and greatest value of features, by name or by number from 0."""

_INPUTS = ("float32", "float64")
_BOUND = re.compile(r"\s*(.+?)\s+in\s+(\S+?)\s*\.\.\s*(\S+)\s*")


@dataclass(frozen=True)
class Example:
    """An input where two models differ.

    Attributes
    ----------
    input : tuple of float
        NaN where a value is missing.
    scores : tuple of two tuples of float
        Before any link such as a sigmoid, computed as each library does.
    answers : tuple of two str
        Labels; empty for regressions.
    difference : float
        How far the scores are apart.
    reason : str
        Where and why the models part.
    replays : tuple of Replay
        What the libraries answer that are installed.
    """

    input: tuple[float, ...]
    scores: tuple[tuple[float, ...], tuple[float, ...]]
    answers: tuple[str, str]
    difference: float
    reason: str
    replays: tuple[Replay, ...]


@dataclass(frozen=True)
class RowsFound:
    """What the two models make of the rows of a table.

    Attributes
    ----------
    rows : int
    differ : int
        Rows with another score than rounding explains.
    answers_differ : int
    near : int
        Rows with equal answers whose margin is so small that the libraries could differ.
    largest : float
        The greatest difference of scores.
    """

    rows: int
    differ: int
    answers_differ: int
    near: int
    largest: float


@dataclass(frozen=True)
class Comparison:
    """The answer of `compare`.

    Attributes
    ----------
    verdict : str
        ``proved`` the same, ``refuted`` by an example, or ``unknown``.
    inputs : str
        ``float32`` or ``float64``: the numbers that the verdict is about.
    difference : float
        The scores of any two inputs of the set are proved to differ by no more, rounding included.
        Infinite if nothing is proved.
    closeness : float
        Answers of both can differ only where two labels' scores are no further apart.
    tolerance : float or None
        What was asked for; None: equal up to rounding.
    example : Example or None
        Where they differ.
    rows : RowsFound or None
    notes : tuple of str
    wider : Comparison or None
        The same question for float64 inputs, where it was not asked and has another answer.
    names : tuple of str
        The features.
    labels : tuple of str
        Those of the first model; empty where scores alone are compared.
    """

    verdict: str
    inputs: str
    difference: float
    closeness: float
    tolerance: float | None
    example: Example | None
    rows: RowsFound | None
    notes: tuple[str, ...]
    wider: Comparison | None
    names: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def equal(self) -> bool | None:
        """Whether the two are the same; None if that is unknown."""
        return {"proved": True, "refuted": False}.get(self.verdict)

    @property
    def exit_code(self) -> ExitCode:
        """The exit status of the command."""
        codes = {"proved": ExitCode.PROVED, "refuted": ExitCode.REFUTED}
        return codes.get(self.verdict, ExitCode.UNKNOWN)

    def to_json(self) -> bytes:
        """Return everything as JSON; numbers that JSON does not have are null."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def compare(
    one: Any,
    other: Any,
    X: Any = None,
    *,
    box: Bounds | None = None,
    missing: bool = True,
    inputs: str | None = None,
    tolerance: float | None = None,
    seconds: float | None = 60.0,
) -> Comparison:
    """Prove that two ensembles of trees are one function, or find an input where they differ.

    Parameters
    ----------
    one, other : path, fitted estimator, booster or ONNX model
        Of any libraries.
    X : array of shape (rows, features), optional
        Rows that are compared one by one; the proof is then about all inputs within the range of
        each column, and a column without NaN has no missing values.
    box : mapping of feature to (least, greatest), optional
        Ends of features, by name or number from 0, in place of those of ``X``. Such features are
        never missing.
    missing : bool
        Whether values can be missing where ``X`` and ``box`` do not tell.
    inputs : ``float32``, ``float64``, optional
        The numbers that inputs can be. By default float32, with a look at float64.
    tolerance : float, optional
        Ask whether scores differ by at most this. By default they must be equal up to rounding to
        float32.
    seconds : float, optional
        The time limit.

    Returns
    -------
    Comparison

    Raises
    ------
    TreesError
        If a model cannot be read, or the two do not fit each other.
    """
    if inputs is not None and inputs not in _INPUTS:
        raise TreesError(f"inputs {inputs!r}: expected float32 or float64")
    if tolerance is not None and not tolerance >= 0:
        raise TreesError(f"tolerance {tolerance}: expected 0 or more")
    warm(("tree_claims",))  # what is compiled first does not count towards the time
    question = _Question(one, other, X, box, missing, tolerance, Deadline.after(seconds))
    found = question.answer_gaps(inputs or "float32")
    reads_doubles = not all(each.rounds_inputs for each in question.ensembles)
    if inputs is None and found.verdict == "proved" and reads_doubles:
        wider = question.answer_gaps("float64")
        if wider.verdict != "proved":
            return replace(found, wider=wider)
    return found


def read_box(text: str) -> dict[str | int, tuple[float, float]]:
    """Read ``age in 18..90, dose in 0..2.5``."""
    found: dict[str | int, tuple[float, float]] = {}
    for part in text.split(","):
        match = _BOUND.fullmatch(part)
        try:
            if match is None:
                raise ValueError
            ends = float(match[2]), float(match[3])
        except ValueError:
            raise TreesError(
                f"--box {part.strip()!r}: expected FEATURE in LEAST..GREATEST, e.g. age in 18..90"
            ) from None
        if not ends[0] <= ends[1]:
            raise TreesError(f"--box {part.strip()!r}: the least value is above the greatest")
        found[match[1]] = ends
    return found


def read_rows(path: Path, reading: Reading, models: tuple[Path, Path]) -> Floats:
    """Read the rows of a table, with the columns that two models name, or all in order."""
    table = read_table(path, reading=reading)
    names = next((each.names for each in map(read_trees, models) if each.names), ())
    columns = names if names and set(names) <= set(table.header) else tuple(table.header)
    found = np.full((len(table), len(columns)), np.nan)
    for at, name in enumerate(columns):
        cells = table.cells(name)
        values = [
            np.nan if is_missing_value(word, among_numbers=True) else number(word)
            for word in cells.words
        ]
        wrong = [word for word, value in zip(cells.words, values, strict=True) if value is None]
        if wrong:
            raise TreesError(
                f"{path}, column {name!r}: {wrong[0]!r} is not a number; encode it as for the "
                f"model, or add --drop {name!r}"
            )
        found[:, at] = np.array(values, np.float64)[cells.codes]
    return found


class _Question:
    """Two models, and the inputs they are compared on."""

    def __init__(
        self, one: Any, other: Any, X: Any, box: Bounds | None, missing: bool,
        tolerance: float | None, deadline: Deadline,
    ) -> None:  # fmt: skip
        self._given = one, other
        self.ensembles = _read(one), _read(other)
        self._tolerance, self._deadline = tolerance, deadline
        first, second = self.ensembles
        if first.features != second.features:
            raise TreesError(
                f"the first model reads {first.features} features and the second "
                f"{second.features}; compare models of the same table"
            )
        names = first.names or second.names
        self._names = names or tuple(f"feature {at}" for at in range(first.features))
        view = view_of(first, second)
        if view is None or len(first.labels) != len(second.labels) != 0 != len(first.labels):
            raise TreesError(
                f"the first model has {_shape(first)} and the second {_shape(second)}; compare "
                "models with the same outputs"
            )
        self._view = view
        self._rows = None if X is None else np.asarray(X, np.float64)
        if self._rows is not None and (
            self._rows.ndim != 2 or self._rows.shape[1] != first.features
        ):
            raise TreesError(
                f"the rows have the shape {self._rows.shape}, but the models read "
                f"{first.features} features; drop other columns"
            )
        self._missing = missing
        self._box = {self._place(name): ends for name, ends in (box or {}).items()}

    def _inputs(self, *, single: bool, gaps: bool) -> Inputs:
        """Return the inputs of the box and the range of rows, with or without missing values."""
        size = self.ensembles[0].features
        low, high = np.full(size, -LARGEST), np.full(size, LARGEST)
        absent: Bools = np.full(size, self._missing)
        if self._rows is not None and len(self._rows):
            # The range of rows is that of the rows as float32, too.
            rows = self._rows
            seen = np.concatenate((rows, rows.astype(np.float32))) if single else rows
            absent, none = np.asarray(np.isnan(rows).any(axis=0)), np.isnan(rows).all(axis=0)
            low = np.where(none, 1.0, np.fmin.reduce(seen, axis=0))
            high = np.where(none, 0.0, np.fmax.reduce(seen, axis=0))
        for at, ends in self._box.items():
            low[at], high[at], absent[at] = ends[0], ends[1], False
        # A column without any value cannot but be missing.
        missing = absent & (gaps | (low > high))
        return Inputs.of(self.ensembles, low, high, missing, single=single)

    def _place(self, name: str | int) -> int:
        if isinstance(name, str) and name in self._names:
            return self._names.index(name)
        try:
            at = int(name)
        except ValueError:
            at = -1
        if not 0 <= at < len(self._names):
            raise TreesError(
                f"there is no feature {name!r}; name one of {', '.join(self._names[:8])}, or give "
                "its number from 0"
            )
        return at

    def answer_gaps(self, inputs: str) -> Comparison:
        """Return what is found, with an example without missing values if there is one."""
        found = self.answer(inputs)
        if found.example is None or not np.isnan(found.example.input).any():
            return found
        rest = self.answer(inputs, gaps=False)
        refusals = [each for each in found.example.replays if each.refusal]
        if refusals:
            note = f"{refusals[0].library} refuses missing values, so that they are no inputs"
            return replace(rest, notes=(note, *rest.notes))
        if rest.verdict == "refuted":
            return replace(rest, difference=found.difference, closeness=found.closeness)
        scores = f"scores differ by at most {rest.difference:.3g}"
        note = f"without missing values: {rest.verdict}, {scores}"
        return replace(found, notes=(*found.notes, note))

    def answer(self, inputs: str, *, gaps: bool = True) -> Comparison:
        """Return what is found over float32 or float64 inputs, with or without missing values."""
        first, second = self.ensembles
        domain = self._inputs(single=inputs == "float32", gaps=gaps)
        search = Search(self.ensembles, self._view, domain, self._deadline, rows=self._rows)
        found = search.run(self._tolerance)
        rows = self._compare_rows(search, inputs)
        point = found.point
        is_bare = (
            first.link != second.link and self._view.plain and not (first.labels and second.labels)
        )
        if is_bare and point is None:
            point = domain.snap(np.zeros((1, first.features)))[0]
        example = None if point is None else self._example(search, found, point)
        verdict = "refuted" if is_bare else self._verdict(found, example)
        notes = self._notes(found, verdict)
        if example is not None and not all(each.expected for each in example.replays):
            verdict = "unknown"
            notes += (
                "a library answers the example otherwise than its file says; please report it",
            )
        keeps = verdict == "refuted" or self._tolerance is not None
        return Comparison(
            verdict, inputs, found.bound, 2.0 * found.bound + search.ties, self._tolerance,
            example if keeps or verdict == "unknown" else None, rows, notes, None, self._names,
            first.labels if second.labels else (),
        )  # fmt: skip

    def _verdict(self, found: Difference, example: Example | None) -> str:
        if self._tolerance is None:
            if found.same:
                return "proved"
            is_seen = example is not None and (
                example.difference > 0 or example.answers[0] != example.answers[1]
            )
            return "refuted" if is_seen else "unknown"
        if found.bound <= self._tolerance:
            return "proved"
        is_example = example is not None and example.difference > self._tolerance
        return "refuted" if is_example else "unknown"

    def _notes(self, found: Difference, verdict: str) -> tuple[str, ...]:
        first, second = self.ensembles
        notes = []
        if first.labels and second.labels and first.labels != second.labels:
            notes.append(
                f"labels are compared in their order: {first_few(first.labels, 4)} and "
                f"{first_few(second.labels, 4)}"
            )
        elif bool(first.labels) != bool(second.labels):
            notes.append("one of the two has no labels, so that scores alone are compared")
        links = {each.link for each in self.ensembles}
        if len(links) > 1 and self._view.plain:
            notes.append(
                f"scores are compared before {first.link} in the first model and {second.link} in "
                "the second"
            )
        if verdict == "unknown":
            notes.append(
                "no example was found; the bound is what is proved"
                if not self._deadline.over
                else "the time was over; give more --time or a smaller --box"
            )
        return tuple(notes)

    def _compare_rows(self, search: Search, inputs: str) -> RowsFound | None:
        if self._rows is None:
            return None
        X = self._rows.astype(np.float32).astype(np.float64) if inputs == "float32" else self._rows
        gap, explained = search.gaps(X)
        first, second = self.ensembles
        differs = near = np.zeros(len(X), bool)
        if first.labels and second.labels:
            differs = first.answers(X) != second.answers(X)
            near = ~differs & (margins(first, X) <= 2.0 * (search.rounding + gap) + search.ties)
        counts = [int(each.sum()) for each in (gap > explained, differs, near)]
        return RowsFound(len(X), counts[0], counts[1], counts[2], float(gap.max(initial=0.0)))

    def _example(self, search: Search, found: Difference, point: Floats) -> Example:
        one, other = (tuple(each.scores(point[None])[0].tolist()) for each in self.ensembles)
        answers = [
            each.labels[int(each.answers(point[None])[0])] if each.labels else ""
            for each in self.ensembles
        ]
        replays = [
            replay(given, ensemble, point)
            for given, ensemble in zip(self._given, self.ensembles, strict=True)
        ]
        return Example(
            tuple(point.tolist()), (one, other), (answers[0], answers[1]), search.apart(point),
            self._reason(search, found, point), tuple(each for each in replays if each is not None),
        )  # fmt: skip

    def _reason(self, search: Search, found: Difference, point: Floats) -> str:
        """Return where two models part at an input, and why."""
        first, second = self.ensembles
        if found.point is None:
            return f"{first.link} follows the sum in the first model, {second.link} in the second"
        pair = search.pair_at(point)
        if pair is None:
            bases = [side.base for side in search.sides]
            if not np.allclose(bases[0], bases[1], rtol=1e-6, atol=0.0):
                return f"the base values are {_numbers(bases[0])} and {_numbers(bases[1])}"
            if first.center != second.center and first.labels and second.labels:
                return (
                    f"the second label is answered above {first.center:g} in the first model and "
                    f"above {second.center:g} in the second"
                )
            return f"the models have {first.trees} and {second.trees} trees, which do not match"
        tree, there = pair
        place = f"tree {tree}" + (f" (tree {there} of the second)" if there != tree else "")
        apart = path_apart(search.sides, pair, point)
        if apart is None:
            return f"{place}: the leaves that both reach have other values"
        at, to = apart
        place += f", node {at - first.nodes.roots[tree]}"
        one, other = first.nodes, second.nodes
        if one.feature[at] != other.feature[to]:
            asked = [
                f"asks for {self._names[each]}" if each >= 0 else "has a leaf"
                for each in (one.feature[at], other.feature[to])
            ]
            return f"{place}: the first model {asked[0]}, the second {asked[1]}"
        feature = int(one.feature[at])
        name, value = self._names[feature], float(point[feature])
        if np.isnan(value):
            return f"{place}: a missing {name} goes left in one model and right in the other"
        if one.set[at] >= 0 or other.set[to] >= 0:
            return f"{place}: the category {value:g} of {name} goes left in one model only"
        ends = [float(side.nodes.threshold[n]) for side, n in zip(search.sides, apart, strict=True)]
        why = self._why(at, to, ends, value)
        return (
            f"{place}: {name} is compared with {_threshold(first, at)} and "
            f"{_threshold(second, to)}{why}"
        )

    def _why(self, at: int, to: int, ends: Sequence[float], value: float) -> str:
        first, second = self.ensembles
        one, other = float(first.nodes.threshold[at]), float(second.nodes.threshold[to])
        if first.rounds_inputs != second.rounds_inputs:
            plain, rounded = (other, ends[0]) if first.rounds_inputs else (one, ends[1])
            if float(np.float32(plain)) != plain and abs(rounded - plain) <= abs(
                np.spacing(np.float32(plain))
            ):
                return ": the float64 threshold was rounded to float32"
            if np.float64(np.float32(value)) != value:
                return ": the input is rounded to float32"
        if max(ends) == value and min(ends) == float(
            np.nextafter(np.float32(value), np.float32(-np.inf))
        ):
            return ": < in one model is <= in the other"
        return ""


def _read(given: Any) -> Ensemble:
    return read_trees(given) if isinstance(given, str | Path) else of_model(given)


def _shape(ensemble: Ensemble) -> str:
    return f"{len(ensemble.labels)} labels and {len(ensemble.base)} scores ({ensemble.source})"


def _numbers(values: Floats) -> str:
    return ", ".join(f"{each:.9g}" for each in values[:4].tolist())


def _threshold(ensemble: Ensemble, node: int) -> str:
    """Return a threshold as its own file has it, where it can be told."""
    value = float(ensemble.nodes.threshold[node])
    if not ensemble.rounds_inputs:
        return repr(value)
    near = np.float32(value)
    below = np.nextafter(near, np.float32(-np.inf))
    return repr(float(near) if float(near) <= value else float(below))


def _lines(found: Comparison) -> list[str]:
    tolerance = found.tolerance
    asked = "equal" if tolerance is None else f"equal up to {tolerance:g}"
    lines = [
        f"{found.verdict:<10}{asked} for every {found.inputs} input",
        f"{'scores':<10}differ by at most {found.difference:.3g}, rounding of sums included",
    ]
    example = found.example
    if example is None and found.verdict == "proved" and found.labels:
        lines.append(
            f"{'answers':<10}can differ only where two labels' scores are within "
            f"{found.closeness:.3g}"
        )
    if example is not None:
        lines += _example_lines(found, example)
    if found.rows is not None:
        rows = found.rows
        lines.append(
            f"{'rows':<10}{rows.rows:,}: {rows.answers_differ:,} with other answers, "
            f"{rows.differ:,} with other scores (by up to {rows.largest:.3g}), {rows.near:,} too "
            "close to a tie to tell"
        )
    lines += [f"{'note':<10}{each}" for each in found.notes]
    if found.wider is not None:
        lines += ["", *_lines(found.wider)]
    return lines


def _example_lines(found: Comparison, example: Example) -> list[str]:
    """Return the lines about an input where both differ."""
    first, second = (", ".join(f"{each:.9g}" for each in part[:4]) for part in example.scores)
    answers = f"; answers {' and '.join(example.answers)}" if all(example.answers) else ""
    lines = [f"{'example':<10}scores {first} and {second}{answers}"]
    lines.append(f"{'where':<10}{example.reason}")
    lines += [f"{'replayed':<10}{each}" for each in example.replays]
    named = [
        f"{name}={'missing' if np.isnan(value) else repr(value)}"
        for name, value in zip(found.names, example.input, strict=True)
    ]
    shown = named if len(named) <= 12 else [*named[:12], f"... ({len(named)} features; see --json)"]
    lines.append(f"{'input':<10}{', '.join(shown)}")
    return lines

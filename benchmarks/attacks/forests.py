"""Attacks on forests that forget: random scripts against training anew, and the definition."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.forest import DareForestClassifier, caches_sound, first_difference, trees_of
from leaveout.verifier.run import verify

from attacks.kind import Answer, Case, Outcome
from attacks.warm import entry_points_kept, memory_folder
from support.forest_definition import defined, nested
from support.forest_scripts import corners

__all__ = ["Forests"]

_TYPES = ["float64"] * 5 + ["float32", "float16", "int64", "int8", "uint8", "bool", ">f8"]
_LABELS = ["int", "int", "int", "text", "big", "bool", "float", "negative", "object", "continuous"]
_MOST_CELLS = 4000


class Forests:
    """A table of any layout, a script of deletions and additions, and claims about both ends."""

    name = "forests"

    def __init__(self) -> None:
        entry_points_kept()

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        rows, columns = int(rng.integers(2, 31)), int(rng.integers(1, 4))
        labels = int(rng.integers(1, 4))
        X = _table(rng, rows, columns)
        y = rng.integers(0, labels, rows)
        if rng.random() < 0.5:
            y = (X[:, 0] + rng.normal(size=rows) * 0.3 > np.median(X[:, 0])).astype(int)
        return {
            "X": X.tolist(),
            "y": y.tolist(),
            "type": _TYPES[rng.integers(len(_TYPES))],
            "labels": _LABELS[rng.integers(len(_LABELS))],
            "layout": ["C", "F", "strided", "reversed"][rng.integers(4)],
            "frozen": bool(rng.random() < 0.3),
            "settings": {
                "n_estimators": int(rng.integers(1, 3)),
                "max_depth": [None, 1, 3, 8][rng.integers(4)],
                "k": int(rng.choice([1, 2, 5, 20])),
                "d_rmax": int(rng.choice([0, 0, 1, 3])),
                "q": float(rng.choice([1.0, 1.0, 0.1, 0.3, 0.5])),
                "lazy": bool(rng.integers(2)),
                "max_features": int(rng.integers(1, columns + 1)),
                "criterion": ["gini", "entropy"][rng.integers(2)],
                "min_samples_split": int(rng.choice([2, 2, 5])),
                "random_state": int(rng.integers(2**32)),
            },
            "script": [_step(rng, X) for _ in range(int(rng.integers(1, 6)))],
            "claims": bool(rng.random() < 0.3),
            "sides": sorted(float(side) for side in rng.choice([-3, -1, 0, 0.5, 1, 2, 4], 2)),
            "damage": _damage(rng) if rng.random() < 0.1 else None,
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        label = f"{case['type']} {case['layout']}, labels {case['labels']}"
        X, y = _given(case)
        before = X.tobytes(), y.tobytes()
        try:
            forest = DareForestClassifier(**case["settings"]).fit(X, y)
        except ForestError as error:
            return Outcome(label, "refused", _message(str(error)))
        except ValueError as error:
            # As of every estimator, scikit-learn itself refuses some tables.
            if not str(error).startswith(("Unknown label type", "Input X contains")):
                raise
            return Outcome(label, "refused")
        with tempfile.TemporaryDirectory(dir=memory_folder()) as at:
            wrong = _defined(forest, X, y)
            begun = forest
            if wrong is None:
                forest, wrong = _played(case, copy.deepcopy(begun), X, y, Path(at))
            if (X.tobytes(), y.tobytes()) != before:
                wrong = "caller: what was given is changed"
            answer: Answer = "proved"
            if wrong is None and case["damage"]:
                label, answer, wrong = "a damaged file", *_damaged(case, forest, Path(at))
            elif wrong is None and case["claims"]:
                label, answer, wrong = "claims", *_claimed(case, begun, forest, Path(at))
        return Outcome(label, answer, wrong)

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for at in range(len(case["script"])):
            yield {**case, "script": case["script"][:at] + case["script"][at + 1 :]}
        rows = len(case["X"])
        for size in (rows // 2, rows // 4, 1):
            for start in range(0, rows, size) if 0 < size < rows else ():
                X = case["X"][:start] + case["X"][start + size :]
                y = case["y"][:start] + case["y"][start + size :]
                yield {**case, "X": X, "y": y}
        for name, plain in (
            ("frozen", False),
            ("type", "float64"),
            ("layout", "C"),
            ("labels", "int"),
        ):
            if case[name] != plain:
                yield {**case, name: plain}
        if case["settings"]["n_estimators"] > 1:
            yield {**case, "settings": case["settings"] | {"n_estimators": 1}}


def _table(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.float64]:
    kinds = (
        lambda: rng.integers(0, 2, rows),
        lambda: np.full(rows, 3.0),
        lambda: rng.integers(-3, 4, rows),
        lambda: rng.random(rows),
        lambda: rng.normal(size=rows).round(1),
        lambda: rng.choice([0.0, -0.0, 1.0, 5e-324, -5e-324, 1e-300], rows),
        lambda: rng.choice([1.0, 1.0 - 2.0**-53, 1.0 + 2.0**-52], rows),
        lambda: rng.integers(-rows, rows + 1, rows) * 1e200,
    )
    X = np.stack([np.asarray(kinds[rng.integers(len(kinds))](), float) for _ in range(columns)], 1)
    return X[rng.integers(0, rows, rows)] if rng.random() < 0.3 else X


def _step(rng: np.random.Generator, X: NDArray[np.float64]) -> list[Any]:
    """Draw one step; rows are named by numbers that are taken modulo what is there."""
    turn = rng.random()
    if turn < 0.55:
        return ["delete", *(int(i) for i in rng.integers(0, 1000, int(rng.integers(1, 5))))]
    if turn < 0.75:
        rows = X[rng.integers(0, len(X), int(rng.integers(1, 4)))]
        if rng.random() < 0.3:
            rows = rows + rng.normal(size=rows.shape).round(1)
        return ["add", rows.tolist(), [int(i) for i in rng.integers(0, 3, len(rows))]]
    return [["file", "copy", "cost", "predict"][rng.integers(4)], int(rng.integers(0, 1000))]


def _damage(rng: np.random.Generator) -> list[float]:
    return [float(rng.random()), int(rng.integers(1, 256)), int(rng.integers(2))]


def _given(case: Case) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lay the table out in memory as the case says."""
    with np.errstate(all="ignore"):
        X = np.array(case["X"], dtype=np.float64).astype(case["type"])
    if case["layout"] == "F":
        X = np.asfortranarray(X)
    elif case["layout"] == "strided":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    elif case["layout"] == "reversed":
        X = np.ascontiguousarray(X[::-1])[::-1]
    y = _labels(case, case["y"])
    if case["frozen"]:
        X.flags.writeable = y.flags.writeable = False
    return X, y


def _labels(case: Case, codes: list[int]) -> NDArray[Any]:
    kinds: dict[str, Any] = {
        "int": np.arange(8),
        "text": np.array(["no", "yes", "ä b", "", "x", "y", "z", "w"]),
        "big": 2**53 + np.arange(8),
        "bool": np.arange(8) % 2 == 1,
        "float": np.array([0.0, -0.0, 1e300, 3.0, 4.0, 5.0, 6.0, 7.0]),
        "continuous": np.arange(8) / 2,
        "negative": -np.arange(8),
        "object": np.array(["no", "yes", "maybe", "d", "e", "f", "g", "h"], dtype=object),
    }
    found: NDArray[Any] = kinds[case["labels"]][codes]
    return found


def _message(text: str) -> str | None:
    return f"message: {text!r}" if "\n" in text or not text.strip() else None


def _defined(forest: DareForestClassifier, X: NDArray[Any], y: NDArray[Any]) -> str | None:
    """Compare the trees with those that a page of plain Python defines."""
    exact = np.asarray(X, dtype=np.float64) + 0.0
    if [nested(tree) for tree in trees_of(forest)] != defined(forest, exact, y):
        return "definition: fit grows other trees than defined"
    return None


def _played(
    case: Case, forest: DareForestClassifier, X: NDArray[Any], y: NDArray[Any], at: Path
) -> tuple[DareForestClassifier, str | None]:
    """Play the script; after each step the forest is the one trained on what is left."""
    for step in case["script"]:
        rows = forest.rows_
        if step[0] == "delete":
            chosen = sorted({int(rows[i % len(rows)]) for i in step[1:]})[: len(rows) - 1]
            if chosen:
                forest.delete(chosen)
        elif step[0] == "add":
            labels = _labels(case, step[2])
            labels = labels[np.isin(labels, forest.classes_)]
            if len(labels):
                with np.errstate(all="ignore"):
                    added = np.array(step[1][: len(labels)]).astype(X.dtype)
                added.flags.writeable = not case["frozen"]
                before = added.tobytes()
                forest.add(added, labels)
                if added.tobytes() != before:
                    return forest, "caller: the rows to add are changed"
        elif step[0] == "file":
            forest.save(at / "forest.npz")
            forest = DareForestClassifier.load(at / "forest.npz")
        elif step[0] == "copy":
            forest = copy.deepcopy(forest)
        elif step[0] == "cost":
            forest.deletion_cost(int(rows[step[1] % len(rows)]))
        elif not np.isfinite(forest.predict_proba(X)).all():
            return forest, "predict: shares are not finite"
        anew = forest.retrain()
        difference = first_difference(forest, anew)
        if difference is not None:
            return forest, f"retraining: after {step[0]} {difference}"
        if not np.array_equal(forest.predict(X), anew.predict(X)):
            return forest, f"retraining: after {step[0]} it predicts otherwise"
        if forest.predict_proba(X).tobytes() != anew.predict_proba(X).tobytes():
            return forest, f"retraining: after {step[0]} it gives other shares"
        unsound = caches_sound(forest)
        if unsound is not None:
            return forest, f"caches: after {step[0]} {unsound}"
    return forest, None


def _damaged(case: Case, forest: DareForestClassifier, at: Path) -> tuple[Answer, str | None]:
    """Change a byte of a file, or cut it: one error, or the same forest."""
    path = at / "damaged.npz"
    forest.save(path)
    content = bytearray(path.read_bytes())
    place, mask, is_cut = (
        int(case["damage"][0] * len(content)),
        case["damage"][1],
        case["damage"][2],
    )
    content[place] ^= mask
    path.write_bytes(content[:place] if is_cut else content)
    try:
        again = DareForestClassifier.load(path)
    except ForestError as error:
        return "refused", _message(str(error))
    difference = first_difference(forest, again)
    return "proved", None if difference is None else f"damaged: accepted: {difference}"


def _claimed(
    case: Case, begun: DareForestClassifier, ended: DareForestClassifier, at: Path
) -> tuple[Answer, str | None]:
    """Let specifications speak of the first and the last forest."""
    begun.save(at / "forest.npz")
    ended.save(at / "other.npz")
    rows = begun.rows_
    several = [int(rows[i % len(rows)]) for i in (3, 17, 5)]
    chosen = list(dict.fromkeys(several))[: len(rows) - 1]
    if not chosen:
        return "unknown", None
    (at / "deletions.csv").write_text("row\n" + " ".join(map(str, chosen)) + "\n")
    low, high = case["sides"]
    if low == high:
        high = low + 1.0
    (at / "a.spec").write_text(
        'let T = forest("forest.npz") let U = forest("other.npz")\n'
        'guarantee exact: forall z in points("deletions.csv"): unlearn(T, z) == retrain(T, z)\n'
        "guarantee sound: caches_sound(T) and caches_sound(U)\n"
        "guarantee equal: T == U\n"
        f"guarantee same: same_function(T, U, box({low}, {high}))\n"
    )
    verdicts = {result.name: result.verdict for result in verify(at / "a.spec").results}
    for name in ("exact", "sound"):
        if verdicts[name] != "proved":
            return "refuted", f"claims: {name} is {verdicts[name]}"
    if (verdicts["equal"] == "proved") != (first_difference(begun, ended) is None):
        return "refuted", f"claims: T == U is {verdicts['equal']}"
    sides = np.full(begun.n_features_in_, low), np.full(begun.n_features_in_, high)
    if _cells((begun, ended), *sides) > _MOST_CELLS:
        return "unknown", None
    cells = corners((begun, ended), *sides)
    alike = bool((begun.predict(cells) == ended.predict(cells)).all())
    if verdicts["same"] == ("refuted" if alike else "proved"):
        return verdicts[
            "same"
        ], f"claims: same_function is {verdicts['same']}, where alike = {alike}"
    answer: Answer = verdicts["same"]
    return answer, None


def _cells(
    forests: tuple[DareForestClassifier, ...],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> float:
    """How many cells `corners` would find, at most."""
    found = 1.0
    for at in range(len(lower)):
        cuts = {
            float(cut)
            for forest in forests
            for tree in forest.ensemble().trees
            for cut in tree.threshold[tree.feature == at]
        }
        found *= 1 + sum(lower[at] <= cut < upper[at] for cut in cuts)
    return found if math.isfinite(found) else math.inf

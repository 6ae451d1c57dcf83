"""Attacks on folders of forests: deletions and additions that are ended anywhere."""

from __future__ import annotations

import copy
import csv
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.models.family import FAMILY
from leaveout.models.forest import DareForestClassifier, PlainTree
from leaveout.models.forest.family import load_forest_family
from leaveout.models.forest.folders import ForestFolder, add_rows, delete_rows, train_forest
from leaveout.verifier.guard.loading import load_subject

from attacks.kind import Case, Outcome
from attacks.warm import memory_folder
from support.crashes import Call, Kept, contents, ended_at, holding, lost, recorded, restored

__all__ = ["Deletions"]

_COLUMNS = ("person", "a", "b", "ill")


class Deletions:
    """People come and go; a change is cut short or loses power, and is asked for again."""

    name = "deletions"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        count = int(rng.integers(5, 16))
        numbers = rng.choice(10**9, (count, 2), replace=False).tolist()
        return {
            "named": bool(rng.random() < 0.7),
            "people": [
                [
                    f"Q{a:09d}z",
                    f"{a / 10**6!r}",
                    f"-{b / 10**6!r}",
                    "ny"[(at + int(rng.integers(2)) * (at > 1)) % 2],
                ]
                for at, (a, b) in enumerate(numbers)
            ],
            "first": int(rng.integers(4, count + 1)),
            "settings": {
                "n_estimators": int(rng.integers(1, 4)),
                "max_depth": [None, 1, 3][rng.integers(3)],
                "k": int(rng.choice([1, 5])),
                "random_state": int(rng.integers(100)),
            },
            "guarded": bool(rng.random() < 0.5),
            "steps": [_step(rng, count) for _ in range(int(rng.integers(1, 4)))],
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
            return _Clinic(case, Path(name)).run()

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for at in range(len(case["steps"])):
            yield {**case, "steps": case["steps"][:at] + case["steps"][at + 1 :]}
        for at, step in enumerate(case["steps"]):
            smaller = {"how": "process", "between": "nothing", "people": step["people"][:1]}
            for key, value in smaller.items():
                if step[key] != value:
                    changed = copy.deepcopy(case)
                    changed["steps"][at][key] = value
                    yield changed
        if case["guarded"]:
            yield {**case, "guarded": False}
        if case["settings"]["n_estimators"] > 1:
            yield {**case, "settings": {**case["settings"], "n_estimators": 1}}


def _step(rng: np.random.Generator, count: int) -> dict[str, Any]:
    some = rng.permutation(count)[: int(rng.integers(1, 4))]
    return {
        "op": "delete" if rng.random() < 0.7 else "add",
        "people": some.tolist(),
        "how": "power" if rng.random() < 0.5 else "process",
        "at": float(rng.random()),
        "seed": int(rng.integers(2**32)),
        "between": ["nothing", "read", "guard"][rng.integers(3)],
    }


class _Clinic:
    """One case: the folder, and who must be in it."""

    def __init__(self, case: Case, place: Path) -> None:
        self.case, self.place, self.folder = case, place, place / "clinic"
        self.people: list[list[str]] = case["people"]
        self.held = list(range(min(case["first"], len(self.people))))
        self.called = dict(enumerate(self.held))
        self.labels: list[str] = []

    def run(self) -> Outcome:
        train_forest(
            self._table(self.held), self.folder, label="ill", identity=self._identity,
            forest=DareForestClassifier(**self.case["settings"]), test_share=0,
        )  # fmt: skip
        numbers = {who: str(at) for at, who in enumerate(self.held)}
        following = len(self.held)
        if self.case["guarded"]:
            load_subject(self.folder)
        for step in self.case["steps"]:
            if step["op"] == "delete":
                some = [who for who in step["people"] if who in self.held]
                if not some or len(self.held) - len(some) < 2:
                    continue
                rows = [self.people[who][0] if self._identity else numbers[who] for who in some]
                after = [who for who in self.held if who not in some]
                wrong = self._changed(step, lambda rows=rows: delete_rows(self.folder, rows), after)
            else:
                some = [who for who in step["people"] if who not in self.held]
                if not some:
                    continue
                table = self._table(some, "new.csv")
                after = [*self.held, *some]
                numbers |= {who: str(following + at) for at, who in enumerate(some)}
                following += len(some)
                wrong = self._changed(step, lambda table=table: add_rows(self.folder, table), after)
            if wrong is not None:
                return Outcome(self._label, "refuted", wrong)
        return Outcome(self._label, "proved")

    @property
    def _label(self) -> str:
        return " ".join(sorted(set(self.labels))) or "nothing to change"

    @property
    def _identity(self) -> str | None:
        return "person" if self.case["named"] else None

    def _table(self, who: list[int], name: str = "t.csv") -> Path:
        first = 0 if self._identity else 1
        with (self.place / name).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(_COLUMNS[first:])
            writer.writerows(self.people[each][first:] for each in who)
        return self.place / name

    def _changed(
        self, step: dict[str, Any], action: Callable[[], Any], after: list[int]
    ) -> str | None:
        """Cut a change short, look, and ask for it again; return what is wrong."""
        before, held = contents(self.folder), self.held
        calls = recorded(action)
        self.held = after
        if (wrong := self._wrong()) is not None:
            return wrong
        number = int(step["at"] * (len(calls) + 1))
        restored(before, self.folder)
        if step["how"] == "process":
            is_done = not ended_at(action, number)
        else:
            is_done = number == len(calls)
            restored(_kept(before, self.folder, calls, number, step["seed"]), self.folder)
        try:
            if step["between"] == "guard":
                load_subject(self.folder)
            found = ForestFolder.read(self.folder) if step["between"] != "nothing" else None
            if found is not None:
                is_after = len(found.forest.rows_) == len(after)
                self.held = after if is_after else held
                if (wrong := self._wrong(cleared=False)) is not None:
                    return f"between: {wrong}"
                self.held = after
            if not is_done:
                done = action()
                self.labels.append(f"{step['op']}, {'finished' if done.is_finished else 'anew'}")
        except LeaveoutError as error:
            return f"not finished: {step['op']}, call {number} of {len(calls)}: {error}"
        return self._wrong()

    def _wrong(self, *, cleared: bool = True) -> str | None:
        """Hold the folder against a forest of the people held, and look for all others."""
        forest = ForestFolder.read(self.folder).forest.ensemble()
        X = np.array([[float(number) for number in self.people[who][1:3]] for who in self.held])
        y = [self.people[who][3] for who in self.held]
        anew = DareForestClassifier(**self.case["settings"]).fit(X, y).ensemble()
        same = np.array_equal(forest.X, anew.X)
        same &= np.array_equal(forest.classes[forest.y], anew.classes[anew.y])
        for mine, other in zip(forest.trees, anew.trees, strict=True):
            for each in fields(PlainTree):
                same &= np.array_equal(getattr(mine, each.name), getattr(other, each.name))
        if not same:
            return "another forest: not the one trained without the rows"
        words = []
        for who, person in enumerate(self.people):
            if who not in self.held:
                words += [text.lstrip("-").encode() for text in person[:3]]
                words += [np.float64(float(number)).tobytes() for number in person[1:3]]
        left = holding(self.folder, words) if cleared else set()
        family = self.folder / FAMILY
        if family.exists() and load_forest_family(family, forest) is None:
            left.add(FAMILY)
        return f"left over: in {', '.join(sorted(left))}" if left else None


def _kept(before: Kept, folder: Path, calls: list[Call], number: int, seed: int) -> Kept:
    """Return what a loss of power before a call leaves, one of all that it may."""
    rng = np.random.default_rng(seed)
    found = [kept for at, kept in lost(before, folder, calls[:number], rng) if at == number]
    return found[int(rng.integers(len(found)))]

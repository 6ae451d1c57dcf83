"""One program on one data set, in a process of its own, which prints what it measured as JSON.

A line after training, after single deletions and after the batch: each has what the one before it
has, and more.

    python benchmarks/forest_driver.py PROGRAM FOLDER SETTINGS

PROGRAM is ``ours``, ``sklearn`` or ``dare``; the interpreter must have that library and numpy, and
may be an older one. FOLDER holds arrays as ``forest_data.write_split`` writes them; SETTINGS is a
JSON object. Times are seconds of this process's processor time, all its threads together.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


class Ours:
    """`DareForestClassifier`, with a row in a share ``q`` of the trees, ``lazy`` or eager."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from leaveout.models.forest import DareForestClassifier

        known = inspect.signature(DareForestClassifier).parameters
        more = {"q": settings["q"], "lazy": settings["lazy"]}
        usual = {"q": 1.0, "lazy": False}
        more = {name: value for name, value in more.items() if value != usual[name]}
        missing = [name for name in more if name not in known]
        if missing:
            raise LookupError(f"DareForestClassifier has no parameter {missing[0]!r} here")
        more.update({name: usual[name] for name in usual if name in known and name not in more})
        self.make = lambda: DareForestClassifier(
            settings["trees"], max_depth=settings["depth"], k=settings["k"],
            d_rmax=settings["random_depth"], min_samples_split=settings["least"], random_state=1,
            n_jobs=1, **more,
        )  # fmt: skip

    def warm(self) -> None:
        """Have every kernel compiled, or read from disk."""
        rng = np.random.default_rng(0)
        X, y = rng.random((400, 3)), rng.integers(0, 2, 400)
        X[:, 0] = X[:, 0] > 0.5
        forest = self.make().fit(X, y)
        forest.predict_proba(X)
        for row in range(60):
            forest.delete(row)
            forest.predict_proba(X[:1])
        forest.delete(list(range(60, 70)))
        forest.deletion_cost(100)
        forest.predict_proba(X)

    def fit(self, X: Any, y: Any) -> None:
        """Train."""
        self.forest = self.make().fit(X, y)

    def delete(self, rows: Any) -> None:
        """Delete a row, or several at once."""
        self.forest.delete(rows)

    def cost(self, row: int) -> int:
        """Return how many rows would be regrown."""
        return self.forest.deletion_cost(row)

    def shares(self, X: Any) -> Any:
        """Return the share of label 1."""
        return self.forest.predict_proba(X)[:, 1]

    def own(self) -> int:
        """Return bytes by the program's own count, the data's included."""
        return sum(self.forest.memory().values())

    def check(self) -> str:
        """Say whether the forest equals the one trained on what is left."""
        from leaveout.models.forest import first_difference

        return first_difference(self.forest, self.forest.retrain()) or "yes"


class Dare:
    """The paper's authors' program, which must be installed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        import dare

        self.forest = dare.Forest(
            topd=settings["random_depth"], k=settings["k"], n_estimators=settings["trees"],
            max_depth=settings["depth"], min_samples_split=settings["least"], random_state=1,
        )  # fmt: skip

    def warm(self) -> None:
        """Nothing is compiled when it runs."""

    def fit(self, X: Any, y: Any) -> None:
        """Train."""
        self.forest.fit(X, y)

    def delete(self, rows: Any) -> None:
        """Delete a row, or several at once."""
        self.forest.delete(rows)

    def cost(self, row: int) -> int:
        """Return how many rows would be regrown."""
        return int(self.forest.sim_delete(row))

    def shares(self, X: Any) -> Any:
        """Return the share of label 1."""
        return self.forest.predict_proba(X)[:, 1]

    def own(self) -> int:
        """Return bytes by the program's own count, which leaves the data out."""
        return int(sum(self.forest.get_memory_usage()))


class Sklearn:
    """scikit-learn's random forest, which deletes nothing."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from sklearn.ensemble import RandomForestClassifier

        self.forest = RandomForestClassifier(
            settings["trees"], max_depth=settings["depth"], random_state=1, n_jobs=1,
            min_samples_split=settings["least"],
        )  # fmt: skip

    def warm(self) -> None:
        """Nothing is compiled when it runs."""

    def fit(self, X: Any, y: Any) -> None:
        """Train."""
        self.forest.fit(X, y)

    def shares(self, X: Any) -> Any:
        """Return the share of label 1."""
        return self.forest.predict_proba(X)[:, 1]

    def own(self) -> None:
        """Return nothing: it does not count."""


PROGRAMS = {"ours": Ours, "sklearn": Sklearn, "dare": Dare}


def resident(what: str = "VmRSS") -> int:
    """Return the bytes this process holds in memory, or held at most (``VmHWM``)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def forget_peak() -> None:
    """Have what is held at most counted from here on, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def tell(found: dict[str, Any]) -> None:
    """Print what was measured so far."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def measure(program: Any, folder: Path, settings: dict[str, Any]) -> None:
    """Print what the program takes."""
    arrays = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    X, y, X_test = arrays["X"], arrays["y"], arrays["X_test"]
    program.warm()
    forget_peak()
    before, start = resident(), time.process_time()
    program.fit(X, y)
    found: dict[str, Any] = {"fit": time.process_time() - start}
    found["held"] = resident() - before
    found["peak"] = resident("VmHWM") - before
    found["own"] = program.own()
    program.shares(X_test).astype(np.float64).tofile(folder / "shares.f8")
    tell(found)
    if not hasattr(program, "delete"):
        return
    found["times"] = _single(program, arrays, settings)
    tell(found)
    if not settings["worst"]:
        probe = X_test[arrays["probe"]]
        # What earlier deletions put off is paid before.
        program.shares(probe)
        start = time.process_time()
        program.delete(arrays["batch"])
        program.shares(probe)
        found["batch"] = time.process_time() - start
    found["peak"] = resident("VmHWM") - before
    if settings["check"] and hasattr(program, "check"):
        found["check"] = program.check()
    tell(found)


def _single(program: Any, arrays: dict[str, Any], settings: dict[str, Any]) -> list[float]:
    """Delete rows one by one, the next prediction of a test row included; the seconds of each."""
    X_test, times = arrays["X_test"], []
    end = time.process_time() + settings["seconds"]
    left = arrays["single"].tolist()
    rng = np.random.default_rng(11)
    for asked in arrays["asked"].tolist():
        row = left.pop(0)
        if settings["worst"]:
            left.append(row)
            drawn = rng.choice(left, min(settings["worst"], len(left)), replace=False).tolist()
            row = max(drawn, key=program.cost)
            left.remove(row)
        start = time.process_time()
        program.delete(row)
        program.shares(X_test[asked : asked + 1])
        now = time.process_time()
        times.append(now - start)
        if now > end or not left:
            break
    return times


def main() -> None:
    """Measure one program."""
    name, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    try:
        program = PROGRAMS[name](settings)
    except (ImportError, LookupError) as error:
        tell({"missing": str(error)})
    else:
        measure(program, folder, settings)


if __name__ == "__main__":
    main()

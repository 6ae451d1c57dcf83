"""Training of a library's trees without some rows each, in one or more processes.

Run as a program it is a worker: it reads `Work`, then rows, and replies to each with the member
without it, or with why there is none.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from leaveout.arrays import Floats, Integers
from leaveout.children import ChildLostError, ChildPool, import_environment
from leaveout.cores import cores
from leaveout.errors import TreesError, cause
from leaveout.frames import follow, own_channel, read_frame, write_frame
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.reading import of_model

_WORKER = "leaveout.models.boosting.members"

Fit = Callable[..., Any]
"""``fit(X, y)`` or ``fit(X, y, seed)`` returns a fitted model of a library of trees."""


@dataclass(frozen=True, eq=False)
class Work:
    """The rows, and how a model is trained on some of them."""

    fit: Fit
    X: Floats
    y: Integers
    units: Integers
    labels: tuple[str, ...]

    def ensemble(self, kept: Any, said: str) -> Ensemble:
        """Train on some rows."""
        X, labels = self.X[kept], self.labels
        try:
            model = self.fit(X.copy(), self.y[kept].copy())
        except TreesError:
            raise
        except Exception as error:
            raise TreesError(f"fit failed on {said}: {cause(error)}") from None
        found = of_model(model)
        if found.features != X.shape[1]:
            raise TreesError(
                f"fit returned a model of {found.features} features, X has {X.shape[1]}"
            )
        if len(found.labels) != len(labels):
            raise TreesError(
                f"fit returned a model of {len(found.labels)} labels for {len(labels)}"
            )
        return replace(found, labels=labels)

    def member(self, row: int) -> Ensemble:
        """Train the member without a row, or group."""
        kept = self.units != row
        if set(self.y[kept].tolist()) != set(self.y.tolist()):
            raise TreesError(
                f"without row or group {row} a label has no rows left; leave that label out"
            )
        return self.ensemble(kept, f"the rows without {row}")

    def members(self, removed: Integers, workers: int | None) -> Iterator[tuple[int, Ensemble]]:
        """Yield each member with its place, as they are trained."""
        many, rows = min(workers or cores(), len(removed)), removed.tolist()
        if many <= 1:
            yield from ((at, self.member(row)) for at, row in enumerate(rows))
            return
        place = {row: at for at, row in enumerate(rows)}
        task = replace(self, fit=_Packed.of(self.fit))
        try:
            with ChildPool(_WORKER, many, task, import_environment()) as pool:
                for row, found in pool.work(rows):
                    if isinstance(found, str):
                        raise TreesError(found)
                    yield place[row], found
        except ChildLostError as error:
            raise TreesError(
                f"a process that trains members ended on its own ({error}): give them more memory "
                "or take fewer workers"
            ) from None


@dataclass(frozen=True)
class _Packed:
    """A function with all that it uses, even a script's own; not called as it is."""

    packed: bytes

    @classmethod
    def of(cls, fit: Fit) -> Any:
        import cloudpickle

        try:
            return cls(cloudpickle.dumps(fit))
        except Exception as error:
            raise TreesError(
                f"fit cannot be sent to another process ({cause(error)}): define what it needs "
                "inside it, or in a module, or take workers=1"
            ) from None

    def unpack(self) -> Fit:
        import cloudpickle

        found: Fit = cloudpickle.loads(self.packed)
        return found


def main() -> None:
    """Train the members that the parent requests, until it exits."""
    requests, answers = own_channel()
    work = read_frame(requests, Work)
    rows: queue.SimpleQueue[int] = queue.SimpleQueue()
    follow(requests, int, rows.put)
    assert isinstance(work.fit, _Packed)
    work = replace(work, fit=work.fit.unpack())
    while True:
        try:
            answer: Ensemble | str = work.member(rows.get())
        except TreesError as error:
            answer = str(error)
        write_frame(answers, answer)


if __name__ == "__main__":
    # Under its importable name, so that messages have the classes the parent knows.
    from leaveout.models.boosting import members

    members.main()

"""Label-only access to a model that reveals nothing of any one training point."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.encoders import Box
from leaveout.errors import GuardError
from leaveout.models.forest.plain import Rows
from leaveout.models.sharded.aggregation import draw_exponential, operating_system
from leaveout.models.table import is_frame
from leaveout.models.train.encoding import Encoding
from leaveout.verifier.guard.access import MEMORY
from leaveout.verifier.guard.inputs import BoxDomain, Glance, Point, encode_inputs, key_of
from leaveout.verifier.guard.loading import change_rows, delete_rows, load_subject
from leaveout.verifier.guard.memory import Account, FullError, Memory, SpentError, UnusableError
from leaveout.verifier.guard.subject import GuardSettings, OnProgress, Subject

_MOST_SEEDED = 32


def draw_noisy_label(label: int, labels: int, epsilon: float, chance: random.Random) -> int:
    """Draw a label: Pr[c] ~ exp(epsilon u_c / 2), u = 1 for one, else 0 (LUCID, section 3.2)."""
    return draw_exponential([int(each == label) for each in range(labels)], epsilon, chance)


def randomness(seed: int | None) -> Callable[[bytes], random.Random]:
    """Return the random source per input: the system's, or of a seed and the input alone."""
    if seed is None:
        system = operating_system()
        return lambda _: system
    key = seed.to_bytes(_MOST_SEEDED, "big", signed=True)
    return lambda given: random.Random(hashlib.blake2b(given, key=key, digest_size=32).digest())


REFUSED = -1  # stands for a label where an input is refused


class Look(NamedTuple):
    """What is known of an input before any draw."""

    label: int  # the answer; or if one is to be drawn, what it is drawn with a preference for
    drawn: bool


class Answering:
    """Answers inputs for any subject with one memory; safe to share among threads."""

    def __init__(self, settings: GuardSettings, memory: Memory, *, moved: bool) -> None:
        self.memory, self.moved = memory, moved
        self.closed: GuardError | None = None
        self._settings = settings
        self._draws = randomness(settings.seed)
        self._close_if_spent()

    def move(self, inputs: str) -> None:
        """Continue with other inputs that may be noised; see `Memory.move`."""
        self.memory.move(inputs)
        self.moved = self.moved or self.memory.inputs != inputs

    def refuse_if_closed(self) -> None:
        """Raise on every input once some can no longer be answered."""
        if self.closed is not None:
            # Were only some inputs refused, it would tell which ones leak.
            raise type(self.closed)(str(self.closed))

    def look(self, subject: Subject, point: Point) -> Look:
        """Inspect an input without drawing."""
        inside = subject.domain.contains(point)
        seen = subject.leaks.glance(point) if inside else None
        look = self._at_once(seen)
        if look is not None:
            return look
        known = self._recall([point])[0]
        if known is not None:
            return Look(known, drawn=False)
        if seen is None:
            return Look(subject.leaks.label(point), drawn=True)
        leaks = not seen.is_clear and subject.leaks.leaks(point, seen)
        return Look(seen.label, drawn=leaks)

    def look_at(self, subject: Subject, points: NDArray[np.floating]) -> list[Look]:
        """Inspect inputs together, each as `look` would; errors give the index."""
        self.refuse_if_closed()
        inside = np.zeros(len(points), bool)
        for at, point in enumerate(points):
            try:
                inside[at] = subject.domain.contains(point)
            except GuardError as error:
                raise GuardError(f"input {at}: {error}") from None
        seen = dict(
            zip(np.flatnonzero(inside).tolist(), subject.leaks.glances(points[inside]), strict=True)
        )
        looks = [self._at_once(seen.get(at)) for at in range(len(points))]
        left = [at for at, look in enumerate(looks) if look is None]
        known = self._recall([points[at] for at in left]) if left else []
        asked = []
        for at, answer in zip(left, known, strict=True):
            if answer is not None:
                looks[at] = Look(answer, drawn=False)
            elif at not in seen:
                looks[at] = Look(subject.leaks.label(points[at]), drawn=True)
            elif seen[at].is_clear:
                looks[at] = Look(seen[at].label, drawn=False)
            else:
                asked.append(at)
        leaks = subject.leaks.leaks_at(points[asked], [seen[at] for at in asked])
        for at, leak in zip(asked, leaks.tolist(), strict=True):
            looks[at] = Look(seen[at].label, drawn=leak)
        return [look for look in looks if look is not None]

    def _at_once(self, seen: Glance | None) -> Look | None:
        """Return what needs neither memory nor members; None outside the box."""
        if seen is None:
            return Look(REFUSED, drawn=False) if self._settings.outside == "refuse" else None
        if seen.is_clear and not self.moved:
            return Look(seen.label, drawn=False)
        return None

    def give(
        self, subject: Subject, points: Sequence[Point] | NDArray[np.floating], looks: list[Look]
    ) -> NDArray[np.int64]:
        """Return answers; drawn ones are on disk by then."""
        found = np.asarray([look.label for look in looks], np.int64)
        drawn = [at for at, look in enumerate(looks) if look.drawn]
        if drawn:
            own = found[drawn].tolist()
            found[drawn] = self._draw_answers([points[at] for at in drawn], own, subject.labels)
        return found

    def _close_if_spent(self) -> None:
        """Close at the start if no further noised answer is affordable."""
        settings, account = self._settings, self.memory.account()
        try:
            account.afford(settings.epsilon, settings.cap, settings.remember, self.memory.path)
        except FullError as error:
            self.closed = error
        except SpentError as error:
            self.closed = error if settings.when_spent == "refuse" else None

    def _recall(self, points: Sequence[Point]) -> list[int | None]:
        """Return the remembered answers to points; None where there is none."""
        try:
            return self.memory.recall([key_of(point) for point in points])
        except UnusableError as error:
            self.closed = error
            raise

    def _draw_answers(self, points: list[Point], own: list[int], labels: int) -> list[int]:
        """Return noised answers, remembered or new, once they are on disk."""
        inputs = [key_of(point) for point in points]

        def draw(at: int, epsilon: float) -> int:
            return draw_noisy_label(own[at], labels, epsilon, self._draws(inputs[at]))

        settings = self._settings
        try:
            return self.memory.answer(
                inputs,
                draw,
                epsilon=settings.epsilon,
                cap=settings.cap,
                uniform=settings.when_spent == "uniform",
                remember=settings.remember,
            )
        except (SpentError, FullError, UnusableError) as error:
            self.closed = error
            raise


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a guard knows of inputs; for the owner only, since a guard hides it.

    Attributes
    ----------
    labels : ndarray of int64, shape (n,)
        That N answers.
    leaks : ndarray of bool, shape (n,)
        Whether some member answers otherwise, or ties; False outside the box, where it is not
        known.
    tiers : ndarray of int64, shape (n,)
        0 outside the box; 1 where the proved bound tells, 2 where members were asked and all
        agree, 3 for leaks.
    outside : tuple of str
        Of each input where it leaves the box, in the units of the data where these are known;
        empty inside. It tells ranges of the training data, which asking tells slowly.
    """

    labels: NDArray[np.int64]
    leaks: NDArray[np.bool_]
    tiers: NDArray[np.int64]
    outside: tuple[str, ...]

    @classmethod
    def of(cls, subject: Subject, points: NDArray[Any]) -> Inspection:
        """Inspect inputs as the subject reads them, without drawing or remembering."""
        inside = np.asarray([subject.domain.contains(point) for point in points], bool)
        findings = iter(subject.leaks.find_all(points[inside]))
        labels, leaks, tiers, outside = [], [], [], []
        for point, within in zip(points, inside.tolist(), strict=True):
            finding = next(findings) if within else None
            labels.append(finding.label if finding else subject.leaks.label(point))
            leaks.append(finding is not None and finding.leak)
            tiers.append(0 if finding is None else 3 if finding.leak else finding.tier)
            outside.append("" if finding else subject.where_outside(point))
        return cls(
            np.asarray(labels, np.int64),
            np.asarray(leaks, bool),
            np.asarray(tiers, np.int64),
            tuple(outside),
        )


class Guard:
    """Answers with labels, noised where retraining without one row could change them.

    Made by `load`. Safe to share among threads; processes may share the memory.

    Parameters
    ----------
    subject : Subject
    settings : GuardSettings
    memory : Memory

    Notes
    -----
    LUCID (Kabaha and Drachsler-Cohen), section 3.2, with an exact test of leaks in place of the
    bound alone: an input whose confidence exceeds the proved bound of its label is answered as
    it is; of others the members whose own bound reaches the confidence are asked. Of a forest every
    deletion is known, so that those that change something at the input are asked. Only where one
    of them disagrees, or of networks ties, the answer is drawn by the exponential mechanism, once.
    """

    def __init__(self, subject: Subject, settings: GuardSettings, memory: Memory) -> None:
        self.subject, self.settings = subject, settings
        self._answering = Answering(
            settings, memory, moved=memory.inputs != subject.identity.inputs
        )
        self._changing = Lock()

    @classmethod
    def load(
        cls,
        folder: Path | str,
        epsilon: float,
        *,
        outside: Literal["refuse", "noise"] = "refuse",
        memory: Path | str | None = None,
        cap: float | None = None,
        when_spent: Literal["refuse", "uniform"] = "refuse",
        remember: int = 1_000_000,
        seed: int | None = None,
        adopt: bool = False,
        progress: OnProgress | None = None,
    ) -> Guard:
        """Load a folder: a network with its family and bounds, a forest, or a linear model.

        A network is what ``leaveout train`` left, with what ``leaveout verify --bounds`` proved of
        it. Of a forest all deletions are made, unless they are kept in the folder, and kept there.

        Parameters
        ----------
        folder : path
            With full.onnx, family.npz and bounds.npz; with forest.npz; or with linear.npz.
        epsilon : float
            Of each noised answer.
        memory : path, optional
            Of the noised answers; answers.sqlite in the folder unless given. It is made if there
            is none.
        outside, cap, when_spent, remember, seed
            See `GuardSettings`.
        adopt : bool
            Whether bounds and a memory that do not bear this user's mark are taken as they are:
            they are from another user or machine, or somebody changed them. The memory is marked.
        progress : callable, optional
            Told how many deletions of a forest's rows are made, over all trees, and of how many.

        Raises
        ------
        LeaveoutError
            If a file is missing, damaged or not this user's own, the bounds were proved of other
            files, or a setting cannot be used.
        """
        given = GuardSettings(epsilon, outside, cap, when_spent, remember, seed)
        # Of numpy's numbers, Python's own.
        settings = replace(
            given,
            epsilon=float(epsilon),
            cap=None if cap is None else float(cap),
            remember=int(remember),
            seed=None if seed is None else int(seed),
        )
        subject = load_subject(Path(folder), progress, adopt=adopt)
        if settings.outside == "noise" and not isinstance(subject.domain, BoxDomain):
            raise GuardError(
                f"{folder}: a model of this kind answers every input, so no input is outside; "
                "leave 'outside' at its default"
            )
        path = subject.folder / MEMORY if memory is None else Path(memory)
        identity, labels = subject.identity, subject.labels
        adopted = (subject.earlier,) if adopt else None
        opened = Memory(path, *identity, settings.epsilon, labels, adopt=adopted)
        if opened.adopted:
            subject.notes += (
                (
                    f"{path}: was not written by this user on this machine, or was changed; it is "
                    "used unchanged"
                ),
            )
        return cls(subject, settings, opened)

    def reopen(self, turn: AbstractContextManager[None] | None = None) -> Guard:
        """Return an equal guard with the memory reopened, since forks cannot share one.

        ``turn``, if any, is entered for each write. Raises GuardError if it cannot be opened.
        """
        path, epsilon = self._answering.memory.path, self.settings.epsilon
        subject = self.subject
        memory = Memory(path, *subject.identity, epsilon, subject.labels, turn)
        return Guard(subject, self.settings, memory)

    @property
    def inputs(self) -> int:
        """The number of features of an input."""
        return self.subject.domain.dimension

    @property
    def members(self) -> int:
        """The number of members: retrained networks, or rows or groups of another model."""
        return self.subject.members

    @property
    def box(self) -> Box | None:
        """The verified inputs; None where all finite numbers are covered."""
        domain = self.subject.domain
        return domain.box if isinstance(domain, BoxDomain) else None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features; numbers where none are known."""
        return self.subject.domain.features

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels; empty where none are known."""
        return self.subject.names

    @property
    def is_closed(self) -> bool:
        """Whether it answers no more: budget spent, or memory full or unusable."""
        return self._answering.closed is not None

    @property
    def encoding(self) -> Encoding | None:
        """How table columns become features; None for plain arrays."""
        return self.subject.encoding

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the owner, in sentences; private."""
        memory, answers = self._answering.memory, self.account().answers
        if not (self._answering.moved and answers and self.box is None):
            return self.subject.notes
        return (
            *self.subject.notes,
            (
                f"{memory.path}: stores {answers:,} noised answers, including those from before "
                "rows were deleted or added; they stay as given"
            ),
        )

    def encode(self, rows: Any) -> NDArray[Any]:
        """Encode rows in the table's own units, shape (rows, inputs).

        Parameters
        ----------
        rows : iterable of mapping, or a data frame
            Column name to value; without an encoding, the features by name. Further columns are
            left out.

        Raises
        ------
        GuardError
            If a column is missing or a value cannot be encoded.
        """
        return encode_inputs(rows, self.subject.encode)

    def label(self, x: Any) -> int:
        """Answer one input.

        Parameters
        ----------
        x : array_like, shape (inputs,), or a row of a data frame
            Rounded to float32 as a network reads it, to float64 as other models do.

        Raises
        ------
        GuardError
            If it is no such input, it is refused, or the memory cannot be used.
        """
        subject = self.subject
        self._answering.refuse_if_closed()
        if hasattr(x, "to_frame") and hasattr(x, "index"):
            x = self.encode(x.to_frame().T)[0]
        point = subject.domain.point(x)
        look = self._answering.look(subject, point)
        if look.label == REFUSED:
            raise GuardError(subject.domain.refusal(point))
        return int(self._answering.give(subject, [point], [look])[0])

    def labels(self, X: Any) -> NDArray[np.int64]:
        """Answer inputs, each as `label` would, or none of them.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the model reads them, or of the columns of the training table.

        Raises
        ------
        GuardError
            As of `label`, with the place of the first input that is refused.
        """
        points, subject = self._points(X), self.subject
        looks = self._answering.look_at(subject, points)
        refused = next((at for at, look in enumerate(looks) if look.label == REFUSED), None)
        if refused is not None:
            raise GuardError(f"input {refused}: {subject.domain.refusal(points[refused])}")
        return self._answering.give(subject, points, looks)

    def answers(self, X: Any) -> NDArray[np.int64]:
        """Answer inputs, with -1 for those outside the box that are refused.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the model reads them, or of the columns of the training table.

        Raises
        ------
        GuardError
            If one is no input at all, or the memory cannot be used.
        """
        points, subject = self._points(X), self.subject
        return self._answering.give(subject, points, self._answering.look_at(subject, points))

    def inspect(self, X: Any) -> Inspection:
        """Return what is known of inputs, without noise or memory; for the owner only.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the model reads them, or of the columns of the training table.
        """
        return Inspection.of(self.subject, self._points(X))

    def rehearse(self, X: Any) -> None:
        """Do the most work that answering inputs can take, and give no answer.

        Whatever is known of an input every member is asked about it, of a forest along the paths
        on which deletions change most, and the memory writes to its disk once, without keeping
        anything.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the model reads them, or of the columns of the training table.

        Raises
        ------
        GuardError
            If they are no inputs, or the memory cannot be used.
        """
        subject = self.subject
        for point in self._points(X):
            subject.domain.contains(point)
            subject.leaks.ask_all(point)
        self._answering.memory.rehearse()

    def delete(self, rows: Rows, progress: OnProgress | None = None) -> None:
        """Delete rows of the forest or linear model in its folder, and guard what is left.

        Until this returns, questions are answered by the model before. Noised answers that were
        given stay as they are, and are given again.

        Parameters
        ----------
        rows : int or sequence of int
            Names of rows, as of `DareForestClassifier.delete`.
        progress : callable, optional
            As of `load`.

        Raises
        ------
        LeaveoutError
            If it is a network, a row is not there, the last row of a label would go, or the folder
            cannot be written; nothing has changed then.
        """
        with self._changing:
            delete_rows(self.subject, rows)
            self._follow(progress)

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike,
        progress: OnProgress | None = None,
        *,
        groups: Iterable[object] | None = None,
    ) -> NDArray[np.int64]:
        """Add rows to the forest in its folder; return their names. See `delete`.

        ``groups`` names the group of each row, where the forest has groups.

        Raises
        ------
        LeaveoutError
            If it is a network, a row cannot be used or has a label of its own, or the folder cannot
            be written; nothing has changed then.
        """
        with self._changing:
            names = change_rows(self.subject, lambda forest: forest.add(X, y, groups=groups))
            self._follow(progress)
        return names

    def reload(self, progress: OnProgress | None = None) -> None:
        """Guard the model now in the folder, after rows of it were deleted or added.

        Raises
        ------
        LeaveoutError
            If it is a network, or the folder cannot be read, or its model has other settings or
            labels; what was guarded still is.
        """
        with self._changing:
            self._follow(progress)

    def account(self) -> Account:
        """Return how many distinct inputs were noised and their cost; private."""
        return self._answering.memory.account()

    def close(self) -> None:
        """Close the memory."""
        self._answering.memory.close()

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _follow(self, progress: OnProgress | None) -> None:
        """Guard the current content of the folder."""
        if self.box is not None:
            raise GuardError(
                f"{self.subject.folder}: a network cannot follow deletions; retrain it"
            )
        subject = load_subject(self.subject.folder, progress)
        if subject.identity[:2] != self.subject.identity[:2]:
            raise GuardError(
                f"{subject.folder}: this model has other settings or labels than the guarded "
                "one; load a new guard for it, with another memory"
            )
        # First: from here on the memory is asked before anything is answered.
        self._answering.move(subject.identity.inputs)
        self.subject = subject

    def _points(self, X: Any) -> NDArray[Any]:
        """Return inputs in the model's precision, shape (n, inputs)."""
        return self.subject.domain.points(self.encode(X) if is_frame(X) else X)

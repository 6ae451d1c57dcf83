"""Label-only access to a network that tells nothing of any one training point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.bab.native.files.digests import box_digest
from leaveout.encoders import Box
from leaveout.errors import GuardError, TrainingError
from leaveout.models.data_frame import is_frame
from leaveout.models.train.encoding import Encoding, encode_rows, encoding_of
from leaveout.verifier.guard.access import MEMORY, Access, load_access
from leaveout.verifier.guard.domain import Domain
from leaveout.verifier.guard.inputs import key_of, listed, plain_rows
from leaveout.verifier.guard.inspection import Inspection
from leaveout.verifier.guard.leaks import LeakTest
from leaveout.verifier.guard.memory import (
    Account,
    FullError,
    Memory,
    SpentError,
    UnusableError,
)
from leaveout.verifier.guard.noise import noised, randomness
from leaveout.verifier.guard.settings import GuardSettings
from leaveout.verifier.points.outside import leaves_box

__all__ = ["Guard", "Inspection"]

REFUSED = -1
"""Stands for a label where an input is refused."""


class Guard:
    """Answers with labels; where a retrained network would answer otherwise, with noise.

    Made by `load`. Safe to share among threads; processes may share the memory.

    Parameters
    ----------
    access : Access
    settings : GuardSettings
    memory : Memory

    Notes
    -----
    LUCID (Kabaha and Drachsler-Cohen), section 3.2, with an exact test of leaks in place of the
    bound alone: an input whose confidence exceeds the proved bound of its label is answered as
    it is; of others the members whose own bound reaches the confidence are asked. Only where
    one of them disagrees, or ties, the answer is drawn by the exponential mechanism, once.
    """

    def __init__(self, access: Access, settings: GuardSettings, memory: Memory) -> None:
        self.access, self.settings = access, settings
        self._memory = memory
        self._test = LeakTest(access.instance, access.bounds)
        self._draws = randomness(settings.seed)
        self._domain = Domain(access.instance.box, self.features)
        self._labels = access.instance.labels
        self._encoding = encoding_of(access.instance.family.manifest)
        self._closed: GuardError | None = None
        # Of another set of inputs there may be answers to some that are not noised in this one.
        self._moved = memory.box != box_digest(access.instance.box)
        self._close_if_spent()

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
    ) -> Guard:
        """Load what ``leaveout train`` left, and what ``leaveout verify --bounds`` proved of it.

        Parameters
        ----------
        folder : path
            With full.onnx, family.npz and bounds.npz.
        epsilon : float
            Of each noised answer.
        memory : path, optional
            Of the noised answers; answers.sqlite in the folder unless given. It is made if there
            is none.
        outside, cap, when_spent, remember, seed
            See `GuardSettings`.

        Raises
        ------
        LeaveoutError
            If a file is missing or damaged, the bounds were proved of other files, or a setting
            cannot be used.
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
        access = load_access(Path(folder))
        path = access.folder / MEMORY if memory is None else Path(memory)
        bounds = access.bounds
        digests = bounds.network, bounds.family, box_digest(bounds.box)
        labels = access.instance.labels
        return cls(access, settings, Memory(path, *digests, settings.epsilon, labels))

    @property
    def inputs(self) -> int:
        """How many features an input has."""
        return self.box.dimension

    @property
    def members(self) -> int:
        """How many training points it covers: one a retrained network."""
        return len(self.access.instance.family)

    @property
    def box(self) -> Box:
        """The verified inputs."""
        return self.access.instance.box

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features; numbers where none are known."""
        facts = self.access.instance.family.manifest.data
        known = facts.features if facts is not None else ()
        return known if len(known) == self.inputs else tuple(map(str, range(self.inputs)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels; empty where none are known."""
        facts = self.access.instance.family.manifest.data
        known = facts.labels if facts is not None else ()
        return known if len(known) == self._labels else ()

    @property
    def closed(self) -> bool:
        """Whether it answers no more: the budget is spent, or the memory full or unusable."""
        return self._closed is not None

    @property
    def encoding(self) -> Encoding | None:
        """How columns of a table become features; None if the networks read plain arrays."""
        return self._encoding

    def encode(self, rows: Any) -> NDArray[np.float32]:
        """Turn rows in a table's own units into inputs, shape (rows, inputs).

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
        table = listed(rows)
        if not all(isinstance(row, Mapping) for row in table):
            raise GuardError("rows must be a list of mappings from column name to value")
        if self._encoding is None:
            return plain_rows(table, self.features)
        try:
            return encode_rows(self._encoding, table)
        except TrainingError as error:
            raise GuardError(str(error)) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise GuardError(f"a row holds what is neither a number nor a text: {error}") from None

    def label(self, x: ArrayLike) -> int:
        """Answer one input.

        Parameters
        ----------
        x : array_like, shape (inputs,)
            Rounded to float32, as the network reads it.

        Raises
        ------
        GuardError
            If it is no such input, it is refused, or the memory cannot be used.
        """
        self._refuse_if_closed()
        point = self._domain.point(x)
        label, drawn = self._look(point)
        if label == REFUSED:
            raise GuardError(self._domain.refusal(point))
        return self._noised([point], [label])[0] if drawn else label

    def labels(self, X: Any) -> NDArray[np.int64]:
        """Answer inputs, each as `label` would, or none of them.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the network reads them, or of the columns of the training table.

        Raises
        ------
        GuardError
            As of `label`, with the place of the first input that is refused.
        """
        points = self._points(X)
        looks = self._looks(points)
        refused = next((at for at, look in enumerate(looks) if look[0] == REFUSED), None)
        if refused is not None:
            raise GuardError(f"input {refused}: {self._domain.refusal(points[refused])}")
        return self._answered(points, looks)

    def answers(self, X: Any) -> NDArray[np.int64]:
        """Answer inputs, with -1 for those outside the box that are refused.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the network reads them, or of the columns of the training table.

        Raises
        ------
        GuardError
            If one is no input at all, or the memory cannot be used.
        """
        points = self._points(X)
        return self._answered(points, self._looks(points))

    def inspect(self, X: Any) -> Inspection:
        """Tell what is known of inputs, with no noise and no memory: not for who asks.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the network reads them, or of the columns of the training table.
        """
        points = self._points(X)
        labels, leaks, tiers, outside = [], [], [], []
        for point in points:
            finding = self._test.find(point) if self._domain.contains(point) else None
            labels.append(finding.label if finding else self._test.network_label(point))
            leaks.append(finding is not None and finding.leak)
            tiers.append(0 if finding is None else 3 if finding.leak else finding.tier)
            family = self.access.instance.family
            outside.append("" if finding else leaves_box(point, self.box, family.manifest))
        return Inspection(
            np.asarray(labels, np.int64),
            np.asarray(leaks, bool),
            np.asarray(tiers, np.int64),
            tuple(outside),
        )

    def rehearse(self, X: Any) -> None:
        """Do the most work that answering inputs can be, and give no answer.

        Every member is asked about each input, whatever is proved of it, and the memory writes to
        its disk once, without keeping anything.

        Parameters
        ----------
        X : array_like, shape (n, inputs), or a data frame
            As the network reads them, or of the columns of the training table.

        Raises
        ------
        GuardError
            If they are no inputs, or the memory cannot be used.
        """
        for point in self._points(X):
            self._domain.contains(point)
            self._test.ask_all(point)
        self._memory.rehearse()

    def account(self) -> Account:
        """Return how many distinct inputs were noised, and what they cost. It is private too."""
        return self._memory.account()

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _points(self, X: Any) -> NDArray[np.float32]:
        """Return inputs as the network reads them, shape (n, inputs)."""
        return self._domain.points(self.encode(X) if is_frame(X) else X)

    def _looks(self, points: NDArray[np.float32]) -> list[tuple[int, bool]]:
        self._refuse_if_closed()
        looks = []
        for at, point in enumerate(points):
            try:
                looks.append(self._look(point))
            except UnusableError:
                raise
            except GuardError as error:
                raise GuardError(f"input {at}: {error}") from None
        return looks

    def _look(self, point: NDArray[np.float32]) -> tuple[int, bool]:
        """Return an answer, and whether one is to be drawn with a preference for it instead."""
        inside = self._domain.contains(point)
        seen = self._test.glance(point) if inside else None
        if seen is None and self.settings.outside == "refuse":
            return REFUSED, False
        if seen is not None and seen.is_clear and not self._moved:
            return seen.label, False
        known = self._recalled(point)
        if known is not None:
            return known, False
        if seen is None:
            return self._test.network_label(point), True
        return seen.label, not seen.is_clear and self._test.leaks(point, seen)

    def _answered(
        self, points: NDArray[np.float32], looks: list[tuple[int, bool]]
    ) -> NDArray[np.int64]:
        found = np.asarray([label for label, _ in looks], np.int64)
        drawn = [at for at, (_, is_drawn) in enumerate(looks) if is_drawn]
        if drawn:
            found[drawn] = self._noised([points[at] for at in drawn], found[drawn].tolist())
        return found

    def _close_if_spent(self) -> None:
        """Close at the start if not one more noised answer can be given."""
        settings, account = self.settings, self._memory.account()
        try:
            account.afford(settings.epsilon, settings.cap, settings.remember, self._memory.path)
        except FullError as error:
            self._closed = error
        except SpentError as error:
            self._closed = error if settings.when_spent == "refuse" else None

    def _recalled(self, point: NDArray[np.float32]) -> int | None:
        try:
            return self._memory.recall([key_of(point)])[0]
        except UnusableError as error:
            self._closed = error
            raise

    def _noised(self, points: list[NDArray[np.float32]], own: list[int]) -> list[int]:
        """Return noised answers, those given before or new ones, once they are on the disk."""
        inputs = [key_of(point) for point in points]

        def draw(at: int, epsilon: float) -> int:
            return noised(own[at], self._labels, epsilon, self._draws(inputs[at]))

        settings = self.settings
        try:
            return self._memory.answer(
                inputs,
                draw,
                epsilon=settings.epsilon,
                cap=settings.cap,
                uniform=settings.when_spent == "uniform",
                remember=settings.remember,
            )
        except (SpentError, FullError, UnusableError) as error:
            self._closed = error
            raise

    def _refuse_if_closed(self) -> None:
        if self._closed is not None:
            # Were only some inputs refused, it would tell which ones leak.
            raise type(self._closed)(str(self._closed))

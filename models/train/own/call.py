"""Calls of a user's training function, with fixed random seeds and one-line errors."""

from __future__ import annotations

import inspect
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError, TrainingError, cause
from leaveout.models.train.architecture import Signature, flatten_parameters
from leaveout.models.train.draws import Rows
from leaveout.models.train.own.convert import model_of
from leaveout.models.train.own.preprocessing import Probes
from leaveout.models.train.pool import (
    Block,
    Check,
    Checked,
    Event,
    Failed,
    Noted,
    Order,
    Probe,
    Step,
    Task,
    Trained,
    digest_of,
    name_of,
)

Fit = Callable[..., Any]
"""``fit(X, y, seed)``, ``fit(X, y, seed, rows)`` or ``fit(X, y)``."""

_FORMS = "fit(X, y, seed) or fit(X, y, seed, rows)"
_SENDS = "define what it needs inside it, or in a module"


@dataclass(frozen=True, eq=False)
class Unpacked:
    """A training function received from another process."""

    function: Fit
    count: int  # of arguments

    def __call__(self, X: Any, y: NDArray[np.int64], seed: int, rows: Rows) -> Any:
        """Train one network."""
        return self.function(*(X, y, seed, rows)[: self.count])


def check_fit(fit: Fit) -> int:
    """Raise if a function cannot be called; return how many arguments it takes.

    A third one with a default is the seed only if its name says so. It takes rows if it has a
    parameter ``rows`` or a required fourth one.
    """
    if not callable(fit):
        raise TrainingError(
            f"fit has type {type(fit).__name__}; expected a function {_FORMS} that returns a "
            "trained network"
        )
    try:
        signature = inspect.signature(fit)
    except (TypeError, ValueError):
        return 3
    if "rows" in signature.parameters and _binds(signature, 3, rows=None):
        return 4
    third = [*signature.parameters.values()][2:3]
    is_setting = any(each.default is not each.empty for each in third)
    if is_setting and not any(word in third[0].name for word in ("seed", "state")):
        return 2
    for count in (3, 4, 2):
        if _binds(signature, count):
            return count
    raise TrainingError(f"fit{signature} cannot be called as {_FORMS}: use these parameters")


def _binds(signature: inspect.Signature, count: int, **named: None) -> bool:
    try:
        signature.bind(*range(count), **named)
    except TypeError:
        return False
    return True


def pack_fit(fit: Fit, count: int) -> bytes:
    """Pickle a function with all that it uses, even a lambda or a notebook's function."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(Unpacked(fit, count)))
    except Exception as error:
        raise TrainingError(
            f"fit cannot be sent to another process ({cause(error)}): {_SENDS}"
        ) from None


def unpack_fit(packed: bytes) -> Unpacked:
    """Return a fresh copy of a function, free of state from earlier calls."""
    import cloudpickle

    try:
        fit = cloudpickle.loads(packed)
    except Exception as error:
        raise TrainingError(
            f"fit cannot be loaded in another process ({cause(error)}): {_SENDS}; a script calls "
            "leaveout under if __name__ == '__main__':"
        ) from None
    assert isinstance(fit, Unpacked)
    return fit


_CURES = {
    "could not convert string to float": "; with raw=True fit receives words: return a pipeline "
    "that encodes them, or leave out raw=True",
    "only supported for dataframes": "; raw=True passes the data frame to fit as it is",
}
"""What to do about errors of scikit-learn, by a part of their messages."""


def call(packed: bytes, X: Any, y: NDArray[np.int64], seed: int, rows: Rows, name: str) -> Any:
    """Train one network; changes the function makes to its data do not affect later calls."""
    numbers = rows.numbers
    had_torch = "torch" in sys.modules
    fit = unpack_fit(packed)
    while True:
        _seed_all(seed)
        try:
            chosen = X.iloc[numbers] if hasattr(X, "iloc") else X[numbers]
            result = fit(chosen, y[numbers], seed, rows)
        except (Exception, SystemExit) as error:
            cure = next((each for part, each in _CURES.items() if part in str(error)), "")
            raise TrainingError(
                f"fit failed for {name}{_place(error)}: {cause(error)}{cure}"
            ) from None
        if had_torch or "torch" not in sys.modules:
            return result
        # The call imported torch, which was not seeded.
        had_torch, fit = True, unpack_fit(packed)


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - of whatever draws from it
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(seed)


def _place(error: BaseException) -> str:
    """Return the innermost line of an error in the user's code."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.lineno]
    own = [f for f in frames if f.filename != __file__ and "-packages" not in f.filename]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


@dataclass(frozen=True, eq=False)
class FitTask(Task):
    """What all networks of a run share."""

    fit: bytes  # from `leaveout.models.train.own.call.pack_fit`
    X: NDArray[np.float32]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,)
    labels: int
    removed: NDArray[np.int64]  # shape (members,): the row or group each member lacks
    seed: int
    groups: NDArray[np.int64] | None = None  # shape (rows,): the group of each row
    raw: Probes | None = None  # the data frame that `fit` receives in place of X
    folder: str = ""
    reference: str = ""  # digest of the full network's parameters

    def prepare(self) -> None:
        """See `Task.prepare`; here each call prepares itself."""

    def do(self, order: Order, say: Callable[[Step | Noted], None]) -> Event:
        try:
            if isinstance(order, Probe):
                return Trained(model=self._network(0, order.seed))
            if isinstance(order, Check):
                return Checked(digest_of(self._parameters(0)))
            parameters = self._block(order, say)
        except LeaveoutError as error:
            return Failed(str(error))
        return self.keep_block(order.networks, parameters)

    def _block(self, block: Block, say: Callable[[Step | Noted], None]) -> NDArray[np.float32]:
        import onnx

        from leaveout.errors import TrainingError
        from leaveout.models.onnx.repairs import repair_model
        from leaveout.models.onnx.values import read_parameters

        assert block.expected is not None
        parameters = np.empty((len(block.networks), block.expected.size), dtype=np.float32)
        for place, network in enumerate(block.networks):
            model, _ = repair_model(onnx.load_from_string(self._network(network, self.seed)))
            wrong = block.expected.difference(Signature.of(model))
            if wrong is not None:
                raise TrainingError(
                    f"{name_of(network, self.removed)} differs in architecture from the network "
                    f"on all rows: {wrong}; fit must build the same network from any data, with "
                    f"one score for each of the {self.labels} labels"
                )
            parameters[place] = flatten_parameters(block.expected.shapes, read_parameters(model))
            say(Step((place + 1) / len(block.networks)))
        return parameters

    def _parameters(self, network: int) -> NDArray[np.float32]:
        import onnx

        from leaveout.models.onnx.repairs import repair_model
        from leaveout.models.onnx.values import read_parameters

        model, _ = repair_model(onnx.load_from_string(self._network(network, self.seed)))
        return flatten_parameters(Signature.of(model).shapes, read_parameters(model))

    def _network(self, network: int, seed: int) -> bytes:
        lacks = int(self.removed[network - 1]) if network else None
        rows = Rows(len(self.X), lacks, self.groups)
        name = name_of(network, self.removed)
        given = self.X if self.raw is None else self.raw.rows
        trained = call(self.fit, given, self.y, seed, rows, name)
        return model_of(trained, self.X, self.labels, name, self.raw)

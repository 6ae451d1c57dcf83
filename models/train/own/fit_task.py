"""Networks trained by a user's function, one after another, in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.models.train.own.call import call
from leaveout.models.train.own.convert import model_of
from leaveout.models.train.rows import Rows
from leaveout.models.train.signature import Signature, flatten_parameters
from leaveout.models.train.task import (
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


@dataclass(frozen=True, eq=False)
class FitTask(Task):
    """What all networks of a run share."""

    fit: bytes  # as of `leaveout.models.train.own.call.pack_fit`
    X: NDArray[np.float32]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,)
    labels: int
    removed: NDArray[np.int64]  # shape (members,): the row each member lacks
    seed: int
    folder: str = ""
    reference: str = ""  # digest of the parameters of the network on all rows

    def prepare(self) -> None:
        """See `Task.prepare`; here each call prepares itself."""

    def do(self, order: Order, say: Callable[[Step | Noted], None]) -> Event:
        """See `Task.do`."""
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
        from leaveout.models.onnx_values import read_parameters

        assert block.expected is not None
        parameters = np.empty((len(block.networks), block.expected.size), dtype=np.float32)
        for place, network in enumerate(block.networks):
            model = onnx.load_from_string(self._network(network, self.seed))
            wrong = block.expected.difference(Signature.of(model))
            if wrong is not None:
                raise TrainingError(
                    f"{name_of(network, self.removed)} has not the architecture of the network on "
                    f"all rows: {wrong}; fit must build the same network from any data, with a "
                    f"score for each of the {self.labels} labels"
                )
            parameters[place] = flatten_parameters(block.expected.shapes, read_parameters(model))
            say(Step((place + 1) / len(block.networks)))
        return parameters

    def _parameters(self, network: int) -> NDArray[np.float32]:
        import onnx

        from leaveout.models.onnx_values import read_parameters

        model = onnx.load_from_string(self._network(network, self.seed))
        return flatten_parameters(Signature.of(model).shapes, read_parameters(model))

    def _network(self, network: int, seed: int) -> bytes:
        lacks = int(self.removed[network - 1]) if network else None
        rows = Rows(len(self.X), lacks)
        name = name_of(network, self.removed)
        trained = call(self.fit, self.X, self.y, seed, rows, name)
        return model_of(trained, self.X, self.labels, name)

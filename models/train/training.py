"""Training from a data file to a directory that can be verified."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.files import lock
from leaveout.models.family import Manifest, Sample
from leaveout.models.onnx.repairs import repair_model
from leaveout.models.onnx.signature import stated_architecture
from leaveout.models.reading import PLAIN, OnRead, Reading
from leaveout.models.train.architecture import Layer, Signature, layers_of, parameter_shapes
from leaveout.models.train.data import TrainingData, read_data
from leaveout.models.train.export import network_model, spec_text
from leaveout.models.train.family_run import OnProgress, farewell, report_of, train_family
from leaveout.models.train.job import PARTIAL, Job, is_complete
from leaveout.models.train.left_out import earlier_sample, left_out
from leaveout.models.train.pool import (
    Block,
    Check,
    Checked,
    Event,
    Failed,
    Noted,
    Order,
    Step,
    Task,
    check_executor,
    digest_of,
    name_of,
    workplace,
)
from leaveout.models.train.recipe import ACTIVATIONS, Recipe
from leaveout.models.train.report import TrainingInterruptedError, TrainingReport

if TYPE_CHECKING:
    from leaveout.models.train.stacked import Stack

GROUP = {"cpu": None, "cuda": 128}
"""Networks per product, by device: fixed on a GPU, see `Products`."""

_USED = 0.9  # share of the memory used for networks: allocators leave gaps


@dataclass
class DeviceMemory:
    """The device of a process, and the number of networks that fit."""

    device: str = ""  # a torch device; empty if not yet known
    networks: int = sys.maxsize  # most networks trained together; lowered once they do not fit
    claim: IO[bytes] | None = None  # held as long as the device is in use

    def halve(self, networks: int) -> bool:
        """Record that some networks do not fit; return False if no fewer can be trained."""
        group = GROUP[self.device.partition(":")[0]] or 1
        self.networks = networks // 2 // group * group
        return self.networks > 0


def networks_that_fit(stack: Stack, memory: int, group: int | None) -> int:
    """Return how many networks fit into the memory, at least the minimum."""
    least = group or 1
    networks = int(memory * _USED - stack.shared_bytes()) // stack.network_bytes()
    return max(networks // least, 1) * least


DEVICES = ("auto", "cpu", "cuda")


def resolve_device(name: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` prefers a GPU."""
    if name not in DEVICES:
        raise TrainingError(f"--device {name}: expected one of {', '.join(DEVICES)}")
    try:
        import torch
    except ImportError:
        raise TrainingError("leaveout train needs torch: pip install 'leaveout[train]'") from None
    if name == "cpu":
        return name
    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise TrainingError("--device cuda: torch finds no CUDA device; use --device cpu")
    return "cpu"


def device_facts(device: str) -> dict[str, object]:
    """Return what the members' last bits depend on apart from the recipe, in JSON types."""
    import torch

    if device == "cuda":
        unit = torch.cuda.get_device_name()
    else:
        unit = torch.backends.cpu.get_cpu_capability()
    return {"device": device, "unit": unit, "torch": str(torch.__version__)}


def device_count(device: str) -> int:
    """Return how many devices train the same bits: the GPUs of the first one's kind."""
    import torch

    if device == "cpu":
        return 1
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return next((i for i, name in enumerate(names) if name != names[0]), len(names))


def device_memory(device: str) -> int:
    """Return the memory of a GPU in bytes."""
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)


def claim_device(folder: Path, devices: int) -> tuple[int, IO[bytes]]:
    """Claim the first device not held by another process of a run."""
    for index in range(devices):
        stream = (folder / f"device-{index}.lock").open("wb")
        try:
            lock(stream.fileno())
        except BlockingIOError:
            stream.close()
            continue
        return index, stream
    raise TrainingError(f"each of the {devices} devices already has a worker")


_TELL = 1.0  # seconds between two progress reports
_BATCHES = 10  # steps per epoch of a check; the last batch has one row less


@dataclass(frozen=True, eq=False)
class StackedTask(Task):
    """What all blocks of a run share."""

    recipe: Recipe
    folder: str  # folder of the blocks; empty if workers cannot write there
    device: str
    X: NDArray[np.float32]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,)
    labels: int  # number of labels
    removed: NDArray[np.int64]  # shape (members,): the row or group each member lacks
    groups: NDArray[np.int64] | None = None  # shape (rows,): the group of each row
    reference: str = ""  # see `Task.reference`
    room: DeviceMemory = field(default_factory=DeviceMemory)  # the process's findings; not pickled

    @property
    def gpus(self) -> int:  # type: ignore[override]
        """See `Task.gpus`."""
        return int(self.device != "cpu")

    def prepare(self) -> None:
        """Fix the order of summation: on one thread it depends only on shapes."""
        import torch

        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("highest")
        if self.device != "cpu":
            torch.use_deterministic_algorithms(True)
        self.room.device = self.device
        devices = device_count(self.device) if self.folder else 1
        if devices > 1:
            index, self.room.claim = claim_device(Path(self.folder), devices)
            self.room.device = f"{self.device}:{index}"

    def networks_at_once(self, memory: int) -> int:
        """Return how many networks fit into an amount of memory in bytes."""
        return networks_that_fit(self._stack(range(1), "meta"), memory, GROUP[self.device])

    def do(self, order: Order, say: Callable[[Step | Noted], None]) -> Event:
        import torch

        if isinstance(order, Check):
            return Checked(self._digest())
        assert isinstance(order, Block)
        networks, parts, reached = order.networks, [], order.networks.start
        while reached < networks.stop:
            most = min(self.room.networks, self._free_for(), networks.stop - reached)
            try:
                parts.append(self._train(range(reached, reached + most), networks, say))
                reached += most
            except torch.OutOfMemoryError:
                if not self.room.halve(most):
                    return Failed(
                        f"{most:,} networks do not fit in the memory of {self.room.device}, and "
                        "smaller groups are not trained there; lower --batch, or use --device "
                        "cpu"
                    )
                say(
                    Noted(
                        f"{most:,} networks at once do not fit in the memory of "
                        f"{self.room.device}: at most {self.room.networks:,} from now on"
                    )
                )
            # Memory of what did not fit, or had another size.
            _forget(self.room.device)
        parameters = np.concatenate(parts)
        finite = np.isfinite(parameters).all(axis=1)
        if not finite.all():
            name = name_of(networks.start + int(np.argmin(finite)), self.removed)
            return Failed(f"training diverged: {name} has weights that are not finite; lower --lr")
        return self.keep_block(networks, parameters)

    def _train(
        self, networks: range, of: range, say: Callable[[Step | Noted], None]
    ) -> NDArray[np.float32]:
        stack, before = self._stack(networks, self.room.device), networks.start - of.start

        last = time.monotonic()

        def report_share(share: float) -> None:
            """Report progress, at most once every `_TELL` seconds."""
            nonlocal last
            now = time.monotonic()
            if share == 1 or now - last >= _TELL:
                last = now
                say(Step((before + len(networks) * share) / len(of)))

        stack.train(report_share)
        return stack.parameters()

    def _stack(self, networks: range, device: str) -> Stack:
        from leaveout.models.train.stacked import NOTHING, Stack

        layers = layers_of(self.recipe, self.X.shape[1], self.labels)
        # Network 0 lacks no row.
        removed = np.append(NOTHING, self.removed)[networks.start : networks.stop]
        product = None if device == "meta" else GROUP[self.device]
        return Stack(layers, self.recipe, self.X, self.y, removed, device, product, self.groups)

    def _free_for(self) -> int:
        """Return how many networks fit into the device's free memory."""
        import torch

        if self.device == "cpu":
            return len(self.removed) + 1
        free, _ = torch.cuda.mem_get_info(self.room.device)
        return self.networks_at_once(free)

    def _digest(self) -> str:
        """Digest some steps of the whole training's shapes, and facts, for few numbers tell."""
        from leaveout.models.train.stacked import NOTHING, Stack

        recipe = msgspec.structs.replace(self.recipe, epochs=2, class_weights=())
        rows = slice(min(len(self.X), _BATCHES * recipe.batch - 1))
        layers = layers_of(recipe, self.X.shape[1], self.labels)
        removed = np.array([NOTHING, 0], dtype=np.int64)
        place = (self.room.device or self.device, GROUP[self.device])
        stack = Stack(layers, recipe, self.X[rows], self.y[rows], removed, *place)
        stack.train()
        facts = " ".join(map(str, device_facts(self.device).values()))
        return f"{digest_of(stack.parameters())} {facts}"


def _forget(device: str) -> None:
    """Release device memory cached by torch."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.empty_cache()


_BLOCK = 32
"""Networks trained together on a CPU: more are no faster, and fewer suffice for small batches."""


def run(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
    recipe: Recipe | None = None,
    members: int | None = None,
    sample: int | None = None,
    draws: int | None = None,
    fresh: Path | str | None = None,
    block: int | None = None,
    workers: int | None = None,
    executor: str = "processes",
    device: str = "auto",
    on_progress: OnProgress | None = None,
    on_read: OnRead | None = None,
) -> TrainingReport:
    """Train a network on all rows, and one member for each row left out.

    The same data, recipe and device produce the same bytes, whatever ``block`` and ``workers``, and
    even if the run was stopped: finished blocks are kept in ``directory/.partial`` until the end. A
    run with more ``members`` than the directory has continues from those, with the result of a
    single run.

    Parameters
    ----------
    source : Path or str
        CSV with a header, or NPZ with ``X_train, y_train`` or ``X, y``.
    directory : Path or str
        Folder for ``full.onnx``, ``family.npz`` and ``idp.spec``.
    label : str or None
        The column to predict; for CSV.
    identity : str or None
        The column that names the rows, which is not a feature; for CSV.
    units : mapping of str to str or None
        Units of measurement, by column.
    reading : Reading
        How a CSV is read.
    recipe : Recipe or None
        None for LUCID's, a 2x50 network.
    members : int or None
        Leave out each of the first ``members`` rows; None for all rows.
    sample : int or None
        Leave out each of ``sample`` rows drawn uniformly without replacement, by the recipe's seed,
        for statistical claims about all rows. Such a family cannot be extended.
    draws : int or None
        Number of planned samples, this being the first; None for this one alone.
    fresh : Path or str or None
        The folder of the previous sample: the next planned one is drawn.
    block : int or None
        Networks trained together by one process; None for what suits the device: on a GPU, as many
        as fit into its memory. If they do not fit after all, fewer are trained together.
    workers : int or None
        Processes; None for one per core. On this machine's GPUs, one each. On Ray, blocks trained
        at once; None for as many as the cluster has cores, later ones included.
    executor : str
        ``processes`` or ``ray``: the connected cluster, or the one in ``RAY_ADDRESS``, else this
        machine. The bytes equal those of processes: machines that would train other bytes are not
        used.
    device : str
        ``auto``, ``cpu`` or ``cuda``.
    on_progress : callable or None
        Receives a `TrainingProgress` as networks are trained.
    on_read : callable or None
        Before that, receives the share of a CSV that is read.

    Raises
    ------
    TrainingError
        If the data or the settings cannot be used, the directory contains another run, torch is
        missing, or training diverges.
    TrainingInterruptedError
        On Ctrl-C.
    """
    started = time.monotonic()
    job: Job | None = None
    try:
        for flag, count in (("--block", block), ("--workers", workers)):
            if count is not None and count < 1:
                raise TrainingError(f"{flag} {count}: expected a whole number of at least 1")
        check_executor(executor, f"--executor {executor}")
        recipe = recipe or Recipe()
        data = read_data(Path(source), label, identity, units, on_read, reading)
        earlier = None if fresh is None else earlier_sample(Path(fresh))
        removed, drawn = left_out(
            data.removable, recipe.seed,
            members=members, sample=sample, draws=draws, earlier=earlier, said="--{} ",
        )  # fmt: skip
        _check_class_weights(recipe, data)
        layers = layers_of(recipe, data.X.shape[1], len(data.labels))
        resolved = resolve_device(device)
        job = _job(Path(source), Path(directory), data, recipe, layers, (removed, drawn), resolved)
        if earlier is not None:
            earlier.refuse_other(job)
        complete = is_complete(job)
        if not complete:
            X = np.ascontiguousarray(data.X, dtype=np.float32)
            with workplace(executor, workers, gpus=resolved == "cuda", shared=X.nbytes) as there:
                task = StackedTask(
                    recipe=recipe,
                    folder=str((job.directory / PARTIAL).resolve()) if there.writes else "",
                    device=resolved,
                    X=X,
                    y=np.ascontiguousarray(data.y, dtype=np.int64),
                    labels=len(data.labels),
                    removed=removed,
                    groups=data.groups,
                )
                train_family(
                    job,
                    lambda size: there.pool(task, size),
                    block=block or _block(task),
                    workers=_workers(task, there.size),
                    expected=False,
                    on_progress=on_progress or (lambda progress: None),
                )
        return report_of(job, started, complete)
    except KeyboardInterrupt:
        raise TrainingInterruptedError(farewell(job)) from None
    except OSError as error:
        place = error.filename or directory
        raise TrainingError(f"{place}: cannot write: {error.strerror or error}") from None


def _job(
    source: Path,
    directory: Path,
    data: TrainingData,
    recipe: Recipe,
    layers: tuple[Layer, ...],
    rows: tuple[NDArray[np.int64], Sample | None],
    device: str,
) -> Job:
    shapes = parameter_shapes(layers)
    blank = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    activation = ACTIVATIONS[recipe.activation]
    model, _ = repair_model(network_model(layers, blank, activation))
    signature = Signature.of(model)
    settings = {**recipe.settings(), **device_facts(device)}
    if data.encoding is not None:
        settings["encoding"] = msgspec.to_builtins(data.encoding)
    facts = data.facts()
    return Job(
        directory=directory,
        data=data,
        removed=rows[0],
        manifest=Manifest(
            architecture=stated_architecture(signature.architecture),
            data=facts,
            seed=recipe.seed,
            recipe=settings,
            sample=rows[1],
        ),
        signature=signature,
        model=lambda parameters: network_model(layers, parameters, activation),
        spec=spec_text(facts, source.name, _inside(data), data.encoding, rows[1]),
    )


def _block(task: StackedTask) -> int:
    """Return how many networks an order has; on a GPU, as many as fit."""
    return _BLOCK if task.device == "cpu" else task.networks_at_once(device_memory(task.device))


def _workers(task: StackedTask, size: int) -> int:
    """Return the number of workers; on this machine's GPUs, one each."""
    return device_count(task.device) if task.device != "cpu" and task.folder else size


def _check_class_weights(recipe: Recipe, data: TrainingData) -> None:
    given = recipe.class_weights
    if given and not isinstance(given, str) and len(given) != len(data.labels):
        raise TrainingError(
            f"--class-weights {','.join(map(str, given))}: the data has {len(data.labels)} "
            f"labels; expected one number for each of {', '.join(data.labels)}"
        )


def _inside(data: TrainingData) -> bool:
    parts = [data.X] if data.X_test is None else [data.X, data.X_test]
    return all(not part.size or bool(part.min() >= 0 and part.max() <= 1) for part in parts)

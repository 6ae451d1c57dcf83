"""The device of training, and the facts of it that the result depends on."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from leaveout.errors import TrainingError
from leaveout.files import lock

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
        raise TrainingError("--device cuda: torch sees no CUDA device here; use --device cpu")
    return "cpu"


def device_facts(device: str) -> dict[str, object]:
    """Return what the members' last bits depend on besides the recipe, in JSON types."""
    import torch

    if device == "cuda":
        unit = torch.cuda.get_device_name()
    else:
        unit = torch.backends.cpu.get_cpu_capability()
    return {"device": device, "unit": unit, "torch": str(torch.__version__)}


def device_count(device: str) -> int:
    """Return how many devices train the same bits: GPUs of the first one's kind."""
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
    """Claim the first device that no other process of a run holds."""
    for index in range(devices):
        stream = (folder / f"device-{index}.lock").open("wb")
        try:
            lock(stream.fileno())
        except BlockingIOError:
            stream.close()
            continue
        return index, stream
    raise TrainingError(f"each of the {devices} devices has a worker already")

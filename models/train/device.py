"""The device training runs on, and what of it the result depends on."""

from __future__ import annotations

from leaveout.errors import TrainingError

__all__ = ["DEVICES", "device_facts", "resolve_device"]

DEVICES = ("auto", "cpu", "cuda")


def resolve_device(name: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` takes a GPU where there is one.

    Raises
    ------
    TrainingError
        If torch is not installed, the name is unknown, or there is no such device.
    """
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
    """Return what the members' last bits depend on beside the recipe, in JSON types."""
    import torch

    if device == "cuda":
        unit = torch.cuda.get_device_name()
    else:
        unit = torch.backends.cpu.get_cpu_capability()
    return {"device": device, "unit": unit, "torch": str(torch.__version__)}

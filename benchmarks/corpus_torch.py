"""Networks as people write them in torch, for `corpus`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["torch_models"]

DENSE, IMAGE = (1, 6), (1, 1, 10, 10)


def torch_models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write each network with both exporters of torch; yields the exporter and the file."""
    import torch
    from corpus_torch_nets import layers, modules

    for number, (name, build, shape) in enumerate((*layers(), *modules())):
        for dynamo in (True, False):
            kind = "torch dynamo" if dynamo else "torch script"
            path = folder / f"{'dynamo' if dynamo else 'script'}_{name}.onnx"
            if not path.exists():
                torch.manual_seed(number)
                net = build()
                # Running statistics of batch normalisation as after training.
                if not isinstance(shape[0], tuple) and len(shape) > 1:
                    with torch.no_grad():
                        for _ in range(3):
                            net(torch.randn(8, *shape[1:]))
                export(net.eval(), shape, path, dynamo=dynamo, number=number)
            yield kind, path


def export(net: Any, shape: Any, path: Path, *, dynamo: bool, number: int) -> None:
    """Export a network, every other one with a dynamic batch axis, in the opsets people use."""
    import torch

    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    free = number % 2 == 0 and all(len(each) > 1 for each in shapes)
    samples = tuple(torch.randn(2 if free else each[0], *each[1:]) for each in shapes)
    names = [f"x{i}" for i in range(len(samples))]
    given: dict[str, Any] = {}
    if dynamo and free:
        given["dynamic_shapes"] = tuple({0: torch.export.Dim("batch")} for _ in samples)
    elif free:
        given["dynamic_axes"] = {name: {0: "batch"} for name in names}
    if not dynamo:
        given["opset_version"] = (11, 12, 13, 14, 16, 17, 18, 20)[number % 8]
    elif number % 3 == 1:
        given["opset_version"] = (18, 21, 23)[number % 9 // 3]
    with torch.no_grad():
        torch.onnx.export(
            net, samples, path, input_names=names, dynamo=dynamo, verbose=False, **given
        )

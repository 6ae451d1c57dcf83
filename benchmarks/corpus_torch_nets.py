"""The networks that `corpus_torch` exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["layers", "modules"]

Case = tuple[str, Callable[[], nn.Module], Any]
DENSE, IMAGE, SIGNAL = (1, 6), (1, 1, 10, 10), (1, 2, 16)


def _dense(activation: Callable[[], nn.Module], *last: nn.Module, labels: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 12),
        activation(),
        nn.Linear(12, 8),
        activation(),
        nn.Linear(8, labels),
        *last,
    )


def _image(*middle: nn.Module, width: int, labels: int = 4) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), *middle, nn.Flatten(), nn.Linear(width, labels))


def layers() -> Iterator[Case]:
    """Networks that are a list of layers."""
    yield "dense", lambda: _dense(nn.ReLU), DENSE
    yield "dense_softmax", lambda: _dense(nn.ReLU, nn.Softmax(dim=1)), DENSE
    yield "dense_log_softmax", lambda: _dense(nn.ReLU, nn.LogSoftmax(dim=-1)), DENSE
    yield "one_logit", lambda: _dense(nn.ReLU, labels=1), DENSE
    yield "one_sigmoid", lambda: _dense(nn.ReLU, nn.Sigmoid(), labels=1), DENSE
    yield "many_sigmoids", lambda: _dense(nn.ReLU, nn.Sigmoid()), DENSE
    yield "leaky", lambda: _dense(nn.LeakyReLU), DENSE
    yield "prelu", lambda: _dense(lambda: nn.PReLU(init=0.1)), DENSE
    yield "relu6", lambda: _dense(nn.ReLU6), DENSE
    yield "hardtanh", lambda: _dense(nn.Hardtanh), DENSE
    yield "hardsigmoid", lambda: _dense(nn.Hardsigmoid), DENSE
    yield "no_batch", lambda: _dense(nn.ReLU), (6,)
    yield "no_batch_leaky", lambda: _dense(nn.LeakyReLU, nn.Softmax(dim=0)), (6,)
    yield "dropout", lambda: _dense(lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.3))), DENSE
    yield (
        "flatten_dense",
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 8), nn.ReLU(), nn.Linear(8, 4)),
        IMAGE,
    )
    yield (
        "batch_norm",
        lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
        DENSE,
    )
    yield (
        "batch_norm_after",
        lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3)),
        DENSE,
    )
    yield (
        "batch_norm_first",
        lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)),
        DENSE,
    )
    yield (
        "no_bias",
        lambda: nn.Sequential(nn.Linear(6, 9, bias=False), nn.ReLU(), nn.Linear(9, 2, bias=False)),
        DENSE,
    )
    yield (
        "deep",
        lambda: nn.Sequential(
            *[m for _ in range(6) for m in (nn.Linear(6, 6), nn.ReLU())], nn.Linear(6, 2)
        ),
        DENSE,
    )
    yield "linear", lambda: nn.Linear(6, 3), DENSE
    yield "cnn", lambda: _image(nn.ReLU(), width=192), IMAGE
    yield "cnn_max", lambda: _image(nn.ReLU(), nn.MaxPool2d(2), width=48), IMAGE
    yield "cnn_average", lambda: _image(nn.ReLU(), nn.AvgPool2d(2), width=48), IMAGE
    yield (
        "cnn_batch_norm",
        lambda: _image(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), width=48),
        IMAGE,
    )
    yield "cnn_global", lambda: _image(nn.ReLU(), nn.AdaptiveAvgPool2d(1), width=3), IMAGE
    yield "cnn_adaptive", lambda: _image(nn.ReLU(), nn.AdaptiveAvgPool2d(4), width=48), IMAGE
    yield "cnn_adaptive_max", lambda: _image(nn.ReLU(), nn.AdaptiveMaxPool2d(1), width=3), IMAGE
    yield (
        "cnn_max_padded",
        lambda: _image(nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), width=48),
        IMAGE,
    )
    yield (
        "cnn_max_ceil",
        lambda: _image(nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), width=48),
        IMAGE,
    )
    yield (
        "cnn_padded",
        lambda: nn.Sequential(
            nn.ZeroPad2d(1), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(200, 3)
        ),
        IMAGE,
    )
    yield (
        "cnn_reflected",
        lambda: nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(200, 3)
        ),
        IMAGE,
    )
    yield (
        "cnn_strided",
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 3),
        ),
        IMAGE,
    )
    yield (
        "cnn_relu6",
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, groups=1),
            nn.BatchNorm2d(4),
            nn.ReLU6(),
            nn.Conv2d(4, 4, 3, groups=4),
            nn.BatchNorm2d(4),
            nn.ReLU6(),
            nn.AdaptiveAvgPool2d((1, 1)),
            nn.Flatten(1),
            nn.Dropout(0.2),
            nn.Linear(4, 2),
        ),
        IMAGE,
    )
    yield (
        "cnn_1d",
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(28, 3)
        ),
        SIGNAL,
    )
    yield (
        "cnn_1d_dilated",
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3, dilation=2, padding=2),
            nn.BatchNorm1d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(4, 3),
        ),
        SIGNAL,
    )
    yield (
        "vgg",
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(4, 6, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2),
            nn.Flatten(),
            nn.Linear(24, 10),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(10, 4),
        ),
        IMAGE,
    )
    # Refused: no piecewise linear function, or not float32.
    yield "gelu", lambda: _dense(nn.GELU), DENSE
    yield "tanh", lambda: _dense(nn.Tanh), DENSE
    yield (
        "layer_norm",
        lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)),
        DENSE,
    )


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.first(x))
        return self.last(functional.relu(h + self.inner(h)))


class _Block(nn.Module):
    """A basic block of a residual network for images."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4))
        self.two = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.short = nn.Sequential(nn.Conv2d(4, 4, 1, stride=2), nn.BatchNorm2d(4))
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = functional.relu(self.two(functional.relu(self.one(x))) + self.short(x))
        return self.last(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


class _Function(nn.Module):
    """A layer, a function of the result, and another layer."""

    def __init__(self, width: int, between: Callable[[Tensor], Tensor], labels: int = 3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(width, labels)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x)))


class _View(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 3, 3), nn.Linear(192, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.conv(x))
        return self.last(h.view(h.size(0), -1))


class _Scaled(nn.Module):
    """Features scaled inside the network, as for deployment."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(6))
        self.register_buffer("std", torch.rand(6) + 0.5)
        self.body = _dense(nn.ReLU)

    def forward(self, x: Tensor) -> Tensor:
        return self.body((x - self.mean) / self.std)


class _Ends(nn.Module):
    """A dense network with a function at the end."""

    def __init__(self, end: Callable[[Tensor], Tensor], labels: int = 1) -> None:
        super().__init__()
        self.body, self.end = _dense(nn.ReLU, labels=labels), end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.body(x))


class _Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        parts = functional.relu(self.left(x[:, :3])), functional.relu(self.right(x[:, 3:]))
        return self.last(torch.cat(parts, dim=1))


class _Two(nn.Module):
    """Two inputs: refused."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(12, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.last(functional.relu(torch.cat([x, y], dim=1)))


class _Recurrent(nn.Module):
    """An LSTM: refused."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.LSTM(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(x.transpose(1, 2))[0][:, -1])


def modules() -> Iterator[Case]:
    """Networks with a forward method of their own."""
    yield "residual", _Residual, DENSE
    yield "residual_image", _Block, IMAGE
    yield "view", _View, IMAGE
    yield "towers", _Towers, DENSE
    yield "scaled", _Scaled, DENSE
    yield "maxout", lambda: _Function(4, lambda h: torch.maximum(*h.chunk(2, 1))), DENSE
    yield "absolute", lambda: _Function(8, torch.abs), DENSE
    yield "clamp", lambda: _Function(8, lambda h: h.clamp(-0.5, 1.5)), DENSE
    yield (
        "concatenated_relu",
        lambda: _Function(16, lambda h: torch.cat([h.relu(), (-h).relu()], 1)),
        DENSE,
    )
    yield (
        "mean_of_groups",
        lambda: _Function(2, lambda h: h.relu().view(-1, 2, 4).mean(dim=2)),
        DENSE,
    )
    yield "squeezed_logit", lambda: _Ends(lambda z: z.squeeze(1)), DENSE
    yield "squeezed_sigmoid", lambda: _Ends(lambda z: torch.sigmoid(z).squeeze(-1)), DENSE
    yield "scaled_regressor", lambda: _Ends(lambda z: z * 12.5 + 40.0), DENSE
    yield "two_inputs", _Two, (DENSE, DENSE)
    yield "lstm", _Recurrent, SIGNAL

"""Whether a user's training gives a leave-one-out family."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.train.blocks import Blocks
from leaveout.models.train.data import TrainingData

_FEW = 4
"""Members below which distances say nothing."""
_FAR = 8.0
"""Times that a member may be further from the network on all rows than from its neighbour: more
than where neighbours lack alike rows, less than where batches are drawn anew."""
_NOISE = 0.5
"""Part of the way to a network of another seed that a missing row may move one."""
_ALIKE = 1e-6
"""Relative distance below which a solver's tolerance is all there is."""


class TrainingWarning(UserWarning):
    """Members may differ from the full network by more than one row explains."""


def refuse_lone_labels(data: TrainingData, removed: NDArray[np.int64]) -> None:
    """Raise TrainingError if a member lacks the only row of a label."""
    for label, count in enumerate(np.bincount(data.y, minlength=len(data.labels))):
        row = int(np.argmax(data.y == label))
        if count == 1 and row in removed:
            raise TrainingError(
                f"label {data.labels[label]!r} has one row, {row}: without it no network can "
                "learn the label; drop the row, or give it a label that others have"
            )


def refuse_irreproducible(
    one: NDArray[np.float32], other: NDArray[np.float32], names: list[str]
) -> None:
    """Raise if training gave two networks from the same rows and seed."""
    if np.array_equal(one, other):
        return
    place = int(np.argmax(np.abs(one.astype(np.float64) - other)))
    raise TrainingError(
        "fit gives two different networks from the same rows and seed "
        f"({names[place]}: {one[place]:.9g} and {other[place]:.9g}), so members would differ by "
        "more than a row: draw all random numbers from seed, as in random_state=seed, "
        "np.random.default_rng(seed) or torch.Generator().manual_seed(seed), and from no clock"
    )


def learned_nothing(accuracy: float, data: TrainingData) -> tuple[str, ...]:
    """Return a warning if the network is no better than a constant label."""
    share = float(np.bincount(data.y).max() / len(data.y))
    if accuracy > share:
        return ()
    return (
        f"the network that fit returned labels {accuracy:.1%} of the rows right, and always the "
        f"commonest label is right of {share:.1%}: it must read X as fit is given it, so what fit "
        "does to X, such as scaling, belongs into the network: a first layer, or a step of the "
        "pipeline",
    )


def strange_members(
    blocks: Blocks, members: int, retrained: NDArray[np.float32]
) -> tuple[str, ...]:
    """Return warnings on members that differ by more than one row explains.

    Members nearer to each other than to the full network depend on the row count; as far as another
    seed's, training is chaotic.
    """
    if members < _FEW:
        return ()
    away, beside = [], []
    chosen = np.ones(len(retrained), dtype=bool)
    whole: NDArray[np.float64] | None = None
    last: NDArray[np.float64] | None = None
    for block in blocks.finished_ranges():
        for parameters in blocks.read(block):
            if whole is None:
                chosen = parameters != retrained
                chosen |= not chosen.any()
                whole = parameters[chosen].astype(np.float64)
                continue
            now = parameters[chosen].astype(np.float64)
            away.append(np.linalg.norm(now - whole))
            if last is not None:
                beside.append(np.linalg.norm(now - last))
            last = now
    assert whole is not None
    size, far, near = np.linalg.norm(whole), np.median(away), np.median(beside)
    noise = np.linalg.norm(retrained[chosen].astype(np.float64) - whole)
    if far <= _ALIKE * size:
        return ()
    cure = (
        "take the batches of rows.batches(size, seed), rows being a fourth parameter of fit, or "
        "train on all rows at once without shuffling"
    )
    if far > _FAR * near:
        return (
            f"members are {far / near:.1f} times as far from the network on all rows as from their "
            "neighbours: the number of rows seems to decide the order of rows, or what is drawn, "
            f"so that members differ by more than their row, and bounds will be loose; {cure}",
        )
    if noise > _ALIKE * size and far > _NOISE * noise:
        return (
            f"a missing row moves the network {far / noise:.0%} of the way to one of another seed: "
            f"bounds will be loose; train for fewer epochs or with more weight decay, and {cure}",
        )
    return ()

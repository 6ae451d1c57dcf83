"""Make a family of as many members as wanted from one that was trained.

    python benchmarks/many_members.py TRAINED OUT --members 36000

Its first members are those of the folder TRAINED, as `leaveout train` left it. Every other one is
N plus a mixture of what three rows changed, drawn at random, times a random factor (lognormal), so
that most members are as close to N as the trained ones are and a few lie farther off. They are no
retrained networks: such a family shows what search and guard cost, and nothing about the data.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Family, load_family, load_network
from leaveout.models.family import FAMILY, Manifest, save_family_file
from leaveout.models.train.export import NETWORK

__all__ = ["many_members"]

_MIXED = 3
_SPREAD = 0.4
_BLOCK = 256


def many_members(trained: Path, out: Path, members: int, seed: int = 0) -> Path:
    """Write a folder with a network and so many members.

    Parameters
    ----------
    trained : Path
        Folder with full.onnx and family.npz.
    out : Path
        Made if need be.
    members : int
    seed : int

    Returns
    -------
    Path
        ``out``.
    """
    network = load_network(trained / NETWORK)
    family = load_family(trained / FAMILY, network)
    rng = np.random.default_rng(seed)
    own = min(len(family), members)
    mixed = _mixtures(rng, members - own, len(family))
    parameters: dict[str, NDArray[np.float32]] = {}
    for name, stack in family.parameters.items():
        full = np.asarray(network.parameters[name], np.float64)
        changes = (stack - full).reshape(len(stack), -1)
        grown = np.empty((members, *full.shape), np.float32)
        grown[:own] = stack[:own]
        for start in range(0, len(mixed), _BLOCK):
            part = mixed[start : start + _BLOCK]
            drawn = full + (part @ changes).reshape(len(part), *full.shape)
            grown[own + start : own + start + len(part)] = drawn
        parameters[name] = grown
    manifest = Manifest(
        architecture=network.architecture,
        recipe={"made from": f"{len(family)} trained members", "seed": seed},
    )
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(trained / NETWORK, out / NETWORK)
    save_family_file(out / FAMILY, Family(parameters, np.arange(members), manifest))
    return out


def _mixtures(rng: np.random.Generator, count: int, of: int) -> NDArray[np.float64]:
    """Draw how much of each trained member's change is in each other one, shape (count, of)."""
    weights = np.zeros((count, of))
    factors = rng.lognormal(0.0, _SPREAD, count)
    for row, factor in enumerate(factors):
        chosen = rng.choice(of, min(_MIXED, of), replace=False)
        weights[row, chosen] = factor * rng.dirichlet(np.ones(len(chosen)))
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trained", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--members", type=int, default=36_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.members < 1:
        sys.exit(f"--members {given.members}: expected a whole number of at least 1")
    many_members(given.trained, given.out, given.members, given.seed)
    print(f"{given.members:,} members in {given.out}")


if __name__ == "__main__":
    main()

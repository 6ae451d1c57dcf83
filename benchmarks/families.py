"""Families for the benchmarks: trained once, kept in ``out/`` beside the project, used again."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from leaveout.bab import Instance, make_instance
from leaveout.encoders import Box
from leaveout.models import Family, load_family, load_network
from leaveout.models.train import Recipe, TrainingProgress, run
from leaveout.models.train.data import read_data

__all__ = ["OUT", "MissingError", "Question", "prepared", "question"]

OUT = Path(__file__).resolve().parent.parent / "out"


class MissingError(Exception):
    """What a row needs is not there; the message says where to put it."""


@dataclass(frozen=True, eq=False)
class Question:
    """A family over [0, 1]^d, ready for a search.

    Attributes
    ----------
    instance : Instance
    folder : Path
        Where the family lies.
    rate : float or None
        Members trained a second, where they were trained just now.
    """

    instance: Instance
    folder: Path
    rate: float | None


def prepared(data: Path, layers: tuple[int, ...], batch: int, members: int) -> Instance:
    """Train N and its first members on ``data``, or reuse what an earlier run trained.

    Parameters
    ----------
    data : Path
        NPZ with ``X_train`` and ``y_train``.
    layers : tuple of int
    batch : int
    members : int

    Returns
    -------
    Instance
        Over the box [0, 1]^d.
    """
    name = f"{data.stem}_{'x'.join(map(str, layers))}_batch{batch}"
    return question(name, data, Recipe(layers=layers, batch=batch), members).instance


def question(
    name: str,
    data: Path,
    recipe: Recipe,
    members: int | None,
    *,
    out: Path = OUT,
    train: bool = True,
) -> Question:
    """Return the first members of a family, trained now unless one of its kind is there.

    A family lies in ``out/NAME``, or in a folder whose name starts with ``NAME_``. It is used where
    its manifest shows this recipe, seed and data, whatever else is in ``out``; the first members of
    a larger family are those of a smaller one.

    Parameters
    ----------
    name : str
    data : Path
    recipe : Recipe
    members : int or None
        None: one for every row.
    out : Path
    train : bool
        Whether to train what is not there. Otherwise a smaller family will do.

    Raises
    ------
    MissingError
        If there is neither a family nor a way to train one.
    """
    found = sorted(_trained(name, data, recipe, out), key=lambda each: len(each[1]))
    wanted = members or _rows(data, found)
    enough = [each for each in found if len(each[1]) >= wanted]
    rate = None
    if enough or (found and not train):
        folder, family = enough[0] if enough else found[-1]
    elif not train:
        raise MissingError(f"no family of {name} in {out}")
    else:
        folder = out / f"{name}_{wanted}_{_digest(recipe)}"
        rate = _train(data, folder, recipe, wanted)
        family = load_family(folder / "family.npz", load_network(folder / "full.onnx"))
    network = load_network(folder / "full.onnx")
    box = Box(np.zeros(network.inputs), np.ones(network.inputs))
    chosen = family if len(family) <= wanted else family.first(wanted)
    return Question(make_instance(network, chosen, box), folder, rate)


def _trained(name: str, data: Path, recipe: Recipe, out: Path) -> Iterator[tuple[Path, Family]]:
    sums: str | None = None
    for folder in sorted({out / name, *out.glob(f"{name}_*")}):
        if not ((folder / "family.npz").exists() and (folder / "full.onnx").exists()):
            continue
        family = load_family(folder / "family.npz", load_network(folder / "full.onnx"))
        settings = msgspec.json.decode(msgspec.json.encode(recipe.settings()))
        own = family.manifest
        if own.seed != recipe.seed or not settings.items() <= own.recipe.items():
            continue
        if data.exists():
            sums = sums or read_data(data, None).facts().sha256
            if own.data is None or own.data.sha256 != sums:
                continue
        yield folder, family


def _digest(recipe: Recipe) -> str:
    """Tell recipes apart in the names of folders."""
    return hashlib.sha256(msgspec.json.encode(recipe)).hexdigest()[:8]


def _rows(data: Path, found: list[tuple[Path, Family]]) -> int:
    facts = [family.manifest.data for _, family in found]
    if facts and facts[0] is not None:
        return facts[0].rows
    return len(_arrays(data))


def _train(data: Path, folder: Path, recipe: Recipe, members: int) -> float:
    """Train, and return how many members a second were."""
    _arrays(data)
    begun = time.perf_counter()
    told = begun

    def tell(progress: TrainingProgress) -> None:
        nonlocal told
        if time.perf_counter() > told + 10:
            told = time.perf_counter()
            done = f"{progress.work:,.0f} of {progress.networks:,} networks"
            sys.stderr.write(f"training {folder.name}: {done}\n")

    sys.stderr.write(f"training {folder.name}\n")
    run(data, folder, recipe=recipe, members=members, on_progress=tell)
    return members / (time.perf_counter() - begun)


def _arrays(data: Path) -> np.ndarray:
    if not data.exists():
        raise MissingError(
            f"{data} is not there; name the folder that holds {data.name} with --data, or one with "
            "trained families with --out"
        )
    return read_data(data, None).X

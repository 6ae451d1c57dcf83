"""The programs that forests are compared with, each in a process of its own."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

__all__ = ["Program", "programs_of", "run_program", "score"]

_HERE = Path(__file__).parent
_OWN = {"least": 10}
"""What DynFrs is always run with: its command line cannot say so, and with less it may crash when
a batch empties a node."""
_DYNFRS = ("trees", "held_by", "depth", "k", "least", "lazy", "seconds")


@dataclass(frozen=True)
class Program:
    """A program with its settings.

    Attributes
    ----------
    title : str
        Its name in the table.
    command : tuple of str
        What is started, before the folder of the arrays.
    settings : dict
        What it is a function of, beside the data; part of the name under which results are kept.
    positional : tuple of str
        Settings that follow as words of their own; where there are none, all as one JSON object.
    """

    title: str
    command: tuple[str, ...]
    settings: dict[str, Any]
    positional: tuple[str, ...] = ()

    def words(self, folder: Path) -> list[str]:
        """Return the command line."""
        if self.positional:
            return [*self.command, str(folder), *(str(self.settings[n]) for n in self.positional)]
        return [*self.command, str(folder), json.dumps(self.settings)]

    def kept(self, folder: Path, data: str) -> Path:
        """Return the file that holds its result on a data set."""
        told = {name: value for name, value in self.settings.items() if name != "check"}
        asked = json.dumps([self.title, told], sort_keys=True).encode()
        name = self.title.replace(" ", "_").replace("=", "").replace(",", "")
        return folder / f"{data}-{name}-{hashlib.sha256(asked).hexdigest()[:8]}.json"


def programs_of(
    usual: dict[str, Any], wanted: list[str], depths: list[int], shares: list[float],
    dare: str | None, dynfrs: Path | None, work: Path,
) -> Iterator[Program]:  # fmt: skip
    """Yield the programs that are wanted and there, those that others are compared with first.

    Parameters
    ----------
    usual : dict
        Settings that all share.
    wanted : list of str
    depths : list of int
        Levels of random nodes: a forest of each.
    shares : list of float
        Which shares q of the trees hold a row.
    dare : str or None
        An interpreter that has dare-rf.
    dynfrs : Path or None
        The folder of ``DynFrs.h``.
    work : Path
        Where a driver may be compiled.
    """
    driver = str(_HERE / "forest_driver.py")
    if "dare" in wanted and dare is not None:
        for depth in depths:
            title = f"dare-rf{f' topd={depth}' if depth else ''}"
            yield Program(title, (dare, driver, "dare"), {**usual, "random_depth": depth})
    if "dynfrs" in wanted and dynfrs is not None and not usual["worst"]:
        binary = _compiled(dynfrs, work)
        for q in shares:
            for lazy in (1, 0):
                told = {**usual, **_OWN, "held_by": math.ceil(q * usual["trees"]), "lazy": lazy}
                title = f"DynFrs q={q:g} {'lazy' if lazy else 'eager'}"
                yield Program(title, (str(binary),), told, _DYNFRS)
    if "sklearn" in wanted and not usual["worst"]:
        yield Program("scikit-learn", (sys.executable, driver, "sklearn"), usual)
    if "ours" in wanted:
        for depth in depths:
            for q in shares:
                for lazy in (True, False):
                    title = f"ours q={q:g} {'lazy' if lazy else 'eager'}"
                    title += f" d_rmax={depth}" if depth else ""
                    told = {**usual, "random_depth": depth, "q": q, "lazy": lazy}
                    yield Program(title, (sys.executable, driver, "ours"), told)


def _compiled(source: Path, work: Path) -> Path:
    """Return our driver around DynFrs, compiled as its authors say."""
    binary = work / "forest_dynfrs"
    command = ["g++", "-std=c++17", "-O3", "-I", str(source), str(_HERE / "forest_dynfrs.cpp")]
    subprocess.run([*command, "-o", str(binary)], check=True)
    return binary


def run_program(program: Program, folder: Path, minutes: float) -> dict[str, Any]:
    """Return what a program measured, and where it did not end in ``missing`` why."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    words, why = program.words(folder), ""
    with TemporaryFile("w+") as told, TemporaryFile("w+") as failed:
        try:
            code = subprocess.call(
                words, stdout=told, stderr=failed, timeout=60 * minutes,
                env={**os.environ, **threads},
            )  # fmt: skip
        except FileNotFoundError as error:
            return {"missing": f"{error.filename}: not there"}
        except subprocess.TimeoutExpired:
            why = f"not done within {minutes:g} minutes"
        else:
            failed.seek(0)
            said = failed.read().strip().splitlines() or [""]
            why = f"it ended with {code}: {said[-1]}" if code else ""
        told.seek(0)
        lines = [line for line in told.read().splitlines() if line.endswith("}")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if why:
        found["missing"] = why
    if "fit" in found:
        found["shares"] = np.fromfile(folder / "shares.f8").tolist()
    return found


def score(shares: NDArray[np.float64], y: NDArray[np.int64]) -> tuple[float, float]:
    """Return AUC and accuracy; a share that is not a number counts as one half."""
    shares = np.nan_to_num(shares, nan=0.5)
    return float(roc_auc_score(y, shares)), float(np.mean((shares > 0.5) == y))

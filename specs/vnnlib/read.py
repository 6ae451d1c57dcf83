"""Reading of query files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leaveout.encoders.query import Query
from leaveout.errors import SpecError
from leaveout.models import Network
from leaveout.specs.text.errors import Slip
from leaveout.specs.vnnlib.build import build
from leaveout.specs.vnnlib.classic import read_classic
from leaveout.specs.vnnlib.modern import is_modern, read_modern
from leaveout.specs.vnnlib.onnx_files import check_networks, load_model
from leaveout.specs.vnnlib.problem import Problem
from leaveout.specs.vnnlib.text import one_line, read_text, without_comments

_NAMED = re.compile(r"([A-Za-z]\w*)=(.+)", re.ASCII)


@dataclass(frozen=True)
class Reading:
    """A query with the names used by its file."""

    problem: Problem
    query: Query


def parse_problem(text: str, name: str = "<text>") -> Problem:
    """Read the text of a VNN-LIB query of version 1.0 or 2.0."""
    try:
        bare = without_comments(text)
        return read_modern(bare, name) if is_modern(bare) else read_classic(bare, name)
    except Slip as slip:
        raise one_line(name, slip) from None


def load_problem(path: Path | str) -> Problem:
    """Read a query file as `parse_problem` does; it may be gzip-compressed."""
    return parse_problem(read_text(Path(path)), str(path))


def query_of(
    problem: Problem, networks: Sequence[Network], *, reals: bool | None = None
) -> Reading:
    """Build the query of a problem.

    Parameters
    ----------
    problem : Problem
    networks : sequence of Network
        Of each declaration.
    reals : bool, optional
        Whether it is about exact arithmetic; default what the file declares, and version 1.0 is
        about the reals.

    Raises
    ------
    SpecError
        If a network is not what is declared, an input has no bounds, or there are too many cases.
    ModelError
        If a network ends in a Softmax.
    """
    if len(networks) != len(problem.networks):
        raise SpecError(
            f"{problem.source}: declares {len(problem.networks)} networks, {len(networks)} given"
        )
    try:
        hidden = check_networks(problem, networks)
        return Reading(problem, build(problem, [*networks, *hidden], reals))
    except Slip as slip:
        raise one_line(problem.source, slip) from None


def load_query(
    path: Path | str, networks: Sequence[Path | str], *, reals: bool | None = None
) -> Reading:
    """Read a query and its networks.

    Parameters
    ----------
    path : path to a VNN-LIB query
    networks : sequence of str or Path
        ``FILE`` or ``NAME=FILE``. Files without a name are those of the networks that are left,
        in the order they are declared; a network that is equal to another needs none.
    reals : bool, optional
        As of `query_of`.

    Raises
    ------
    LeaveoutError
        If a file cannot be read, or the networks are not what the query declares.
    """
    problem = load_problem(path)
    files = _assign_files(problem, networks)
    loaded: dict[Path, Network] = {}
    found = []
    for file in files:
        if file not in loaded:
            network = load_model(file)
            known = (each for each in loaded.values() if each.computes_as(network))
            loaded[file] = next(known, network)
        found.append(loaded[file])
    return query_of(problem, found, reals=reals)


def _assign_files(problem: Problem, given: Sequence[Path | str]) -> list[Path]:
    """Return the file of each declared network."""
    names = [each.name for each in problem.networks]
    named: dict[str, Path] = {}
    unnamed: list[Path] = []
    for each in given:
        match = _NAMED.fullmatch(each) if isinstance(each, str) else None
        if match is None or (match.group(1) not in names and Path(each).exists()):
            unnamed.append(Path(each))
        elif match.group(1) not in names:
            raise SpecError(
                f"{problem.source}: declares no network {match.group(1)}; it declares "
                f"{', '.join(names)}"
            )
        elif match.group(1) in named:
            raise SpecError(f"{problem.source}: two files for the network {match.group(1)}")
        else:
            named[match.group(1)] = Path(match.group(2))
    waiting = [other for other in problem.networks if other.name not in named]
    needed = [other for other in waiting if not other.equal_to]
    takers = waiting if len(unnamed) == len(waiting) else needed
    if len(unnamed) != len(takers):
        own = [other.name for other in problem.networks if not other.equal_to]
        raise SpecError(
            f"{problem.source}: declares {', '.join(own)}, which need {len(own)} network "
            f"file{'s' * (len(own) != 1)}, got {len(given)}"
        )
    named.update((taker.name, file) for taker, file in zip(takers, unnamed, strict=True))
    for declared in problem.networks:
        if declared.name not in named:
            named[declared.name] = named[declared.equal_to]
    return [named[name] for name in names]
